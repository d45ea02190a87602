"""A journal and a SQLite index of it, whatever they are about.

Writing: callers' changes are gathered into a batch; its leader takes the lock, brings the index up to the journal, lets
each change decide against the index, appends a line per change, syncs once if any of them asks for it, commits the
index and only then answers. Several processes may do this at once.

Reading: a snapshot of the index. It never waits for a writer, and never sees what was to be synced and is not.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import apsw

from engrambus.backends.sqlite.following import DAMAGED, A, Following, P, roll_back
from engrambus.backends.sqlite.index import Progress
from engrambus.backends.sqlite.readers import Identity, Readers, identity
from engrambus.backends.sqlite.tail import Tail
from engrambus.core import Clock
from engrambus.core.boot import boot_id
from engrambus.core.journal import GroupCommit, Line, Place, Ticket, encode_facts, print_line
from engrambus.errors import DiskPressure, IndexDamaged, StoreReadOnly

V = TypeVar("V")
T = TypeVar("T")


class Change(NamedTuple):
    """What a caller wants to do."""

    decide: Callable[[Any], tuple[Sequence[Any], Any]]
    synced: bool


class _Reading(NamedTuple):
    file: Identity
    connection: apsw.Connection
    applied: Any


class Projected(Following[A, P], Generic[A, P, V]):
    """A store over one journal and its index."""

    def __init__(self, journal: Path, index: Path, lock: Path, clock: Clock, progress: Progress | None = None) -> None:
        super().__init__(journal, index, lock, clock, progress)
        self._readers = Readers(index)
        self._tail = Tail(self._journal)
        self._watchers: list[Callable[[], None]] = []
        self._commits: GroupCommit[Change, Any] = GroupCommit(self._run_batch)

    # What is decided on and what is seen

    @abstractmethod
    def _deciding(self, writer: apsw.Connection, applied: A, at: int, projection: P) -> V:
        """Everything, for a change that is being decided on."""

    def _happened(self, facts: Sequence[Any]) -> None:  # most have nothing more to do
        """Take note of what this process did."""

    def _lasts(self, facts: Sequence[Any]) -> bool:  # most have nothing that does
        """Whether what happened is synced though nobody asked for that."""
        return False

    def _end(self, projection: P, at: int) -> None:
        """End what a batch wrote."""
        projection.finish()

    @abstractmethod
    def _view(self, connection: apsw.Connection, applied: A, as_of: int, file: Identity) -> V:
        """Everything, as of a moment; `file` tells one index from another that was put in its place."""

    def _seen(self, view: V) -> None:  # most have nothing more to do
        """Look after what a read came across."""

    # Using it

    @contextmanager
    def read(self) -> Iterator[V]:
        """The store as of now."""
        reading = self._begin_read()
        as_of = self._clock.now(reading.applied.place.at)
        view = self._view(reading.connection, reading.applied, as_of, reading.file)
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
        self._seen(view)

    def _commit(self, decide: Callable[[V], tuple[Sequence[Any], T]], synced: bool) -> T:
        answer: T = self._commits.submit(Change(decide, synced))
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

    def close(self) -> None:
        """Let go of every file."""
        self._readers.close()
        super().close()

    # Writing

    def _run_batch(self, batch: list[Ticket[Change, Any]]) -> None:
        def commit() -> None:
            try:
                self._commit_batch(batch)
            except DAMAGED:
                self._rebuild()
                self._commit_batch(batch)

        self._locked(commit)
        for committed in self._watchers:
            committed()

    def _commit_batch(self, batch: list[Ticket[Change, Any]]) -> None:
        writer, applied = self._caught_up()
        self._known = None
        try:
            writer.execute("BEGIN IMMEDIATE")  # inside: an interrupt may come before the next statement
            lines, synced = self._decide_all(writer, applied, batch)
            if lines:
                if synced:
                    applied.synced = applied.place.offset
                self._save(writer, applied)  # a disk without room for it says so before anything has happened
                self._journal.append([lines])
                if synced:
                    self._journal.sync()
        except BaseException:
            roll_back(writer)
            raise
        try:
            writer.execute("COMMIT")
        except BaseException as problem:
            # The journal has it: it happened. The index is behind, and whoever comes next brings it up.
            roll_back(writer)
            if not isinstance(problem, apsw.Error):
                raise  # Ctrl-C: no more is answered than that
        else:
            self._known = applied

    def _decide_all(self, writer: apsw.Connection, applied: A, batch: list[Ticket[Change, Any]]) -> tuple[bytes, bool]:
        """Let every change of the batch decide and change the index; gives the lines to append, and whether to sync."""
        place, mark = applied.place, applied.synced
        projection = self._projection(writer, applied)
        lines: list[bytes] = []
        synced = False
        for ticket in batch:
            at = self._clock.now(place.at)
            projection.flush()
            ticket.error = None
            try:
                facts, ticket.result = ticket.work.decide(self._deciding(writer, applied, at, projection))
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
            self._happened(facts)
            synced = synced or ticket.work.synced or self._lasts(facts)
        if lines:
            self._end(projection, place.at)
            applied.place = place
            applied.machine = boot_id()
        return b"".join(lines), synced

    # Reading

    def _last_place(self) -> Place:
        """The place behind the last line that is committed: the index says which that is."""
        known = self._tail.end
        if known is None or self._journal.size() != known.offset:
            reading = self._begin_read()
            known = self._tail.end = reading.applied.place
            self._end_read(reading)
        return known

    def _begin_read(self) -> _Reading:
        reading = self._snapshot()
        if reading is None:
            self._locked(self._catch_up)
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
        file = identity(self._index_name)
        if file is None:
            return None
        try:
            connection = self._readers.take(file)
            connection.execute("BEGIN")
            applied = self._read_applied(connection)
        except (*DAMAGED, apsw.CantOpenError):
            return None
        if applied is None or not self._journal.holds(applied.place):
            connection.close()
            return None
        return _Reading(file, connection, applied)

    def _end_read(self, reading: _Reading) -> None:
        reading.connection.execute("COMMIT")
        self._readers.give(reading.file, reading.connection)

    def _tend(self, more: Callable[[apsw.Connection, A], None] | None = None) -> None:
        """Bring the index up to the journal, and do more with it, unless a writer is at work: then it will."""

        def tend() -> None:
            writer, applied = self._catch_up()
            if more is not None:
                self._known = None
                more(writer, applied)

        with suppress(apsw.FullError, apsw.IOError, StoreReadOnly, DiskPressure):
            self._lock.run_if_free(tend)  # what can be read is read; the next writer will say what is wrong

    def _catch_up(self) -> tuple[apsw.Connection, A]:
        writer, self._known = self._caught_up()
        return writer, self._known
