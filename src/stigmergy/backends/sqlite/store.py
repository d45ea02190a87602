"""One project's store on disk: the journal is the truth, the SQLite index a projection of it.

Writing: callers' changes are gathered into a batch; its leader takes the project's lock, brings the index up to the
journal, lets each change decide against the index, appends a line per change, syncs once, commits the index and only
then answers. Several processes may do this at once; the lock is a file's, so a dead process holds none.

Reading: a snapshot of the index. It never waits for a writer, and never sees what is not yet synced.
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import apsw
import msgspec

from stigmergy.backends.sqlite.index import (
    Progress,
    build_index,
    connect,
    read_applied,
    replay,
)
from stigmergy.backends.sqlite.projection import Applied, Projection
from stigmergy.backends.sqlite.tail import Tail
from stigmergy.backends.sqlite.verify import verify_store
from stigmergy.backends.sqlite.view import Kept, SqliteView
from stigmergy.core import SECOND, Clock
from stigmergy.core.journal import GroupCommit, Journal, Line, Place, Ticket, create_journal, encode_facts, print_line
from stigmergy.errors import DiskPressure, IndexDamaged, StoreReadOnly
from stigmergy.operations.ports import Decide, Finding, View

T = TypeVar("T")

JOURNAL = "memory.jsonl"
INDEX = "index.db"
LOCK = "lock"
SWEEP_EVERY = SECOND

DAMAGED = (apsw.CorruptError, apsw.NotADBError)


def create_store(folder: Path, *, project: str, at: int) -> None:
    """Make an empty store in a folder; an existing one is left alone."""
    create_journal(folder / JOURNAL, kind="memory", project=project, at=at)


class SqliteStore:
    """The store in one `.catalog` folder."""

    def __init__(self, folder: Path, clock: Clock, progress: Progress | None = None) -> None:
        self._index_path = folder / INDEX
        self._index_name = str(self._index_path)
        self._clock = clock
        self._progress = progress
        self._journal = Journal(folder / JOURNAL)
        self._lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._tail = Tail(self._journal)
        self._watchers: list[Callable[[], None]] = []
        self._commits: GroupCommit[Decide[Any], Any] = GroupCommit(self._run_batch)
        self._writer: apsw.Connection | None = None
        self._writer_file: tuple[int, int] | None = None
        self._mutex = threading.Lock()
        self._kept: tuple[tuple[int, int], Kept] = ((0, 0), Kept())
        self._sweep_at = 0
        self._readers: list[_Reading] = []
        self._readers_lock = threading.Lock()
        if not self._index_path.exists():
            with self._locked():
                self._open_writer()

    @property
    def project(self) -> str:
        """The project's id."""
        return self._journal.header.project

    @contextmanager
    def read(self) -> Iterator[View]:
        """The store as of now."""
        reading = self._begin_read()
        as_of = max(self._clock.now(), reading.applied.place.at)
        view = SqliteView(reading.connection, reading.applied, as_of, reading.kept)
        try:
            yield view
        except DAMAGED as problem:
            reading.connection.close()
            self.rebuild()
            raise IndexDamaged from problem
        except BaseException:
            self._end_read(reading)
            raise
        self._end_read(reading)
        if view.saw_many_overdue:
            self._tend(sweep=True)

    def commit(self, decide: Decide[T]) -> T:
        """Change the store; returns once the change is on the disk."""
        answer: T = self._commits.submit(decide)
        return answer

    def last_line(self) -> int:
        """The number of the last committed line; asks only the size of the journal when it has not grown."""
        return self._last_place().seq

    def lines_after(self, seq: int, limit: int) -> list[Line]:
        """The committed lines that follow the line of that number."""
        return self._tail.read(seq, self._last_place(), limit)

    def watch(self, committed: Callable[[], None]) -> None:
        """Have a function called after every commit of this process."""
        self._watchers.append(committed)

    def verify(self) -> list[Finding]:
        """Recompute every checksum and hold the index against a rebuild from the journal."""
        with self._locked():
            _, applied = self._caught_up()
            self._judge(self._journal.start, synced=applied.place.offset)
            return verify_store(self._index_path, self._journal, self._progress)

    def rebuild(self) -> None:
        """Make the index anew from the journal."""
        with self._locked():
            self._rebuild()

    def close(self) -> None:
        """Let go of every file."""
        with self._readers_lock:
            for reading in self._readers:
                reading.connection.close()
            self._readers.clear()
        self._close_writer()
        self._journal.close()
        os.close(self._lock)

    # Writing

    def _run_batch(self, batch: list[Ticket[Decide[Any], Any]]) -> None:
        with self._locked():
            try:
                self._commit_batch(batch)
            except DAMAGED:
                self._rebuild()
                self._commit_batch(batch)
        for committed in self._watchers:
            committed()

    def _commit_batch(self, batch: list[Ticket[Decide[Any], Any]]) -> None:
        writer, applied = self._caught_up()
        writer.execute("BEGIN IMMEDIATE")
        try:
            self._decide_all(writer, applied, batch)
        except BaseException:
            _roll_back(writer)
            raise
        try:
            writer.execute("COMMIT")
        except apsw.Error:
            # The journal has it, synced: it happened. The index is behind, and whoever comes next brings it up.
            _roll_back(writer)

    def _decide_all(self, writer: apsw.Connection, applied: Applied, batch: list[Ticket[Decide[Any], Any]]) -> None:
        """Let every change of the batch decide, and have what they decided on the disk."""
        mark = applied.place.offset
        place = applied.place
        projection = Projection(writer, applied)
        lines: list[bytes] = []
        for ticket in batch:
            at = max(self._clock.now(), place.at)
            projection.flush()
            ticket.error = None
            try:
                facts, ticket.result = ticket.work(SqliteView(writer, applied, at))
                text = encode_facts([*facts])
            except apsw.Error:
                raise
            except Exception as refusal:
                ticket.error = refusal
                continue
            if not facts:
                continue
            line, checksum = print_line(place.sum, at=at, facts=text, mark=mark, seq=place.seq + 1)
            lines.append(line)
            place = Place(offset=place.offset + len(line), seq=place.seq + 1, sum=checksum, at=at)
            for fact in facts:
                projection.apply(fact, at)
        if lines:
            if place.at >= self._sweep_at:
                self._sweep_at = place.at + SWEEP_EVERY
                projection.sweep(place.at)
            projection.save(place)
            self._journal.append(lines)
            self._journal.sync()

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the project's lock, alone in this process and among processes."""
        with self._mutex:
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            try:
                yield
            except apsw.FullError as problem:
                raise DiskPressure(
                    "The disk has no room for the index; nothing was stored.",
                    hint="Free some space; reading goes on, and writing will too.",
                ) from problem
            finally:
                fcntl.flock(self._lock, fcntl.LOCK_UN)

    def _caught_up(self) -> tuple[apsw.Connection, Applied]:
        """The writing connection with the index brought up to the journal. The caller holds the lock."""
        for _ in range(3):
            try:
                writer = self._open_writer()
                applied = read_applied(writer, self.project)
                if applied is None or not self._journal.holds(applied.place):
                    self._rebuild()
                    continue
                if applied.place.offset < self._journal.size():
                    self._judge(applied.place, synced=applied.place.offset)
                    applied = replay(writer, applied, self._journal)
                return writer, applied
            except DAMAGED:
                self._rebuild()
        raise IndexDamaged("The index cannot be built.")

    def _judge(self, place: Place, *, synced: int) -> None:
        """Cut a tail that never happened; have the rest, which another process may not have synced, on the disk."""
        end = self._journal.last_sound(place)
        if self._journal.judge_tail(end, synced=synced):
            self._journal.cut(end.offset)
        else:
            self._journal.sync()

    def _open_writer(self) -> apsw.Connection:
        file = _identity(self._index_name)
        if self._writer is not None and file == self._writer_file:
            return self._writer
        self._close_writer()
        if file is None:
            self._judge(self._journal.start, synced=0)
            build_index(self._index_path, self._journal, self._progress)
        self._writer = connect(self._index_path, writer=True)
        self._writer_file = _identity(self._index_name)
        return self._writer

    def _rebuild(self) -> None:
        """Build the index anew. What the old one had applied had been saved: the journal must still have it."""
        self._judge(self._journal.start, synced=self._known_synced())
        self._close_writer()
        build_index(self._index_path, self._journal, self._progress)
        self._open_writer()

    def _known_synced(self) -> int:
        try:
            connection = connect(self._index_path)
            try:
                applied = read_applied(connection, self.project)
            finally:
                connection.close()
        except apsw.Error:
            return 0
        return min(applied.place.offset, self._journal.size()) if applied else 0

    def _close_writer(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    # Reading

    def _last_place(self) -> Place:
        """The place behind the last line that is synced: the index, which follows the sync, says which that is."""
        known = self._tail.end
        if known is None or self._journal.size() != known.offset:
            reading = self._begin_read()
            known = self._tail.end = reading.applied.place
            self._end_read(reading)
        return known

    def _begin_read(self) -> _Reading:
        reading = self._snapshot()
        if reading is None:
            with self._locked():
                self._caught_up()
            reading = self._snapshot()
        elif self._journal.size() > reading.applied.place.offset:
            self._end_read(reading)
            self._tend()
            reading = self._snapshot()
        if reading is None:
            raise IndexDamaged
        return reading

    def _snapshot(self) -> _Reading | None:
        """A read transaction on the index that lies there now; none when it cannot be trusted."""
        file = _identity(self._index_name)
        if file is None:
            return None
        try:
            connection = self._reader(file)
            connection.execute("BEGIN")
            applied = read_applied(connection, self.project)
        except (*DAMAGED, apsw.CantOpenError):
            return None
        if applied is None or not self._journal.holds(applied.place):
            connection.close()
            return None
        return _Reading(file=file, connection=connection, applied=applied, kept=self._kept_of(file))

    def _kept_of(self, file: tuple[int, int]) -> Kept:
        """What was kept from reading this very index; another one, though it says the same, is laid out otherwise."""
        if self._kept[0] != file:
            self._kept = (file, Kept())
        return self._kept[1]

    def _reader(self, file: tuple[int, int]) -> apsw.Connection:
        with self._readers_lock:
            while self._readers:
                reading = self._readers.pop()
                if reading.file == file:
                    return reading.connection
                reading.connection.close()
        return connect(self._index_path)

    def _end_read(self, reading: _Reading) -> None:
        reading.connection.execute("COMMIT")
        with self._readers_lock:
            self._readers.append(reading)

    def _tend(self, *, sweep: bool = False) -> None:
        """Bring the index up to the journal, and sweep it if asked, unless a writer is at work: then it will."""
        if not self._mutex.acquire(blocking=False):
            return
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._mutex.release()
            return
        try:
            writer, applied = self._caught_up()
            if sweep:
                self._sweep(writer, applied)
        except (apsw.FullError, apsw.IOError, StoreReadOnly, DiskPressure):
            pass  # what can be read is read; the next writer will say what is wrong
        finally:
            fcntl.flock(self._lock, fcntl.LOCK_UN)
            self._mutex.release()

    def _sweep(self, writer: apsw.Connection, applied: Applied) -> None:
        """Take out everything past its time. The journal says until when: no clock turned back brings it to life."""
        place = applied.place
        now = self._clock.now()
        if now > place.at:
            line, checksum = print_line(place.sum, at=now, facts=encode_facts([]), mark=place.offset, seq=place.seq + 1)
            self._journal.append([line])
            self._journal.sync()
            place = Place(offset=place.offset + len(line), seq=place.seq + 1, sum=checksum, at=now)
        swept = True
        while swept:
            with _transaction(writer):
                projection = Projection(writer, applied)
                swept = projection.sweep(place.at) > 0
                projection.save(place)


class _Reading(msgspec.Struct, frozen=True, kw_only=True):
    """A read transaction under way, or a connection waiting for its next."""

    file: tuple[int, int]
    connection: apsw.Connection
    applied: Applied
    kept: Kept


@contextmanager
def _transaction(connection: apsw.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        _roll_back(connection)
        raise


def _roll_back(connection: apsw.Connection) -> None:
    if connection.in_transaction:
        connection.execute("ROLLBACK")


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino
