"""State of evidence: whether pointed lines are still where they were, moved, changed in part, or are gone.

decision 76: a line survives if git's own alignment, `git blame --reverse -M -C`, carries it to the target: a commit, or
the files on disk on top of one. An equal line elsewhere is another line.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

from msgspec import Struct

from engrambus.core import LruCache, is_hex
from engrambus.errors import EngramBusError
from engrambus.evidence.pointers.addresses import ArtifactAddress, Pointer, RepoAddress
from engrambus.evidence.pointers.alignment_cache import AlignmentCache
from engrambus.evidence.pointers.disk_files import DiskChanges, DiskFiles
from engrambus.evidence.pointers.grammar import check_path, parse_ref
from engrambus.evidence.pointers.line_alignment import (
    UNBOUNDED,
    Deadline,
    FileAlignment,
    LineAligner,
    LineRun,
    OutOfTime,
    join_ranges,
)
from engrambus.evidence.pointers.repositories import Repositories
from engrambus.evidence.pointers.scratch_objects import ScratchObjects
from engrambus.evidence.pointers.worktrees import Worktree

Staleness = Literal["same", "moved", "changed", "gone", "unresolved"]
"""How pointed lines compare with a later commit; `unresolved` where what a pointer names is not here."""

# decision 17: lines that only moved are not stale; a warning that is mostly wrong is not read
STALE: frozenset[str] = frozenset({"changed", "gone"})
"""The values that mean the evidence no longer says what it said."""

CHECK_S = 60.0
"""Seconds in which one pointer must be compared where an answer is waited for."""
CONTINUE_S = 120.0
"""Seconds for one file that an answer did not wait for."""
REST_S = 0.5
"""Seconds before that begins: a command has ended by then, and leaves no git behind."""
CACHE_SIZE = 16_384
PROCESSES = 2
"""Git processes that run at the same time for one answer."""


class EvidenceState(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How the lines of a pointer compare with the files as they are now."""

    state: Staleness
    share: float | None = None
    """Share of the lines that survive, from 0 to 1; only for `changed`."""
    now: str | None = None
    """The lines that hold them now, as `src/a.py:12-14`; for `moved` and `changed`."""

    @property
    def is_stale(self) -> bool:
        """True if the evidence no longer says what it said."""
        return self.state in STALE


class FileRanges(Struct, frozen=True, kw_only=True):
    """Ranges of lines of one file."""

    path: str
    ranges: tuple[tuple[int, int], ...]
    """First and last line of each, counted from 1, in order and without overlaps."""


class LinesNow(Struct, frozen=True, kw_only=True):
    """Where the lines of a pointer are at a target."""

    state: EvidenceState
    files: tuple[FileRanges, ...]
    """The surviving lines; none if the evidence is gone. A whole file that has not changed is one range from 1."""


class CompareTarget(NamedTuple):
    """What pointed lines are compared with."""

    commit: str
    worktree: Worktree | None = None
    """A worktree where the commit is checked out: the files there as they are on disk count, if it is given."""


class _File(NamedTuple):
    """A file at a commit."""

    commit: str
    path: str


class _Span(NamedTuple):
    """Lines of a file at a commit."""

    commit: str
    path: str
    lines: tuple[int, int] | None
    """None for the whole file."""


_Alignments = dict[_Span, FileAlignment | None]
Sees = Callable[[str], bool]
"""True for the paths that a caller may see."""


