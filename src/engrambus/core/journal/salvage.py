"""What is left of a damaged journal: every line behind the damage that still checks by itself (decision 97).

A line's checksum and MAC cover the checksum of the line before it, which is read from that line's end. So a line behind
a damaged one checks if the end of the damaged one is legible. The first line behind bytes that are gone does not check;
those after it do.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import msgspec

from engrambus.core.journal.file import Journal, JournalPosition
from engrambus.core.journal.format import (
    Header,
    Line,
    is_valid_line,
    parse_header,
    parse_line,
    stated_checksum,
)
from engrambus.core.journal.segments import split_lines
from engrambus.errors import FormatUnknown, JournalDamaged


class JournalGap(msgspec.Struct, frozen=True, kw_only=True, tag="journal.gap", tag_field="fact"):
    """Lines of the journal are lost. It stands in the place of the first of them; empty lines stand for the others."""

    first: int
    """Number of the first lost line."""
    last: int
    """Number of the last lost line."""
    bytes: int
    """Bytes that were set aside in their place."""


class Gap(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes of a journal that hold no line which checks."""

    after: int
    """Number of the last line before them."""
    lines: int
    """Number of lines that are lost; 0 if the bytes lie between two lines that follow each other."""
    size_bytes: int

    def fact(self) -> JournalGap:
        """Return the fact that records the gap."""
        return JournalGap(first=self.after + 1, last=self.after + self.lines, bytes=self.size_bytes)


class _Candidate(msgspec.Struct, frozen=True):
    """A line that checks, with where it begins and ends."""

    line: Line
    offset: int
    end: int


class Salvage:
    """Reads what is behind the damage of a journal."""

    def __init__(self, journal: Journal, end: JournalPosition) -> None:
        self._journal = journal
        self._last = end
        """Position behind the last line that was yielded."""
        self._behind: int = end.offset
        """Offset behind the last byte that was read."""
        self._whole_lines = 0
        """Damaged lines with a newline since the last line that was yielded; lines of somebody else do not count."""
        self._pending: list[_Candidate] = []
        """Lines without a MAC: a later line that carries one, and follows them without a break, vouches for them."""

    def read(self) -> Iterator[Line | Gap]:
        """Yield the lines that check, in order, and each gap before, between and behind them."""
        stated: str | None = self._last.checksum
        for text, offset in self._raw_lines():
            self._behind = offset + len(text)
            header = _header_of(text)
            if header is not None:
                vouches = self._journal.is_marked(header.after, text)
                if vouches and self._pending and self._pending[-1].line.checksum == header.after:
                    yield from self._flush()
                stated = header.checksum if vouches else None
                continue
            yield from self._check(text, offset, stated)
            stated = stated_checksum(text)
        left = self._behind - self._last.offset
        noted = self._journal.noted()
        lost_lines = noted.seq - self._last.seq if noted.offset > self._last.offset else 0
        if left > 0:
            yield Gap(after=self._last.seq, lines=max(lost_lines, self._whole_lines), size_bytes=left)

    def _check(self, text: bytes, offset: int, stated: str | None) -> Iterator[Line | Gap]:
        previous = next(
            (sum for sum in (stated, self._last.checksum) if sum is not None and is_valid_line(sum, text)), None
        )
        line = None
        if previous is not None:
            with suppress(msgspec.MsgspecError, ValueError, OverflowError):
                line = parse_line(text)
        if line is None or previous is None or line.seq <= self._last.seq:
            self._pending.clear()
            self._whole_lines += text.endswith(b"\n")
            return
        if self._pending and self._pending[-1].line.checksum != previous:
            self._pending.clear()
        self._pending.append(_Candidate(line, offset, offset + len(text)))
        if self._journal.is_marked(previous, text):
            yield from self._flush()

    def _flush(self) -> Iterator[Line | Gap]:
        for candidate in self._pending:
            line, last = candidate.line, self._last
            if candidate.offset > last.offset or line.seq > last.seq + 1:
                size_bytes = max(0, candidate.offset - last.offset)
                yield Gap(after=last.seq, lines=line.seq - last.seq - 1, size_bytes=size_bytes)
            yield line
            self._last = JournalPosition(
                offset=candidate.end, seq=line.seq, checksum=line.checksum, at_us=max(last.at_us, line.at_us)
            )
        self._pending.clear()
        self._whole_lines = 0

    def _raw_lines(self) -> Iterator[tuple[bytes, int]]:
        """Yield every line that can be read, even if something is wrong with the files before and behind it."""
        journal, offset = self._journal, self._last.offset
        end = journal.header.base
        bases = [base for base in journal.segments.bases() if base < end]
        for base, next_base in zip(bases, [*bases[1:], end], strict=False):
            start = max(offset, base)
            if start < next_base:
                with suppress(JournalDamaged):
                    yield from split_lines(journal.segments.pieces(base, next_base, start), start)
        yield from journal.open_lines(max(offset, end))


def _header_of(text: bytes) -> Header | None:
    with suppress(FormatUnknown):
        return parse_header(text)
    return None
