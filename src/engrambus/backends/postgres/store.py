"""The knowledge store of a project in a PostgreSQL database: journal and tables change in one transaction.

Writing: callers' changes are gathered into a batch. Its leader begins a transaction and locks the project's state row,
so that commits of one project follow each other; each change decides on a view of the tables, its line and its rows are
written, and one COMMIT makes all of it durable. Processes on any number of hosts may do this at once.

Reading: a snapshot of the tables. It never waits for a writer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeAlias, TypeVar

import psycopg

from engrambus.backends.postgres.connections import Database, ProjectSession
from engrambus.backends.postgres.journal import PostgresJournal
from engrambus.backends.postgres.knowledge import KIND, KnowledgeTables, PostgresKnowledgeState
from engrambus.backends.postgres.projects import add_project, find_project
from engrambus.backends.postgres.verification import compare_tables
from engrambus.core import Clock, ProjectClock, Stamp
from engrambus.core.journal import GroupCommit, JournalKey, JournalPosition, Line, Ticket, encode_facts
from engrambus.core.project_clock import ClockChange, ClockState
from engrambus.errors import (
    CommitUnknown,
    JournalDamaged,
    JournalForeign,
    ProjectNotFound,
    StoreBusy,
    StoreUnreachable,
)
from engrambus.gateway.ports import Finding, View

T = TypeVar("T")
REPLAY_BATCH_FACTS = 16_000
"""Facts that are gathered before their rows are written, when the tables are rebuilt."""
ATTEMPTS = 2
"""How often a batch is tried whose connection was lost before anything could be committed."""


Decide: TypeAlias = Callable[[Any], tuple[Sequence[Any], Any]]
"""One caller's change: a pure function of the view that returns facts and an answer, or raises."""


def create_store(database: Database, key: JournalKey, *, project: str, now_us: int) -> None:
    """Create an empty store of a project; leave an existing one alone."""
    number = add_project(database, project)
    journal = PostgresJournal(key, KIND, project, database.name)
    with database.writing(number, {}) as session:
        journal.create(session, now_us)


def has_store(database: Database, project: str) -> bool:
    """True if the database has a store of a project."""
    number = find_project(database, project)
    if number is None:
        return False
    with database.reading(number, {}) as session:
        row = session.execute("SELECT 1 FROM journal WHERE kind = $1 AND seq = 0", (KIND,)).fetchone()
    return row is not None