class StalenessChecker:
    """Compares the lines of pointers into the project's own repository with a commit or a worktree.

    Results are cached, in memory and in the file `cache`. Safe to share between threads.
    """

    def __init__(self, repositories: Repositories, cache: Path | None = None) -> None:
        self._repositories = repositories
        self._cache = AlignmentCache(cache)
        self._scratch = ScratchObjects()
        self._spans: LruCache[str, _Span] = LruCache(CACHE_SIZE)
        self._disks: LruCache[Worktree, DiskFiles] = LruCache(16)
        self._aligner: LineAligner | None = None
        self._waiting: dict[tuple[_File, str], None] = {}
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closed = threading.Event()

    def check(self, pointer: Pointer, commit: str, *, timeout_s: float = CHECK_S) -> EvidenceState | None:
        """Compare the lines of a pointer with a commit.

        Return None where no comparison is possible: another repository, anything but a file or a document of it, or git
        cannot say.
        """
        lines = self.lines_now(pointer, CompareTarget(commit), timeout_s=timeout_s)
        return lines.state if lines is not None else None

    def lines_now(self, pointer: Pointer, target: CompareTarget, *, timeout_s: float = CHECK_S) -> LinesNow | None:
        """Return where the lines of a pointer are at a target; None where no comparison is possible."""
        return self.check_many([pointer], target, timeout_s=timeout_s)[0]

    def check_many(
        self, pointers: Sequence[Pointer], target: CompareTarget, *, timeout_s: float, sees: Sees | None = None
    ) -> list[LinesNow | None]:
        """Compare the lines of several pointers with one target, all within `timeout_s`.

        What git could not say by then is None, and is worked out afterwards. Lines in files for which `sees` is false
        count as gone.
        """
        deadline = Deadline(timeout_s)
        spans = [self._span(pointer) for pointer in pointers]
        alignments = self._align(dict.fromkeys(span for span in spans if span is not None), target.commit, deadline)
        changes = None
        if target.worktree is not None:
            try:
                changes = self._disk_changes(alignments, target.commit, target.worktree, deadline)
            except (OutOfTime, EngramBusError, OSError):
                return [None] * len(pointers)
        if changes is not None:
            alignments = self._continue_on_disk(alignments, target.commit, changes, deadline)
        places = {
            span: _lines_now(span, alignment, sees, self._is_copy(span, alignment, target.commit, changes))
            for span, alignment in alignments.items()
            if alignment is not None
        }
        return [places.get(span) if span is not None else None for span in spans]

    def close(self) -> None:
        """Close the cache and delete what was made for git."""
        self._closed.set()
        self._cache.close()
        self._scratch.close()

    def _span(self, pointer: Pointer) -> _Span | None:
        """Return the lines that a pointer names; None if they are of no file of the project's own repository."""
        span = self._spans.get(pointer.ref)
        if span is None:
            try:
                address = parse_ref(pointer.ref)
                if not isinstance(address, RepoAddress | ArtifactAddress):
                    return None
                if not self._repositories.is_own(address.repository):
                    return None
                span = self._locate(address)
            except EngramBusError:  # unreadable evidence is not called stale
                return None
            if isinstance(address, RepoAddress) or is_hex(address.version, 40, 64):  # a tag can be moved
                self._spans.put(pointer.ref, span)
        return span

    def _locate(self, address: RepoAddress | ArtifactAddress) -> _Span:
        if isinstance(address, ArtifactAddress):
            from engrambus.evidence.pointers.documents import ArtifactResolver

            source = ArtifactResolver(self._repositories).resolve(address).source
            if source is None:
                raise ValueError("a document has a source")
            address = source
        repository = self._repositories.select()
        path = repository.spelling(address.revision, address.path)
        repository.blob_id(address.revision, path)  # refuses a path that leads nowhere
        return _Span(address.revision, path, address.lines)

    def _align(self, spans: Iterable[_Span], commit: str, deadline: Deadline) -> _Alignments:
        """Follow the files of spans to a commit, several at a time."""
        try:
            aligner = self._lines()
        except EngramBusError:  # no repository
            return {}
        files = dict.fromkeys(_File(span.commit, span.path) for span in spans)
        with suppress(OutOfTime, EngramBusError, OSError):
            aligner.find_untouched(files, commit, deadline.half())
        unknown = [file for file in files if not aligner.is_known(*file, commit)]
        # Files that differ come first: to the others most likely nothing has happened.
        unknown.sort(key=lambda file: aligner.is_equal(file.commit, file.path, commit))
        alignments: dict[_File, FileAlignment | None] = {}
        if len(unknown) > 1:
            from concurrent.futures import ThreadPoolExecutor  # slow to import, and most calls find everything cached

            with ThreadPoolExecutor(PROCESSES) as pool:
                answers = pool.map(partial(self._align_file, commit, deadline), unknown)
                alignments = dict(zip(unknown, answers, strict=True))
        for file in files:
            if file not in alignments:
                alignments[file] = self._align_file(commit, deadline, file)
        return {span: alignments[_File(span.commit, span.path)] for span in spans}

    def _align_file(self, commit: str, deadline: Deadline, file: _File) -> FileAlignment | None:
        aligner = self._lines()
        try:
            return aligner.align(*file, commit, deadline)
        except OutOfTime:
            self._continue_later(file, commit)
            return FileAlignment.identity(file.path) if aligner.is_equal(*file, commit) else None
        except (EngramBusError, OSError):  # damaged or missing objects, no folder for temporary files
            return None

    def _disk_files(self, worktree: Worktree) -> DiskFiles:
        disk = self._disks.get(worktree)
        if disk is None:
            disk = DiskFiles(self._repositories.select(), worktree, self._scratch)
            self._disks.put(worktree, disk)
        return disk

    def _disk_changes(
        self, alignments: _Alignments, head: str, worktree: Worktree, deadline: Deadline
    ) -> DiskChanges | None:
        """Return what differs on disk, if any of the files does that hold surviving lines."""
        paths = {path for alignment in alignments.values() if alignment for path in alignment.paths()}
        # A snapshot of uncommitted lines is no part of the history, and its lines may be on disk only.
        paths |= {span.path for span, alignment in alignments.items() if alignment and alignment.is_direct}
        return self._disk_files(worktree).changes(head, paths, deadline)

    def _continue_on_disk(
        self, alignments: _Alignments, head: str, changes: DiskChanges, deadline: Deadline
    ) -> _Alignments:
        continued: _Alignments = {}
        for span, alignment in alignments.items():
            try:
                if alignment is not None and alignment.is_direct:
                    continued[span] = self._lines().align_tree(span.commit, span.path, changes.tree, deadline)
                    continue
                later = {
                    path: self._lines().align_child(path, alignment.ranges(path), head, changes.commit, deadline)
                    for path in (alignment.paths() if alignment is not None else ())
                    if alignment is not None and path in changes.blobs
                }
                continued[span] = alignment.then(later) if alignment is not None else None
            except (OutOfTime, EngramBusError, OSError):
                continued[span] = None
        return continued

    def _is_copy(self, span: _Span, alignment: FileAlignment, commit: str, changes: DiskChanges | None) -> bool:
        """True if the whole file that a pointer names is at the target, with nothing added to it."""
        paths = alignment.paths()
        if span.lines is not None or len(paths) != 1:
            return False
        try:
            repository = self._repositories.select()
            on_disk = changes is not None and paths[0] in changes.blobs
            blob = changes.blobs[paths[0]] if changes is not None and on_disk else repository.blob_id(commit, paths[0])
            return blob == repository.blob_id(span.commit, span.path)
        except EngramBusError:
            return False

    def _lines(self) -> LineAligner:
        if self._aligner is None:
            self._aligner = LineAligner(self._repositories.select(), self._cache, self._scratch)
        return self._aligner

    def _continue_later(self, file: _File, commit: str) -> None:
        """Let a thread work out what an answer did not wait for; it ends when nothing is left."""
        with self._lock:
            self._waiting[file, commit] = None
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._work, name="evidence-state", daemon=True)
                self._thread.start()

    def _work(self) -> None:
        self._closed.wait(REST_S)
        while not self._closed.is_set():
            with self._lock:
                if not self._waiting:
                    self._thread = None
                    return
                file, commit = next(iter(self._waiting))
            try:
                self._lines().align(*file, commit, Deadline(CONTINUE_S))
            except (OutOfTime, EngramBusError, OSError):
                pass
            finally:
                with self._lock:
                    self._waiting.pop((file, commit), None)


