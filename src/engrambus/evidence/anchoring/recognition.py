"""Recognising file text inside a longer message, in any shape it was pasted: quoted, numbered, fenced or escaped."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set
from itertools import pairwise
from typing import NamedTuple

from engrambus.evidence.anchoring.line_index import IndexedCommit, LineIndex
from engrambus.evidence.anchoring.pasted_text import (
    DISTINCTIVE,
    FileText,
    count_letters,
    fold,
    is_fence,
    is_informative,
    is_solid,
    line_forms,
    unescape,
)
from engrambus.evidence.anchoring.search import point_at
from engrambus.evidence.pointers import Pointer

MAX_FILES_PER_LINE = 32
"""Files searched for one line of a message."""
MAX_OCCURRENCES = 64
"""Occurrences of one line considered in one file."""

_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_ESCAPE = re.compile(r"(?P<break>(?:\\r)?\\n)|\\.")  # an escaped backslash before an n is no line break
_QUOTE = re.compile(r'(?<!\\)"')


class Recognised(NamedTuple):
    """A part of a message that is text of a file."""

    start: int
    end: int
    pointer: Pointer


class MessageLine(NamedTuple):
    """One line of a message: its offsets, and what it may have been in a file."""

    start: int
    end: int
    forms: tuple[str, ...]

    @property
    def optional(self) -> bool:
        """True if a match may pass over the line, because in one of its forms it says nothing."""
        return not all(map(is_solid, self.forms))


class Window(NamedTuple):
    """Consecutive lines of a message that are consecutive in a file."""

    first: int
    """Index of its first line in the message."""
    last: int
    lines: tuple[int, int]
    """First and last line number in the file."""
    informative: int
    """Informative lines that match."""
    solid: int
    """Solid lines that match."""


def recognise(text: str, index: LineIndex, commit: IndexedCommit) -> list[Recognised]:
    """Return every part of a message that is text of a file, in order."""
    parts = _recognise_lines(text, split_lines(text), index, commit, [])
    if _has_escapes(text):  # a line of code may contain an escape itself, so lines are first taken as they are
        parts += _recognise_lines(text, split_lines(text, escaped=True), index, commit, parts)
    return sorted(parts, key=lambda part: part.start)


def informative_forms(text: str) -> set[str]:
    """Return every form of every line of a message that is worth looking up."""
    lines = split_lines(text) + (split_lines(text, escaped=True) if _has_escapes(text) else [])
    return {form for line in lines for form in line.forms if is_informative(form)}


def _recognise_lines(
    text: str, lines: list[MessageLine], index: LineIndex, commit: IndexedCommit, earlier: list[Recognised]
) -> list[Recognised]:
    used = {
        number
        for number, line in enumerate(lines)
        if any(line.start < part.end and part.start < line.end for part in earlier)
    }
    occurring = [
        (count, number, form)
        for number, line in enumerate(lines)
        for form in line.forms
        if is_informative(form) and (count := index.count(form))
    ]
    parts: list[Recognised] = []
    for _, number, form in sorted(occurring):  # from the rarest line on, so that common lines join their neighbours
        if number in used:
            continue
        paths = index.paths_with(commit, form)
        files = ((path, index.text(commit, path)) for path in paths[:MAX_FILES_PER_LINE])
        windows = [(window, path) for path, file in files if (window := _best_window(lines, number, form, file, used))]
        if not windows:
            continue
        window, path = max(windows, key=lambda item: (item[0].informative, item[0].solid))
        pointer = point_at(commit, path, *window.lines)
        if pointer is not None and _is_no_accident(window, form, len(paths)):
            used.update(range(window.first, window.last + 1))
            parts.append(Recognised(*_with_fences(text, lines, window), pointer))
    return parts


def split_lines(text: str, *, escaped: bool = False) -> list[MessageLine]:
    """Split a message into lines; with `escaped`, escaped line breaks split too."""
    lines: list[MessageLine] = []
    for match in _LINE.finditer(text):
        start, line = match.start(), match[0].rstrip("\r\n")
        if escaped and (breaks := [escape.span() for escape in _ESCAPE.finditer(line) if escape["break"]]):
            lines += _split_escaped(start, line, breaks)
        else:
            lines.append(MessageLine(start, start + len(line), line_forms(line)))
    return lines


def _has_escapes(text: str) -> bool:
    return "\\n" in text


def _split_escaped(start: int, line: str, breaks: list[tuple[int, int]]) -> Iterator[MessageLine]:
    """Yield the lines of a string literal, without what surrounds its quotes."""
    parts = pairwise([(0, 0), *breaks, (len(line), len(line))])
    for number, ((_, begin), (end, _)) in enumerate(parts):
        quotes = [match.start() for match in _QUOTE.finditer(line, begin, end)]
        if quotes and number == 0:
            begin = quotes[-1] + 1
        elif quotes and number == len(breaks):
            end = quotes[0]
        yield MessageLine(start + begin, start + end, line_forms(unescape(line[begin:end])))


def _best_window(lines: Sequence[MessageLine], number: int, form: str, file: FileText, used: Set[int]) -> Window | None:
    """Return the longest run of a file's lines around the message's line `number`, which the file has as `form`."""
    best: Window | None = None
    for position in _positions(file, form):
        last, stop, below = _follow(lines, number, file, position, 1, used)
        first, begin, above = _follow(lines, number, file, position, -1, used)
        matched = [form, *below, *above]
        window = Window(
            first, last, (file.numbers[begin], file.numbers[stop]), sum(map(is_informative, matched)), len(matched)
        )
        if best is None or (window.informative, window.solid) > (best.informative, best.solid):
            best = window
    return best


def _is_no_accident(window: Window, form: str, file_count: int) -> bool:
    """True if a window must be file text: two lines in a row, or one long line that only one file has."""
    return window.informative >= 2 or (count_letters(form) >= DISTINCTIVE and file_count == 1)


def _with_fences(text: str, lines: Sequence[MessageLine], window: Window) -> tuple[int, int]:
    """Return a window's offsets in the message, with the fence around it if there is one."""
    first, last = window.first, window.last
    around = (first - 1, last + 1)
    if first > 0 and last + 1 < len(lines) and all(is_fence(fold(_text_of(text, lines[n]))) for n in around):
        first, last = around
    return lines[first].start, lines[last].end


def _text_of(text: str, line: MessageLine) -> str:
    return text[line.start : line.end]


def _positions(file: FileText, form: str) -> Iterator[int]:
    """Yield the indexes of a file's solid lines that equal `form`."""
    line = f"\n{form}\n"
    offset = file.joined.find(line)
    for _ in range(MAX_OCCURRENCES):
        if offset < 0:
            return
        yield file.position_at(offset + 1)
        offset = file.joined.find(line, offset + 1)


def _follow(
    lines: Sequence[MessageLine], number: int, file: FileText, position: int, step: int, used: Set[int]
) -> tuple[int, int, list[str]]:
    """Follow message and file together from a common line; return where both end, and the lines that matched."""
    reached, matched = number, []
    for candidate in range(number + step, len(lines) if step > 0 else -1, step):
        if candidate in used:
            break
        neighbour = position + step
        line = file.lines[file.numbers[neighbour] - 1] if 0 <= neighbour < len(file.numbers) else None
        if line is not None and line in lines[candidate].forms:
            reached, position = candidate, neighbour
            matched.append(line)
        elif not lines[candidate].optional:
            break
    return reached, position, matched
