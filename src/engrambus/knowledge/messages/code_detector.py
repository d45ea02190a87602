"""Code inside a message: the one detector that decides what counts as inline code.

It reads the text once, line by line: fences, then backticks, then diffs, then lines that look like code by themselves
and in their neighbourhood, then stretches of code inside a sentence. Same text, same answer; the time grows with the
length of the text and nothing else. The rules are written down in `docs/inline-code.md`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from engrambus.knowledge.messages.code import CodeSpan, How
from engrambus.knowledge.messages.code_inline import backticks, is_expression, stretch
from engrambus.knowledge.messages.code_lines import LONGEST, score

ENOUGH: Final = 14
"""Points a line, or neighbouring lines together, need to be code."""
CEILING: Final = 16
"""No single line brings more than this into its neighbourhood."""
FLOOR: Final = -12
"""Nor takes more than this out of it."""

REMARK: Final = 12
"""A comment of at most so many lines between code belongs to it."""

_FENCE = re.compile(r"[ \t]*(?:>[ \t]?)?(`{3,}|~{3,})([^`]*)$")
_HUNK = re.compile(r"@@ -\d+(?:,\d+)? \+\d+(?:,\d+)? @@")
_MARKED = re.compile(r"[+-](?:[^ +-]|  )")
_REMARK = re.compile(r"[ \t]*(?:#|//|/\*|\"\"\"|'''|--|<!--|;;|rem\b)", re.IGNORECASE)
_DIFF_HEAD = re.compile(
    r"diff --git \S+ \S+|index [0-9a-f]{7,64}\.\.[0-9a-f]{7,64}|(?:---|\+\+\+) (?:[ab]/\S|/dev/null)"
)


class _Unit(msgspec.Struct):
    """A line, or a piece of a long one."""

    start: int
    end: int
    text: str
    whole: bool
    blank: bool
    points: int = 0
    how: How | None = None


def detect(text: str) -> list[CodeSpan]:
    """The code in a text, in order, never overlapping. An empty list: there is none."""
    lines = list(_lines(text))
    spans: list[CodeSpan] = []
    opened = _fences(text, lines, spans)
    masked = _inline(text, lines, opened, spans)
    units = list(_units(masked, lines, opened))
    _mark_diffs(units)
    _score(units)
    _join(units)
    _bridge(units)
    spans.extend(_spans(units))
    return _merged(spans)


def _lines(text: str) -> Iterator[tuple[int, int]]:
    start = 0
    while start <= len(text):
        end = text.find("\n", start)
        if end < 0:
            end = len(text)
        last = end - 1 if end > start and text[end - 1] == "\r" else end
        yield start, last
        start = end + 1


def _fences(text: str, lines: list[tuple[int, int]], spans: list[CodeSpan]) -> list[bool]:
    """Marks the lines of fenced blocks. A fence that is never closed runs to the end of the text."""
    inside = [False] * len(lines)
    fence, first = "", 0
    for at, (start, end) in enumerate(lines):
        mark = _FENCE.match(text, start, end)
        if not fence:
            if mark:
                fence, first = mark.group(1), at + 1
                inside[at] = True
            continue
        inside[at] = True
        if mark and mark.group(1).startswith(fence) and not mark.group(2).strip():
            _fenced(text, lines[first:at], spans)
            fence = ""
    if fence:
        _fenced(text, lines[first:], spans)
    return inside


def _fenced(text: str, lines: list[tuple[int, int]], spans: list[CodeSpan]) -> None:
    if lines and text[lines[0][0] : lines[-1][1]].strip():
        spans.append(CodeSpan(lines[0][0], lines[-1][1], "fenced"))


def _inline(text: str, lines: list[tuple[int, int]], fenced: list[bool], spans: list[CodeSpan]) -> str:
    """Judges what stands in backticks, then puts a plain word of the same length in its place."""
    if "`" not in text:
        return text
    parts: list[str] = []
    done = 0
    for begin, finish in _paragraphs(text, lines, fenced):
        for start, end, width in backticks(text, begin, finish):
            content = text[start + width : end - width]
            if width >= 3 and content.strip():
                spans.append(CodeSpan(start + width, end - width, "fenced"))
            elif is_expression(content):
                spans.append(CodeSpan(start + width, end - width, "inline"))
            parts.append(text[done:start])
            parts.append("".join("\n" if char == "\n" else "x" for char in text[start:end]))
            done = end
    parts.append(text[done:])
    return "".join(parts)


def _paragraphs(text: str, lines: list[tuple[int, int]], fenced: list[bool]) -> Iterator[tuple[int, int]]:
    begin: int | None = None
    finish = 0
    for (start, end), skipped in zip(lines, fenced, strict=True):
        if skipped or not text[start:end].strip():
            if begin is not None:
                yield begin, finish
            begin = None
        else:
            begin = start if begin is None else begin
            finish = end
    if begin is not None:
        yield begin, finish


def _units(text: str, lines: list[tuple[int, int]], fenced: list[bool]) -> Iterator[_Unit]:
    for (start, end), skipped in zip(lines, fenced, strict=True):
        if skipped:
            yield _Unit(start, end, "", True, True)
            continue
        at = start
        while end - at > LONGEST:
            space = text.rfind(" ", at + LONGEST // 2, at + LONGEST)
            cut = space + 1 if space >= 0 else at + LONGEST
            yield _Unit(at, cut, text[at:cut], False, not text[at:cut].strip())
            at = cut
        yield _Unit(at, end, text[at:end], at == start, not text[at:end].strip())


def _mark_diffs(units: list[_Unit]) -> None:
    """Heads and hunks of a unified diff; a hunk runs as long as its lines carry marks."""
    hunk = False
    for unit in units:
        line = unit.text
        if _HUNK.match(line):
            hunk = True
            unit.how = "diff"
        elif _DIFF_HEAD.match(line) or (hunk and line[:1] in {"+", "-", " ", "\\"}):
            unit.how = "diff"
        elif not (hunk and unit.blank):
            hunk = False


def _score(units: list[_Unit]) -> None:
    for unit in units:
        if unit.blank or unit.how == "diff":
            continue
        unit.points = score(unit.text)
        if _MARKED.match(unit.text):
            unit.points = max(unit.points, score(unit.text[1:]))


def _join(units: list[_Unit]) -> None:
    """Lines that are code by themselves or together with their neighbours."""
    total = best = 0
    start = 0
    peak = -1
    for at, unit in enumerate([*units, None]):
        own = _settled(units, at) if unit is not None and unit.how is None and not unit.blank else None
        if own is None and unit is not None and unit.blank:
            continue
        if own is not None and total > 0 and total + own > best - ENOUGH and total + own > 0:
            total += own
        else:
            _take(units, start, peak, best)
            total, best, start, peak = 0, 0, at, -1
            if own is None or own <= 0:
                continue
            total = own
        if total >= best:
            best, peak = total, at
    _take(units, start, peak, best)


def _settled(units: list[_Unit], at: int) -> int:
    """A line's points, drawn down by the prose it continues and up by code beside it."""
    own = units[at].points
    for near in (at - 1, at + 1):
        if not 0 <= near < len(units) or units[near].blank or units[near].how is not None:
            continue
        points = units[near].points
        if points > 0:
            own += min(points, 6) // 3
        elif near < at and _continues(units[near].text):
            own += max(points, FLOOR) * 2 // 3
    return max(FLOOR, min(CEILING, own))