def _lines_now(span: _Span, alignment: FileAlignment, sees: Sees | None, is_copy: bool) -> LinesNow:
    """Return where lines are, and their state; `is_copy` if they are a file that is at the target as it was."""
    first, last = span.lines or (1, UNBOUNDED if alignment.line_count is None else alignment.line_count)
    runs = [run for run in alignment.cut(first, last) if sees is None or sees(run.path)]
    files = tuple(
        FileRanges(path=path, ranges=tuple(join_ranges((run.start, run.start + run.length - 1) for run in group)))
        for path, group in _by_path(runs).items()
    )
    return LinesNow(state=_state(span, runs, last + 1 - first, is_copy), files=files)


def _by_path(runs: Iterable[LineRun]) -> dict[str, list[LineRun]]:
    groups: dict[str, list[LineRun]] = {}
    for run in runs:
        groups.setdefault(run.path, []).append(run)
    return groups


def _state(span: _Span, runs: Sequence[LineRun], pointed: int, is_copy: bool) -> EvidenceState:
    survive = sum(run.length for run in runs)
    if survive == 0:
        return EvidenceState(state="gone")
    # A file as a whole is the same only if nothing was added to it either.
    if survive < pointed or len(runs) > 1 or (span.lines is None and not is_copy):
        return EvidenceState(state="changed", share=_share(survive, pointed), now=_print_now(runs, pointed))
    if (runs[0].path, runs[0].start) == (span.path, runs[0].first):
        return EvidenceState(state="same")
    return EvidenceState(state="moved", now=_print_now(runs, pointed, is_copy=is_copy))


def _share(survive: int, pointed: int) -> float:
    """Return a share with three digits, which is neither 0 nor 1 if it is not exactly."""
    share = round(survive / pointed, 3)
    return share if survive == pointed else min(max(share, 0.001), 0.999)


def _print_now(runs: Sequence[LineRun], pointed: int, *, is_copy: bool = False) -> str | None:
    """Return the lines around most of the surviving ones, as `path:12-14`; None if no pointer could name them.

    Lines between them belong to it if they are not more than the pointed ones: they are what has changed.
    """
    path, group = max(_by_path(runs).items(), key=lambda item: sum(run.length for run in item[1]))
    if not _can_be_named(path):
        return None
    if is_copy:
        return path
    clusters: list[tuple[int, int, int]] = []  # first line, last line, surviving lines
    for first, last in join_ranges((run.start, run.start + run.length - 1) for run in group):
        count = last + 1 - first
        if clusters and first - clusters[-1][1] - 1 <= pointed:
            clusters[-1] = (clusters[-1][0], last, clusters[-1][2] + count)
        else:
            clusters.append((first, last, count))
    first, last, _ = max(clusters, key=lambda cluster: (cluster[2], -cluster[0]))
    return f"{path}:{first}" if first == last else f"{path}:{first}-{last}"


def _can_be_named(path: str) -> bool:
    """True if a pointer can have this path: control characters and names that are not UTF-8 stand in none."""
    try:
        path.encode()
        check_path(path)
    except (EngramBusError, UnicodeEncodeError):
        return False
    return True
