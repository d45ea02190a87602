"""The work store of one project on PostgreSQL: its journal and its tables change in one transaction (decision 123).

Callers' changes are gathered into a batch. Its leader locks the project's row of `work_state`, which says how far the
tables have come, lets each change decide, writes lines and rows, and commits once. Writers of one project follow one
another, whichever host they are on; a commit that the connection did not survive is looked for in the journal.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple, TypeVar

import msgspec
import psycopg

from engrambus.backends.facts import decode_work_facts
from engrambus.backends.postgres.connections import Database, Session
from engrambus.backends.postgres.journal import PostgresJournal
from engrambus.backends.postgres.projects import add_project, find_project
from engrambus.backends.postgres.work.database import PostgresWorkDatabase, work_queries
from engrambus.backends.postgres.work.server_clock import ServerClock
from engrambus.backends.postgres.work.state import (
    insert_state,
    is_same,
    lock_state,
    read_state,
    save_state,
    with_numbers_of,
)
from engrambus.backends.postgres.work.verification import find_differences
from engrambus.backends.postgres.work.wakeups import Wakeups
from engrambus.backends.sql.work.projection import WorkProjection
from engrambus.backends.sql.work.state import WorkIndexState
from engrambus.backends.sql.work.view import SqlWorkView
from engrambus.backends.sql.work.waiters import kinds_concerned
from engrambus.core import Clock, ProjectClock
from engrambus.core.database import FileDamaged
from engrambus.core.journal import GroupCommit, JournalKey, JournalPosition, Line, Ticket, encode_facts
from engrambus.core.project_clock import ClockChange, ClockState
from engrambus.errors import (
    CommitUnknown,
    IndexDamaged,
    JournalDamaged,
    JournalForeign,
    ProjectNotFound,
    StoreBusy,
    StoreUnreachable,
)
from engrambus.gateway.ports import Finding
from engrambus.space.schedules import ScheduleDecide, ScheduleView
from engrambus.space.tuples import STAMPED_FIELDS, RunningWorker, TupleDone, Waiter, WaitKind

T = TypeVar("T")

KIND = "tuples"
RECONNECT_SECONDS = 0.2
"""Pause before a batch is tried again on another connection."""
PLANS = {
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "join_collapse_limit": "1",
    "jit": "off",
}
"""Settings by which every query is answered by the indexes that it was written for, whatever the statistics say.

decision 123: as `INDEXED BY` and `CROSS JOIN` do for SQLite; tables of work are empty now and full the next moment.
"""
TABLES = (
    *("state", "schedules", "bodies", "tuples", "needs", "lane_runs", "siblings", "groups", "rules", "slots", "starts"),
    *("closed", "held", "posted", "receipts", "links", "hits", "results", "purged", "asked", "yools", "running"),
    *("counted", "blocks", "task_changes", "lanes", "runs", "batches", "folded_leaves", "folded_ends", "agents"),
)
"""Tables that are made from the journal."""


class Change(NamedTuple):
    """One caller's change: a pure function of the view that returns facts and an answer, or raises."""

    decide: Callable[[Any], tuple[Sequence[Any], Any]]
    synced: bool


class _Attempt(msgspec.Struct):
    """One try to commit a batch."""

    end: JournalPosition | None = None
    """Position behind its last line; None if it has no lines."""


def create_work(database: Database, key: JournalKey, *, project: str, now_us: int) -> None:
    """Create an empty work journal of a project; leave an existing one alone."""
    number = add_project(database, project)
    with database.writing(number, {}) as session:
        PostgresJournal(key, KIND, project, database.name).create(session, now_us)


