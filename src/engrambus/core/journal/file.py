"""A journal on disk: read from a position, validated at its end, appended to, synced before a commit is answered."""

from __future__ import annotations

import errno
import os
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec.structs import replace

from engrambus.core import files
from engrambus.core.clock import SystemClock
from engrambus.core.files import sync_folder
from engrambus.core.journal.foreign import foreign_journal, foreign_lines
from engrambus.core.journal.format import (
    END_LENGTH,
    TAIL_LENGTH,
    Header,
    Line,
    encode_continuation,
    encode_header,
    encode_line,
    is_continuation,
    is_marked_line,
    is_valid_line,
    parse_header,
    parse_line,
    stated_checksum,
    stated_end,
    stated_mark,
)
from engrambus.core.journal.key import JournalKey, LineKey
from engrambus.core.journal.moved import check_not_moved
from engrambus.core.journal.segments import CHUNK, DAMAGED_HINT, Segments, first_bytes, split_lines, sync
from engrambus.core.journal.sync_failure import (
    SyncFailure,
    find_failure,
    note_path,
    read_note,
    record_failure,
    refusal,
    remove_note,
)
from engrambus.core.journal.synced_note import Synced, SyncedNote
from engrambus.core.project_clock import ClockMark, Stamp, follow
from engrambus.errors import (
    DiskError,
    DiskPressure,
    FolderNotOurs,
    FormatUnknown,
    JournalDamaged,
    LinkInCatalog,
    StoreReadOnly,
)

MAX_HEADER_BYTES = 1024
_NO_KEY = JournalKey(b"")
"""Stands for the key of a journal that is only read: nothing is written or checked with it."""


class JournalPosition(msgspec.Struct, frozen=True, kw_only=True):
    """A position between two lines, with what the line before it says."""

    offset: int
    """Bytes before the position, counted through all segments."""
    seq: int
    """Number of the line before it."""
    checksum: str
    """Checksum of that line."""
    at_us: int
    """Commit time of that line."""
    clock: ClockMark | None = None
    """What the lines up to there say about the machine's clock."""


def encode_next(
    line_key: LineKey, end: JournalPosition, *, stamp: Stamp, facts: bytes, mark: int
) -> tuple[bytes, JournalPosition]:
    """Return the line of a commit that follows the position `end`, and the position behind it."""
    seq = end.seq + 1
    line, checksum = encode_line(line_key, end.checksum, stamp=stamp, facts=facts, mark=mark, seq=seq)
    return line, JournalPosition(
        offset=end.offset + len(line), seq=seq, checksum=checksum, at_us=stamp.at_us, clock=follow(end.clock, stamp)
    )


def create_journal(path: Path, key: JournalKey, *, kind: str, project: str, now_us: int) -> None:
    """Write a new journal that holds only its header; leave an existing one alone."""
    if files.is_file(path):
        return
    line_key = key.line_key(kind=kind, project=project)
    draft = path.with_name(f"{path.name}.{os.getpid()}.new")
    with files.open_writer(draft, "wb") as file:
        file.write(encode_header(line_key, kind=kind, project=project, now_us=now_us)[0])
        file.flush()
        sync(file.fileno())
    try:
        files.link(draft, path)  # fails where a rename would replace a journal that another process has just created
    except FileExistsError:
        pass
    finally:
        files.remove(draft)
    sync_folder(path.parent)


def read_header(path: Path) -> Header:
    """Return the header of the journal at `path`."""
    with files.open_reader(path) as file:
        return parse_header(file.readline(MAX_HEADER_BYTES))


def is_own_journal(path: Path, key: JournalKey) -> bool:
    """True if a file is a journal, or a segment of one, whose header was written with this key."""
    with (
        suppress(OSError, EOFError, zlib.error, FormatUnknown, LinkInCatalog, FolderNotOurs),
        files.open_reader(path) as file,
    ):
        if path.suffix == ".gz":
            from gzip import GzipFile  # needed rarely; importing it would slow every start

            first = GzipFile(fileobj=file, mode="rb").readline(MAX_HEADER_BYTES)
        else:
            first = file.readline(MAX_HEADER_BYTES)
        header = parse_header(first)
        return is_marked_line(key.line_key(kind=header.kind, project=header.project), header.after, first)
    return False