def _continues(line: str) -> bool:
    """May the next line be the rest of this one's sentence?"""
    return line.rstrip()[-1:] not in ":." and not _REMARK.match(line)


def _take(units: list[_Unit], start: int, peak: int, best: int) -> None:
    if best < ENOUGH or peak < start:
        return
    taken = [unit for unit in units[start : peak + 1] if not unit.blank]
    marked = sum(unit.text[0] in "+-" for unit in taken)
    how: How = "pasted"
    if marked * 2 > len(taken):
        how = "diff"
    elif all(unit.text.startswith(("    ", "\t")) for unit in taken):
        how = "indented"
    for unit in taken:
        unit.how = how


def _bridge(units: list[_Unit]) -> None:
    """A comment between two stretches of code is part of the file that was pasted."""
    last = -1
    for at, unit in enumerate(units):
        if unit.how is None:
            continue
        gap = units[last + 1 : at] if last >= 0 and at - last <= REMARK + 1 else []
        filled = [near for near in gap if not near.blank]
        if filled and _REMARK.match(filled[0].text):
            for near in filled:
                near.how = unit.how
        last = at


def _spans(units: list[_Unit]) -> Iterator[CodeSpan]:
    for unit in units:
        if unit.how is not None:
            yield CodeSpan(unit.start, unit.end, unit.how)
        elif not unit.blank:
            found = stretch(unit.text)
            if found is not None:
                yield CodeSpan(unit.start + found[0], unit.start + found[1], "pasted")


def _merged(spans: list[CodeSpan]) -> list[CodeSpan]:
    """In order; what lies inside another is dropped, what touches its like across a line end is joined."""
    merged: list[CodeSpan] = []
    for span in sorted(spans, key=lambda span: (span.start, -span.end)):
        if span.start >= span.end:
            continue
        last = merged[-1] if merged else None
        if last is None or span.start > last.end + 2 or (span.how != last.how and span.start >= last.end):
            merged.append(span)
        elif span.end > last.end:
            merged[-1] = CodeSpan(last.start, span.end, last.how)
    return merged
