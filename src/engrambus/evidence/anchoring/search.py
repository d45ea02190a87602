"""Searching a commit for one pasted text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import msgspec

from engrambus.errors import PointerRefusal
from engrambus.evidence.anchoring.line_index import IndexedCommit, LineIndex
from engrambus.evidence.anchoring.pasted_text import (
    FileText,
    count_letters,
    fold,
    is_fence,
    is_informative,
    is_solid,
    readings,
)
from engrambus.evidence.pointers import Pointer, RepoAddress, check_pointer, print_address

MAX_CANDIDATES = 8
SHORT = 12
"""Letters and digits below which one line alone must be unique."""
MAX_FILES = 256
"""Files searched for one reading of the text."""
MAX_GREPS = 4
GREP_WORDS = 3
MAX_MATCHES = 64
"""Matches considered in one file."""

_UNRELATED = 3
"""The rank of a path that has nothing in common with the caller's hint."""

_LINE_SUFFIX = re.compile(r":\d+(?:-\d+)?$")
_GAP = re.compile(r"\W{0,4}\s*(?:\.{3,}|…)\s*\W{0,4}")
_COMMENTED_GAP = re.compile(r"(?:#|//|--|;|%|/\*|<!--|\*|\[|\()\s*(?:\.{3}|…)")
_CUT_START = re.compile(r"(?:\.{3,}|…)\s*(?=\S)")
_CUT_END = re.compile(r"(?<=\S)\s*(?:\.{3,}|…)$")


