"""The evidence, the files and the memory stores without the paths that a role may not see (decision 50).

A hidden path fails exactly like a path that does not exist.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from engrambus.core import is_hex
from engrambus.errors import (
    EngramBusError,
    EpisodeNotFound,
    FileNotFound,
    MemoryStoreNotFound,
    TestNotFound,
)
from engrambus.evidence.pointers import (
    Address,
    ArtifactAddress,
    DiffAddress,
    Evidence,
    Pointer,
    RepoAddress,
    Repositories,
    SamAddress,
    check_pointer,
    diff_paths,
    print_address,
)
from engrambus.evidence.pointers import TestAddress as CaseAddress
from engrambus.knowledge.cortex import episode_at, no_episode
from engrambus.knowledge.engrams import RoleFilter
from engrambus.knowledge.memory import SNAPSHOT_FIELD, RankedRecords, RecordStore, Segment, Stores
from engrambus.policy import RoleVisibility

if TYPE_CHECKING:
    from engrambus.evidence.pointers import Content, FileLines
    from engrambus.gateway.ports import Store

_ABSENT = ".engrambus-no-such-path"
"""A path that no repository has; a hidden path is read as this one."""


def make_role_filter(rule: RoleVisibility, repositories: Repositories) -> RoleFilter:
    """Return the filter of a rule; a document named without its folder, or a renamed file, is looked up in git."""

    def file_paths(address: ArtifactAddress | DiffAddress) -> Iterable[str]:
        if isinstance(address, DiffAddress):
            try:
                return diff_paths(repositories.select(address.repository), address)  # a diff shows lines of both
            except EngramBusError:
                return (address.path,)
        if "/" in address.name:
            return (address.name,)
        try:
            repository = repositories.select(address.repository)
            is_commit = is_hex(address.version, 40, 64)
            commit = address.version if is_commit else repository.tag_commit(address.version)
            paths = repository.find_file(commit, address.name)
        except EngramBusError:
            paths = ()
        return (address.name,) if address.name in paths or not paths else paths

    return RoleFilter(rule, file_paths)


class RoleEvidence(Evidence):
    """Evidence without the paths that a role may not see: they are refused as if they did not exist."""

    def __init__(
        self,
        evidence: Evidence,
        role_filter: RoleFilter,
        store: Store,
    ) -> None:
        """`store` has the episodes that `sam:` pointers lead to."""
        self._evidence = evidence
        self._filter = role_filter
        self._store = store

    def read(self, pointer: Pointer, field: str = "pointer") -> Content:
        """Return the content of a visible pointer."""
        checked, address = check_pointer(pointer, field)
        if self._sees(address):
            return self._evidence.read(pointer, field)
        with _naming(address):
            self._evidence.read(_as_absent(checked, address)[0], field)
        raise FileNotFound(field=f"{field}.ref")

    def stamp(self, pointer: Pointer, address: Address, field: str = "pointer") -> Pointer:
        """Return a visible pointer with the digest of its content."""
        if self._sees(address):
            return self._evidence.stamp(pointer, address, field)
        with _naming(address):
            self._evidence.stamp(*_as_absent(pointer, address), field)
        raise FileNotFound(field=f"{field}.ref")

    def problem(self, pointer: Pointer) -> EngramBusError | None:
        """Return why the content of a pointer is not here; what the role may not see looks absent."""
        if pointer.type == "url":
            return self._evidence.problem(pointer)
        return super().problem(pointer)

    def check_folder(self, address: RepoAddress, field: str = "pointer") -> None:
        """Refuse a folder that does not exist, or of which the role sees nothing."""
        inside = msgspec.structs.replace(address, path=f"{address.path}/{_ABSENT}" if address.path else _ABSENT)
        self._evidence.check_folder(address if self._sees(inside) else inside, field)

    def prefetch(self, pointers: Iterable[tuple[Pointer, Address]]) -> None:
        """Cache the digests of visible pointers."""
        self._evidence.prefetch((pointer, address) for pointer, address in pointers if self._sees(address))

    def read_ahead(self, pointer: Pointer) -> bool:
        """Keep the content of a visible pointer."""
        return self._sees(check_pointer(pointer)[1]) and self._evidence.read_ahead(pointer)

    def locate(self, ref: str) -> FileLines | None:
        """Return the file and the lines a ref leads to: only engrams that the role sees are asked about."""
        return self._evidence.locate(ref)

    def count_tokens(self, pointer: Pointer, address: Address) -> int:
        """Return the size of a visible pointer's content; 0 if it is hidden."""
        return self._evidence.count_tokens(pointer, address) if self._sees(address) else 0

    def words(self, pointer: Pointer, address: Address) -> list[str]:
        """Return the words of a visible pointer's lines; none if it is hidden."""
        return self._evidence.words(pointer, address) if self._sees(address) else []

    def _sees(self, address: Address) -> bool:
        if isinstance(address, SamAddress) and self._filter.rule.paths:
            try:
                with self._store.read() as view:
                    return self._filter.sees_pointers(episode_at(view, address).pointers)
            except EpisodeNotFound:
                return True  # the resolver says the same
        return self._filter.sees_address(address)


