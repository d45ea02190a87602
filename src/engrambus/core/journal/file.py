"""A journal on disk: read from a place, judged at its end, appended to and synced before anyone is told."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from engrambus.core.journal.disk import sync, sync_folder
from engrambus.core.journal.format import (
    END_LENGTH,
    TAIL_LENGTH,
    Header,
    Line,
    checks,
    continues,
    parse_header,
    parse_line,
    print_header,
    stated_end,
    stated_mark,
    stated_sum,
)
from engrambus.core.journal.segments import DAMAGED_HINT, Segments, split_lines
from engrambus.errors import DiskPressure, JournalDamaged, StoreReadOnly

CHUNK = 1 << 20
MAX_HEADER = 1024


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """A place between two lines: where it is, and what the line before it left behind."""

    offset: int
    """Bytes before it."""
    seq: int
    """The number of the line before it."""
    sum: str
    """That line's checksum."""
    at: int
    """That line's time."""


def create_journal(path: Path, *, kind: str, project: str, at: int) -> None:
    """Write a new journal that holds only its header; an existing one is left alone."""
    if path.exists():
        return
    draft = path.with_name(f"{path.name}.{os.getpid()}.new")
    with draft.open("wb") as file:
        file.write(print_header(kind=kind, project=project, at=at)[0])
        file.flush()
        sync(file.fileno())
    try:
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        draft.unlink()
    sync_folder(path.parent)


def read_header(path: Path) -> Header:
    """What kind of journal lies there, and whose."""
    with path.open("rb") as file:
        return parse_header(file.readline(MAX_HEADER))


class _Open:
    """The segment that is appended to. Its file is closed with the last who reads from it, whoever goes on in another:
    so who uses it holds it as long."""

    __slots__ = ("descriptor", "file", "header", "start")

    def __init__(self, path: Path) -> None:
        self.descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
        first = next((line for line, _ in split_lines(_pieces(self, 0), 0)), b"")
        self.header = parse_header(first)
        status = os.fstat(self.descriptor)
        self.file = status.st_dev, status.st_ino
        self.start = Place(offset=self.header.base + len(first), seq=self.header.seq, sum=self.header.sum, at=0)

    def close(self) -> None:
        """Let go of the file."""
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        if hasattr(self, "descriptor"):
            self.close()


