"""Reading a journal that is not ours: hostile input, bounded, as far as its plain checksums hold (decision 68)."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedIOBase
from pathlib import Path

import msgspec

from engrambus.core.files import open_reader, status_of
from engrambus.core.journal.format import Header, Line, is_valid_line, parse_header, parse_line
from engrambus.core.journal.segments import Segments
from engrambus.errors import FormatUnknown

MAX_LINE_BYTES = 16 * 1024 * 1024
"""Longest line that is read; the largest commit of ours is a fraction of it."""
MAX_HEADER_BYTES = 1024


class _Stop(Exception):
    """The journal cannot be read any further; the text says why."""


class UnkeyedJournal:
    """A journal and its segments, read from the first line to the first one that is not valid; nothing is written."""

    def __init__(self, path: Path) -> None:
        self._files = [*map(Segments(path).file, Segments(path).bases()), path]
        self.problem: str | None = None
        """Why the last reading stopped before the end."""
        self.done_bytes = 0
        """Bytes on disk that the last reading has passed."""
        self.total_bytes = sum(status_of(file).st_size for file in self._files)
        try:
            with _open(self._files[0]) as file:
                self.header: Header = parse_header(file.readline(MAX_HEADER_BYTES))
        except (EOFError, zlib.error, OSError):
            raise FormatUnknown(f"{self._files[0]} cannot be read.", field=str(path)) from None

    def lines(self) -> Iterator[Line]:
        """Yield every commit whose checksum follows from those before it."""
        self.problem, self.done_bytes = None, 0
        try:
            yield from self._chained_lines()
        except _Stop as stop:
            self.problem = str(stop)

    def _chained_lines(self) -> Iterator[Line]:
        previous, seq = self.header.after, self.header.seq
        for file in self._files:
            for number, text in enumerate(self._texts(file)):
                if not is_valid_line(previous, text):
                    raise _Stop(f"The checksum of the line after number {seq} is wrong.")
                try:
                    if number == 0:
                        previous = parse_header(text).checksum
                        continue
                    line = parse_line(text)
                except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError, FormatUnknown):
                    raise _Stop(f"The line after number {seq} cannot be read.") from None
                if line.seq != seq + 1:
                    raise _Stop(f"A line is missing after number {seq}.")
                previous, seq = line.checksum, line.seq
                yield line

    def _texts(self, path: Path) -> Iterator[bytes]:
        before = self.done_bytes
        try:
            with _open(path) as file:
                while text := file.readline(MAX_LINE_BYTES + 1):
                    if len(text) > MAX_LINE_BYTES:
                        raise _Stop(f"{path.name} has a line of more than {MAX_LINE_BYTES:,} bytes.")
                    if not text.endswith(b"\n"):
                        return  # a commit that never happened
                    self.done_bytes += len(text)
                    yield text
        except (EOFError, OSError, zlib.error):
            raise _Stop(f"{path.name} cannot be read to its end.") from None
        self.done_bytes = before + status_of(path).st_size


@contextmanager
def _open(path: Path) -> Iterator[BufferedIOBase]:
    with open_reader(path) as file:
        if path.suffix != ".gz":
            yield file
            return
        import gzip  # needed rarely; importing it would slow every start

        with gzip.GzipFile(fileobj=file, mode="rb") as unpacked:
            yield unpacked