@contextmanager
def _naming(address: Address) -> Iterator[None]:
    """Make a refusal name what the caller asked for, not what was read in its place."""
    try:
        yield
    except EpisodeNotFound as refusal:
        if isinstance(address, SamAddress):
            raise no_episode(address, refusal.field) from None
        raise
    except TestNotFound as refusal:
        if isinstance(address, CaseAddress):
            refusal.used = address.node
        raise


def _as_absent(pointer: Pointer, address: Address) -> tuple[Pointer, Address]:
    """Return the pointer with a path that does not exist in place of its own."""
    changes: dict[type[Any], dict[str, str]] = {
        RepoAddress: {"path": _ABSENT},
        DiffAddress: {"path": _ABSENT},
        ArtifactAddress: {"name": f"{_ABSENT}/{_ABSENT}"},
        CaseAddress: {"node": f"{_ABSENT}::{_ABSENT}"},
        SamAddress: {"slug": _ABSENT.strip(".")},
    }
    absent = msgspec.structs.replace(address, **changes[type(address)])
    return Pointer(type=pointer.type, ref=print_address(absent)), absent


class RoleMemoryStores:
    """Memory stores without those at hidden paths, and without the records that point at hidden paths."""

    def __init__(self, stores: Stores, role_filter: RoleFilter, root: Path) -> None:
        """`root` is the project's folder, from which patterns of paths begin."""
        self._stores = stores
        self._filter = role_filter
        self._root = root.resolve()

    def open_store(self, path: str) -> RecordStore | None:
        """Open a store; None if the same file is open under another path."""
        self._check_path(path, "store_paths")
        store = self._stores.open_store(path)
        return None if store is None else _VisibleStore(store, self._filter)

    def line(self, path: str, start: int, end: int) -> bytes:
        """Read a line of an open store again."""
        return self._stores.line(path, start, end)

    def snapshot(self, path: str) -> bytes:
        """Read a trust snapshot."""
        self._check_path(path, SNAPSHOT_FIELD)
        return self._stores.snapshot(path)

    def _check_path(self, path: str, field: str) -> None:
        try:
            inside = (self._root / path).resolve().relative_to(self._root)
        except (ValueError, OSError, RuntimeError):
            return  # outside of the project; whether that is allowed is decided by the stores
        if not self._filter.rule.sees_path(inside.as_posix()):
            raise MemoryStoreNotFound(f"There is no memory store {path}.", field=field)


class _VisibleStore:
    """A store without the records that point at hidden paths."""

    def __init__(self, store: RecordStore, role_filter: RoleFilter) -> None:
        self._store = store
        self._filter = role_filter

    def segments(self) -> Iterator[Segment]:
        """Yield the visible lines in file order."""
        for segment in self._store.segments():
            lines = [line for line in segment.lines if self._sees(segment.line(line))]
            yield msgspec.structs.replace(segment, lines=lines)

    def load_ranked(self, question: bytes) -> RankedRecords | None:
        """Return None: what was ranked holds hidden records, too."""

    def save_ranked(self, question: bytes, ranked: RankedRecords) -> None:
        """Save nothing: the rows lack hidden records."""

    def _sees(self, record: bytes) -> bool:
        try:
            refs = msgspec.json.decode(record).get("refs") or ()
            pointers = [Pointer(type="", ref=item["ref"]) for item in refs if item.get("type") == "pointer"]
            return self._filter.sees_pointers(pointers)
        except (msgspec.DecodeError, AttributeError, KeyError, TypeError, UnicodeDecodeError):
            return True  # not a record of the team's memory
