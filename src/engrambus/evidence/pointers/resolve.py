"""Reading pointers of every type: the port of a resolver, and the digests that prove what was read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable

import msgspec

from engrambus.core import LruCache, digest, estimate_tokens, is_hex
from engrambus.errors import (
    DigestMismatch,
    EngramBusError,
    NoResolver,
    RepositoryAbsent,
    RepositoryNotFound,
    RevisionNotFetched,
    RevisionNotFound,
)
from engrambus.evidence.pointers.addresses import (
    Address,
    ArtifactAddress,
    DiffAddress,
    Pointer,
    RepoAddress,
    UrlAddress,
)
from engrambus.evidence.pointers.grammar import check_pointer, parse_ref
from engrambus.evidence.pointers.read_spans import FileLines

A = TypeVar("A", contravariant=True)

Origin = Literal["stated", "retrieved", "imported", "adopted"]
"""How a claim came here: stated by an agent of the project, or found, imported or adopted from elsewhere."""


def may_stay_unresolved(problem: EngramBusError, origin: Origin) -> bool:
    """True if an engram may keep a pointer that could not be resolved for this reason; it then has no digest."""
    # decision 55: a repository or a part of its history that is known to exist elsewhere, and knowledge that was
    # made elsewhere; everything else is a pointer that leads nowhere, and is refused
    if isinstance(problem, RepositoryAbsent | RevisionNotFetched):
        return True
    return origin != "stated" and isinstance(problem, RepositoryNotFound | RevisionNotFound)


MAX_SEARCHED_BYTES = 40_000
"""Bytes of pointed content whose words it can be found by."""


class Content(msgspec.Struct, frozen=True, kw_only=True):
    """The content a pointer leads to; of content too large to hold, its beginning and its end."""

    data: bytes
    digest: str
    """Digest of all the content."""
    end: bytes | None = None
    """The end of the content, if `data` is only the beginning."""
    blob: str | None = None
    """Git's object id of the whole file, if it is one."""
    place: FileLines | None = None
    """Where the content is in a file, if it is a part of one."""
    line_count: int = 0
    """Lines of all the content, if `data` is only the beginning."""
    source: RepoAddress | None = None
    """The lines of a file that a document's section or the end of a change stands for."""

    @classmethod
    def of(
        cls,
        data: bytes,
        blob: str | None = None,
        place: FileLines | None = None,
        source: RepoAddress | None = None,
    ) -> Content:
        """Return the content with its digest computed."""
        return cls(data=data, digest=digest(data), blob=blob, place=place, source=source)


class Resolver(Protocol[A]):
    """Reads one type of address."""

    def resolve(self, address: A, /) -> Content:
        """Return the content the address names, or refuse; the caller fills in the refusal's field."""
        ...


@runtime_checkable
class BatchResolver(Protocol):
    """Reads many addresses of one type at a lower cost than one by one."""

    def resolve_many(self, addresses: Iterable[Any], take: Callable[[Any, Content], None], /) -> None:
        """Pass each address with its content to `take`; unreadable ones are left out."""
        ...


@runtime_checkable
class Locator(Protocol):
    """Names the file that an address leads into, without reading it."""

    def locate(self, address: Any, /) -> FileLines:
        """Return the file and the lines an address names, or refuse."""
        ...


@runtime_checkable
class FolderResolver(Protocol):
    """Finds folders as well as files."""

    def check_folder(self, address: Any, /) -> None:
        """Refuse an address whose path is no folder."""
        ...


@runtime_checkable
class PageResolver(Protocol):
    """Knows which pages may be read, without reading them."""

    def check_allowed(self, address: UrlAddress, /) -> object:
        """Refuse a page that may not be read."""
        ...


MAX_AHEAD_BYTES = 256 * 1024
"""Size of content that is kept when it was read ahead."""
AHEAD_CACHE_BYTES = 4 * 1024 * 1024
"""Size of all content that was read ahead; the least recently read is dropped first."""