class PostgresWork:
    """The work store of one project in a database that others may use at the same time."""

    def __init__(
        self,
        database: Database,
        key: JournalKey,
        project: str,
        clock: Clock | None = None,
        *,
        indexed: tuple[str, ...] = (),
    ) -> None:
        """Without a clock, the server's is the project's: those of hosts may differ."""
        number = find_project(database, project)
        if number is None:
            raise ProjectNotFound(f"{database.name} has no project {project}.", hint="Create it there: engrambus init.")
        self.database = database
        self._number = number
        self._project_id = project
        self._indexed = tuple(path for path in indexed if path not in STAMPED_FIELDS)
        self._journal = PostgresJournal(key, KIND, project, database.name)
        self._server_clock = ServerClock() if clock is None else None
        self._clock = ProjectClock(clock or self._server_clock)  # type: ignore[arg-type]  # one of them is there
        self._state: WorkIndexState | None = None
        """The state as this process left it; valid while the row of the state is the same."""
        self._is_open = False
        """True once this store has written, or tried to."""
        self._watchers: list[Callable[[], None]] = []
        self._wakeups = Wakeups(database, number)
        self._commits: GroupCommit[Change, Any] = GroupCommit(
            self._run_batch, limit_seconds=database.lock_seconds, busy=StoreBusy
        )

    @property
    def project(self) -> str:
        """The project's id."""
        return self._project_id

    def commit(self, decide: ScheduleDecide[T], *, synced: bool = True) -> T:
        """Change the space and return the change's answer once the server has committed it.

        decision 123: every commit is on the server's disk, for a claim that a restart of the server forgets might be
        given to another host under the same fence.
        """
        answer: T = self._commits.submit(Change(decide, synced))
        return answer

    @contextmanager
    def read(self) -> Iterator[ScheduleView]:
        """Open a view of the space as of now."""
        try:
            with self._snapshot() as (session, state):
                time_now = self._clock.read_time(state.position.at_us, state.position.clock)
                yield SqlWorkView(PostgresWorkDatabase(session), state, time_now.now_us)
        except FileDamaged as problem:
            self.rebuild()
            raise IndexDamaged from problem

    @contextmanager
    def wait_on(self, kind: WaitKind) -> Iterator[Waiter]:
        """Open a waiter that commits of any host wake; whoever waits looks again from time to time all the same."""
        with self._wakeups.wait_on(kind) as waiter:
            yield waiter

    def announce(self, worker: RunningWorker) -> None:
        """Note a running worker for all hosts."""
        with self._writing() as session:
            values = worker.id, msgspec.json.encode(worker)
            session.execute(work_queries()["announce_worker"], values)

    def withdraw(self, worker_id: str) -> None:
        """Forget a worker."""
        with self._writing() as session:
            session.execute(work_queries()["withdraw_worker"], (worker_id,))

    def announced(self) -> list[RunningWorker]:
        """Return the workers of all hosts, by id; some may have ended."""
        with self._reading() as session:
            rows = session.execute(work_queries()["announced_workers"]).fetchall()
        return [msgspec.json.decode(body, type=RunningWorker) for (body,) in rows]

    def last_line(self) -> int:
        """Return the number of the last line."""
        with self._reading() as session:
            (seq,) = session.execute(work_queries()["last_line"], (KIND,)).fetchone()
            return int(seq or 0)

    def lines_after(self, seq: int, limit: int) -> list[Line]:
        """Return the lines after line number `seq`."""
        with self._reading() as session:
            return self._journal.read_after(session, seq, limit)

    def watch(self, committed: Callable[[], None]) -> None:
        """Have a function called after every commit of this process."""
        self._watchers.append(committed)

    def verify(self) -> list[Finding]:
        """Recompute every checksum and compare the tables with those that the journal adds up to."""
        with self._snapshot() as (session, state):
            try:
                return find_differences(session, self._journal, state, self._project_id)
            except (JournalDamaged, JournalForeign) as problem:
                return [Finding(what=str(problem), where=self._journal.where, hint=str(problem.hint or ""))]

    def rebuild(self) -> None:
        """Make the tables again from the journal."""
        with self._writing() as session:
            self._journal.lock(session)
            self._state = self._make_tables(session)

    def rotate(self, *, least_bytes: int, before_us: int, dry_run: bool = False) -> bool:
        """Do nothing: a journal in a database has no segments."""
        return False

    def record_time(self, moment_us: int) -> None:
        """Commit the time if it has come to a moment that the last line is before, so that it cannot be undone."""
        with self._snapshot() as (_, state):
            last_us = state.position.at_us
        if last_us < moment_us:
            self._append_alone(lambda state: self._time_reached(state, moment_us))

    def clock_state(self) -> ClockState:
        """Return how the clock and the journal's last time stand to each other."""
        with self._snapshot() as (_, state):
            return self._clock.state(state.position.at_us, state.position.clock)

    def set_time(self, change: ClockChange) -> None:
        """Take the clock's time, even if the journal is ahead of it: a person has decided that."""
        self._append_alone(lambda state: ([change], self._clock.machine_stamp()))

    def close(self) -> None:
        """Give the connections back."""
        self._wakeups.close()
        self.database.close()

    # Writing

    def _run_batch(self, batch: list[Ticket[Change, Any]]) -> None:
        deadline = batch[0].since + self.database.lock_seconds
        attempt = _Attempt()
        while True:
            state, self._state = self._state, None
            try:
                kinds = self._commit_batch(batch, state, attempt)
                break
            except FileDamaged:
                self.rebuild()
            except CommitUnknown:
                if self._has_committed(attempt, deadline):
                    kinds = frozenset({"work", "room", "any", "schedules"})
                    break
            except StoreUnreachable:
                if time.monotonic() + RECONNECT_SECONDS > deadline:
                    raise
                time.sleep(RECONNECT_SECONDS)
        self._wakeups.notify_here(kinds)
        for committed in self._watchers:
            committed()

    def _has_committed(self, attempt: _Attempt, deadline: float) -> bool:
        """Return whether a batch was committed that the connection was lost with: its last line says so.

        Its transaction has ended by then, or the lock would still be held.
        """
        while attempt.end is not None:
            try:
                with self._writing() as session:
                    lock_state(session, self._indexed)
                    return self._journal.holds(session, attempt.end)
            except StoreUnreachable:
                if time.monotonic() + RECONNECT_SECONDS > deadline:
                    raise CommitUnknown(
                        "The connection was lost while the change was being committed, and the server is not back.",
                        hint="Look whether it is there before you repeat it.",
                    ) from None
                time.sleep(RECONNECT_SECONDS)
        return False

    def _commit_batch(
        self, batch: list[Ticket[Change, Any]], known: WorkIndexState | None, attempt: _Attempt
    ) -> frozenset[str]:
        """Decide and commit; return the kinds of waiters that this concerns."""
        with self._writing() as session:
            state = self._lock(session, known)
            first = state.position.seq + 1
            lines, kinds = self._decide_all(PostgresWorkDatabase(session), state, batch)
            if lines:
                save_state(session, state)
                self._journal.append(session, first, lines)
                self._wakeups.notify(session, kinds)
            attempt.end = state.position if lines else None
        self._state = state
        return kinds

    def _decide_all(
        self, database: PostgresWorkDatabase, state: WorkIndexState, batch: list[Ticket[Change, Any]]
    ) -> tuple[list[bytes], frozenset[str]]:
        """Let every change of the batch decide, and apply its facts; return the lines to append."""
        position, mark = state.position, state.synced_bytes
        projection = WorkProjection(database, state)
        lines: list[bytes] = []
        kinds: frozenset[str] = frozenset()
        synced = False
        for ticket in batch:
            now = self._clock.commit_time(position.at_us, position.clock)
            projection.flush()  # so that this change sees what earlier ones of the batch decided
            ticket.error = None  # the batch may be repeated
            view = SqlWorkView(database, state, now.now_us, projection)
            try:
                facts, ticket.result = ticket.work.decide(view)
                text = encode_facts([*facts])
            except Exception as refusal:
                if isinstance(refusal, (psycopg.Error, FileDamaged)):
                    raise
                ticket.error = refusal
                continue
            if not facts:
                continue  # nothing happened, so there is no line
            line, position = self._journal.encode(position, stamp=now.stamp, facts=text, mark=mark)
            lines.append(line)
            kinds |= kinds_concerned(facts, view)
            for fact in facts:
                projection.apply(fact, now.now_us)
            synced = synced or ticket.work.synced or TupleDone in map(type, facts)
        if lines:
            projection.end_batch()
            state.position = position
            if synced:
                state.synced_bytes = position.offset
        return lines, kinds

    def _append_alone(self, decide: Callable[[WorkIndexState], tuple[list[Any], Any] | None]) -> None:
        """Commit one line whose facts come from no view."""
        with self._writing() as session:
            state = self._lock(session, None)
            decided = decide(state)
            if decided is None:
                return
            facts, stamp = decided
            line, position = self._journal.encode(
                state.position, stamp=stamp, facts=encode_facts(facts), mark=state.synced_bytes
            )
            projection = WorkProjection(PostgresWorkDatabase(session), state)
            for fact in facts:
                projection.apply(fact, stamp.at_us)
            projection.end_batch()
            state.position, state.synced_bytes = position, position.offset
            save_state(session, state)
            self._journal.append(session, position.seq, [line])
        self._state = None

    def _time_reached(self, state: WorkIndexState, moment_us: int) -> tuple[list[Any], Any] | None:
        now = self._clock.read_time(state.position.at_us, state.position.clock)
        if state.position.at_us < moment_us <= now.expiry_us:
            return [], now.stamp
        return None

    # The state

    def _lock(self, session: Session, known: WorkIndexState | None) -> WorkIndexState:
        """Lock the project's work for this transaction and return its state; make the tables if there are none."""
        state = lock_state(session, self._indexed, self._server_clock)
        if state is None:
            self._journal.lock(session)
            state = lock_state(session, self._indexed, self._server_clock)  # another may have made them meanwhile
        if state is None:
            return self._make_tables(session)
        if not self._is_open:
            # As on a disk: who opens a store finds everything synced that is there.
            self._is_open, state.synced_bytes = True, state.position.offset
        if known is None:
            return state
        return known if is_same(known, state) else with_numbers_of(state, known)

    @contextmanager
    def _snapshot(self) -> Iterator[tuple[Session, WorkIndexState]]:
        for _ in range(2):
            with self._reading() as session:
                state = read_state(session, self._indexed, self._server_clock)
                if state is not None:
                    yield session, state
                    return
            self.rebuild()
        raise IndexDamaged

    def _make_tables(self, session: Session) -> WorkIndexState:
        """Fill the tables from the journal, whose lock is held."""
        for table in TABLES:
            session.execute(f"DELETE FROM work_{table}")  # noqa: S608  # names of our own
        start = self._journal.start(session)
        state = insert_state(session, self._indexed, start)
        for line, behind in self._journal.read(session, start):
            # A projection for each line: what it has gathered is written before the next line is read.
            projection = WorkProjection(PostgresWorkDatabase(session), state)
            for fact in decode_work_facts(line.facts):
                projection.apply(fact, line.at_us)
            projection.end_batch()
            state.position, state.synced_bytes = behind, behind.offset
        WorkProjection(PostgresWorkDatabase(session), state).finish()
        save_state(session, state)
        return state

    def _writing(self) -> AbstractContextManager[Session]:
        return self.database.pipelined(self._number, work_queries(), PLANS)

    def _reading(self) -> AbstractContextManager[Session]:
        return self.database.pipelined(self._number, work_queries(), PLANS, read_only=True)
