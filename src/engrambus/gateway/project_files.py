"""A project's folder: its repositories, its catalog, and how people name lines of its files."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from engrambus.core import is_hex
from engrambus.errors import EngramBusError, MemoryStoreNotFound, PointerRefusal, PointerSpan
from engrambus.evidence.pointers import (
    TYPES,
    Address,
    Pointer,
    RepoAddress,
    Repositories,
    Staleness,
    StalenessChecker,
    check_path,
    parse_lines,
    print_address,
)

if TYPE_CHECKING:
    from engrambus.evidence.anchoring import Anchors
    from engrambus.knowledge.memory import Stores
    from engrambus.space.catalog import Catalog, CatalogReader

OpenStores: TypeAlias = "Callable[[tuple[Path, ...] | None], AbstractContextManager[Stores]]"
"""Opens the memory stores below some folders, or anywhere."""

ANCHORS = "anchors.db"
"""The index of lines in a project's catalog. It can be deleted at any time; git has all that is in it."""

_FRAGMENT_LINES = re.compile(r"[#:]L[0-9]+(-L?[0-9]+)?\Z")
"""Lines as the ref of a pointer or a code host writes them: `#L10-L20`."""


class FileSpan(NamedTuple):
    """Lines of a file as people name them: `path:10-20@revision`."""

    path: str
    lines: str
    """`10-20`, `10`, or empty for the whole file."""
    revision: str
    """A revision as git understands it; HEAD by default."""


def parse_file_span(text: str) -> FileSpan:
    """Split `path:10-20@revision` into its parts; lines and revision are optional."""
    path_and_lines, mark, revision = text.rpartition("@")
    if not mark or "/" in revision or ":" in revision:  # the @ is part of the path
        path_and_lines, revision = text, "HEAD"
    path, colon, lines = path_and_lines.rpartition(":")
    if not colon or not lines.replace("-", "").isdigit():
        path, lines = path_and_lines, ""
    return FileSpan(path, lines, revision)


def is_ref(text: str) -> bool:
    """True if the text is a pointer's ref; `test:10` names line 10 of a file called `test`."""
    kind, colon, _ = parse_file_span(text).path.partition(":")
    return bool(colon) and kind in TYPES


class ProjectFiles:
    """The folder of a project, with its git repositories."""

    def __init__(
        self,
        root: Path,
        repositories: Repositories,
        catalog: Path | None = None,
        memory_stores: OpenStores | None = None,
    ) -> None:
        """`catalog` is the `.catalog` folder; without one, indexes are held in memory only."""
        self.root = root
        self._memory_stores = memory_stores
        self.repositories = repositories
        self._catalog = catalog
        self._capabilities: CatalogReader | None = None
        self._anchors: Anchors | None = None
        self._lock = threading.Lock()
        self._staleness = StalenessChecker(repositories)

    def seen_by(self, sees: Callable[[str], bool]) -> ProjectFiles:
        """Return these files without the paths for which `sees` is false: no text is found in them."""
        return _RoleFiles(self, sees)

    @property
    def anchors(self) -> Anchors:
        """The finder of pasted text; opened on first use."""
        with self._lock:
            if self._anchors is None:
                from engrambus.evidence.anchoring import Anchors

                self._anchors = Anchors(self.repositories, self._catalog / ANCHORS if self._catalog else None)
            return self._anchors

    def point_at(self, text: str, field: str = "at", commits: dict[str, str] | None = None) -> Pointer:
        """Return the pointer for `path:10-20`, `path:10` or `path`, at HEAD or at a revision given as `…@rev`.

        `commits` caches the commit of each revision, for callers that point at many lines in one request.
        """
        commits = {} if commits is None else commits
        path, span, revision = parse_file_span(text)
        check_path(path, field)
        if not span and _FRAGMENT_LINES.search(path):
            raise PointerSpan("Write lines as path:10-20.", field=field, used=text)
        if revision not in commits:
            commits[revision] = self.expand(revision)
        address = RepoAddress(
            path=path,
            lines=parse_lines(_line_fragment(span, field), field) if span else None,
            revision=commits[revision],
        )
        return Pointer(type="repo", ref=print_address(address))

    def memory_stores(self, folders: tuple[Path, ...] | None) -> AbstractContextManager[Stores]:
        """Open the memory stores below the project or one of these folders; with None, anywhere."""
        if self._memory_stores is None:
            raise MemoryStoreNotFound(field="store_paths")
        return self._memory_stores(None if folders is None else (self.root, *folders))

    def expand(self, revision: str) -> str:
        """Return the full commit id of a revision, as git understands it in this folder."""
        return self.repositories.select().expand(revision, self.root)

    def head(self) -> str:
        """Return the commit that is checked out."""
        # Reading .git/HEAD costs microseconds, starting git milliseconds; staleness asks for this on every request.
        folder = self.root / ".git"
        try:
            text = (folder / "HEAD").read_text("ascii").strip()
            ref = text.removeprefix("ref: ")
            commit = (folder / ref).read_text("ascii").strip() if ref != text and ".." not in ref else text
        except (OSError, UnicodeDecodeError):  # a linked worktree, a packed ref, or no commit yet
            commit = ""
        return commit if is_hex(commit, 40, 64) else self.expand("HEAD")

    def staleness_of(self, pointers: Sequence[Pointer]) -> list[Staleness | None]:
        """Compare the lines of each pointer with the commit that is checked out; None where that is impossible."""
        try:
            head = self.head()
        except EngramBusError:
            return [None] * len(pointers)
        return [self._staleness.check(pointer, head) for pointer in pointers]

    def snapshot(self, path: str | None = None) -> str:
        """Commit the files as they are on disk and return the commit; an untracked file is included if it is named."""
        return self.repositories.select().snapshot(self.root, [path] if path and self._has_file(path) else ())

    def catalog_path(self, name: str) -> Path:
        """Return the path of `name` inside `.catalog`."""
        return (self._catalog or self.root) / name

    def catalog(self) -> Catalog:
        """Return the catalog of yools as its file is now, with the built-in ones."""
        if self._capabilities is None:
            from engrambus.space.catalog import CatalogReader

            self._capabilities = CatalogReader(self._catalog)
        return self._capabilities.current()

    def retain(self, addresses: Iterable[Address]) -> None:
        """Keep the commits behind these addresses from being pruned by git."""
        for address in addresses:
            self.repositories.retain(address)

    def close(self) -> None:
        """Close the index of lines and stop every running git."""
        if self._anchors is not None:
            self._anchors.close()
        self.repositories.close()

    def _has_file(self, path: str) -> bool:
        try:
            return (self.root / check_path(path)).is_file()
        except (PointerRefusal, OSError):
            return False


class _RoleFiles(ProjectFiles):
    """The files of a project as a role with a rule of visibility sees them."""

    def __init__(self, files: ProjectFiles, sees: Callable[[str], bool]) -> None:
        # decision 50: everything is shared with the project's own files; only text is looked for in fewer of them
        self.__dict__.update(files.__dict__)
        self._files = files
        self._sees = sees

    @property
    def anchors(self) -> Anchors:
        """The finder of pasted text in visible files."""
        return self._files.anchors.seen_by(self._sees)

    def catalog(self) -> Catalog:
        """Return the catalog of yools."""
        return self._files.catalog()


def _line_fragment(span: str, field: str) -> str:
    first, dash, last = span.partition("-")
    if not first or (dash and not last):
        raise PointerSpan(field=field, used=span, hint="Write lines as 10 or 10-20.")
    return f"L{first}-L{last or first}"
