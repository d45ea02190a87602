"""A reading of a pasted text as something to look for, and where a file holds it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from engrambus.evidence.anchoring.lines import Text, count_letters, fold, is_fence, is_informative, is_solid

MAX_MATCHES = 64
"""Places looked at in one file."""

_GAP = re.compile(r"\W{0,4}\s*(?:\.{3,}|…)\s*\W{0,4}")
_GAP_SAID = re.compile(r"(?:#|//|--|;|%|/\*|<!--|\*|\[|\()\s*(?:\.{3}|…)")
_CUT_START = re.compile(r"(?:\.{3,}|…)\s*(?=\S)")
_CUT_END = re.compile(r"(?<=\S)\s*(?:\.{3,}|…)$")


class Match(NamedTuple):
    """Lines of a file that hold a text."""

    first: int
    last: int
    matched: int
    """How many of the text's lines found theirs."""
    whole: bool
    """Whether the text is these lines and nothing is missing on either side, white space and fences aside."""


class _Run:
    """Solid lines that follow each other; the ends may be parts of lines."""

    def __init__(self, *, cut_start: bool = False) -> None:
        self.lines: list[str] = []
        self.cut_start = cut_start
        self.cut_end = False


class Pattern:
    """Runs of lines in order, with anything in between where the text left something out."""

    def __init__(self, lines: Sequence[str], *, elided: bool = False) -> None:
        """With `elided`, an ellipsis at a line's end stands for the rest of it, and one in a comment for lines."""
        folded = [line for line in map(fold, lines) if line]
        self._visible = [line for line in folded if not is_fence(line)]
        self._runs = _runs(folded, elided)
        solid = [position for position, line in enumerate(folded) if is_solid(line) and not (elided and _is_gap(line))]
        self._lead = folded[: solid[0]][::-1] if solid else []
        self._trail = folded[solid[-1] + 1 :] if solid else []
        self.solid = [line for run in self._runs for line in run.lines]

    def __bool__(self) -> bool:
        return bool(self.solid)

    @property
    def letters(self) -> int:
        """How many letters and digits there are to go by."""
        return sum(map(count_letters, self.solid))

    def informative(self, *, cut: bool) -> list[str]:
        """The lines that must stand whole in the file and are worth looking up; with `cut`, not the first and last."""
        whole: list[str] = []
        for number, run in enumerate(self._runs):
            start = int(run.cut_start or (cut and number == 0))
            end = len(run.lines) - int(run.cut_end or (cut and number == len(self._runs) - 1))
            whole += run.lines[start:end]
        return [line for line in dict.fromkeys(whole) if is_informative(line)]

    def find(self, text: Text, *, cut: bool) -> Iterator[Match]:
        """Every place in a file; with `cut`, the first line may lack its beginning and the last its end."""
        pieces = [
            ("" if run.cut_start or (cut and number == 0) else "\n")
            + "\n".join(run.lines)
            + ("" if run.cut_end or (cut and number == len(self._runs) - 1) else "\n")
            for number, run in enumerate(self._runs)
        ]
        spans: dict[int, int] = {}  # by where they end: of those that end alike, the shortest
        for start, end in _occurrences(text.joined, pieces):
            spans[text.position_at(end)] = text.position_at(start)
        for stop, begin in sorted(spans.items(), key=lambda span: span[1]):
            yield self._match(text, text.numbers[begin], text.numbers[stop])

    def _match(self, text: Text, first: int, last: int) -> Match:
        first, above = _extend(text.lines, first, -1, self._lead)
        last, below = _extend(text.lines, last, 1, self._trail)
        held = [line for line in text.lines[first - 1 : last] if line and not is_fence(line)]
        return Match(first, last, len(self.solid) + above + below, held == self._visible)


def _runs(folded: list[str], elided: bool) -> list[_Run]:
    runs = [_Run()]
    for line in folded:
        if _GAP.fullmatch(line) or (elided and _is_gap(line)):
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


def _is_gap(line: str) -> bool:
    return _GAP_SAID.match(line) is not None


def _occurrences(joined: str, pieces: list[str]) -> Iterator[tuple[int, int]]:
    """Where the pieces stand in order, as near to each other as they can: first and last offset."""
    at = joined.find(pieces[0])
    for _ in range(MAX_MATCHES):
        if at < 0:
            return
        end = at + len(pieces[0])
        for piece in pieces[1:]:
            found = joined.find(piece, end - 1)  # two pieces may share the newline between them
            if found < 0:
                return
            end = found + len(piece)
        yield at + pieces[0].startswith("\n"), end - 1 - pieces[-1].endswith("\n")
        at = joined.find(pieces[0], at + 1)


def _extend(lines: list[str], number: int, step: int, wanted: Iterable[str]) -> tuple[int, int]:
    """The line reached from one by going over those wanted, blank ones aside, and how many there were."""
    count = 0
    for each in wanted:
        near = number + step
        while 0 < near <= len(lines) and not lines[near - 1]:
            near += step
        if 0 < near <= len(lines) and lines[near - 1] == each:
            number, count = near, count + 1
        elif not is_fence(each):
            break
    return number, count