class Anchor(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a search for a text."""

    pointer: Pointer | None = None
    """The lines that hold it, if they are in one place only."""
    candidates: tuple[Pointer, ...] = ()
    """The lines in each place, if there are several; the likeliest first."""
    matched_lines: int = 0
    """How many lines of the text were found."""


class LineMatch(NamedTuple):
    """Lines of a file that hold a text."""

    first: int
    last: int
    matched_lines: int
    """How many of the text's lines were found."""
    complete: bool
    """True if the text is exactly these lines, apart from white space and fences."""


class _Candidate(NamedTuple):
    rank: int
    path: str
    match: LineMatch


class Search:
    """Tries what the text may have been: complete lines before cut ones, elisions last, the plainest reading first."""

    def __init__(self, index: LineIndex, commit: IndexedCommit, hint: str | None) -> None:
        self._index = index
        self._commit = commit
        self._hint = _as_path(hint)
        self._greps = 0

    def run(self, text: str) -> Anchor:
        """Return where the text is."""
        tried: list[tuple[str, ...]] = []
        for lines in readings(text):
            tried.append(lines)
            if anchor := self._try(TextPattern(lines), cut=False):
                return anchor
        has_elisions = "..." in text or "…" in text
        for elided, cut in ((False, True), (True, False), (True, True)):
            for lines in tried if has_elisions or not elided else ():
                if anchor := self._try(TextPattern(lines, elided=elided), cut=cut):
                    return anchor
        return Anchor()

    def _try(self, pattern: TextPattern, *, cut: bool) -> Anchor | None:
        for paths in self._path_sources(pattern, cut) if pattern else ():
            ranked = sorted((self._rank(path), path) for path in paths)
            candidates = list(self._candidates(pattern, cut, ranked[:MAX_FILES]))
            if candidates:
                nearest = min(candidate.rank for candidate in candidates)
                unsearched = len(ranked) > MAX_FILES and ranked[MAX_FILES][0] == nearest
                return self._decide(
                    pattern, [candidate for candidate in candidates if candidate.rank == nearest], unsearched
                )
        return None

    def _path_sources(self, pattern: TextPattern, cut: bool) -> Iterator[Iterable[str]]:
        """Yield the files to search: those with the rarest line; without one, those of the hint, then git grep's."""
        informative = pattern.informative(cut=cut)
        if informative:
            yield self._index.paths_with(self._commit, min(informative, key=self._index.count))
            return
        if self._hint is not None:
            yield self._commit.small(path for path in self._commit.files.blobs if self._rank(path) < _UNRELATED)
        words = {word for line in pattern.solid for word in line.split() if word.isprintable() and "\ufffd" not in word}
        if words and self._greps < MAX_GREPS:
            self._greps += 1
            longest = sorted(words, key=lambda word: (-len(word), word))[:GREP_WORDS]
            yield self._commit.small(self._commit.repository.grep(self._commit.id, longest))

    def _candidates(self, pattern: TextPattern, cut: bool, ranked: list[tuple[int, str]]) -> Iterator[_Candidate]:
        complete, nearest = 0, _UNRELATED
        for rank, path in ranked:
            if complete and (rank > nearest or complete > MAX_CANDIDATES):
                return
            for match in pattern.find(self._index.text(self._commit, path), cut=cut):
                if match.complete:
                    complete, nearest = complete + 1, min(rank, nearest)
                yield _Candidate(rank, path, match)

    def _decide(self, pattern: TextPattern, candidates: list[_Candidate], unsearched: bool) -> Anchor:
        """Return one place as the answer, several as candidates; complete matches rule out all others."""
        candidates = [candidate for candidate in candidates if candidate.match.complete] or candidates
        candidates.sort(key=lambda candidate: (-candidate.match.matched_lines, candidate.path, candidate.match.first))
        unique = len(candidates) == 1 and not unsearched
        related = candidates[0].rank < _UNRELATED
        if not unique and not related and len(pattern.solid) == 1 and pattern.letters < SHORT:
            return Anchor()
        pointers = (
            point_at(self._commit, candidate.path, candidate.match.first, candidate.match.last)
            for candidate in candidates
        )
        valid = tuple(islice((pointer for pointer in pointers if pointer is not None), MAX_CANDIDATES))
        if not valid:
            return Anchor()
        matched_lines = candidates[0].match.matched_lines
        if unique:
            return Anchor(pointer=valid[0], matched_lines=matched_lines)
        return Anchor(candidates=valid, matched_lines=matched_lines)

    def _rank(self, path: str) -> int:
        """Return how well a path fits the hint: 0 the same, 1 the end of one is the other, 2 the same file name."""
        hint = self._hint
        if hint is None:
            return _UNRELATED
        if path == hint:
            return 0
        if path.endswith(f"/{hint}") or hint.endswith(f"/{path}"):
            return 1
        return 2 if path.rpartition("/")[2] == hint.rpartition("/")[2] else _UNRELATED


def point_at(commit: IndexedCommit, path: str, first: int, last: int) -> Pointer | None:
    """Return the pointer to lines of a file; None for a path that no pointer can express."""
    ref = print_address(RepoAddress(path=path, revision=commit.id, lines=(first, last)))
    try:
        return check_pointer(Pointer(type="repo", ref=ref))[0]
    except PointerRefusal:
        return None


def _as_path(hint: str | None) -> str | None:
    """Return a hint as paths are written in a commit; `path:10-20` is accepted too."""
    if not hint:
        return None
    return _LINE_SUFFIX.sub("", hint.replace("\\", "/")).removeprefix("./").strip("/") or None


class _Run:
    """Consecutive solid lines; the first and the last may be parts of lines."""

    def __init__(self, *, cut_start: bool = False) -> None:
        self.lines: list[str] = []
        self.cut_start = cut_start
        self.cut_end = False


class TextPattern:
    """A reading of a text as runs of lines in order, with anything in between where the text left something out."""

    def __init__(self, lines: Sequence[str], *, elided: bool = False) -> None:
        """With `elided`, an ellipsis ending a line is the rest of that line, one in a comment is omitted lines."""
        folded = [line for line in map(fold, lines) if line]
        self._visible = [line for line in folded if not is_fence(line)]
        self._runs = _runs(folded, elided)
        solid = [
            position
            for position, line in enumerate(folded)
            if is_solid(line) and not (elided and _is_commented_gap(line))
        ]
        self._lead = folded[: solid[0]][::-1] if solid else []
        self._trail = folded[solid[-1] + 1 :] if solid else []
        self.solid = [line for run in self._runs for line in run.lines]

    def __bool__(self) -> bool:
        return bool(self.solid)

    @property
    def letters(self) -> int:
        """The letters and digits in all its lines."""
        return sum(map(count_letters, self.solid))

    def informative(self, *, cut: bool) -> list[str]:
        """Return the lines that must be complete in the file and are worth looking up.

        With `cut`, the first and the last line need not be complete.
        """
        complete_lines: list[str] = []
        for number, run in enumerate(self._runs):
            start = int(run.cut_start or (cut and number == 0))
            end = len(run.lines) - int(run.cut_end or (cut and number == len(self._runs) - 1))
            complete_lines += run.lines[start:end]
        return [line for line in dict.fromkeys(complete_lines) if is_informative(line)]

    def find(self, text: FileText, *, cut: bool) -> Iterator[LineMatch]:
        """Yield every match in a file; with `cut`, the first line may lack its beginning and the last its end."""
        pieces = [
            ("" if run.cut_start or (cut and number == 0) else "\n")
            + "\n".join(run.lines)
            + ("" if run.cut_end or (cut and number == len(self._runs) - 1) else "\n")
            for number, run in enumerate(self._runs)
        ]
        starts_by_end: dict[int, int] = {}  # a later start replaces an earlier one: of equal ends, the shortest match
        for start, end in _occurrences(text.joined, pieces):
            starts_by_end[text.position_at(end)] = text.position_at(start)
        for end, start in sorted(starts_by_end.items(), key=lambda span: span[1]):
            yield self._match(text, text.numbers[start], text.numbers[end])

    def _match(self, text: FileText, first: int, last: int) -> LineMatch:
        first, lines_above = _extend(text.lines, first, -1, self._lead)
        last, lines_below = _extend(text.lines, last, 1, self._trail)
        file_lines = [line for line in text.lines[first - 1 : last] if line and not is_fence(line)]
        return LineMatch(first, last, len(self.solid) + lines_above + lines_below, file_lines == self._visible)


def _runs(folded: list[str], elided: bool) -> list[_Run]:
    runs = [_Run()]
    for line in folded:
        if _GAP.fullmatch(line) or (elided and _is_commented_gap(line)):
            runs.append(_Run())
            continue
        if not is_solid(line):
            continue
        if elided and (start := _CUT_START.match(line)):
            runs.append(_Run(cut_start=True))
            line = line[start.end() :]
        end = _CUT_END.search(line) if elided else None
        runs[-1].lines.append(line[: end.start()] if end else line)
        if end:
            runs[-1].cut_end = True
            runs.append(_Run())
    return [run for run in runs if run.lines]


def _is_commented_gap(line: str) -> bool:
    return _COMMENTED_GAP.match(line) is not None


def _occurrences(joined: str, pieces: list[str]) -> Iterator[tuple[int, int]]:
    """Yield where the pieces occur in order, as near to each other as possible: first and last offset."""
    start = joined.find(pieces[0])
    for _ in range(MAX_MATCHES):
        if start < 0:
            return
        end = start + len(pieces[0])
        for piece in pieces[1:]:
            offset = joined.find(piece, end - 1)  # two pieces may share the newline between them
            if offset < 0:
                return
            end = offset + len(piece)
        yield start + pieces[0].startswith("\n"), end - 1 - pieces[-1].endswith("\n")
        start = joined.find(pieces[0], start + 1)


def _extend(lines: list[str], number: int, step: int, expected: Iterable[str]) -> tuple[int, int]:
    """Extend a match over the expected neighbouring lines, passing blank ones; return its end and how many matched."""
    count = 0
    for line in expected:
        neighbour = number + step
        while 0 < neighbour <= len(lines) and not lines[neighbour - 1]:
            neighbour += step
        if 0 < neighbour <= len(lines) and lines[neighbour - 1] == line:
            number, count = neighbour, count + 1
        elif not is_fence(line):
            break
    return number, count
