"""Lines of a file at a commit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial

from engrambus.core import is_hex
from engrambus.errors import EngramBusError, NoRepository, RepositoryNotFound, SpanNotFound
from engrambus.evidence.pointers.addresses import Address, ArtifactAddress, DiffAddress, RepoAddress
from engrambus.evidence.pointers.git import Blob, GitRepository
from engrambus.evidence.pointers.resolve import Content


class Repositories:
    """The project's own repository, and others it knows by name."""

    def __init__(self, own: GitRepository | None, named: Mapping[str, GitRepository] | None = None) -> None:
        self._own = own
        self._named = dict(named or {})

    def select(self, name: str | None = None) -> GitRepository:
        """The repository of that name, the project's own without one."""
        if name is None:
            if self._own is None:
                raise NoRepository
            return self._own
        if name not in self._named:
            raise RepositoryNotFound(hint=f"Known here: {', '.join(sorted(self._named))}." if self._named else None)
        return self._named[name]

    def keep(self, address: Address) -> None:
        """Hold the commits an address names, so that git never prunes what it leads to."""
        match address:
            case RepoAddress():
                self.select(address.repository).keep(address.revision)
            case ArtifactAddress():
                own = self.select()
                pinned = is_hex(address.version, 40, 64)
                own.keep(address.version if pinned else own.tag_commit(address.version))
            case DiffAddress():
                self.select().keep(address.base)
                self.select().keep(address.head)
            case _:
                pass

    def close(self) -> None:
        """End every running git."""
        for repository in (self._own, *self._named.values()):
            if repository is not None:
                repository.close()


class RepoResolver:
    """Reads `repo:` addresses: a blob at a commit, and of it exactly the pointed lines."""

    def __init__(self, repositories: Repositories) -> None:
        self._repositories = repositories

    def resolve(self, address: RepoAddress) -> Content:
        """The pointed lines with their line ends, or the whole file."""
        blob = self._repositories.select(address.repository).read(address.revision, address.path)
        return _cut(blob, address)

    def resolve_each(self, addresses: Iterable[RepoAddress], take: Callable[[RepoAddress, Content], None]) -> None:
        """Hand over what several addresses lead to, each file read once; what cannot be read is left out."""
        named: dict[str | None, dict[tuple[str, str], list[RepoAddress]]] = {}
        for address in addresses:
            places = named.setdefault(address.repository, {})
            places.setdefault((address.revision, address.path), []).append(address)
        for name, places in named.items():
            with suppress(EngramBusError):
                self._repositories.select(name).read_each(places, partial(_take_each, places, take))


def _take_each(
    places: Mapping[tuple[str, str], Iterable[RepoAddress]],
    take: Callable[[RepoAddress, Content], None],
    place: tuple[str, str],
    blob: Blob,
) -> None:
    for address in places[place]:
        with suppress(EngramBusError):
            take(address, _cut(blob, address))


def _cut(blob: Blob, address: RepoAddress) -> Content:
    return Content.of(blob.data if address.lines is None else cut_lines(blob.data, *address.lines), blob.id)


def cut_lines(data: bytes, first: int, last: int) -> bytes:
    """Lines `first` to `last` as they stand in the file. Only a newline ends a line; the last may lack its own."""
    lines = data.split(b"\n", last)
    if len(lines) > last:
        return b"\n".join(lines[first - 1 : last]) + b"\n"
    count = len(lines) if lines[-1] else len(lines) - 1
    if last > count:
        raise SpanNotFound(f"The file has {count} {'line' if count == 1 else 'lines'}.", limit=count, used=last)
    return b"\n".join(lines[first - 1 : last])
