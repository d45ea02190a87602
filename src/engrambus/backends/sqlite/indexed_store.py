"""A store over one journal and its index: commits in batches, and reads from snapshots.

Writing: callers' changes are gathered into a batch. Its leader takes the lock, brings the index up to the journal, lets
each change decide on a view of the index, appends one line per change, syncs once if any of them asks for it, commits
the index and only then answers. Several processes may do this at once.

Reading: a snapshot of the index. It never waits for a writer, and never shows what was to be synced and is not yet.
Only where there is no index yet, a reader waits for the process that builds it, within the limit of the lock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import apsw

from engrambus.backends.sqlite.connections import FileId, ReaderPool, file_id, is_misread, roll_back
from engrambus.backends.sqlite.journal_index import IndexSchema, JournalIndex, OnProgress, P, S, V
from engrambus.core import Clock, Stamp, boot_id
from engrambus.core.database import FileDamaged
from engrambus.core.disk_errors import disk_problem, naming_the_disk
from engrambus.core.journal import (
    GroupCommit,
    JournalKey,
    JournalPosition,
    Line,
    LineReader,
    Ticket,
    encode_facts,
)
from engrambus.core.lock import LOCK_SECONDS, store_busy, this_process
from engrambus.core.project_clock import ClockChange, ClockState
from engrambus.errors import DiskError, DiskPressure, IndexDamaged, StoreReadOnly
from engrambus.gateway.ports import Finding

T = TypeVar("T")
_IN_MEMORY: FileId = (0, 0)


class Change(NamedTuple):
    """One caller's change: a pure function of the view that returns facts and an answer, or raises."""

    decide: Callable[[Any], tuple[Sequence[Any], Any]]
    synced: bool


class _Snapshot(NamedTuple):
    """A read transaction on the index file with this id."""

    file: FileId
    """(0, 0) for an index in memory."""
    connection: apsw.Connection
    state: Any


