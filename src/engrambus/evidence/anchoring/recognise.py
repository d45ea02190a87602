"""File text inside a longer message, whatever shape it was pasted in: quoted, numbered, fenced, escaped or bare."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set
from itertools import pairwise
from typing import NamedTuple

from engrambus.evidence.anchoring.lines import (
    DISTINCTIVE,
    Text,
    count_letters,
    fold,
    is_fence,
    is_informative,
    is_solid,
)
from engrambus.evidence.anchoring.readings import line_forms, unescape

_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_ESCAPE = re.compile(r"(?P<break>(?:\\r)?\\n)|\\.")  # an escaped backslash before an n is no line break
_QUOTE = re.compile(r'(?<!\\)"')


class Spot(NamedTuple):
    """One line of a message: where it stands, and what it may have been in its file."""

    start: int
    end: int
    forms: tuple[str, ...]

    @property
    def optional(self) -> bool:
        """Whether the line can be passed over: it may well say nothing."""
        return not all(map(is_solid, self.forms))


class Window(NamedTuple):
    """Lines of a message that a file holds in a row."""

    first: int
    """Which spot it begins with."""
    last: int
    lines: tuple[int, int]
    """First and last line in the file."""
    informative: int
    solid: int


def split_spots(text: str, *, escaped: bool = False) -> list[Spot]:
    """The lines of a message; with `escaped`, a line that holds escaped line breaks is several."""
    spots: list[Spot] = []
    for found in _LINE.finditer(text):
        start, line = found.start(), found[0].rstrip("\r\n")
        if escaped and (breaks := [found.span() for found in _ESCAPE.finditer(line) if found["break"]]):
            spots += _escaped(start, line, breaks)
        else:
            spots.append(Spot(start, start + len(line), line_forms(line)))
    return spots


def has_escapes(text: str) -> bool:
    """Whether a message may hold a string with escaped line breaks."""
    return "\\n" in text


def _escaped(start: int, line: str, breaks: list[tuple[int, int]]) -> Iterator[Spot]:
    """The lines of a string that was written on one, without what stands around its quotes."""
    parts = pairwise([(0, 0), *breaks, (len(line), len(line))])
    for number, ((_, begin), (end, _)) in enumerate(parts):
        quotes = [found.start() for found in _QUOTE.finditer(line, begin, end)]
        if quotes and number == 0:
            begin = quotes[-1] + 1
        elif quotes and number == len(breaks):
            end = quotes[0]
        yield Spot(start + begin, start + end, line_forms(unescape(line[begin:end])))


def best_window(spots: Sequence[Spot], at: int, form: str, text: Text, taken: Set[int]) -> Window | None:
    """The longest run of a file's lines around one that a spot holds."""
    best: Window | None = None
    for position in _positions(text, form):
        last, stop, down = _walk(spots, at, text, position, 1, taken)
        first, begin, up = _walk(spots, at, text, position, -1, taken)
        matched = [form, *down, *up]
        window = Window(
            first, last, (text.numbers[begin], text.numbers[stop]), sum(map(is_informative, matched)), len(matched)
        )
        if best is None or (window.informative, window.solid) > (best.informative, best.solid):
            best = window
    return best


def is_telling(window: Window, form: str, places: int) -> bool:
    """Whether a window is file text and no accident: two lines in a row, or one that nobody writes twice."""
    return window.informative >= 2 or (count_letters(form) >= DISTINCTIVE and places == 1)


def with_fences(text: str, spots: Sequence[Spot], window: Window) -> tuple[int, int]:
    """Where a window stands in the message, with the fence around it if it has one."""
    first, last = window.first, window.last
    around = (first - 1, last + 1)
    if first > 0 and last + 1 < len(spots) and all(is_fence(fold(_said(text, spots[each]))) for each in around):
        first, last = around
    return spots[first].start, spots[last].end


def _said(text: str, spot: Spot) -> str:
    return text[spot.start : spot.end]


def _positions(text: Text, form: str) -> Iterator[int]:
    wanted = f"\n{form}\n"
    at = text.joined.find(wanted)
    for _ in range(64):
        if at < 0:
            return
        yield text.position_at(at + 1)
        at = text.joined.find(wanted, at + 1)


def _walk(
    spots: Sequence[Spot], at: int, text: Text, position: int, step: int, taken: Set[int]
) -> tuple[int, int, list[str]]:
    """Follow message and file together from a line they share: where both end, and what matched on the way."""
    reached, matched = at, []
    for spot in range(at + step, len(spots) if step > 0 else -1, step):
        if spot in taken:
            break
        near = position + step
        line = text.lines[text.numbers[near] - 1] if 0 <= near < len(text.numbers) else None
        if line is not None and line in spots[spot].forms:
            reached, position = spot, near
            matched.append(line)
        elif not spots[spot].optional:
            break
    return reached, position, matched
