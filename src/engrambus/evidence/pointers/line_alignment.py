"""Lines of a file followed from one commit to another: where each is there, as `git blame --reverse -M -C` has it.

decision 76: git's own alignment is the definition, so git itself is run, once for each file at a commit, and what it
says is cached. Where the result at an earlier target is known, only the commits since then are read.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from engrambus.core import LruCache
from engrambus.errors import EngramBusError, GitTrouble
from engrambus.evidence.pointers.alignment_cache import AlignmentCache
from engrambus.evidence.pointers.git import GitRepository
from engrambus.evidence.pointers.scratch_objects import ScratchObjects

UNBOUNDED = 1 << 62
"""The length of a run that covers a file to its end, of any length."""
MAX_RANGES = 200
"""Ranges of lines named in one command; a file with more of them is followed as a whole."""
CACHED_RUNS = 400_000

_ENTRY = re.compile(rb"(?P<commit>[0-9a-f]{40,64}) (?P<line>\d+) (?P<first>\d+) (?P<count>\d+)\Z")
_QUOTED = re.compile(rb"\\([0-7]{3}|.)", re.DOTALL)
_ESCAPES = {b"a": b"\a", b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}
# These could change which lines git aligns, or how it prints paths.
_SETTINGS = {
    "core.quotePath": "false",
    "diff.algorithm": "default",
    "diff.indentHeuristic": "true",
    "diff.orderFile": "/dev/null",
    "diff.renameLimit": "1000",
    "diff.renames": "true",
}
_COMMAND = (
    *("--bare", *(word for name, value in _SETTINGS.items() for word in ("-c", f"{name}={value}"))),
    *("blame", "--reverse", "-M", "-C", "--incremental", "--no-textconv", "--no-ext-diff", "--encoding=none"),
    "--ignore-revs-file=",  # none: an empty name clears those that are configured
)

_TOUCHED = (
    *("--bare", "--literal-pathspecs", "-c", "log.follow=false", "-c", "log.showSignature=false"),
    *(
        "log",
        "--format=",
        "--name-only",
        "-z",
        "--full-history",
        "-m",
        "--no-renames",
        "--no-textconv",
        "--no-ext-diff",
    ),
    *("--no-relative", "-O/dev/null", "--ignore-submodules=all"),
)
MIN_GROUP = 3
"""Files of one commit from which on it costs less to ask first which of them were touched."""
MAX_GROUP = 500
"""Files named in one command."""


SHORT_S = 5.0
SLOW_S = 1.0
"""Seconds after which a file counts as slow if git has not ended by then."""


class OutOfTime(Exception):
    """The time for an answer has passed before git could give it."""


class Deadline:
    """The end of the time in which an answer is worth waiting for."""

    def __init__(self, seconds: float) -> None:
        self.is_short = seconds < SHORT_S
        """True if an answer is waited for: a file for which git takes longer is left to those who have time."""
        self._end = time.monotonic() + seconds

    def half(self) -> Deadline:
        """Return a deadline for the first part of the work: halfway to this one."""
        return Deadline(max(0.0, self._end - time.monotonic()) / 2)

    def remaining_s(self) -> float:
        """Return the seconds that are left; raise OutOfTime if none are."""
        seconds = self._end - time.monotonic()
        if seconds <= 0:
            raise OutOfTime
        return seconds


class LineRun(NamedTuple):
    """Lines that are followed together."""

    first: int
    """The first of them in the file they come from, counted from 1."""
    length: int
    path: str
    """The file they are in at the target."""
    start: int
    """The first of them there."""


class FileAlignment(NamedTuple):
    """The lines of a file that survive up to a target."""

    runs: tuple[LineRun, ...]
    """In the order of the file; a line in none of them does not survive."""
    line_count: int | None = None
    """Lines of the file; None where it was not read, because it is the same at the target."""
    is_direct: bool = False
    """True if no history leads to the target, and the two trees were compared directly."""

    @classmethod
    def identity(cls, path: str) -> FileAlignment:
        """Return the alignment of a file that has not changed."""
        return cls((LineRun(1, UNBOUNDED, path, 1),))

    def paths(self) -> list[str]:
        """Return the files that hold surviving lines."""
        return list(dict.fromkeys(run.path for run in self.runs))

    def ranges(self, path: str) -> list[tuple[int, int]]:
        """Return the ranges of lines of a file that hold surviving lines; none mean the whole file."""
        runs = [run for run in self.runs if run.path == path]
        if any(run.length == UNBOUNDED for run in runs):
            return []
        return join_ranges((run.start, run.start + run.length - 1) for run in runs)

    def cut(self, first: int, last: int) -> list[LineRun]:
        """Return the runs of the lines `first` to `last`; those that continue each other are joined."""
        runs: list[LineRun] = []
        for run in self.runs:
            skipped = max(0, first - run.first)
            count = min(run.length, last + 1 - run.first) - skipped
            if count > 0:
                _append(runs, LineRun(run.first + skipped, count, run.path, run.start + skipped))
        return runs

    def then(self, later: dict[str, FileAlignment]) -> FileAlignment:
        """Return this alignment continued by those of the files it leads to; other files stay as they are."""
        runs: list[LineRun] = []
        for run in self.runs:
            if run.path not in later:
                _append(runs, run)
                continue
            for part in later[run.path].cut(run.start, run.start + run.length - 1):
                _append(runs, LineRun(run.first + part.first - run.start, part.length, part.path, part.start))
        line_count = self.line_count
        if line_count is None and self.runs[0].path in later:
            line_count = later[self.runs[0].path].line_count
        return FileAlignment(tuple(runs), line_count, self.is_direct)


def _append(runs: list[LineRun], run: LineRun) -> None:
    """Append a run, as a part of the last one if it continues it."""
    if runs:
        last = runs[-1]
        end = (last.first + last.length, last.path, last.start + last.length)
        if end == (run.first, run.path, run.start):
            runs[-1] = last._replace(length=last.length + run.length)
            return
    runs.append(run)


class LineAligner:
    """Follows the lines of files of one repository. Safe to share between threads."""

    def __init__(self, repository: GitRepository, cache: AlignmentCache, scratch: ScratchObjects) -> None:
        self._repository = repository
        self._cache = cache
        self._scratch = scratch
        self._alignments: LruCache[tuple[str, str, str], FileAlignment] = LruCache(CACHED_RUNS)
        self._targets: LruCache[tuple[str, str], str] = LruCache(CACHED_RUNS)
        self._ancestors: LruCache[tuple[str, str], bool] = LruCache(16_384)
        self._only_ways: LruCache[tuple[str, str], bool] = LruCache(16_384)

    def align(self, commit: str, path: str, target: str, deadline: Deadline) -> FileAlignment:
        """Follow the lines of the file at a path of a commit to the commit `target`."""
        if commit == target:
            return FileAlignment.identity(path)
        key = (commit, path, target)
        alignment = self._known(*key)
        if alignment is None:
            if deadline.is_short and self._cache.is_slow(commit, path):
                raise OutOfTime
            seconds = deadline.remaining_s()
            try:
                alignment = self._continue(*key, deadline) or self._follow(*key, deadline)
            except OutOfTime:
                # Otherwise each command and each hook would wait for it again, in vain.
                if deadline.is_short and seconds > SLOW_S:
                    self._cache.mark_slow(commit, path)
                raise
            self._add(*key, alignment)
        return alignment

    def is_known(self, commit: str, path: str, target: str) -> bool:
        """True if no git is needed to follow a file to a target."""
        return commit == target or self._known(commit, path, target) is not None

    def is_equal(self, commit: str, path: str, target: str) -> bool:
        """True if the file is at the same path of the target, byte for byte; it may have changed in between."""
        blob = self._blob_at(commit, path)
        return blob is not None and blob == self._blob_at(target, path)

    def find_untouched(self, files: Iterable[tuple[str, str]], target: str, deadline: Deadline) -> None:
        """Find out with one git for each commit which of its files no later commit has touched."""
        by_commit: dict[str, list[str]] = {}
        for commit, path in files:
            if self._known(commit, path, target) is None and self.is_equal(commit, path, target):
                by_commit.setdefault(commit, []).append(path)
        for commit, paths in by_commit.items():
            if commit == target or len(paths) < MIN_GROUP:
                continue
            for start in range(0, len(paths), MAX_GROUP):
                group = paths[start : start + MAX_GROUP]
                output = self._query(*_TOUCHED, f"{commit}..{target}", "--", *group, deadline=deadline)
                touched = {os.fsdecode(name) for name in output.split(b"\0")} if output is not None else set(group)
                for path in set(group) - touched:
                    self._add(commit, path, target, FileAlignment.identity(path))

    def align_tree(self, commit: str, path: str, tree: str, deadline: Deadline) -> FileAlignment:
        """Compare a file directly with a tree, as if that were the next commit; the tree may be a scratch object."""
        key = (commit, path, tree)
        alignment = self._alignments.get(key)
        if alignment is None:
            child = self._scratch.commit(tree, commit)
            alignment = self._blame(commit, path, child, deadline)[0]._replace(is_direct=True)
            self._alignments.put(key, alignment, weight=len(alignment.runs) + 1)
        return alignment

    def align_child(
        self, path: str, ranges: Iterable[tuple[int, int]], parent: str, child: str, deadline: Deadline
    ) -> FileAlignment:
        """Follow ranges of lines to a commit whose only parent has them; the commit may be a scratch object."""
        key = (parent, f"{path}\0{sorted(ranges)}", child)
        alignment = self._alignments.get(key)
        if alignment is None:
            alignment = self._blame(parent, path, child, deadline, ranges)[0]
            self._alignments.put(key, alignment, weight=len(alignment.runs) + 1)
        return alignment

    def _known(self, commit: str, path: str, target: str) -> FileAlignment | None:
        """Return an alignment that was worked out before."""
        alignment = self._alignments.get((commit, path, target))
        if alignment is None:
            alignment = self._cache.get(commit, path, target)
            if alignment is not None:
                self._remember(commit, path, target, alignment)
        return alignment

    def _add(self, commit: str, path: str, target: str, alignment: FileAlignment) -> None:
        self._cache.put(commit, path, target, alignment)
        self._remember(commit, path, target, alignment)

    def _remember(self, commit: str, path: str, target: str, alignment: FileAlignment) -> None:
        self._alignments.put((commit, path, target), alignment, weight=len(alignment.runs) + 1)
        self._targets.put((commit, path), target)

    def _continue(self, commit: str, path: str, target: str, deadline: Deadline) -> FileAlignment | None:
        """Continue from a target up to which the file was followed before; None if there is none that leads here."""
        newest = self._targets.get((commit, path))
        for earlier in [newest] if newest is not None else self._cache.targets(commit, path):
            known = self._known(commit, path, earlier)
            # Lines of a snapshot that the earlier target never had may have been committed since.
            if known is None or known.is_direct or not self._is_here(earlier):
                continue
            changed = [name for name in known.paths() if not self.is_equal(earlier, name, target)]
            # On another branch, lines that were lost up to the earlier target may still be in their first file.
            is_here = self._blob_at(earlier, path) == self._blob_at(target, path)
            if known.runs and not changed and is_here:
                return known
            if self._is_only_way(earlier, target, deadline):
                later = {name: self._blame(earlier, name, target, deadline, known.ranges(name))[0] for name in changed}
                return known.then(later)
        return None

    def _follow(self, commit: str, path: str, target: str, deadline: Deadline) -> FileAlignment:
        try:
            alignment, passed_on = self._blame(commit, path, target, deadline)
        except GitTrouble:
            if self._is_ancestor(commit, target, deadline):
                raise
            passed_on = False
        if not passed_on and not self._is_ancestor(commit, target, deadline):
            # On another branch, rebased or amended: no history leads from the one to the other, so the two trees are
            # compared as if the target were the next commit.
            if self.is_equal(commit, path, target):
                return FileAlignment.identity(path)._replace(is_direct=True)
            return self.align_tree(commit, path, self._repository.tree_of(target), deadline)
        return alignment

    def _blame(
        self, commit: str, path: str, target: str, deadline: Deadline, ranges: Iterable[tuple[int, int]] = ()
    ) -> tuple[FileAlignment, bool]:
        """LineRun git; return the alignment, and True if any commit after the first has one of the lines."""
        named = sorted(ranges)
        options = [f"-L{first},{last}" for first, last in named] if len(named) <= MAX_RANGES else []
        done = self._repository.query(
            *_COMMAND, *options, f"{commit}..{target}", "--", path,
            timeout_s=deadline.remaining_s(), more_objects=self._scratch.folder,
        )  # fmt: skip
        if done is None:
            raise OutOfTime
        if done.returncode:
            raise GitTrouble("Git could not follow the lines of a file.", hint=_first_line(done.stderr))
        return _read_entries(done.stdout, commit, target)

    def _is_only_way(self, earlier: str, later: str, deadline: Deadline) -> bool:
        """True if every history from before `earlier` to `later` goes through `earlier`."""
        only = self._only_ways.get((earlier, later))
        if only is None:
            done = self._query("rev-list", "--boundary", f"{earlier}..{later}", deadline=deadline)
            rows = done.decode(errors="replace").split() if done is not None else []
            only = [row for row in rows if row.startswith("-")] == [f"-{earlier}"]
            self._only_ways.put((earlier, later), only)
        return only

    def _is_ancestor(self, commit: str, target: str, deadline: Deadline) -> bool:
        is_ancestor = self._ancestors.get((commit, target))
        if is_ancestor is None:
            is_ancestor = self._query("merge-base", "--is-ancestor", commit, target, deadline=deadline) is not None
            self._ancestors.put((commit, target), is_ancestor)
        return is_ancestor

    def _query(self, *args: str, deadline: Deadline) -> bytes | None:
        """Return what git prints; None if it fails."""
        done = self._repository.query(*args, timeout_s=deadline.remaining_s(), more_objects=None)
        if done is None:
            raise OutOfTime
        return None if done.returncode else done.stdout

    def _blob_at(self, commit: str, path: str) -> str | None:
        """Return the file at a path of a commit; None if there is none, or none that can be read."""
        try:
            return self._repository.blob_id(commit, path)
        except EngramBusError:
            return None

    def _is_here(self, commit: str) -> bool:
        """True unless the commit was pruned."""
        try:
            self._repository.check_commit(commit)
        except EngramBusError:
            return False
        return True


def join_ranges(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return ranges of lines in order, those that touch or overlap as one."""
    joined: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(last, joined[-1][1]))
        else:
            joined.append((first, last))
    return joined


