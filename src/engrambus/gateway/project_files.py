"""Where a project's evidence lies: its folder, its repositories, and how people point into them."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Sequence
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
"""Opens memory stores beneath some folders, or anywhere."""


ANCHORS = "anchors.db"
"""The index of lines in a project's catalog; anyone may delete it."""


_LINES_ELSEWHERE = re.compile(r"[#:]L[0-9]+(-L?[0-9]+)?\Z")
"""Lines as a pointer's ref or a forge writes them."""


class Place(NamedTuple):
    """Lines of a file as people point at them."""

    path: str
    lines: str
    """`10-20`, `10`, or nothing for the whole file."""
    revision: str
    """As git understands it; HEAD unless said."""


def split_place(place: str) -> Place:
    """`path:10-20@revision` taken apart; lines and revision may be left out."""
    spot, at, revision = place.rpartition("@")
    if not at or "/" in revision or ":" in revision:
        spot, revision = place, "HEAD"
    path, colon, lines = spot.rpartition(":")
    if not colon or not lines.replace("-", "").isdigit():
        path, lines = spot, ""
    return Place(path, lines, revision)


def is_ref(place: str) -> bool:
    """Whether a place is written as a pointer's ref; a file called `test`, with lines behind it, is a file."""
    kind, colon, _ = split_place(place).path.partition(":")
    return bool(colon) and kind in TYPES


class ProjectFiles:
    """The folder a project stands in, with its git repositories."""

    def __init__(
        self,
        root: Path,
        repositories: Repositories,
        catalog: Path | None = None,
        memory_stores: OpenStores | None = None,
    ) -> None:
        """Without a catalog, what is found out is remembered in memory only."""
        self.root = root
        self._memory_stores = memory_stores
        self.repositories = repositories
        self._catalog = catalog
        self._capabilities: CatalogReader | None = None
        self._anchors: Anchors | None = None
        self._lock = threading.Lock()
        self._staleness = StalenessChecker(repositories)

    @property
    def anchors(self) -> Anchors:
        """What finds pasted text again; loaded for the first text."""
        with self._lock:
            if self._anchors is None:
                from engrambus.evidence.anchoring import Anchors

                self._anchors = Anchors(self.repositories, self._catalog / ANCHORS if self._catalog else None)
            return self._anchors

    def point_at(self, place: str, field: str = "at", commits: dict[str, str] | None = None) -> Pointer:
        """The full pointer for `path:10-20`, `path:10` or `path`, at HEAD or at a revision given as `…@rev`.

        `commits` remembers which commit a revision is, for those who point many times in one breath.
        """
        commits = {} if commits is None else commits
        path, span, revision = split_place(place)
        check_path(path, field)
        if not span and _LINES_ELSEWHERE.search(path):
            raise PointerSpan("Lines are written as path:10-20.", field=field, used=place)
        if revision not in commits:
            commits[revision] = self.expand(revision)
        address = RepoAddress(
            path=path,
            lines=parse_lines(_line_span(span, field), field) if span else None,
            revision=commits[revision],
        )
        return Pointer(type="repo", ref=print_address(address))

    def memory_stores(self, fences: tuple[Path, ...] | None) -> AbstractContextManager[Stores]:
        """The memory stores beneath the project or one of these folders; with no folders named, any."""
        if self._memory_stores is None:
            raise MemoryStoreNotFound(field="store_paths")
        return self._memory_stores(None if fences is None else (self.root, *fences))

    def expand(self, revision: str) -> str:
        """The full commit id of a revision as it is understood in this folder."""
        return self.repositories.select().expand(revision, self.root)

    def head(self) -> str:
        """The commit that is checked out, read off git's own files where they say so plainly."""
        folder = self.root / ".git"
        try:
            said = (folder / "HEAD").read_text("ascii").strip()
            name = said.removeprefix("ref: ")
            found = (folder / name).read_text("ascii").strip() if name != said and ".." not in name else said
        except (OSError, UnicodeDecodeError):  # a linked worktree, a packed ref, no commit yet
            found = ""
        return found if is_hex(found, 40, 64) else self.expand("HEAD")

    def staleness_of(self, pointers: Sequence[Pointer]) -> list[Staleness | None]:
        """How these stand at the commit that is checked out; nothing is said where there is none."""
        try:
            head = self.head()
        except EngramBusError:
            return [None] * len(pointers)
        return [self._staleness.of(pointer, head) for pointer in pointers]

    def snapshot(self, path: str | None = None) -> str:
        """A commit of the files as they lie on disk; one that git does not track yet is in it if it is named."""
        return self.repositories.select().snapshot(self.root, [path] if path and self._has_file(path) else ())

    def kept(self, name: str) -> Path:
        """Where something of that name lies among what is kept of the project."""
        return (self._catalog or self.root) / name

    def catalog(self) -> Catalog:
        """The catalog of yools as its file holds it now, with the catalog's own."""
        if self._capabilities is None:
            from engrambus.space.catalog import CatalogReader

            self._capabilities = CatalogReader(self._catalog)
        return self._capabilities.current()

    def close(self) -> None:
        """Let go of the index of lines and of every running git."""
        if self._anchors is not None:
            self._anchors.close()
        self.repositories.close()

    def _has_file(self, path: str) -> bool:
        try:
            return (self.root / check_path(path)).is_file()
        except (PointerRefusal, OSError):
            return False

    def keep(self, addresses: tuple[Address, ...]) -> None:
        """See to it that what these lead to is not pruned."""
        for address in addresses:
            self.repositories.keep(address)


def _line_span(span: str, field: str) -> str:
    first, dash, last = span.partition("-")
    if not first or (dash and not last):
        raise PointerSpan(field=field, used=span, hint="Write lines as 10 or 10-20.")
    return f"L{first}-L{last or first}"
