"""The part of a content that a read returned, and how much of a pointer several reads cover (decision 56).

A read is recorded as spans: lines, or bytes where a line was cut, of a content. A content is named by its digest or, if
it is a whole file, by the file's id: lines read at one commit also cover a pointer to the same lines at another.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

END = 2**31 - 1
"""The last line of a span that holds all of its content."""
MAX_SHOWN_SPANS = 3
"""Spans that a text names; further ones are left out."""


class FileLines(msgspec.Struct, frozen=True, kw_only=True):
    """The place of a pointed content in a file."""

    file: str
    """The id of the file's content: `git:` and its blob, or `cas:` and its digest."""
    first: int = 1
    last: int | None = None
    """None if the content goes to the end of the file."""


class ReadSpan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A part of a content that a read returned."""

    of: str
    """The content: its digest, or the id of a file."""
    first: int = 1
    last: int = END
    """The last line or byte; less than `first` if no whole line was returned."""
    to_end: bool = False
    """True if `last` is the end of the content."""
    unit: Literal["lines", "bytes"] = "lines"


class Coverage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How much of a pointed content was returned."""

    whole: bool = False
    lines: tuple[tuple[int, int], ...] = ()
    """The lines that were returned, as the pointer counts them; empty if all of it was."""
    bytes: tuple[tuple[int, int], ...] = ()
    """The bytes that were returned, if no whole line was."""

    def __bool__(self) -> bool:
        return self.whole or bool(self.lines or self.bytes)


WHOLE = Coverage(whole=True)


def all_of(content: str) -> ReadSpan:
    """Return the span of all of a content."""
    return ReadSpan(of=content, to_end=True)


def cover(spans: Iterable[ReadSpan], *, digest: str | None, place: FileLines | None) -> Coverage:
    """Return how much of the content with this digest, which is at this place of a file, the spans cover together."""
    first, last = (place.first, place.last) if place is not None else (1, None)
    file = place.file if place is not None else None
    lines: list[_Run] = []
    bytes_read: list[_Run] = []
    for span in spans:
        if span.of == digest and span.unit == "bytes":
            bytes_read.append(_clip(span, 0, 1, None))
        elif span.of == digest:  # counted from the pointed content's own first line
            lines.append(_clip(span, first - 1, first, last))
        elif span.of == file and span.unit == "lines":
            lines.append(_clip(span, 0, first, last))
    line_runs, byte_runs = _join(lines), _join(bytes_read)
    if _is_whole(line_runs, first) or _is_whole(byte_runs, 1):
        return WHOLE
    if line_runs:
        return Coverage(lines=tuple((run[0], run[1]) for run in line_runs))
    return Coverage(bytes=tuple((run[0], run[1]) for run in byte_runs))


def print_spans(spans: Sequence[tuple[int, int]]) -> str:
    """Return spans as people write them: `1-40,60`."""
    texts = [f"{first}-{last}" if last > first else f"{first}" for first, last in spans[:MAX_SHOWN_SPANS]]
    return ",".join(texts) + (",…" if len(spans) > MAX_SHOWN_SPANS else "")


_Run = tuple[int, int, bool]
"""First, last, and whether the last is the end of the pointed content."""


def _clip(span: ReadSpan, offset: int, first: int, last: int | None) -> _Run:
    """Return the part of a span, moved by `offset`, that is inside `first` to `last`."""
    end = span.last + offset
    if last is None:
        return max(span.first + offset, first), end, span.to_end
    return max(span.first + offset, first), min(end, last), span.to_end or end >= last


def _join(runs: Iterable[_Run]) -> list[_Run]:
    """Return runs in order, those that overlap or touch joined; empty ones are left out."""
    joined: list[_Run] = []
    for first, last, to_end in sorted(run for run in runs if run[1] >= run[0]):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(last, joined[-1][1]), to_end or joined[-1][2])
        else:
            joined.append((first, last, to_end))
    return joined


def _is_whole(runs: list[_Run], first: int) -> bool:
    return len(runs) == 1 and runs[0][0] <= first and runs[0][2]
