"""A SQLite index that follows a journal: opened, brought up to date, and rebuilt whenever it cannot be trusted.

`JournalIndex` does this for any journal. What a journal's facts mean, which tables they fill and how these are read is
supplied as one `IndexSchema` object: `KnowledgeIndex` for `memory.jsonl`, `WorkIndex` for `tuples.jsonl` (decision 22).
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import takewhile
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import apsw
import msgspec

from engrambus.backends.sqlite.comparison import Comparison, IndexVerifier
from engrambus.backends.sqlite.connections import (
    FileId,
    connect,
    file_id,
    is_misread,
    transaction,
)
from engrambus.backends.sqlite.lock import WriteLock
from engrambus.core import Clock, ProjectClock, ProjectTime, boot_id, files, parse_time
from engrambus.core.database import check_wal, has_wal, open_database, print_note, remove_database, report_damage
from engrambus.core.disk_errors import disk_problem, naming_the_disk
from engrambus.core.journal import Journal, JournalKey, JournalPosition
from engrambus.core.lock import LOCK_SECONDS
from engrambus.errors import DiskError, DiskPressure, IndexDamaged, StoreReadOnly
from engrambus.gateway.ports import Finding

REPLAY_BATCH_LINES = 2000
REPLAY_BATCH_FACTS = 16000
"""Facts, or lines without any, applied before a transaction ends: a line of an import has thousands (decision 94)."""
CHECKPOINT_PAGES = 8192
"""Pages in SQLite's WAL before they are written to the index file, which costs two syncs: 32 MB."""
DRAFT_CACHE_KIB = 64_000
"""Memory for pages of an index that is being built."""

OnProgress = Callable[[int, int], None]
"""Called with the bytes done and the bytes in all."""


class IndexState(Protocol):
    """The one row that says how far an index has come; changed in memory as facts are applied."""

    position: JournalPosition
    """Position behind the last line applied."""
    synced_bytes: int
    """Bytes of the journal known to be on disk."""
    boot_id: str
    """The machine's boot in which that was recorded."""
    is_from_start: bool
    """True while the index is built from the journal's first line on."""


class Projection(Protocol):
    """Applies facts to an index inside one transaction. It may gather rows until `flush`."""

    def apply(self, fact: Any, at_us: int) -> None:
        """Apply one fact of a commit made at `at_us`."""
        ...

    def flush(self) -> None:
        """Write gathered rows, so that queries see them."""
        ...

    def finish(self) -> None:
        """Write everything that is still gathered, before the transaction ends."""
        ...


S = TypeVar("S", bound=IndexState)
P = TypeVar("P", bound=Projection)
V = TypeVar("V")
T = TypeVar("T")


class IndexSchema(Protocol[S, P, V]):
    """Everything that is particular to one kind of index: its tables, its facts, and the views callers get of it.

    `S` is the state row, `P` the projection that applies facts, `V` the view.
    """

    kind: str
    """The kind of journal: the first line says which it is."""

    def create(self, connection: apsw.Connection, project: str, start: JournalPosition) -> S:
        """Create the tables of an empty index."""
        ...

    def read_state(self, connection: apsw.Connection, project: str) -> S | None:
        """Read the state row; None if the index has another layout or belongs to another project."""
        ...

    def save_state(self, connection: apsw.Connection, state: S) -> None:
        """Write the state row."""
        ...

    def decode_facts(self, text: bytes) -> Sequence[Any]:
        """Decode the facts of a line."""
        ...

    def projection(self, connection: apsw.Connection, state: S) -> P:
        """Return a projection that writes through `connection` and moves `state` on."""
        ...

    def replay_projection(self, connection: apsw.Connection, state: S) -> P:
        """Return a projection for many lines of the journal at once; nothing is read until its transaction ends."""
        ...

    def end_batch(self, projection: P, now_us: int) -> None:
        """Finish what a batch of commits has written."""
        ...

    def must_sync(self, facts: Sequence[Any]) -> bool:
        """True if these facts must be synced even when the caller passed `synced=False`."""
        ...

    def decision_view(self, projection: P, time: ProjectTime) -> V:
        """Return the view that a change decides on, inside the writing transaction."""
        ...

    def read_view(self, connection: apsw.Connection, state: S, time: ProjectTime, file: FileId) -> V:
        """Return the view of a snapshot of the index file with this id."""
        ...

    def upkeep_after(self, view: V) -> Callable[[JournalIndex[S, P], apsw.Connection, S], None] | None:
        """Return work to do on the index because of what a read came across; usually None."""
        ...

    def comparison(self) -> Comparison[S, P]:
        """Return what compares an index with a draft built from the journal."""
        ...