class PostgresStore:
    """The knowledge store of one project in a database. Closing it closes the database for this user of it."""

    def __init__(self, database: Database, key: JournalKey, project: str, clock: Clock) -> None:
        number = find_project(database, project)
        if number is None:
            raise ProjectNotFound(f"{database.name} has no project {project}.", hint="Create it there: engrambus init.")
        self.database = database
        self.journal = PostgresJournal(key, KIND, project, database.name)
        self.tables = KnowledgeTables()
        self._project = project
        self._number = number
        self._clock = ProjectClock(clock)
        self._watchers: list[Callable[[], None]] = []
        self._commits: GroupCommit[Decide, Any] = GroupCommit(
            self._run_batch,
            limit_seconds=database.lock_seconds,
            busy=lambda: StoreBusy(
                f"Another call of this process is writing to {database.name} for more than {database.lock_seconds:g} "
                "s; nothing was stored.",
                limit=database.lock_seconds,
                hint="Try again.",
            ),
        )
        with self._reading() as session:
            if self.journal.header(session) is None:  # which also refuses a journal that is not ours
                raise ProjectNotFound(
                    f"{database.name} has no project {project}, or not all of it yet.",
                    hint="Create it there: engrambus init. If it is being moved there: engrambus move.",
                )

    @property
    def project(self) -> str:
        """The project's id."""
        return self._project

    def commit(self, decide: Callable[[View], tuple[Sequence[Any], T]], *, synced: bool = True) -> T:
        """Change the store and return the change's answer; when it returns, the database has committed it."""
        answer: T = self._commits.submit(decide)
        return answer

    @contextmanager
    def read(self) -> Iterator[View]:
        """Open a view of the store as of now."""
        with self._snapshot() as (session, state):
            time = self._clock.read_time(state.position.at_us, state.position.clock)
            view = self.tables.read_view(session, state, time)
            yield view
        if view.saw_many_expired:
            self._sweep_if_free()

    def last_line(self) -> int:
        """Return the number of the last committed line."""
        with self._snapshot() as (_, state):
            return state.position.seq

    def lines_after(self, seq: int, limit: int) -> list[Line]:
        """Return the committed lines after line number `seq`."""
        with self._reading() as session:
            return self.journal.read_after(session, seq, limit)

    def watch(self, on_commit: Callable[[], None]) -> None:
        """Have a function called after every commit of this process."""
        self._watchers.append(on_commit)

    def verify(self) -> list[Finding]:
        """Recompute every checksum and compare the tables with the journal."""
        with self._snapshot() as (session, state):
            try:
                return compare_tables(session, self.journal, state, self._project)
            except (JournalDamaged, JournalForeign) as problem:
                return [Finding(what=str(problem), where=self.journal.where, hint=str(problem.hint or ""))]

    def rebuild(self) -> None:
        """Rebuild the tables from the journal."""
        with self._writing() as session:
            self.journal.lock(session)
            self._build(session)

    def record_time(self, moment_us: int) -> None:
        """Commit the time if it has come to a moment that the last line is before, so that it cannot be undone."""
        with self._snapshot() as (_, state):
            is_past = state.position.at_us < moment_us
        if is_past:
            with self._writing() as session:
                state = self._lock(session)
                time = self._clock.read_time(state.position.at_us, state.position.clock)
                if state.position.at_us < moment_us <= time.expiry_us:
                    self._append_alone(session, state, [], time.stamp)

    def clock_state(self) -> ClockState:
        """Return how the machine's clock and the journal's last time stand to each other."""
        with self._snapshot() as (_, state):
            return self._clock.state(state.position.at_us, state.position.clock)

    def set_time(self, change: ClockChange) -> None:
        """Take the machine's time, even if the journal is ahead of it: a person has decided that."""
        with self._writing() as session:
            state = self._lock(session)
            self._append_alone(session, state, [change], self._clock.machine_stamp())
            self._build(session)  # decision 91: what had expired by mistake was moved to the past

    def close(self) -> None:
        """Close the database for this store."""
        self.database.close()

    # Writing

    def _run_batch(self, batch: list[Ticket[Decide, Any]]) -> None:
        for attempt in range(ATTEMPTS):
            try:
                self._commit_batch(batch)
                break
            except StoreUnreachable:  # the connection was lost before COMMIT: nothing can have been stored
                if attempt == ATTEMPTS - 1:
                    raise
        for on_commit in self._watchers:
            on_commit()

    def _commit_batch(self, batch: list[Ticket[Decide, Any]]) -> None:
        end: JournalPosition | None = None
        try:
            with self._writing() as session:
                state = self._lock(session)
                first = state.position.seq + 1
                lines = self._decide_all(session, state, batch)
                if lines:
                    self.tables.save_state(session, state)
                    self.journal.append(session, first, lines)
                    end = state.position
        except CommitUnknown as unknown:
            if end is not None and not self._was_committed(end, unknown):
                raise StoreUnreachable(str(unknown)) from unknown

    def _was_committed(self, end: JournalPosition, unknown: CommitUnknown) -> bool:
        """Find out over another connection whether a batch was committed; raise what is known if that fails."""
        try:
            with self._writing() as session:
                self._lock(session)  # waits for the transaction of the lost connection, if the server still has it
                return self.journal.holds(session, end)
        except (StoreUnreachable, CommitUnknown, StoreBusy):
            raise unknown from None

    def _decide_all(
        self, session: ProjectSession, state: PostgresKnowledgeState, batch: list[Ticket[Decide, Any]]
    ) -> list[bytes]:
        """Let every change of the batch decide, and apply its facts; return the lines to append."""
        position, mark = state.position, state.synced_bytes
        projection = self.tables.projection(session, state)
        lines: list[bytes] = []
        expiry_us = 0
        for ticket in batch:
            time = self._clock.commit_time(position.at_us, position.clock)
            projection.flush()  # so that this change sees what earlier ones of the batch decided
            ticket.error = None  # the batch may be repeated
            try:
                facts, ticket.result = ticket.work(self.tables.decision_view(projection, time))
                text = encode_facts([*facts])
            except psycopg.Error:
                raise  # the server failed, not the change
            except Exception as refusal:
                ticket.error = refusal
                continue
            if not facts:
                continue  # nothing happened, so there is no line
            line, position = self.journal.encode(position, stamp=time.stamp, facts=text, mark=mark)
            lines.append(line)
            for fact in facts:
                projection.apply(fact, time.now_us)
            expiry_us = time.expiry_us
        if lines:
            self.tables.end_batch(projection, expiry_us)
            state.position = position
        return lines

    def _append_alone(
        self, session: ProjectSession, state: PostgresKnowledgeState, facts: list[Any], stamp: Stamp
    ) -> None:
        """Append one line and apply it."""
        first, mark = state.position.seq + 1, state.synced_bytes
        line, position = self.journal.encode(state.position, stamp=stamp, facts=encode_facts(facts), mark=mark)
        self.journal.append(session, first, [line])
        state.position = position
        self.tables.save_state(session, state)

    def _lock(self, session: ProjectSession) -> PostgresKnowledgeState:
        """Wait for other writers of this project; return the state of its tables, filled if they are empty."""
        state = self.tables.read_state(session, "lock_state")
        if state is None:
            self.journal.lock(session)
            state = self.tables.read_state(session, "lock_state") or self._build(session)
        return state

    def _build(self, session: ProjectSession) -> PostgresKnowledgeState:
        """Empty the tables and fill them from the journal. The caller holds its lock."""
        state = self.tables.create(session, self.journal.start(session))
        projection, facts = self.tables.replay_projection(session, state), 0
        for line, behind in self.journal.read(session, state.position):
            for fact in self.tables.decode_facts(line.facts):
                projection.apply(fact, line.at_us)
                facts += 1
            state.position = behind
            if facts >= REPLAY_BATCH_FACTS:
                projection.finish()
                projection, facts = self.tables.replay_projection(session, state), 0
        projection.finish()
        self.tables.save_state(session, state)
        return state

    def _sweep_if_free(self) -> None:
        """Move every expired engram to the past, unless a writer is at work: it will do the same.

        An empty line records the time first: a clock set back revives none of them.
        """
        with suppress(StoreUnreachable, StoreBusy, CommitUnknown), self._writing() as session:
            state = self.tables.read_state(session, "lock_state_if_free")
            if state is None:
                return
            time = self._clock.commit_time(state.position.at_us, state.position.clock)
            if time.now_us > state.position.at_us:
                self._append_alone(session, state, [], time.stamp)
            projection = self.tables.projection(session, state)
            while projection.sweep(time.expiry_us):
                pass
            projection.finish()
            self.tables.save_state(session, state)

    # Transactions

    def _reading(self) -> Any:
        return self.database.reading(self._number, self.tables.queries)

    def _writing(self) -> Any:
        return self.database.writing(self._number, self.tables.queries)

    @contextmanager
    def _snapshot(self) -> Iterator[tuple[ProjectSession, PostgresKnowledgeState]]:
        """Open a snapshot; tables that were emptied are filled first."""
        with self._reading() as session:
            state = self.tables.read_state(session)
            if state is not None:
                yield session, state
                return
        with self._writing() as session:
            self._lock(session)
        with self._reading() as session:
            state = self.tables.read_state(session)
            if state is None:
                raise JournalDamaged(f"The tables of the {self.journal.where} are being emptied.")
            yield session, state