def _read_entries(output: bytes, commit: str, target: str) -> tuple[FileAlignment, bool]:
    """Read what `git blame --incremental` prints: each entry begins with four words and ends with a file name."""
    runs: list[LineRun] = []
    line_count = 0
    passed_on = False
    entry: re.Match[bytes] | None = None
    for line in output.split(b"\n"):
        if match := _ENTRY.match(line):
            entry = match
        elif line.startswith(b"filename ") and entry is not None:
            first, count = int(entry["first"]), int(entry["count"])
            line_count = max(line_count, first + count - 1)
            passed_on = passed_on or entry["commit"] != commit.encode()
            if entry["commit"] == target.encode():
                runs.append(LineRun(first, count, _unquote(line[9:]), int(entry["line"])))
            entry = None
    joined: list[LineRun] = []
    for run in sorted(runs):
        _append(joined, run)
    return FileAlignment(tuple(joined), line_count), passed_on


def _unquote(name: bytes) -> str:
    """Return a file name as git prints it: in quotes, with escapes, if it has special characters."""
    if name.startswith(b'"') and name.endswith(b'"') and len(name) > 1:
        name = _QUOTED.sub(_unescape, name[1:-1])
    return os.fsdecode(name)


def _unescape(match: re.Match[bytes]) -> bytes:
    text = match[1]
    return bytes([int(text, 8) & 0xFF]) if len(text) == 3 else _ESCAPES.get(text, text)


def _first_line(message: bytes) -> str | None:
    lines: Sequence[str] = message.decode(errors="replace").splitlines()
    return lines[0][:200] if lines else None
