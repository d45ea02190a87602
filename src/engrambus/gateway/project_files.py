"""A project's folder: its repositories and its catalog."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from engrambus.errors import EngramBusError, MemoryStoreNotFound, PointerRefusal
from engrambus.evidence.pointers import (
    Address,
    EvidenceState,
    Pointer,
    PointerCompleter,
    Repositories,
    StalenessChecker,
    check_path,
    checked_out_commit,
    parse_file_span,
)

if TYPE_CHECKING:
    from engrambus.evidence.anchoring import Anchors
    from engrambus.evidence.pointers import BranchChanges, BranchEvidence
    from engrambus.evidence.receipts import ReceiptFolder
    from engrambus.knowledge.memory import Stores
    from engrambus.space.catalog import Catalog, CatalogReader

OpenStores: TypeAlias = "Callable[[tuple[Path, ...] | None], AbstractContextManager[Stores]]"
"""Opens the memory stores below some folders, or anywhere."""

ANCHORS = "anchors.db"
"""The index of the repositories' lines. It can be deleted at any time; git has all that is in it."""


class ProjectFiles:
    """The folder of a project, with its git repositories."""

    def __init__(
        self,
        root: Path,
        repositories: Repositories,
        catalog: Path | None = None,
        state: Path | None = None,
        derived: Path | None = None,
        memory_stores: OpenStores | None = None,
    ) -> None:
        """`catalog` holds the committed files, `state` the private ones.

        `derived` holds those made from others; without it, indexes stay in memory.
        """
        self.root = root
        self._memory_stores = memory_stores
        self.repositories = repositories
        self._catalog = catalog
        self._state = state
        self._derived = derived
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

                self._anchors = Anchors(self.repositories, self._derived / ANCHORS if self._derived else None)
            return self._anchors

    def completer(self, head: str | None = None) -> PointerCompleter:
        """Return what completes the pointers of one call; `head` is the commit checked out where the caller works."""
        return PointerCompleter(
            self.expand,
            (lambda: head) if head is not None else self.head,
            snapshot=self.snapshot,
            spell=self.repositories.spell,
        )

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
        return checked_out_commit(self.root) or self.expand("HEAD")

    def staleness_of(self, pointers: Sequence[Pointer], against: str | None = None) -> list[EvidenceState | None]:
        """Compare the lines of each pointer with the commit that is checked out, or with the commit `against`.

        The state is None where no comparison is possible.
        """
        if not pointers:
            return []
        try:
            head = against or self.head()
        except EngramBusError:
            return [None] * len(pointers)
        return [self._staleness.check(pointer, head) for pointer in pointers]

    def branch(self, base: str, head: str) -> tuple[BranchChanges, BranchEvidence]:
        """Return what the branch that ends in `head` changes since it left `base`, and how pointers compare with it."""
        from engrambus.evidence.pointers import BranchChanges, BranchEvidence

        changes = BranchChanges(self.repositories.select(), base, head)
        return changes, BranchEvidence(changes, self._staleness)

    def snapshot(self, path: str | None = None) -> str:
        """Commit the files as they are on disk and return the commit; an untracked file is included if it is named."""
        return self.repositories.select().snapshot(self.root, [path] if path and self._has_file(path) else ())

    def catalog_path(self, name: str) -> Path:
        """Return the path of the committed file `name` in `.catalog`."""
        return (self._catalog or self.root) / name

    def state_path(self, name: str) -> Path:
        """Return the path of the private file or folder `name`."""
        return (self._state or self.root) / name

    @property
    def receipts(self) -> ReceiptFolder:
        """The receipts as files."""
        from engrambus.evidence.receipts import ReceiptFolder

        return ReceiptFolder(self.state_path("receipts"), (self._derived or self.root) / "receipts.written")

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

    def staleness_of(self, pointers: Sequence[Pointer], against: str | None = None) -> list[EvidenceState | None]:
        """Compare the lines of each pointer; a hidden file is not named as the one that holds them now."""
        return [
            state
            if state is None or state.now is None or self._sees(parse_file_span(state.now).path)
            # decision 84: lines that moved into a hidden file have left what the role sees
            else EvidenceState(state="gone")
            for state in self._files.staleness_of(pointers, against)
        ]

    def catalog(self) -> Catalog:
        """Return the catalog of yools."""
        return self._files.catalog()
