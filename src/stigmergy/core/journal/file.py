"""A journal on disk: read from a place, judged at its end, appended to and synced before anyone is told."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from stigmergy.core.journal.format import (
    END_LENGTH,
    TAIL_LENGTH,
    Header,
    Line,
    checks,
    parse_header,
    parse_line,
    print_header,
    stated_end,
    stated_mark,
    stated_sum,
)
from stigmergy.errors import DiskPressure, JournalDamaged, StoreReadOnly

CHUNK = 1 << 20


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


def sync(descriptor: int) -> None:
    """Have the file's data on the disk, not only in its cache."""
    full = getattr(fcntl, "F_FULLFSYNC", None)
    if full is not None:
        fcntl.fcntl(descriptor, full)
    else:
        os.fdatasync(descriptor)


def sync_folder(folder: Path) -> None:
    """Have a folder's entries on the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


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


class Journal:
    """One journal file, open for reading and appending. Appending is for whoever holds the project's lock."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
        self._read_only = False
        first = self._first_line()
        try:
            self.header: Header = parse_header(first)
        except BaseException:
            self.close()
            raise
        self.start = Place(offset=len(first), seq=0, sum=self.header.sum, at=0)

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._descriptor)

    def size(self) -> int:
        """Bytes in the file now."""
        return os.fstat(self._descriptor).st_size

    def read(self, place: Place) -> Iterator[tuple[Line, Place]]:
        """The sound lines after a place, each with the place behind it; ends at the first that does not check."""
        for written, offset in self._raw_lines(place.offset):
            if not checks(place.sum, written):
                return
            line = parse_line(written)
            if line.seq != place.seq + 1:
                return
            place = Place(offset=offset + len(written), seq=line.seq, sum=line.sum, at=line.at)
            yield line, place

    def last_sound(self, place: Place) -> Place:
        """The place behind the last sound line."""
        for _, behind in self.read(place):
            place = behind
        return place

    def holds(self, place: Place) -> bool:
        """Whether the line before a place is there and has the checksum the place says."""
        written = os.pread(self._descriptor, TAIL_LENGTH, place.offset - TAIL_LENGTH)
        return stated_sum(written) == place.sum

    def place_behind(self, offset: int) -> Place | None:
        """The place behind the first line that ends at or after an offset, as that line states it."""
        for piece, begins in self._raw_lines(offset):
            behind = begins + len(piece)
            written = os.pread(self._descriptor, END_LENGTH, behind - END_LENGTH)
            stated = stated_end(written)
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
            raise JournalDamaged(
                f"{self.path.name} is damaged at line {end.seq + 2}, byte {end.offset}: "
                "later lines show it had been saved whole.",
                field=str(self.path),
                limit=end.offset,
                hint="Restore the file from a copy, or run `stig recover` to set the damaged part aside.",
            )
        return size - end.offset

    def cut(self, offset: int) -> None:
        """Drop what lies behind an offset, durably."""
        os.ftruncate(self._descriptor, offset)
        self.sync()

    def append(self, lines: list[bytes]) -> None:
        """Add whole lines at the end, without syncing; when the disk has no room, nothing is added."""
        if self._read_only:
            raise StoreReadOnly(hint="Check the disk, then start the process again.")
        data = memoryview(b"".join(lines))
        before = self.size()
        try:
            while data:
                data = data[os.write(self._descriptor, data) :]
        except OSError as problem:
            os.ftruncate(self._descriptor, before)
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
        try:
            sync(self._descriptor)
        except OSError as problem:
            self._read_only = True
            raise StoreReadOnly(f"Syncing {self.path.name} failed: {problem.strerror}.") from problem

    def _first_line(self) -> bytes:
        for written, _ in self._raw_lines(0):
            return written
        return b""

    def _raw_lines(self, offset: int) -> Iterator[tuple[bytes, int]]:
        """Every line from an offset on, its newline included where it has one, with its own offset."""
        rest = b""
        at = offset
        while chunk := os.pread(self._descriptor, CHUNK, at):
            at += len(chunk)
            pieces = (rest + chunk).split(b"\n")
            rest = pieces.pop()
            for piece in pieces:
                yield piece + b"\n", offset
                offset += len(piece) + 1
        if rest:
            yield rest, offset