class Journal:
    """One journal, open for reading and appending. Appending is for whoever holds the project's lock.

    Offsets count through all its segments. When another process has begun a new one, that is noticed by `size`, which
    everyone asks before trusting what they know.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._name = str(path)
        self.segments = Segments(path)
        self._read_only = False
        self._current = _Open(path)

    @property
    def header(self) -> Header:
        """What kind of journal it is, and whose."""
        return self._current.header

    @property
    def start(self) -> Place:
        """The place before the first line of all."""
        if self._current.header.base == 0:
            return self._current.start
        first = next((line for line, _ in self._raw_lines(0)), b"")
        return Place(offset=len(first), seq=0, sum=parse_header(first).sum, at=0)

    @property
    def segment(self) -> Place:
        """The place before the first line of the segment that is appended to."""
        return self._current.start

    def close(self) -> None:
        """Let go of every file."""
        self._current.close()

    def size(self) -> int:
        """Bytes in all segments now."""
        current = self._current
        try:
            status = os.stat(self._name)
        except FileNotFoundError:
            status = os.fstat(current.descriptor)
        if (status.st_dev, status.st_ino) != current.file:
            current = self._current = _Open(self.path)
            status = os.fstat(current.descriptor)
        return current.header.base + status.st_size

    def read(self, place: Place) -> Iterator[tuple[Line, Place]]:
        """The sound lines after a place, each with the place behind it; ends at the first that does not check."""
        for written, offset in self._raw_lines(place.offset):
            if not checks(place.sum, written):
                return
            if continues(written):
                place = Place(offset=offset + len(written), seq=place.seq, sum=parse_header(written).sum, at=place.at)
                continue
            line = parse_line(written)
            if line.seq != place.seq + 1:
                return
            place = Place(offset=offset + len(written), seq=line.seq, sum=line.sum, at=line.at)
            yield line, place

    def last_sound(self, place: Place) -> Place:
        """The place behind the last sound line."""
        for _, behind in self.read(place):
            place = behind
        return self.into_segment(place)

    def into_segment(self, place: Place) -> Place:
        """The same place, or, if a segment ends there, the one behind the next one's header."""
        current = self._current
        if place.offset == current.header.base and place.sum == current.header.after:
            return Place(offset=current.start.offset, seq=place.seq, sum=current.header.sum, at=place.at)
        return place

    def holds(self, place: Place) -> bool:
        """Whether the line before a place is there and has the checksum the place says."""
        return stated_sum(self._bytes(place.offset - TAIL_LENGTH, TAIL_LENGTH)) == place.sum

    def place_behind(self, offset: int) -> Place | None:
        """The place behind the first line that ends at or after an offset, as that line states it."""
        for piece, begins in self._raw_lines(offset):
            behind = begins + len(piece)
            stated = stated_end(self._bytes(behind - END_LENGTH, END_LENGTH))
            return Place(offset=behind, seq=stated[0], sum=stated[1], at=0) if stated else None
        return None

    def judge_tail(self, end: Place, synced: int = 0) -> int:
        """How many bytes after the last sound line are a tail that never happened.

        Raises when they lie before a synced mark, one that a later line carries or that the caller knows of: then
        something that was acknowledged is damaged, and cutting it off would lose it.
        """
        size = self.size()
        if size == end.offset:
            return 0
        for written, offset in self._raw_lines(end.offset):
            mark = stated_mark(written)
            if mark <= offset + len(written):
                synced = max(synced, mark)
            if synced > end.offset:
                break
        if synced > end.offset:
            file = self.file_at(end.offset)
            raise JournalDamaged(
                f"{file.name} is damaged at line {end.seq + 2}, byte {end.offset}: "
                "later lines show it had been saved whole.",
                field=str(file),
                limit=end.offset,
                hint=DAMAGED_HINT,
            )
        return size - end.offset

    def file_at(self, offset: int) -> Path:
        """The file that holds the byte at an offset."""
        base = self._current.header.base
        if offset >= base:
            return self.path
        return self.segments.file(max(each for each in self.segments.bases() if each <= offset))

    def cut(self, offset: int) -> None:
        """Drop what lies behind an offset of the last segment, durably."""
        current = self._current
        os.ftruncate(current.descriptor, offset - current.header.base)
        self.sync()

    def append(self, lines: list[bytes]) -> None:
        """Add whole lines at the end, without syncing; when the disk has no room, nothing is added."""
        if self._read_only:
            raise StoreReadOnly(hint="Check the disk, then start the process again.")
        if not os.path.exists(self._name):  # what is still open would take the lines and be gone with this process
            raise StoreReadOnly(f"{self.path} was deleted; nothing was stored.", hint="Put it back from a copy.")
        data = b"".join(lines)
        left = memoryview(data)
        current = self._current
        try:
            while left:
                left = left[os.write(current.descriptor, left) :]
        except OSError as problem:
            size = os.fstat(current.descriptor).st_size
            os.ftruncate(current.descriptor, size - (len(data) - len(left)))
            if problem.errno in (errno.ENOSPC, errno.EDQUOT):
                raise DiskPressure(
                    "The disk has no room for the commit; nothing was stored.",
                    hint="Free some space; reading goes on, and writing will too.",
                ) from problem
            raise StoreReadOnly(f"Writing to {self.path.name} failed: {problem.strerror}.") from problem

    def sync(self) -> None:
        """Have everything written on the disk. When that fails the journal takes no more writes: what reached the
        disk is unknown, and a second sync would answer yes without knowing either."""
        if self._read_only:
            raise StoreReadOnly(hint="Check the disk, then start the process again.")
        current = self._current
        try:
            sync(current.descriptor)
        except OSError as problem:
            self._read_only = True
            raise StoreReadOnly(f"Syncing {self.path.name} failed: {problem.strerror}.") from problem

    def _raw_lines(self, offset: int) -> Iterator[tuple[bytes, int]]:
        """Every line from an offset on, its newline included where it has one, with its own offset."""
        current = self._current
        if offset < current.header.base:
            yield from self.segments.raw_lines(offset, current.header.base)
            offset = current.header.base
        yield from split_lines(_pieces(current, offset - current.header.base), offset)

    def _bytes(self, offset: int, length: int) -> bytes:
        """Some bytes, which may lie in two segments."""
        current = self._current
        base = current.header.base
        if offset >= base:
            return os.pread(current.descriptor, length, offset - base)
        before = self.segments.read(max(0, offset), min(length, base - offset), base)
        return before + os.pread(current.descriptor, max(0, offset + length - base), 0)


def _pieces(current: _Open, at: int) -> Iterator[bytes]:
    while piece := os.pread(current.descriptor, CHUNK, at):
        at += len(piece)
        yield piece