class _Facts(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about content that are cached; the content itself is only if it was read ahead."""

    digest: str
    tokens: int
    words: str
    """The words of the content, separated by spaces."""


class Evidence:
    """Reads pointers of every installed type, and proves them by digest. Safe to share between threads."""

    def __init__(
        self,
        resolvers: Mapping[type[Any], Callable[[], Resolver[Any]]],
        *,
        words_of: Callable[[str], Iterable[str]] = lambda text: (),
        cache_size: int = 4096,
    ) -> None:
        """Take a function for each type of address that makes its resolver; it is called with the first address.

        `words_of` returns the words of a text that pointed content is searched by.
        """
        self._words_of = words_of
        self._factories = dict(resolvers)
        self._resolvers: dict[type[Any], Resolver[Any]] = {}
        self._facts: LruCache[str, _Facts] = LruCache(cache_size)
        # decision 14: a file at a commit and a stored body never change, so what a ref leads to does not either
        self._places: LruCache[str, FileLines] = LruCache(cache_size)
        self._contents: LruCache[str, Content] = LruCache(AHEAD_CACHE_BYTES)

    def read(self, pointer: Pointer, field: str = "pointer") -> Content:
        """Return the content of a pointer; refuse it if the pointer carries another digest."""
        pointer, address = check_pointer(pointer, field)
        content = self._contents.get(pointer.ref) or self._resolve(address, field)
        _check_digest(pointer, content.digest, field)
        return content

    def read_ahead(self, pointer: Pointer) -> bool:
        """Keep the content of a pointer for later reads of it; return False if there is nothing to do.

        Content that can change or is large is not kept.
        """
        # decision 89: a role's rule is applied before `read`, so nobody reads more than without it
        checked, address = check_pointer(pointer)
        if not _is_immutable(address) or self._contents.get(checked.ref) is not None:
            return False
        content = self._resolve(address, "pointer")
        if len(content.data) <= MAX_AHEAD_BYTES:
            self._contents.put(checked.ref, content, len(content.data) + 1)
            self._facts.put(checked.ref, _Facts.of(content))
        return True

    def stamp(self, pointer: Pointer, address: Address, field: str = "pointer") -> Pointer:
        """Return a checked pointer with the digest of its content; refuse one that leads nowhere."""
        content_digest = self._facts_of(pointer, address, field).digest
        _check_digest(pointer, content_digest, field)
        return pointer if pointer.digest else msgspec.structs.replace(pointer, digest=content_digest)

    def stamp_if_here(self, pointer: Pointer, address: Address, origin: Origin, field: str = "pointer") -> Pointer:
        """Return a checked pointer with the digest of its content, or as it is where it may stay unresolved."""
        try:
            return self.stamp(pointer, address, field)
        except EngramBusError as problem:
            # A digest claims that the content was read, which cannot be checked while it is not here.
            if pointer.digest is not None or not may_stay_unresolved(problem, origin):
                raise
            return pointer

    def problem(self, pointer: Pointer) -> EngramBusError | None:
        """Return why the content that a stored pointer was stamped with is not here; None if it is."""
        try:
            checked, address = check_pointer(pointer)
            if not isinstance(address, UrlAddress):
                self.stamp(checked, address)
            else:
                self._check_page(address)
        except EngramBusError as problem:
            return problem
        return None

    def _check_page(self, address: UrlAddress) -> None:
        resolver: object = self._resolver(UrlAddress)
        if isinstance(resolver, PageResolver):
            with _naming_field("pointer"):
                resolver.check_allowed(address)  # a page is fetched to be read, not to list engrams

    def check_folder(self, address: RepoAddress, field: str = "pointer") -> None:
        """Refuse the address of a folder, written like a file's, that its commit does not have."""
        with _naming_field(field):
            resolver: object = self._resolver(RepoAddress)
            if not isinstance(resolver, FolderResolver):
                raise NoResolver
            resolver.check_folder(address)

    def prefetch(self, pointers: Iterable[tuple[Pointer, Address]]) -> None:
        """Cache the digests of many pointers with few reads, for later calls of `stamp`."""
        # decision 14: all files of a message are read in one request; what cannot be read is left for `stamp` to refuse
        refs = {
            address: pointer.ref
            for pointer, address in pointers
            if _is_immutable(address) and self._facts.get(pointer.ref) is None
        }
        if len(refs) < 2:  # one address costs the same either way
            return
        for kind in {type(address) for address in refs}:
            resolver: object = self._resolver(kind)
            if isinstance(resolver, BatchResolver):
                resolver.resolve_many(
                    [address for address in refs if type(address) is kind],
                    lambda address, content: self._facts.put(refs[address], self._describe(address, content)),
                )

    def locate(self, ref: str) -> FileLines | None:
        """Return the file and the lines a ref leads to; None if it leads to no file that is here."""
        place = self._places.get(ref)
        if place is None:
            try:
                address = parse_ref(ref)
                resolver: object = self._resolver(type(address))
                place = resolver.locate(address) if isinstance(resolver, Locator) else None
            except EngramBusError:
                return None
            if place is not None:
                self._places.put(ref, place)
        return place

    def count_tokens(self, pointer: Pointer, address: Address) -> int:
        """Return the size of a checked pointer's content; 0 if it is absent or not readable here."""
        if isinstance(address, UrlAddress) or type(address) not in self._factories:
            return 0
        try:
            return self._facts_of(pointer, address, "pointer").tokens
        except EngramBusError:
            return 0

    def words(self, pointer: Pointer, address: Address) -> list[str]:
        """Return the words of the lines or the section that a stamped pointer names; none for a whole file."""
        if pointer.digest is None or not _names_lines(address) or type(address) not in self._factories:
            return []
        return self._facts_of(pointer, address, "pointer").words.split()

    def _facts_of(self, pointer: Pointer, address: Address, field: str) -> _Facts:
        cacheable = _is_immutable(address)
        facts = self._facts.get(pointer.ref) if cacheable else None
        if facts is None:
            facts = self._describe(address, self._resolve(address, field))
            if cacheable:
                self._facts.put(pointer.ref, facts)
        return facts

    def _describe(self, address: Address, content: Content) -> _Facts:
        words: Iterable[str] = ()
        if _names_lines(address):
            words = self._words_of(content.data[:MAX_SEARCHED_BYTES].decode("utf-8", "ignore"))
        return _Facts(digest=content.digest, tokens=estimate_tokens(content.data), words=" ".join(words))

    def _resolve(self, address: Address, field: str) -> Content:
        with _naming_field(field):
            resolver = self._resolver(type(address))
            if resolver is None:
                raise NoResolver
            return resolver.resolve(address)

    def _resolver(self, kind: type[Any]) -> Resolver[Any] | None:
        resolver = self._resolvers.get(kind)
        if resolver is None and kind in self._factories:
            resolver = self._resolvers[kind] = self._factories[kind]()
        return resolver


@contextmanager
def _naming_field(field: str) -> Iterator[None]:
    try:
        yield
    except EngramBusError as problem:
        problem.field = f"{field}.ref"  # a resolver does not know which field of a request it reads
        raise


def _names_lines(address: Address) -> bool:
    """True if an address says which part of a file is meant; words of a whole file would fit too many questions."""
    match address:
        case RepoAddress():
            return address.lines is not None
        case ArtifactAddress():
            return bool(address.section)
        case _:
            return False


def _is_immutable(address: Address) -> bool:
    """True if the ref names the same content forever.

    A tag can be moved, a stored body can be collected, and other types belong to other systems.
    """
    if isinstance(address, ArtifactAddress):
        return is_hex(address.version, 40, 64)
    return isinstance(address, RepoAddress | DiffAddress)


def _check_digest(pointer: Pointer, content_digest: str, field: str) -> None:
    if pointer.digest is not None and pointer.digest != content_digest:
        raise DigestMismatch(
            field=f"{field}.digest",
            used=pointer.digest,
            # decision 56: who is told the right digest need not read the content
            hint="Dereference the pointer with `less.deref_pointer` and send the digest it returns, or send none.",
        )
