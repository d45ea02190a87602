"""A project's folder: its repositories and its catalog."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from engrambus.core.disk_errors import naming_the_disk
from engrambus.errors import EngramBusError, MemoryStoreNotFound, PointerRefusal
from engrambus.evidence.pointers import (
    Address,
    EvidenceState,
    Pointer,
    PointerCompleter,
    Repositories,
    check_path,
    checked_out_commit,
    find_registered,
    find_worktree,
    open_worktree,
    worktree_head,
)

if TYPE_CHECKING:
    from engrambus.evidence.anchoring import Anchors
    from engrambus.evidence.pointers import (
        BranchChanges,
        BranchEvidence,
        CompareTarget,
        Evidence,
        LinesNow,
        StalenessChecker,
    )
    from engrambus.evidence.pointers.cited_places import CitedPlaces
    from engrambus.evidence.receipts import ReceiptFolder
    from engrambus.gateway.ports import CacheFiles
    from engrambus.knowledge.memory import Stores
    from engrambus.space.catalog import Catalog, CatalogReader

OpenStores: TypeAlias = "Callable[[tuple[Path, ...] | None], AbstractContextManager[Stores]]"
"""Opens the memory stores below some folders, or anywhere."""

ANCHORS = "anchors.db"
"""The index of the repositories' lines. It can be deleted at any time; git has all that is in it."""
ALIGNMENTS = "alignments.db"
"""Where git has found pointed lines at later commits. It can be deleted at any time."""
STATES_S = 2.0
"""Seconds in which the states of the pointers of one answer are worked out."""
MAX_WAIT_S = 60.0
"""Seconds for pointers whose state was asked for by itself."""


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
        open_caches: Callable[[], CacheFiles] | None = None,
    ) -> None:
        """`catalog` holds the committed files, `state` the private ones.

        `derived` holds those made from others; without it, indexes stay in memory.
        """
        self.root = root
        self._memory_stores = memory_stores
        self._open_caches = open_caches
        self.repositories = repositories
        self._catalog = catalog
        self._state = state
        self._derived = derived
        self._capabilities: CatalogReader | None = None
        self._anchors: Anchors | None = None
        self._lock = threading.Lock()
        self._checker: StalenessChecker | None = None
        self._sees: Callable[[str], bool] | None = None
        self._caller_head: str | None = None
        self._caller_worktree: str | None = None
        self._keys: dict[tuple[int, int, int], dict[str, str]] = {}
        """The public keys in `project.yaml`, by the state of the file that they were read from; the last one only."""

    def known_keys(self) -> dict[str, str]:
        """Return the names of the public keys that `project.yaml` lists now, by key."""
        from engrambus.policy import known_keys, project_file_state  # only where engrams were shared through git

        if self._catalog is None:
            return {}
        state = project_file_state(self._catalog)
        with self._lock:
            if state not in self._keys:
                self._keys.clear()  # shared by the files of all calls
                self._keys[state] = known_keys(self._catalog)
            return self._keys[state]

    def seen_by(self, sees: Callable[[str], bool]) -> ProjectFiles:
        """Return these files without the paths for which `sees` is false: no text is found in them."""
        return _CallFiles(self, sees, self._caller_head, self._caller_worktree)

    def of_caller(self, head: str | None, worktree: str | None) -> ProjectFiles:
        """Return these files for one call, from the commit and the worktree that its caller says it works in."""
        return self if head is None and worktree is None else _CallFiles(self, self._sees, head, worktree)

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

    def cited_places(self, completer: PointerCompleter, evidence: Evidence) -> CitedPlaces:
        """Return what looks up the citations of one text, as `completer` understands them."""
        from engrambus.evidence.pointers.cited_places import CitedPlaces

        try:
            head = self.head()
        except EngramBusError:
            head = None
        return CitedPlaces(completer, evidence, self.repositories, self.root, head)

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

    @property
    def staleness(self) -> StalenessChecker:
        """What compares pointed lines with later commits and files on disk; made on first use."""
        with self._lock:
            if self._checker is None:
                from engrambus.evidence.pointers import StalenessChecker

                self._checker = StalenessChecker(
                    self.repositories, self._derived / ALIGNMENTS if self._derived else None
                )
            return self._checker

    def staleness_of(self, pointers: Sequence[Pointer], against: str | None = None) -> list[EvidenceState | None]:
        """Compare the lines of each pointer with the caller's files on disk, or with the revision `against`.

        The state is None where no comparison is possible. An answer waits for it only for a short time, and without it
        if that has passed; it is then ready for the next one.
        """
        answers = self.lines_now(pointers, against, timeout_s=STATES_S if against is None else MAX_WAIT_S)
        return [lines.state if lines is not None else None for lines in answers]

    def lines_now(
        self, pointers: Sequence[Pointer], against: str | None = None, *, timeout_s: float = MAX_WAIT_S
    ) -> list[LinesNow | None]:
        """Return where the lines of each pointer are in the caller's files on disk, or at the revision `against`."""
        if not pointers:
            return []
        from engrambus.evidence.pointers import CompareTarget

        try:
            target = self._target() if against is None else CompareTarget(self.expand(against))
        except EngramBusError:
            if against is not None:
                raise
            return [None] * len(pointers)
        # decision 84: lines that moved into a hidden file have left what the role sees
        return self.staleness.check_many(pointers, target, timeout_s=timeout_s, sees=self._sees)

    def _target(self) -> CompareTarget:
        """Return what pointed lines are compared with: the caller's worktree, its commit, or the project's folder."""
        from engrambus.evidence.pointers import CompareTarget

        repository = self.repositories.select()
        top = find_worktree(self.root)
        own = open_worktree(repository.directory, top) if top is not None else None
        if self._caller_worktree is not None:
            is_own = own is not None and self._caller_worktree == str(own.top)
            worktree = own if is_own else find_registered(repository.directory, self._caller_worktree)
            head = worktree_head(worktree.top) if worktree is not None else None
            # With another commit it is a folder of the same name on another machine.
            if head is not None and self._caller_head in (None, head):
                return CompareTarget(head, worktree)
        if self._caller_head is not None:
            try:
                repository.check_commit(self._caller_head)
                return CompareTarget(self._caller_head)
            except EngramBusError:
                # decision 121: a team's server has no files of its own to compare with instead
                if repository.takes_commits:
                    raise
        return CompareTarget(self.head(), own)

    def branch(self, base: str, head: str) -> tuple[BranchChanges, BranchEvidence]:
        """Return what the branch that ends in `head` changes since it left `base`, and how pointers compare with it."""
        from engrambus.evidence.pointers import BranchChanges, BranchEvidence

        changes = BranchChanges(self.repositories.select(), base, head)
        return changes, BranchEvidence(changes, self.staleness)

    def snapshot(self, path: str | None = None) -> str:
        """Commit the files as they are on disk and return the commit; an untracked file is included if it is named."""
        return self.repositories.select().snapshot(self.root, [path] if path and self._has_file(path) else ())

    def catalog_path(self, name: str) -> Path:
        """Return the path of the committed file `name` in `.catalog`."""
        return (self._catalog or self.root) / name

    def state_path(self, name: str) -> Path:
        """Return the path of the private file or folder `name`."""
        return (self._state or self.root) / name

    def derived_path(self, name: str) -> Path | None:
        """Return the path of the file `name` that is made from others and may be deleted; None if there is none."""
        return self._derived / name if self._derived is not None else None

    @property
    def caches(self) -> CacheFiles | None:
        """The files that can be deleted at any time, where the project has any."""
        return self._open_caches() if self._open_caches is not None else None

    @property
    def receipts(self) -> ReceiptFolder:
        """The receipts as files."""
        from engrambus.evidence.receipts import RECEIPTS, RECEIPTS_POSITION, ReceiptFolder

        return ReceiptFolder(self.state_path(RECEIPTS), (self._derived or self.root) / RECEIPTS_POSITION)

    @naming_the_disk()
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
        if self._checker is not None:
            self._checker.close()
        self.repositories.close()

    def _has_file(self, path: str) -> bool:
        try:
            return (self.root / check_path(path)).is_file()
        except (PointerRefusal, OSError):
            return False


class _CallFiles(ProjectFiles):
    """The files of a project for one call: as a role with a rule of visibility sees them, from a caller's worktree."""

    def __init__(
        self, files: ProjectFiles, sees: Callable[[str], bool] | None, head: str | None, worktree: str | None
    ) -> None:
        # decision 50: everything is shared with the project's own files; only text is looked for in fewer of them
        self.__dict__.update(files.__dict__)
        self._files = files
        self._sees = sees
        self._caller_head = head
        self._caller_worktree = worktree

    @property
    def anchors(self) -> Anchors:
        """The finder of pasted text in visible files."""
        anchors = self._files.anchors
        return anchors.seen_by(self._sees) if self._sees is not None else anchors

    @property
    def staleness(self) -> StalenessChecker:
        """What compares pointed lines, shared by all calls."""
        return self._files.staleness

    def catalog(self) -> Catalog:
        """Return the catalog of yools."""
        return self._files.catalog()