class _OpenSegment:
    """The segment that is appended to. Every reader holds a reference to it: the last one to go closes the file."""

    __slots__ = ("descriptor", "file_id", "header", "line_key", "start")

    def __init__(self, path: Path, key: JournalKey | None, kind: str, *, vouched: bool = False) -> None:
        self.descriptor = files.open_file(path, (os.O_RDWR if key else os.O_RDONLY) | os.O_APPEND)
        first = next((line for line, _ in split_lines(_pieces(self, 0), 0)), b"")
        self.header = parse_header(first)
        if self.header.kind != kind:
            raise FormatUnknown(f"{path} is not a journal of the kind '{kind}'.", used=self.header.kind)
        self.line_key = (key or _NO_KEY).line_key(kind=kind, project=self.header.project)
        if key and not vouched and not is_marked_line(self.line_key, self.header.after, first):
            raise foreign_journal(path, self.header)
        status = os.fstat(self.descriptor)
        self.file_id = status.st_dev, status.st_ino
        self.start = JournalPosition(
            offset=self.header.base + len(first), seq=self.header.seq, checksum=self.header.checksum, at_us=0
        )

    def close(self) -> None:
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        if hasattr(self, "descriptor"):
            self.close()


class Journal:
    """One journal, open for reading and appending. Only the caller that holds the project's lock may append.

    It is opened with the project's key, and refused if its header was not written with it. Without a key any journal
    can be read, as far as its checksums hold, and none can be appended to. `vouched` says that a person takes it as
    theirs: then a segment with this machine's key is begun behind it (`vouch.py`).

    Offsets count through all its segments. `size` notices when another process has begun a new segment; every caller
    asks it before trusting what it knows of the journal.
    """

    def __init__(self, path: Path, key: JournalKey | None, kind: str, *, vouched: bool = False) -> None:
        self.path = path
        self._name = str(path)
        self._key = key
        self._kind = kind
        self.segments = Segments(path)
        self._note_name = str(note_path(path))
        self._synced_note = SyncedNote(path)
        self._failure: SyncFailure | None = None
        """The sync of this process that failed."""
        self._current = _OpenSegment(path, key, kind, vouched=vouched)

    @property
    def header(self) -> Header:
        """The header of the segment that is appended to."""
        return self._current.header

    @property
    def start(self) -> JournalPosition:
        """The position before the first line of the first segment."""
        if self._current.header.base == 0:
            return self._current.start
        first = next((line for line, _ in self._raw_lines(0)), b"")
        return JournalPosition(offset=len(first), seq=0, checksum=parse_header(first).checksum, at_us=0)

    @property
    def segment_start(self) -> JournalPosition:
        """The position before the first line of the segment that is appended to."""
        return self._current.start

    def close(self) -> None:
        """Close the files."""
        self._current.close()
        self._synced_note.close()

    def size(self) -> int:
        """Return the number of bytes in all segments now."""
        current = self._current
        try:
            status = os.stat(self._name)
        except FileNotFoundError:
            status = os.fstat(current.descriptor)
        if (status.st_dev, status.st_ino) != current.file_id:
            current = self._current = _OpenSegment(self.path, self._key, self._kind)
            self._failure = None  # it was another file's; `recover` or a new segment has put this one in its place
            status = os.fstat(current.descriptor)
        return current.header.base + status.st_size

    # Reading

    def read(self, position: JournalPosition) -> Iterator[tuple[Line, JournalPosition]]:
        """Yield the valid lines after a position, each with the position behind it; stop at the first invalid one."""
        for text, _, end in self._valid_lines(position):
            if not is_continuation(text):
                yield parse_line(text), end

    def last_valid(self, position: JournalPosition) -> JournalPosition:
        """Return the position behind the last valid line after `position`, which is a line of ours.

        Raise JournalForeign if that line was not written with the journal's key. Because of the checksums its MAC
        vouches for every line before it.
        """
        end, last, problem = self._scan(position)
        if problem is not None:
            raise problem
        if self._is_foreign(last, end):
            marked = self._last_marked(position)
            raise foreign_lines(self.file_at(marked.offset), line=marked.seq + 2, offset=marked.offset)
        return self.into_segment(end)

    def last_sound(self, position: JournalPosition) -> JournalPosition:
        """Return the position before the first damaged or foreign line after `position`."""
        end, last, _ = self._scan(position)
        return self.into_segment(self._last_marked(position) if self._is_foreign(last, end) else end)

    def _scan(
        self, position: JournalPosition
    ) -> tuple[JournalPosition, tuple[str, bytes] | None, JournalDamaged | None]:
        """Return the position behind the last valid line, that line after the checksum before it, and any damage."""
        last = None
        try:
            for text, previous, end in self._valid_lines(position):
                last, position = (previous, text), end
        except JournalDamaged as problem:
            return position, last, problem
        return position, last, None

    def _is_foreign(self, last: tuple[str, bytes] | None, end: JournalPosition) -> bool:
        """True if the last valid line was not written with the journal's key."""
        # The header of the open segment vouches for every segment before it, whatever their lines carry.
        if self._key is None or last is None or end.offset <= self._current.header.base:
            return False
        return not is_marked_line(self._current.line_key, *last)

    def _last_marked(self, position: JournalPosition) -> JournalPosition:
        """Return the position behind the last valid line after `position` that was written with the journal's key."""
        marked = position
        with suppress(JournalDamaged):
            for text, previous, end in self._valid_lines(position):
                if is_marked_line(self._current.line_key, previous, text):
                    marked = end
        return self.into_segment(marked)

    def _valid_lines(self, position: JournalPosition) -> Iterator[tuple[bytes, str, JournalPosition]]:
        """Yield each valid line and header after a position, the checksum before it, and the position behind it."""
        for text, offset in self._raw_lines(position.offset):
            previous = position.checksum
            if not is_valid_line(previous, text):
                return
            end = offset + len(text)
            if is_continuation(text):
                position = replace(position, offset=end, checksum=parse_header(text).checksum)
            else:
                line = parse_line(text)
                if line.seq != position.seq + 1:
                    return
                position = JournalPosition(
                    offset=end,
                    seq=line.seq,
                    checksum=line.checksum,
                    at_us=line.at_us,
                    clock=follow(position.clock, line.stamp),
                )
            yield text, previous, position

    def into_segment(self, position: JournalPosition) -> JournalPosition:
        """Move a position at the end of a finished segment behind the header of the open one; return others as is."""
        current = self._current
        if position.offset == current.header.base and position.checksum == current.header.after:
            return replace(position, offset=current.start.offset, checksum=current.header.checksum)
        return position

    def holds(self, position: JournalPosition) -> bool:
        """True if the line before a position is there and has the checksum that the position states."""
        return stated_checksum(self._bytes(position.offset - TAIL_LENGTH, TAIL_LENGTH)) == position.checksum

    def position_after_offset(self, offset: int) -> JournalPosition | None:
        """Return the position behind the first line that ends at or after an offset, as that line states it."""
        for text, start in self._raw_lines(offset):
            end = start + len(text)
            stated = stated_end(self._bytes(end - END_LENGTH, END_LENGTH))
            return JournalPosition(offset=end, seq=stated[0], checksum=stated[1], at_us=0) if stated else None
        return None

    def file_at(self, offset: int) -> Path:
        """Return the file that holds the byte at an offset."""
        if offset >= self._current.header.base:
            return self.path
        return self.segments.file(max(base for base in self.segments.bases() if base <= offset))

    # Validating the end

    def classify_tail(self, end: JournalPosition, synced_bytes: int = 0) -> int:
        """Return the number of bytes after the last valid line that are a torn tail: commits that never happened.

        Raise JournalDamaged if they lie before an offset that was synced, by the mark of a later line or by
        `synced_bytes`: then an acknowledged commit is damaged, and cutting it off would lose it (decision 1). What the
        note next to the journal says was synced counts too (decision 97).
        """
        size = self.size()
        if size == end.offset:
            return 0
        # A segment is begun only when everything before it is on disk.
        synced_bytes = max(synced_bytes, self._current.header.base, self.noted().offset)
        for text, offset in self._raw_lines(end.offset):
            mark = stated_mark(text)
            if mark <= offset + len(text):  # no honest line marks what comes after it
                synced_bytes = max(synced_bytes, mark)
            if synced_bytes > end.offset:
                break
        if synced_bytes > end.offset:
            file = self.file_at(end.offset)
            raise JournalDamaged(
                f"{file.name} is damaged at line {end.seq + 2}, byte {end.offset}: its end had been on disk before.",
                field=str(file),
                limit=end.offset,
                hint=DAMAGED_HINT,
            )
        return size - end.offset

    # Writing

    def note_synced(self, position: JournalPosition) -> None:
        """Note that everything before a position is on disk. The caller holds the lock, and has synced it."""
        current = self._current
        synced = Synced(position.offset, position.seq)
        self._synced_note.write(current.line_key, current.header.checksum, synced)

    def noted(self) -> Synced:
        """Return how far the journal was on disk by the note next to it; zeros if there is none."""
        return self._synced_note.read(self._current.line_key, self._current.header.checksum)

    def forget_synced(self) -> None:
        """Delete that note, because the journal was rewritten."""
        self._synced_note.remove()

    def encode(self, end: JournalPosition, *, stamp: Stamp, facts: bytes, mark: int) -> tuple[bytes, JournalPosition]:
        """Return the line of a commit that follows the position `end`, and the position behind it."""
        return encode_next(self._current.line_key, end, stamp=stamp, facts=facts, mark=mark)

    def cut(self, offset: int) -> None:
        """Truncate the open segment at an offset, durably."""
        current = self._current
        os.ftruncate(current.descriptor, offset - current.header.base)
        self.sync()

    def append(self, lines: list[bytes]) -> None:
        """Append complete lines without syncing them. If the disk has no room, nothing is appended."""
        self._check_writable()
        if not os.path.exists(self._name):  # the open file would take the lines and vanish with this process
            raise StoreReadOnly(f"{self.path} was deleted; nothing was stored.", hint="Put it back from a copy.")
        data = b"".join(lines)
        unwritten = memoryview(data)
        current = self._current
        try:
            while unwritten:
                unwritten = unwritten[os.write(current.descriptor, unwritten) :]
        except OSError as problem:
            size = os.fstat(current.descriptor).st_size
            os.ftruncate(current.descriptor, size - (len(data) - len(unwritten)))
            if problem.errno in (errno.ENOSPC, errno.EDQUOT):
                raise DiskPressure(
                    "The disk has no room for the commit; nothing was stored.",
                    hint="Free some space; reading goes on, and writing will too.",
                ) from problem
            raise StoreReadOnly(f"Writing to {self.path.name} failed: {problem.strerror}.") from problem

    def sync(self, cut_to: int | None = None) -> None:
        """Force everything written to the disk. After a failure no process writes to the journal any more.

        The lines from the offset `cut_to` on are refused if it fails: they are cut off, so that no process reads them.
        The caller holds the lock.
        """
        self._check_writable()
        current = self._current
        try:
            sync(current.descriptor)
        except OSError as problem:
            # decision 98: what reached the disk is unknown, and a second fsync would succeed without knowing either
            failure = record_failure(self.path, problem, now_us=SystemClock().now(), cut_to=cut_to)
            self._failure = failure
            if cut_to is not None:
                with suppress(OSError):  # the note says where they begin; `recover` cuts them off
                    os.ftruncate(current.descriptor, cut_to - current.header.base)
            raise refusal(self.path, failure) from problem

    def sync_failure(self) -> SyncFailure | None:
        """Return the sync of this journal that failed in this boot, in any process; None if none did."""
        if os.path.lexists(self._note_name):
            return find_failure(self.path)
        if self._failure is not None:  # the note could not be written, or `recover` has deleted it
            self.size()
        return self._failure

    def cut_refused(self) -> bool:
        """Cut off what was refused when a sync failed before this boot of the machine; True if one did.

        Such a failure is over, since what is read now comes from the disk. The caller holds the lock, checks the
        journal, and calls `end_failure`.
        """
        note = read_note(self.path)
        if note is None or self.sync_failure() is not None:
            return False
        cut_to = self._cut_to(note)
        if cut_to is not None and cut_to < self.size():
            self.cut(cut_to)
        return True

    def _cut_to(self, note: SyncFailure) -> int | None:
        """Return where refused lines begin: never before what was synced, should the disk have changed the note."""
        return None if note.cut_to is None else max(note.cut_to, self.noted().offset)

    def end_failure(self) -> None:
        """Delete the note of a failed sync."""
        remove_note(self.path)

    def renew(self) -> SyncFailure | None:
        """Write the open segment into a new file because a sync of it has failed; return that failure, None if none.

        What was refused is left out. The caller holds the lock. Other processes notice that the file is another.
        """
        note = read_note(self.path)
        if note is None:
            return None
        length = self.size() - self.header.base
        cut_to = self._cut_to(note)
        if cut_to is not None:
            length = min(length, max(0, cut_to - self.header.base))
        draft = self.path.with_name(f"{self.path.name}.{os.getpid()}.new")
        try:
            with files.open_writer(draft, "wb") as file:
                for piece in first_bytes(_pieces(self._current, 0), length):
                    file.write(piece)
                file.flush()
                sync(file.fileno())
            self._compare(draft, length)
        except BaseException:
            files.remove(draft)
            raise
        self.forget_synced()
        files.rename(draft, self.path)
        self.end_failure()
        self.size()
        return note

    def _compare(self, draft: Path, length: int) -> None:
        """Compare a copy of the open segment with it, as the disk returns the copy."""
        with files.open_reader(draft) as copy:
            if hasattr(os, "posix_fadvise"):  # or the copy would be read from memory
                os.posix_fadvise(copy.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            for piece in first_bytes(_pieces(self._current, 0), length):
                if copy.read(len(piece)) != piece:
                    raise DiskError(f"{draft} does not return what was written to it.", field=str(draft))

    def _check_writable(self) -> None:
        if self._key is None:
            raise StoreReadOnly("The journal was opened without its key, to be read only.")
        failure = self.sync_failure()
        if failure is not None:
            raise refusal(self.path, failure)
        check_not_moved(self.path)

    def begin_segment(self, end: JournalPosition, now_us: int) -> JournalPosition:
        """Continue in a new file behind the last line; return the position behind its header.

        The caller holds the lock and has synced everything up to `end`. The current file gets a second name, then the
        new file takes its first one: the journal is complete at every moment in between.
        """
        text, _ = encode_continuation(
            self._current.line_key, self.header, base=end.offset, after=end.checksum, seq=end.seq, now_us=now_us
        )
        draft = self.path.with_name(f"{self.path.name}.{os.getpid()}.new")
        with files.open_writer(draft, "wb") as file:
            file.write(text)
            file.flush()
            sync(file.fileno())
        finished = self.segments.path(self.header.base)
        files.remove(finished)  # a second name left by a process that died before its new file took the first one
        files.link(self.path, finished)
        sync_folder(self.path.parent)  # or a power cut might drop the second name and keep the rename below
        files.rename(draft, self.path)
        sync_folder(self.path.parent)
        self.size()
        return self.into_segment(end)

    def is_marked(self, previous: str, text: bytes) -> bool:
        """True if a valid line that follows the line with checksum `previous` was written with the journal's key."""
        return is_marked_line(self._current.line_key, previous, text)

    def open_lines(self, offset: int) -> Iterator[tuple[bytes, int]]:
        """Yield every line of the open segment from an offset on, valid or not, with its offset."""
        return split_lines(_pieces(self._current, offset - self._current.header.base), offset)

    def open_pieces(self) -> Iterator[bytes]:
        """Yield the bytes of the open segment."""
        return _pieces(self._current, 0)

    def _raw_lines(self, offset: int) -> Iterator[tuple[bytes, int]]:
        """Yield every line from an offset on with its offset; the last line may lack its newline."""
        current = self._current
        if offset < current.header.base:
            yield from self.segments.raw_lines(offset, current.header.base)
            offset = current.header.base
        yield from split_lines(_pieces(current, offset - current.header.base), offset)

    def _bytes(self, offset: int, length: int) -> bytes:
        """Return some bytes, which may span two segments."""
        current = self._current
        base = current.header.base
        if offset >= base:
            return os.pread(current.descriptor, length, offset - base)
        earlier = self.segments.read(max(0, offset), min(length, base - offset), base)
        return earlier + os.pread(current.descriptor, max(0, offset + length - base), 0)


def _pieces(segment: _OpenSegment, offset: int) -> Iterator[bytes]:
    while piece := os.pread(segment.descriptor, CHUNK, offset):
        offset += len(piece)
        yield piece
