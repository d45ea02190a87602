"""Comparing the tables of a project's work with others that are made from its journal in the same transaction.

Those others belong to a project whose number is the negated one, and are undone with the transaction: nobody else ever
sees them. The journal and the tables are read in one snapshot, and nobody who writes waits for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from engrambus.backends.facts import decode_work_facts
from engrambus.backends.postgres.connections import Database, Session
from engrambus.backends.postgres.work.database import PostgresWorkDatabase, work_queries
from engrambus.backends.postgres.work.state import insert_state, read_state, save_state
from engrambus.backends.sql.work.figures import all_figures
from engrambus.backends.sql.work.projection import WorkProjection
from engrambus.backends.sql.work.state import WorkIndexState
from engrambus.errors import JournalDamaged
from engrambus.gateway.ports import Finding

if TYPE_CHECKING:
    from engrambus.backends.postgres.work.journal import WorkJournal

ROWS = 1000
"""Rows of a table that are compared at a time."""
DIFFERS = "differs from the journal"
Row = tuple[Any, ...]

# `due`, `open`, `head` and `served` are set by claims, which have no line of their own for that.
COMPARED: dict[str, tuple[str, str]] = {
    "bodies": ("ordinal", "body"),
    "tuples": (
        "ordinal",
        "id, state, lane, rank, run, attempts, ready_at, not_before, epoch, counter, worker, until, deadline, retries, "
        "budget_micros, budget_tokens, micros, tokens, own_micros, own_tokens, held_micros, held_tokens, alarmed, "
        "parent, again, ended, needs, grp",
    ),
    "lane_runs": ("number", "lane, needs, rank, run, authority"),
    "siblings": ("number", "lane_run, parent"),
    "groups": ("number", "siblings, key"),
    "posted": ("path, value, live, rank, ordinal", ""),
    "receipts": ("number", "id, run, body"),
    "links": ("ordinal, number", "receipt, step"),
    "hits": ("receipt_number, number", "run, ordinal, step, receipt, at"),
    "results": ("key, number", ""),
    "purged": ("sha", "at, why"),
    "asked": ("key", "id, request, accepted"),
    "running": ("ordinal, step", "micros, tokens, yool"),
    "blocks": ("ordinal, blocker", "reason, by"),
    "task_changes": ("ordinal, number", "at, what, by, text, owner, process"),
    "counted": ("ordinal, epoch, counter, step", "micros, tokens"),
    "rules": ("name", "body"),
    "slots": ("pool, ordinal", ""),
    "starts": ("pool, number", "at"),
    "needs": ("number", "yools"),
    "batches": ("ordinal", "lane, rank, depth, branching, template, retries, folded"),
    "folded_leaves": ("batch, start", "stop"),
    "folded_ends": ("batch, level, state", "agents"),
    "agents": ("ordinal", "batch, level, number, children, children_left, dead, cancelled, idle, kept"),
    "schedules": ("number", "name, run, added_by, look, added, state"),
    "runs": ("number", "run"),
}
"""The tables that are compared: the columns of their keys, and others."""


class _Undo(Exception):  # no error: it ends a transaction of which nothing is to stay
    pass


def find_differences(database: Database, project: int, journal: WorkJournal, indexed: tuple[str, ...]) -> list[Finding]:
    """Recompute every checksum of the journal, and return where the tables differ from it."""
    findings: list[Finding] = []
    try:
        with database.writing(project, work_queries()) as session:
            session.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            findings += _compare(session, project, journal, indexed)
            raise _Undo
    except _Undo:
        return findings
    except JournalDamaged as damage:
        return [Finding(what=f"checksum: {damage}", where="work journal")]


def _compare(session: Session, project: int, journal: WorkJournal, indexed: tuple[str, ...]) -> Iterator[Finding]:
    state = read_state(session, indexed)
    assert state is not None
    expected = _make_draft(session, project, journal, state)
    for table, (key, others) in COMPARED.items():
        row = _first_difference(session, project, table, key, others)
        if row is not None:
            yield Finding(what=f"{DIFFERS}: {row}", where=f"work, table {table}", is_copy=True)
    if (state.position, state.ordinal, state.receipts, state.links, state.epoch, state.counter, state.rules) != (
        *(expected.position, expected.ordinal, expected.receipts, expected.links, expected.epoch, expected.counter),
        expected.rules,
    ):
        yield Finding(what=f"{DIFFERS}: its state is another", where="work, table state", is_copy=True)
    actual_figures = all_figures(PostgresWorkDatabase(session), state)
    _switch(session, -project)
    expected_figures = all_figures(PostgresWorkDatabase(session), expected)
    _switch(session, project)
    for table in expected_figures:
        if actual_figures[table] != expected_figures[table]:
            yield Finding(what=f"{DIFFERS}: figures are others", where=f"work, table {table}", is_copy=True)


def _make_draft(session: Session, project: int, journal: WorkJournal, state: WorkIndexState) -> WorkIndexState:
    """Fill the tables of the negated number from the journal, as far as the project's have come."""
    start = journal.start(session)
    _switch(session, -project)
    draft = insert_state(session, state.indexed, start)
    _switch(session, project)
    page: list[Any] = []
    for line, _, behind in journal.read(session, start):
        page.append((line, behind))
        if len(page) >= ROWS:
            _apply(session, project, draft, page)
            page = []
    _apply(session, project, draft, page)
    return draft


def _apply(session: Session, project: int, draft: WorkIndexState, page: list[Any]) -> None:
    _switch(session, -project)
    for line, behind in page:
        projection = WorkProjection(PostgresWorkDatabase(session), draft)
        for fact in decode_work_facts(line.facts):
            projection.apply(fact, line.at_us)
        projection.end_batch()
        draft.position = behind
    save_state(session, draft)
    _switch(session, project)


def _switch(session: Session, project: int) -> None:
    session.execute("SELECT set_config('engrambus.project', $1, true)", (str(project),))


def _first_difference(session: Session, project: int, table: str, key: str, others: str) -> str | None:
    """Return the first row that one of both has otherwise or not at all; None if they are the same."""
    width = key.count(",") + 1
    after: Row | None = None
    while True:
        rows = _rows(session, table, key, others, after)
        _switch(session, -project)
        expected = _rows(session, table, key, others, after)
        _switch(session, project)
        if rows != expected:
            return _describe(key, width, rows, expected)
        if len(rows) < ROWS:
            return None
        after = rows[-1][:width]


def _rows(session: Session, table: str, key: str, others: str, after: Row | None) -> list[Row]:
    columns = f"{key}, {others}" if others else key
    places = ", ".join(f"${number + 1}" for number in range(len(after or ())))
    condition = f"WHERE ({key}) > ({places})" if after else ""
    query = f"SELECT {columns} FROM work_{table} {condition} ORDER BY {key} LIMIT {ROWS}"  # noqa: S608  # our own names
    return list(session.execute(query, after or ()).fetchall())


def _describe(key: str, width: int, rows: list[Row], expected: list[Row]) -> str:
    actual, should = {row[:width]: row for row in rows}, {row[:width]: row for row in expected}
    place = min(place for place in {*actual, *should} if actual.get(place) != should.get(place))
    problem = "has other values" if place in actual and place in should else "does not belong there"
    if place not in actual:
        problem = "is missing"
    values = ", ".join(value.hex() if isinstance(value, bytes) else str(value) for value in place)[:100]
    return f"the row {key} = {values} {problem}"