class JournalIndex(Generic[S, P]):
    """One journal, its index file and the lock on both.

    Everything that writes needs the lock, which is a file's: a process that dies releases it.
    """

    def __init__(
        self,
        journal: Path,
        path: Path,
        lock: Path,
        key: JournalKey,
        schema: IndexSchema[S, P, Any],
        clock: Clock,
        on_progress: OnProgress | None = None,
        lock_seconds: float = LOCK_SECONDS,
    ) -> None:
        self.journal = Journal(journal, key, schema.kind)
        self.path = path
        self.name = str(path)
        self.schema = schema
        self.clock = ProjectClock(clock)
        self.writer: apsw.Connection | None = None
        self._lock = WriteLock(lock, lock_seconds)
        self._on_progress = on_progress
        self._writer_file: FileId | None = None
        self._checked_file: FileId | None = None
        """The index file whose `-wal` file was whole when this process began to use it."""
        self._misread: set[str] = set()
        """Problems for which the index was rebuilt: one that returns is a fault of ours, not of the file."""
        self._state: S | None = None
        """State of the index, while this process was the last to write to it."""
        self._data_version: object = None
        """SQLite's `data_version` at that moment: it changes when another process writes to the index."""
        if not files.is_file(path):
            with suppress(DiskPressure, DiskError):  # a reader makes do without it, a writer reports it
                self.run_locked(self._open_writer)

    @property
    def project(self) -> str:
        """The project's id."""
        return self.journal.header.project

    def close(self) -> None:
        """Close the writing connection, the journal and the lock."""
        self._close_writer()
        self.journal.close()
        self._lock.close()

    # Under the lock

    def run_locked(self, work: Callable[[], T], waiting_since: float | None = None) -> T:
        """Run some work under the lock; a disk that fails is named, and a lock that stays held is StoreBusy."""
        with naming_the_disk():
            return self._lock.run(work, waiting_since)

    def begin_write(self) -> tuple[apsw.Connection, S]:
        """Bring the index up to the journal; return the writing connection and the state. The caller holds the lock.

        Until `end_write` the state is unknown to others: a writer that fails leaves it to be read from the index.
        """
        writer, state = self._up_to_date()
        self._state = None
        return writer, state

    def end_write(self, state: S) -> None:
        """Record that the index was committed with this state."""
        self._state = state

    def catch_up(self) -> None:
        """Bring the index up to the journal. The caller holds the lock."""
        _, self._state = self._up_to_date()

    def catch_up_if_free(self, upkeep: Callable[[JournalIndex[S, P], apsw.Connection, S], None] | None = None) -> None:
        """Bring the index up to the journal, then do some upkeep, unless a writer holds the lock: it will do the same.

        A reader calls this. Failures are ignored: it reads what there is, and the next writer reports them.
        """

        def work() -> None:
            if upkeep is None:
                self.catch_up()
            else:
                upkeep(self, *self.begin_write())

        with suppress(StoreReadOnly, DiskPressure, DiskError), naming_the_disk():
            self._lock.run_if_free(work)

    def rebuild(self) -> None:
        """Rebuild the index from the journal. The caller holds the lock."""
        # What the old index says was synced, the journal must still have, or it is damaged.
        self._check_tail(self.journal.start, synced_bytes=self._recorded_synced_bytes())
        self._close_writer()
        self._build(self.path)
        self._open_writer()

    def rebuild_damaged(self, problem: BaseException) -> None:
        """Rebuild the index because it was misread, and say so. The caller holds the lock."""
        report_damage(self.path, f"{self.journal.path.name}", problem)
        self.rebuild()

    def is_damaged(self, problem: BaseException) -> bool:
        """True if a problem is the index's, and rebuilding it may help: the same one is blamed on a file only once."""
        if not is_misread(problem):
            return False
        if isinstance(problem, apsw.Error):
            return True
        place = traceback.extract_tb(problem.__traceback__)[-1]
        signature = f"{type(problem).__name__} {place.filename}:{place.lineno}"
        is_new = signature not in self._misread
        self._misread.add(signature)
        return is_new

    def check_wal(self, connection: apsw.Connection, file: FileId) -> None:
        """Check once that the `-wal` file of an index file has not lost its end; a writer would have done so."""
        if file == self._checked_file:
            return
        if has_wal(self.path):
            # Under the lock nobody moves pages from the one file into the other.
            self._lock.run_if_free(lambda: check_wal(self.path, connection, self._stamp))
        self._checked_file = file

    def _stamp(self, connection: apsw.Connection) -> int:
        state = self.schema.read_state(connection, self.project)
        return state.position.offset if state is not None else -1

    def _up_to_date(self) -> tuple[apsw.Connection, S]:
        state, writer = self._state, self.writer
        # decision 35: the last writer trusts what it knows while nothing has changed
        if (
            state is not None
            and writer is not None
            and state.position.offset == self.journal.size()
            and file_id(self.name) == self._writer_file
            # Another process may have cut the journal back to this length and changed the index with it.
            and writer.pragma("data_version") == self._data_version
        ):
            return writer, state
        if self.journal.cut_refused():
            # decision 98: a sync failed before this boot; what the disk has now is read and checked as a whole
            self.rebuild()
            self.journal.end_failure()
        last: Exception | None = None
        for _ in range(3):
            try:
                current = self._read_or_replay(was_last_writer=state is not None)
                if current is not None:
                    return current
                self.rebuild()
            except Exception as problem:
                if not self.is_damaged(problem):
                    raise
                last = problem
                self.rebuild_damaged(problem)
        raise IndexDamaged("The index could not be rebuilt from the journal.") from last

    def _read_or_replay(self, *, was_last_writer: bool) -> tuple[apsw.Connection, S] | None:
        """Read the state and replay the lines the index lacks; None if the index must be rebuilt."""
        writer = self._open_writer()
        state = self.schema.read_state(writer, self.project)
        # decision 22: after a reboot an index is trusted only as far as the journal was synced
        if state is None or not self.journal.holds(state.position) or _may_be_ahead(state):
            return None
        if state.position.offset < self.journal.size():
            self._check_tail(state.position, synced_bytes=state.synced_bytes)
            state = self.replay(writer, state, self.schema.replay_projection)
            state.synced_bytes = state.position.offset
        elif not was_last_writer and state.synced_bytes < state.position.offset:
            # decision 22: the last lines may be another process's unsynced claims
            self.journal.sync()
            self.journal.note_synced(state.position)
            state.synced_bytes = state.position.offset
        self._data_version = writer.pragma("data_version")
        return writer, state

    def _check_tail(self, position: JournalPosition, *, synced_bytes: int) -> None:
        """Cut a torn tail; otherwise sync the lines there are, which another process may not have done."""
        end = self.journal.last_valid(position)
        if self.journal.classify_tail(end, synced_bytes):
            self.journal.cut(end.offset)
        else:
            self.journal.sync()
            noted = self.journal.noted()
            if noted.offset > end.offset:
                # decision 97: a person may put an older copy back, and need not be asked
                print_note(
                    f"{self.journal.path} ends with line {end.seq + 1}, but {noted.seq + 1} lines had been saved: "
                    "it was cut, or replaced by an older copy."
                )
        self.journal.note_synced(end)

    def _open_writer(self) -> apsw.Connection:
        file = file_id(self.name)
        if self.writer is not None and file == self._writer_file:
            return self.writer
        self._close_writer()
        if file is None:
            # Without an index only the marks in the journal say what was synced.
            self._check_tail(self.journal.start, synced_bytes=0)
            self._build(self.path)
        writer = connect(self.path, writer=True)
        try:
            writer.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
            self._writer_file = file_id(self.name)
            if self._checked_file != self._writer_file:
                check_wal(self.path, writer, self._stamp)
                self._checked_file = self._writer_file
        except BaseException:
            writer.close()
            raise
        self.writer = writer
        return writer

    def _close_writer(self) -> None:
        self._state = None
        if self.writer is not None:
            self.writer.close()
            self.writer = None

    def _recorded_synced_bytes(self) -> int:
        """Return how much of the journal was synced by the index's own account, 0 if it cannot be read.

        The index recorded it after the sync, so it holds even if the machine has restarted since.
        """
        try:
            with closing(connect(self.path)) as connection:
                state = self.schema.read_state(connection, self.project)
        except Exception as problem:
            if isinstance(problem, (apsw.Error, FileNotFoundError)) or is_misread(problem):
                return 0
            raise
        return min(state.synced_bytes, self.journal.size()) if state else 0

    # Building

    def _build(self, path: Path) -> None:
        """Build an index from the journal under another name, then move it into place."""
        files.make_folder(path.parent)  # whoever frees space may have deleted the folder
        draft = path.with_name(path.name + ".new")
        remove_database(draft)
        with closing(open_database(draft, create=True)) as connection:
            self._fill(connection)
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("PRAGMA journal_mode = WAL")
        remove_database(path)
        files.rename(draft, path)

    def build_in_memory(self) -> tuple[apsw.Connection, S]:
        """Build another index in memory, for readers where the disk has no room for one. The caller holds the lock."""
        self._check_tail(self.journal.start, synced_bytes=0)
        connection = apsw.Connection(":memory:")
        return connection, self._fill(connection)

    def _open_temporary(self) -> apsw.Connection:
        """Open a database in a file without a name, or in memory where the disk has no room for a file."""
        draft = self.path.with_name(f"{self.path.name}.{os.getpid()}.{os.urandom(6).hex()}")
        try:
            connection = open_database(draft, create=True)
        except OSError as problem:
            if not isinstance(disk_problem(problem), DiskPressure):
                raise
            return apsw.Connection(":memory:")
        finally:
            files.remove(draft)  # open as long as it is needed; a process that dies leaves nothing behind
        return connection

    @contextmanager
    def open_draft(
        self,
        projection: Callable[[apsw.Connection, S], P],
        prepare: Callable[[apsw.Connection], None],
        *,
        in_memory: bool = False,
    ) -> Iterator[IndexDraft[S, P]]:
        """Open an empty index in a file without a name, to which the facts are applied by another projection."""
        with closing(apsw.Connection(":memory:") if in_memory else self._open_temporary()) as connection:
            state = self._create(connection)
            prepare(connection)
            yield IndexDraft(self, connection, state, projection)

    def _create(self, connection: apsw.Connection) -> S:
        # A draft that a crash leaves behind is deleted, so it needs no protection while it is filled.
        connection.execute("PRAGMA journal_mode = OFF")
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute(f"PRAGMA cache_size = {-DRAFT_CACHE_KIB}")
        state = self.schema.create(connection, self.project, self.journal.start)
        state.is_from_start = True
        return state

    def _fill(self, connection: apsw.Connection) -> S:
        state = self._create(connection)
        state = self.replay(connection, state, self.schema.replay_projection, self.report_progress)
        state.synced_bytes = state.position.offset  # checking the tail has synced it
        self.schema.save_state(connection, state)
        return state

    def report_progress(self, done: int, total: int) -> None:
        """Report how far long work has come, in bytes."""
        if self._on_progress is not None:
            self._on_progress(done, total)

    def replay(
        self,
        connection: apsw.Connection,
        state: S,
        make_projection: Callable[[apsw.Connection, S], P],
        on_progress: OnProgress | None = None,
        until: JournalPosition | None = None,
    ) -> S:
        """Apply the valid lines the index lacks, up to a position or all, in transactions of its own."""
        schema = self.schema
        total = self.journal.size()
        lines = self.journal.read(state.position)
        if until is not None:
            last = until.offset
            lines = takewhile(lambda read: read[1].offset <= last, lines)
        while True:
            with transaction(connection):
                projection = make_projection(connection, state)
                facts = 0
                for line, behind in lines:
                    decoded = schema.decode_facts(line.facts)
                    for fact in decoded:
                        projection.apply(fact, line.at_us)
                    state.position = behind
                    facts += max(1, len(decoded))
                    if facts >= REPLAY_BATCH_FACTS:
                        break
                at_end = facts < REPLAY_BATCH_FACTS
                state.position = self._into_segment(state.position, until)
                projection.finish()
                schema.save_state(connection, state)
            if on_progress is not None:
                on_progress(state.position.offset, total)
            if at_end:
                return state

    def _into_segment(self, position: JournalPosition, until: JournalPosition | None) -> JournalPosition:
        """Move a position at the end of a segment behind the next one's header, if that is as far as to go."""
        if until is None:
            return self.journal.into_segment(position)
        if position.seq == until.seq and self.journal.holds(until):
            return msgspec.structs.replace(until, at_us=position.at_us, clock=position.clock)
        return position

    # Maintenance

    def verify(self) -> list[Finding]:
        """Recompute every checksum and compare the index with the journal.

        decision 22: the lock is held only at the start; held throughout, workers would lose their leases.
        """
        try:
            return IndexVerifier(self, self.schema.comparison()).run()
        except apsw.FullError:
            return IndexVerifier(self, self.schema.comparison(), in_memory=True).run()

    def rotate(self, *, least_bytes: int, before_us: int, dry_run: bool = False) -> bool:
        """Continue in a new segment if the open one is that long and was begun before a moment; compress the others.

        Return True if a segment was begun, or with `dry_run` would be.
        """
        begun = self.run_locked(lambda: self._rotate(least_bytes, before_us, dry_run))
        if not dry_run:
            # Not under the lock: it takes a while, and readers find either the plain or the compressed file.
            self.journal.segments.compress()
        return begun

    def _rotate(self, least_bytes: int, before_us: int, dry_run: bool) -> bool:
        writer, state = self.begin_write()
        journal = self.journal
        long = state.position.offset - journal.segment_start.offset >= max(1, least_bytes)
        due = long and parse_time(journal.header.created_at) < before_us
        if due and not dry_run:
            journal.sync()
            time = self.clock.commit_time(state.position.at_us, state.position.clock)
            state.position = journal.begin_segment(state.position, time.now_us)
            journal.note_synced(state.position)
            state.synced_bytes = state.position.offset
            with transaction(writer):
                self.schema.save_state(writer, state)
        self.end_write(state)
        return due


def _may_be_ahead(state: IndexState) -> bool:
    """True if the index holds lines that were never synced and that a restart of the machine may have lost."""
    return state.synced_bytes < state.position.offset and state.boot_id != boot_id()


class IndexDraft(Generic[S, P]):
    """An index in a file without a name, which follows the journal on request."""

    def __init__(
        self,
        index: JournalIndex[S, P],
        connection: apsw.Connection,
        state: S,
        projection: Callable[[apsw.Connection, S], P],
    ) -> None:
        self._index = index
        self.connection = connection
        self.state = state
        self._projection = projection
        self._is_empty = True

    def fill(self, reached: S) -> None:
        """Apply the lines up to the position that another index has reached; refuse a damaged one."""
        index = self._index
        on_progress, self._is_empty = index.report_progress if self._is_empty else None, False
        self.state = index.replay(self.connection, self.state, self._projection, on_progress, reached.position)
        if self.state.position.offset < reached.position.offset:
            index.journal.classify_tail(self.state.position, reached.synced_bytes)
