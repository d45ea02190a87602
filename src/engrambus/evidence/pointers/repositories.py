"""The repositories that pointers lead to: the project's own, and others that `project.yaml` configures by name."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from engrambus.core import is_hex
from engrambus.errors import EngramBusError, NoRepository, PointerPath, RepositoryAbsent, RepositoryNotFound
from engrambus.evidence.pointers.addresses import Address, ArtifactAddress, DiffAddress, Pointer, RepoAddress
from engrambus.evidence.pointers.git import GitRepository
from engrambus.evidence.pointers.grammar import check_name, check_pointer, parse_ref, print_address

_CONFIGURE = "name the folder of a clone in .catalog/project.yaml under `repositories`"


class Repositories:
    """The project's own repository, and others that are configured by name. Safe to share between threads."""

    def __init__(
        self,
        primary: GitRepository | None,
        named: Mapping[str, Path] | None = None,
        *,
        name: str | None = None,
        root: Path | None = None,
    ) -> None:
        """`named` are folders of other repositories, opened on first use: one of them may not be on this machine.

        `name` is what other projects call the project's own; by default the last part of its origin, else of `root`.
        """
        self._primary = primary
        self._folders = dict(named or {})
        self._opened: dict[str, GitRepository] = {}
        self._lock = threading.Lock()
        self._name = name
        self._root = root

    def select(self, name: str | None = None) -> GitRepository:
        """Return the repository of that name, or the project's own."""
        if name is None:
            if self._primary is None:
                raise NoRepository
            return self._primary
        if name in self._folders:
            return self._open(name)
        if self._primary is not None and name == self.own_name():
            return self._primary
        configured = f" Configured: {', '.join(sorted(self._folders))}." if self._folders else ""
        raise RepositoryNotFound(used=name, hint=f"To read it, {_CONFIGURE}: {name}: ../{name}.{configured}")

    @property
    def has_own(self) -> bool:
        """True if the project has a repository of its own."""
        return self._primary is not None

    @property
    def takes_commits(self) -> bool:
        """True if commits can be pushed to the project's own repository, so that one may only not be here yet."""
        return self._primary is not None and self._primary.takes_commits

    def take_commits(self) -> None:
        """From now on, expect commits to be pushed to the project's own repository: a team's server is one."""
        if self._primary is not None:
            self._primary.takes_commits = True

    def own_name(self) -> str | None:
        """Return the name by which other projects know the project's own repository; None if there is none."""
        if self._name is None and self._primary is not None:
            self._name = _last_part(self._primary.origin_url() or "") or (self._root.name if self._root else None)
        return self._name

    def retain(self, address: Address) -> None:
        """Keep the commits an address names from being pruned by git."""
        match address:
            case RepoAddress():
                self.select(address.repository).retain(address.revision)
            case ArtifactAddress():
                repository = self.select(address.repository)
                is_commit = is_hex(address.version, 40, 64)
                repository.retain(address.version if is_commit else repository.tag_commit(address.version))
            case DiffAddress():
                repository = self.select(address.repository)
                repository.retain(address.base)
                repository.retain(address.head)
            case _:
                pass

    def spell(self, address: Address) -> Address:
        """Return the address with its path as the tree spells it; as it is if that cannot be read (decision 73)."""
        try:
            match address:
                case RepoAddress():
                    path = self.select(address.repository).spelling(address.revision, address.path)
                    return msgspec.structs.replace(address, path=path)
                case DiffAddress():
                    repository = self.select(address.repository)
                    path = repository.spelling(address.base, repository.spelling(address.head, address.path))
                    return msgspec.structs.replace(address, path=path)
                case ArtifactAddress() if not address.name.isascii():
                    repository = self.select(address.repository)
                    is_commit = is_hex(address.version, 40, 64)
                    commit = address.version if is_commit else repository.tag_commit(address.version)
                    # A name without a folder is the last part of a path, which may be anywhere.
                    names = {path.rpartition("/")[2] for path in repository.find_file(commit, address.name)}
                    name = names.pop() if len(names) == 1 else repository.spelling(commit, address.name)
                    return msgspec.structs.replace(address, name=name)
        except EngramBusError:  # reading it says why, to callers who may know
            return address
        return address

    def shared_name(self) -> str | None:
        """Return the name that pointers to the project's own repository carry in other projects, or refuse it."""
        name = self.own_name()
        if name in self._folders:
            raise RepositoryNotFound(
                f"'{name}' is the name of another configured repository, so this one needs a name of its own.",
                used=name,
                hint="Set `name` in .catalog/project.yaml.",
            )
        return name

    def is_own(self, name: str | None) -> bool:
        """True if a name means the project's own repository."""
        return name is None or (name not in self._folders and name == self.own_name())

    def worktree(self, name: str | None, own: Path) -> Path:
        """Return the folder of a repository's files; `own` is that of the project's own repository."""
        return own if name is None or self.is_own(name) else self._folders[name]

    def close(self) -> None:
        """Stop every running git."""
        for repository in (self._primary, *self._opened.values()):
            if repository is not None:
                repository.close()

    def _open(self, name: str) -> GitRepository:
        with self._lock:
            if name not in self._opened:
                folder = self._folders[name]
                try:
                    if not folder.is_dir():  # git would look for a repository around the missing folder
                        raise NoRepository
                    self._opened[name] = GitRepository(folder)
                except NoRepository:
                    raise RepositoryAbsent(
                        f"The repository '{name}' is configured at {folder}, where there is none.",
                        used=name,
                        hint=f"Clone it there, or {_CONFIGURE}.",
                    ) from None
            return self._opened[name]


def name_repository(pointer: Pointer, name: str, field: str = "pointer") -> Pointer:
    """Return a pointer into the project's own repository with that repository's name; any other as it is."""
    address = parse_ref(pointer.ref, f"{field}.ref")
    if not isinstance(address, RepoAddress | ArtifactAddress | DiffAddress) or address.repository is not None:
        return pointer
    named = msgspec.structs.replace(address, repository=name)
    return check_pointer(msgspec.structs.replace(pointer, ref=print_address(named)), field)[0]  # it may be too long


def _last_part(origin: str) -> str | None:
    """Return the last part of a repository's URL or path, as people call it."""
    path = urlsplit(origin).path if "://" in origin else origin.rpartition(":")[2]
    name = path.rstrip("/").rpartition("/")[2].removesuffix(".git")
    try:
        return check_name(name)
    except PointerPath:
        return None