class IndexedStore(Generic[S, P, V]):
    """A store that has a journal with its index, a pool of readers, and a schema that says what both are about."""

    def __init__(
        self,
        journal: Path,
        index: Path,
        lock: Path,
        key: JournalKey,
        schema: IndexSchema[S, P, V],
        clock: Clock,
        on_progress: OnProgress | None = None,
        lock_seconds: float = LOCK_SECONDS,
    ) -> None:
        self.schema = schema
        self.index = JournalIndex(journal, index, lock, key, schema, clock, on_progress, lock_seconds)
        self.journal = self.index.journal
        self._clock = self.index.clock
        self._readers = ReaderPool(index)
        self._lines = LineReader(self.journal)
        self._memory: _Snapshot | None = None
        """An index in memory, while the disk has no room for one in a file."""
        self._memory_lock = threading.Lock()
        self._unusable: FileId | None = None
        """An index file that is damaged, and that the disk has no room to make again."""
        self._end: JournalPosition | None = None
        """Position behind the last line known to be committed."""
        self._watchers: list[Callable[[], None]] = []
        self._commits: GroupCommit[Change, Any] = GroupCommit(
            self._run_batch,
            limit_seconds=lock_seconds,
            busy=lambda: store_busy(lock, this_process(), lock_seconds),
        )

    @property
    def project(self) -> str:
        """The project's id."""
        return self.index.project

    def commit(self, decide: Callable[[V], tuple[Sequence[Any], T]], *, synced: bool = True) -> T:
        """Change the store and return the change's answer.

        When it returns the change is on disk, or with `synced=False` at least in the journal.
        """
        answer: T = self._commits.submit(Change(decide, synced))
        return answer

    @contextmanager
    def read(self) -> Iterator[V]:
        """Open a view of the store as of now."""
        snapshot = self._begin_read()
        state = snapshot.state
        time = self._clock.read_time(state.position.at_us, state.position.clock)
        view = self.schema.read_view(snapshot.connection, state, time, snapshot.file)
        try:
            yield view
        except BaseException as problem:
            if not self.index.is_damaged(problem):
                self._end_read(snapshot)
                trouble = disk_problem(problem)
                if trouble is None:
                    raise
                raise trouble from problem
            # The block has seen part of an answer, so it cannot be repeated here; the caller may.
            snapshot.connection.close()
            self._heal(snapshot.file, problem)
            raise IndexDamaged from problem
        self._end_read(snapshot)
        upkeep = self.schema.upkeep_after(view)
        if upkeep is not None:
            self.index.catch_up_if_free(upkeep)

    def last_line(self) -> int:
        """Return the number of the last committed line; while the journal has not grown, only its size is asked."""
        return self._last_position().seq

    def lines_after(self, seq: int, limit: int) -> list[Line]:
        """Return the committed lines after line number `seq`."""
        return self._lines.read_after(seq, self._last_position(), limit)

    def watch(self, on_commit: Callable[[], None]) -> None:
        """Have a function called after every commit of this process."""
        self._watchers.append(on_commit)

    def verify(self) -> list[Finding]:
        """Recompute every checksum and compare the index with one rebuilt from the journal."""
        file = file_id(self.index.name)
        try:
            return self.index.verify()
        except DiskPressure:
            connection, _ = self.index.run_locked(self.index.build_in_memory)  # every checksum is checked all the same
            connection.close()
            return [Finding(what="was not compared: the disk is full", where=f"index {self.index.path.name}")]
        except Exception as problem:
            if file is None or not self.index.is_damaged(problem):
                raise
            self._heal(file, problem)
            what = "was damaged, and has been rebuilt from the journal"
            finding = Finding(what=what, where=self.index.path.name, is_copy=True, repaired=True)
            return [finding, *self.index.verify()]

    def rebuild(self) -> None:
        """Rebuild the index from the journal."""
        self.index.run_locked(self.index.rebuild)

    def _heal(self, file: FileId, problem: BaseException) -> None:
        """Rebuild the index, unless another caller has replaced that file since."""

        def rebuild() -> None:
            if file_id(self.index.name) == file:
                self.index.rebuild_damaged(problem)

        try:
            self.index.run_locked(rebuild)
        except (DiskPressure, DiskError):
            self._unusable = file  # until there is room, the journal is read

    def record_time(self, moment_us: int) -> None:
        """Commit the time if it has come to a moment that the last line is before, so that it cannot be undone."""
        if self._last_position().at_us < moment_us:
            self.index.run_locked(lambda: self._record_time(moment_us))

    def _record_time(self, moment_us: int) -> None:
        _, state = self.index.begin_write()
        time = self._clock.read_time(state.position.at_us, state.position.clock)
        if state.position.at_us < moment_us <= time.expiry_us:
            self._append_alone(state, [], time.stamp)
            self.index.catch_up()
        else:
            self.index.end_write(state)

    def clock_state(self) -> ClockState:
        """Return how the machine's clock and the journal's last time stand to each other."""
        position = self._last_position()
        return self._clock.state(position.at_us, position.clock)

    def set_time(self, change: ClockChange) -> None:
        """Take the machine's time, even if the journal is ahead of it: a person has decided that."""

        def work() -> None:
            _, state = self.index.begin_write()
            self._append_alone(state, [change], self._clock.machine_stamp())
            self.index.rebuild()  # decision 91: what had expired by mistake was moved to the past of the index

        self.index.run_locked(work)
        self._end = None

    def _append_alone(self, state: S, facts: list[Any], stamp: Stamp) -> None:
        """Append and sync one line that the index does not have yet."""
        start = state.position.offset
        line, _ = self.journal.encode(state.position, stamp=stamp, facts=encode_facts(facts), mark=state.synced_bytes)
        self.journal.append([line])
        self.journal.sync(cut_to=start)

    def rotate(self, *, least_bytes: int, before_us: int, dry_run: bool = False) -> bool:
        """Continue the journal in a new segment if the open one is that long and was begun before a moment."""
        with naming_the_disk():
            return self.index.rotate(least_bytes=least_bytes, before_us=before_us, dry_run=dry_run)

    def close(self) -> None:
        """Close every file."""
        self._readers.close()
        self.index.close()

    # Writing

    def _run_batch(self, batch: list[Ticket[Change, Any]]) -> None:
        def commit() -> None:
            try:
                self._commit_batch(batch)
            except Exception as problem:
                if not self.index.is_damaged(problem):
                    raise
                self.index.rebuild_damaged(problem)
                self._commit_batch(batch)

        self.index.run_locked(commit, batch[0].since)
        for on_commit in self._watchers:
            on_commit()

    def _commit_batch(self, batch: list[Ticket[Change, Any]]) -> None:
        writer, state = self.index.begin_write()
        start = state.position
        try:
            writer.execute("BEGIN IMMEDIATE")  # inside the try: Ctrl-C may come right after it
            lines, synced = self._decide_all(writer, state, batch)
            if lines:
                if synced:
                    state.synced_bytes = state.position.offset
                # decision 1: the index takes the facts before the journal does, so that a full disk or a fact that
                # cannot be applied is refused with nothing written
                self.schema.save_state(writer, state)
                self.journal.append([lines])
                if synced:
                    self.journal.sync(cut_to=start.offset)
        except BaseException:
            roll_back(writer)
            raise
        try:
            writer.execute("COMMIT")
        except BaseException as problem:
            roll_back(writer)
            refusal = disk_problem(problem)
            if lines and refusal is not None and self._take_back(start):
                raise refusal from problem
            # The journal has the lines: it happened. The index is behind, and the next writer brings it up to date.
            if not isinstance(problem, apsw.Error):
                raise  # Ctrl-C: the caller gets no answer
        else:
            self.index.end_write(state)
        if lines and synced:
            self.journal.note_synced(state.position)

    def _take_back(self, start: JournalPosition) -> bool:
        """Cut off lines that the index has no room for; return whether that was possible.

        Acknowledged, they could not be read while the disk is full or fails. No other process has seen them: readers
        go as far as the index goes, or hold the lock.
        """
        try:
            self.journal.cut(start.offset)
        except (OSError, StoreReadOnly):
            return False
        return True

    def _decide_all(self, writer: apsw.Connection, state: S, batch: list[Ticket[Change, Any]]) -> tuple[bytes, bool]:
        """Let every change of the batch decide, and apply its facts; return the lines to append and whether to sync."""
        schema = self.schema
        position, mark = state.position, state.synced_bytes
        projection = schema.projection(writer, state)
        lines: list[bytes] = []
        synced = False
        for ticket in batch:
            time = self._clock.commit_time(position.at_us, position.clock)
            projection.flush()  # so that this change sees what earlier ones of the batch decided
            ticket.error = None  # the batch may be repeated after a rebuild
            try:
                facts, ticket.result = ticket.work.decide(schema.decision_view(projection, time))
                text = encode_facts([*facts])
            except apsw.Error:
                raise  # the index failed, not the change: all of the batch fails or is repeated
            except Exception as refusal:
                if self.index.is_damaged(refusal):
                    raise FileDamaged(str(refusal)) from refusal  # all of the batch is repeated
                ticket.error = refusal
                continue
            if not facts:
                continue  # nothing happened, so there is no line
            line, position = self.journal.encode(position, stamp=time.stamp, facts=text, mark=mark)
            lines.append(line)
            for fact in facts:
                projection.apply(fact, time.now_us)
            synced = synced or ticket.work.synced or schema.must_sync(facts)
        if lines:
            schema.end_batch(projection, time.expiry_us)
            state.position = position
            state.boot_id = boot_id()
        return b"".join(lines), synced

    # Reading

    def _last_position(self) -> JournalPosition:
        """Return the position behind the last committed line: the index says which that is."""
        end = self._end
        if end is None or self.journal.size() != end.offset:
            snapshot = self._begin_read()
            end = self._end = snapshot.state.position
            self._end_read(snapshot)
        return end

    def _begin_read(self) -> _Snapshot:
        try:
            with naming_the_disk():
                snapshot = self._begin_indexed_read()
                self._memory = None
                return snapshot
        except (DiskPressure, DiskError, IndexDamaged) as problem:
            # Opening a database needs room for its `-shm` file; without any, or without an index, the journal is read.
            from_memory = self._read_in_memory()
            if from_memory is None:
                raise problem from problem.__cause__
            return from_memory

    def _read_in_memory(self) -> _Snapshot | None:
        """Return an index that was built in memory, built again if the journal has grown; None if that fails."""
        with self._memory_lock:
            memory = self._memory
            if memory is None or memory.state.position.offset != self.journal.size():
                with suppress(DiskPressure, DiskError, StoreReadOnly):
                    connection, state = self.index.run_locked(self.index.build_in_memory)
                    self._memory = _Snapshot(_IN_MEMORY, connection, state)
                    return self._memory
                return None
            return memory

    def _begin_indexed_read(self) -> _Snapshot:
        size = self.journal.size()  # before the snapshot: it notices that `recover` has replaced the journal
        snapshot = self._snapshot()
        if snapshot is None:
            self.index.run_locked(self.index.catch_up)
            snapshot = self._snapshot()
        elif size > snapshot.state.position.offset:
            # A process was killed between its sync and its index's commit, or is just about to commit.
            self._end_read(snapshot)
            self.index.catch_up_if_free()
            snapshot = self._snapshot()
        if snapshot is None:
            raise IndexDamaged
        return snapshot

    def _snapshot(self) -> _Snapshot | None:
        """Begin a read transaction on the index file there is now; None if it cannot be trusted."""
        file = file_id(self.index.name)
        if file is None or file == self._unusable:
            return None
        try:
            connection = self._readers.take(file)
        except (apsw.CantOpenError, FileNotFoundError):
            return None
        except apsw.Error as problem:
            if is_misread(problem):
                return None
            raise
        try:
            connection.execute("BEGIN")
            state = self.schema.read_state(connection, self.index.project)
            self.index.check_wal(connection, file)
        except Exception as problem:
            connection.close()
            if is_misread(problem):
                return None
            raise
        if state is None or not self.journal.holds(state.position):
            # Another layout or project, or a journal that was restored from an older copy.
            connection.close()
            return None
        return _Snapshot(file, connection, state)

    def _end_read(self, snapshot: _Snapshot) -> None:
        if snapshot.file == _IN_MEMORY:
            return
        snapshot.connection.execute("COMMIT")
        self._readers.give_back(snapshot.file, snapshot.connection)
