"""An index that follows a journal: opened, brought up to it, and built anew whenever it cannot be trusted.

Everything here that writes is for whoever holds the lock. It is a file's, so a dead process holds none.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import islice, takewhile
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import apsw
import msgspec

from engrambus.backends.sqlite.index import Progress, connect, remove_index
from engrambus.backends.sqlite.lock import WriteLock
from engrambus.backends.sqlite.readers import Identity, identity
from engrambus.core import Clock, ProjectClock, parse_time
from engrambus.core.boot import boot_id
from engrambus.core.journal import Journal, Place, begin_segment
from engrambus.errors import DiskPressure, IndexDamaged
from engrambus.gateway.ports import Finding

REPLAY_BATCH = 2000
CHECKPOINT_PAGES = 8192
"""How many pages gather before they are written to the index itself, which costs two syncs: 32 MB."""

DAMAGED = (apsw.CorruptError, apsw.NotADBError)


class Reached(Protocol):
    """How far an index has come."""

    place: Place
    synced: int
    """Bytes of the journal known to be on the disk."""
    machine: str
    """The start of the machine in which that was said."""


class Projecting(Protocol):
    """Applies facts to an index inside one transaction; may gather them until it is told to write."""

    def apply(self, fact: Any, at: int) -> None:
        """Let one fact have happened."""
        ...

    def flush(self) -> None:
        """Write what was gathered, so that it can be read."""
        ...

    def finish(self) -> None:
        """Write everything there is to write before the transaction ends."""
        ...


A = TypeVar("A", bound=Reached)
P = TypeVar("P", bound=Projecting)
T = TypeVar("T")


class Following(ABC, Generic[A, P]):
    """One journal and its index."""

    def __init__(self, journal: Path, index: Path, lock: Path, clock: Clock, progress: Progress | None = None) -> None:
        self._index_path = index
        self._index_name = str(index)
        self._clock = ProjectClock(clock)
        self._progress = progress
        self._journal = Journal(journal)
        self._lock = WriteLock(lock)
        self._writer: apsw.Connection | None = None
        self._writer_file: Identity | None = None
        self._known: A | None = None
        """How far the index has come, when this process was the last to know."""
        self._version: object = None
        """What SQLite calls the state of the index, as long as nobody else has written to it."""
        if not index.exists():
            self._locked(self._open_writer)

    # What an index is about

    @abstractmethod
    def _begin(self, connection: apsw.Connection, start: Place) -> A:
        """Make the tables of an empty index."""

    @abstractmethod
    def _read_applied(self, connection: apsw.Connection) -> A | None:
        """How far an index has come; none when it is another version's or another project's."""

    @abstractmethod
    def _projection(self, connection: apsw.Connection, applied: A) -> P:
        """What applies facts to the index and moves `applied` on."""

    @abstractmethod
    def _facts(self, text: bytes) -> Sequence[Any]:
        """The facts of a line."""

    @abstractmethod
    def _save(self, writer: apsw.Connection, applied: A) -> None:
        """Write down how far the index has come."""

    @abstractmethod
    def _differences(self, kept: apsw.Connection, built: apsw.Connection) -> list[Finding]:
        """What an index says otherwise than one that was built from the journal just now."""

    # Using it

    @property
    def project(self) -> str:
        """The project's id."""
        return self._journal.header.project

    def rebuild(self) -> None:
        """Make the index anew from the journal."""
        self._locked(self._rebuild)

    def verify(self) -> list[Finding]:
        """Recompute every checksum and hold the index against a rebuild from the journal.

        Others go on meanwhile: the index is held against the journal as both were when it began.
        """

        def held() -> tuple[apsw.Connection, A | None]:
            self._caught_up()
            kept = connect(self._index_path)
            kept.execute("BEGIN")
            return kept, self._read_applied(kept)

        kept, applied = self._locked(held)
        with closing(kept):
            if applied is None:
                raise IndexDamaged
            with self._built_anew(applied) as built:
                return self._differences(kept, built)

    def rotate(self, *, least: int, before: int, dry_run: bool = False) -> bool:
        """Go on in a new segment if the present one has so many bytes and was begun before a moment; what was left
        behind is compressed. Dry, only tell whether it would."""
        begun = self._locked(lambda: self._rotate(least, before, dry_run))
        if not dry_run:
            # Not under the lock: it takes a while, and whoever reads meanwhile finds the one or the other.
            self._journal.segments.compress()
        return begun

    def _rotate(self, least: int, before: int, dry_run: bool) -> bool:
        writer, applied = self._caught_up()
        long = applied.place.offset - self._journal.segment.offset >= max(1, least)
        begun = long and parse_time(self._journal.header.at) < before
        if begun and not dry_run:
            self._known = None
            self._journal.sync()
            applied.place = begin_segment(self._journal, applied.place, self._clock.now(applied.place.at))
            applied.synced = applied.place.offset
            with transaction(writer):
                self._save(writer, applied)
        return begun

    def close(self) -> None:
        """Let go of every file."""
        self._close_writer()
        self._journal.close()
        self._lock.close()

    # Keeping it

    def _locked(self, work: Callable[[], T]) -> T:
        """Do something under the lock; a disk without room is told of in our words."""
        try:
            return self._lock.run(work)
        except apsw.FullError as problem:
            raise DiskPressure(
                "The disk has no room for the index; nothing was stored.",
                hint="Free some space; reading goes on, and writing will too.",
            ) from problem

    def _caught_up(self) -> tuple[apsw.Connection, A]:
        """The writing connection with the index brought up to the journal. The caller holds the lock."""
        known, writer = self._known, self._writer
        if (
            known is not None
            and writer is not None
            and known.place.offset == self._journal.size()
            and identity(self._index_name) == self._writer_file
            # Another process may have cut the journal back to this length, and have changed the index with it.
            and writer.pragma("data_version") == self._version
        ):
            return writer, known
        for _ in range(3):
            try:
                writer = self._open_writer()
                applied = self._read_applied(writer)
                if applied is None or not self._journal.holds(applied.place) or _outlived(applied):
                    self._rebuild()
                    continue
                if applied.place.offset < self._journal.size():
                    self._judge(applied.place, synced=applied.synced)
                    applied = self._replay(writer, applied, None)
                    applied.synced = applied.place.offset
                elif known is None and applied.synced < applied.place.offset:
                    self._journal.sync()
                    applied.synced = applied.place.offset
                self._version = writer.pragma("data_version")
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
        file = identity(self._index_name)
        if self._writer is not None and file == self._writer_file:
            return self._writer
        self._close_writer()
        if file is None:
            self._judge(self._journal.start, synced=0)
            self._build(self._index_path)
        self._writer = connect(self._index_path, writer=True)
        self._writer.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
        self._writer_file = identity(self._index_name)
        return self._writer

    def _rebuild(self) -> None:
        """Build the index anew. What had been synced the journal must still have."""
        self._judge(self._journal.start, synced=self._known_synced())
        self._close_writer()
        self._build(self._index_path)
        self._open_writer()

    def _build(self, path: Path) -> None:
        """Build the index from the journal beside its place, then put it there."""
        draft = path.with_name(path.name + ".new")
        remove_index(draft)
        with closing(apsw.Connection(str(draft))) as connection:
            self._fill(connection)
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("PRAGMA journal_mode = WAL")
        remove_index(path)
        draft.rename(path)

    @contextmanager
    def _built_anew(self, reached: A) -> Iterator[apsw.Connection]:
        """Another index, as far as one has come."""
        draft = self._index_path.with_name(f"{self._index_path.name}.{os.getpid()}.{os.urandom(6).hex()}")
        with closing(apsw.Connection(str(draft))) as connection:
            draft.unlink()  # open as long as it is needed, and a process that dies leaves nothing behind
            built = self._fill(connection, reached.place)
            if built.place.offset < reached.place.offset:
                self._journal.judge_tail(built.place, synced=reached.synced)
            yield connection

    def _fill(self, connection: apsw.Connection, until: Place | None = None) -> A:
        connection.execute("PRAGMA journal_mode = OFF")
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("PRAGMA cache_size = -64000")
        applied = self._replay(connection, self._begin(connection, self._journal.start), self._progress, until)
        applied.synced = applied.place.offset  # it was judged, and with that synced
        self._save(connection, applied)
        return applied

    def _replay(
        self, connection: apsw.Connection, applied: A, progress: Progress | None, until: Place | None = None
    ) -> A:
        """Apply the sound lines the index has not seen, as far as a place or all, in transactions of its own."""
        total = self._journal.size()
        lines = self._journal.read(applied.place)
        if until is not None:
            last = until.offset
            lines = takewhile(lambda read: read[1].offset <= last, lines)
        while True:
            with transaction(connection):
                projection = self._projection(connection, applied)
                count = 0
                for line, behind in islice(lines, REPLAY_BATCH):
                    for fact in self._facts(line.facts):
                        projection.apply(fact, line.at)
                    applied.place = behind
                    count += 1
                applied.place = self._at_end(applied.place, until)
                projection.finish()
                self._save(connection, applied)
            if progress is not None:
                progress(applied.place.offset, total)
            if count < REPLAY_BATCH:
                return applied

    def _at_end(self, place: Place, until: Place | None) -> Place:
        """The same place, behind the header of the segment that begins there if that is how far to go."""
        if until is None:
            return self._journal.into_segment(place)
        if place.seq == until.seq and self._journal.holds(until):
            return msgspec.structs.replace(until, at=place.at)
        return place

    def _known_synced(self) -> int:
        """How much of the journal had been synced, as far as the index knows: it was told after the sync, so that holds
        whatever a start of the machine has taken since."""
        try:
            connection = connect(self._index_path)
            try:
                applied = self._read_applied(connection)
            finally:
                connection.close()
        except apsw.Error:
            return 0
        return min(applied.synced, self._journal.size()) if applied else 0

    def _close_writer(self) -> None:
        self._known = None
        if self._writer is not None:
            self._writer.close()
            self._writer = None


def _outlived(applied: Reached) -> bool:
    """Whether the index speaks of lines that were never synced and that a start of the machine may have taken."""
    return applied.synced < applied.place.offset and applied.machine != boot_id()


@contextmanager
def transaction(connection: apsw.Connection) -> Iterator[None]:
    """Everything inside happens, or nothing."""
    try:
        connection.execute("BEGIN IMMEDIATE")  # inside: an interrupt may come before the next statement
        yield
        connection.execute("COMMIT")
    except BaseException:
        roll_back(connection)
        raise


def roll_back(connection: apsw.Connection) -> None:
    """Undo a transaction, unless SQLite has done so itself."""
    if connection.in_transaction:
        connection.execute("ROLLBACK")
