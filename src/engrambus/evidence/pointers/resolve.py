"""The port through which every type of pointer is read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, TypeVar, runtime_checkable

import msgspec

from engrambus.core import Memo, digest, estimate_tokens, is_hex
from engrambus.errors import DigestMismatch, EngramBusError, EpisodeNotFound, NoResolver, ReceiptNotFound
from engrambus.evidence.pointers.addresses import (
    Address,
    ArtifactAddress,
    BodyAddress,
    DiffAddress,
    Pointer,
    RepoAddress,
    UrlAddress,
)
from engrambus.evidence.pointers.grammar import check_pointer

A = TypeVar("A", contravariant=True)


class Content(msgspec.Struct, frozen=True, kw_only=True):
    """What a pointer leads to, whole; of what is too large to hold, its beginning and its end."""

    data: bytes
    digest: str
    """The digest of the whole."""
    end: bytes | None = None
    """Its end, when `data` holds only the beginning."""
    blob: str | None = None
    """The id git keeps the whole file under, where there is one."""

    @classmethod
    def of(cls, data: bytes, blob: str | None = None) -> Content:
        """The content with its digest computed."""
        return cls(data=data, digest=digest(data), blob=blob)


class Resolver(Protocol[A]):
    """Reads one type of address."""

    def resolve(self, address: A, /) -> Content:
        """The whole content the address names, or a refusal; `field` is filled in by the caller."""
        ...


@runtime_checkable
class ResolvesEach(Protocol):
    """Reads many addresses of one type for less than one by one."""

    def resolve_each(self, addresses: Iterable[Any], take: Callable[[Any, Content], None], /) -> None:
        """Hand over what each address names; what cannot be read is left out."""
        ...


class _Known(msgspec.Struct, frozen=True, kw_only=True):
    """What is remembered of content: never the content."""

    digest: str
    tokens: int

    @classmethod
    def of(cls, content: Content) -> _Known:
        """The digest and the weight of some content."""
        return cls(digest=content.digest, tokens=estimate_tokens(content.data))


class Evidence:
    """Reads pointers of every installed type, and proves them by digest. Safe under threads."""

    def __init__(self, resolvers: Mapping[type[Any], Callable[[], Resolver[Any]]], *, remember: int = 4096) -> None:
        """Take a function for each type of address that makes its resolver; it is called with the first address."""
        self._factories = dict(resolvers)
        self._resolvers: dict[type[Any], Resolver[Any]] = {}
        self._known: Memo[str, _Known] = Memo(remember)

    def read(self, pointer: Pointer, field: str = "pointer") -> Content:
        """What the pointer leads to; a digest it carries must be that of the content."""
        pointer, address = check_pointer(pointer, field)
        content = self._resolve(address, field)
        _compare(pointer, content.digest, field)
        return content

    def stamp(self, pointer: Pointer, address: Address, field: str = "pointer") -> Pointer:
        """A pointer that `check` gave, with the digest of what it leads to.

        A URL is not fetched: its digest stands in its ref. A type nobody here can read yet stays as it is, and so does
        an entry of an episodic memory that is not this project's, and a test whose receipt is not here.
        """
        if isinstance(address, UrlAddress):
            return pointer
        if not isinstance(address, _LOCAL) and type(address) not in self._factories:
            return pointer
        try:
            found = self._look(pointer, address, field).digest
        except (EpisodeNotFound, ReceiptNotFound):
            return pointer
        _compare(pointer, found, field)
        return pointer if pointer.digest else msgspec.structs.replace(pointer, digest=found)

    def look_ahead(self, pointers: Iterable[tuple[Pointer, Address]]) -> None:
        """Find out the digests of many pointers with few reads; `stamp` then knows them, and refuses the others."""
        asked = {
            address: pointer.ref
            for pointer, address in pointers
            if _never_changes(address) and self._known.get(pointer.ref) is None
        }
        if len(asked) < 2:  # one address costs the same either way
            return
        for kind in {type(address) for address in asked}:
            resolver: object = self._resolver(kind)
            if isinstance(resolver, ResolvesEach):
                resolver.resolve_each(
                    [address for address in asked if type(address) is kind],
                    lambda address, content: self._known.put(asked[address], _Known.of(content)),
                )

    def weigh(self, pointer: Pointer, address: Address) -> int:
        """What a pointer that `check` gave leads to, in tokens; nothing when it is not there or not to be read here."""
        if isinstance(address, UrlAddress) or type(address) not in self._factories:
            return 0
        try:
            return self._look(pointer, address, "pointer").tokens
        except EngramBusError:
            return 0

    def _look(self, pointer: Pointer, address: Address, field: str) -> _Known:
        """Digest and weight of what an address leads to, remembered where neither ever changes."""
        lasting = _never_changes(address)
        known = self._known.get(pointer.ref) if lasting else None
        if known is None:
            known = _Known.of(self._resolve(address, field))
            if lasting:
                self._known.put(pointer.ref, known)
        return known

    def _resolve(self, address: Address, field: str) -> Content:
        try:
            resolver = self._resolver(type(address))
            if resolver is None:
                raise NoResolver
            return resolver.resolve(address)
        except EngramBusError as problem:
            problem.field = f"{field}.ref"
            raise

    def _resolver(self, kind: type[Any]) -> Resolver[Any] | None:
        resolver = self._resolvers.get(kind)
        if resolver is None and kind in self._factories:
            resolver = self._resolvers[kind] = self._factories[kind]()
        return resolver


_LOCAL = (RepoAddress, ArtifactAddress, BodyAddress, DiffAddress)


def _never_changes(address: Address) -> bool:
    """Whether the ref names the same content for ever; a tag can be moved, a stored body may be collected, and other
    types are not ours to say."""
    if isinstance(address, ArtifactAddress):
        return is_hex(address.version, 40, 64)
    return isinstance(address, RepoAddress | DiffAddress)


def _compare(pointer: Pointer, found: str, field: str) -> None:
    if pointer.digest is not None and pointer.digest != found:
        raise DigestMismatch(field=f"{field}.digest", limit=found, used=pointer.digest)
