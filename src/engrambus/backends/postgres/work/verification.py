"""Comparing the tables of a project's work with its journal: a draft of the index is made from the lines, in SQLite.

So a difference between the two dialects would be found as well, and nothing is written to the server.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import apsw

from engrambus.backends.facts import decode_work_facts
from engrambus.backends.postgres.connections import Session
from engrambus.backends.postgres.journal import PostgresJournal
from engrambus.backends.postgres.queries import translate
from engrambus.backends.postgres.work.database import PostgresWorkDatabase
from engrambus.backends.sql.work.figures import all_figures
from engrambus.backends.sql.work.projection import WorkProjection
from engrambus.backends.sql.work.state import WorkIndexState
from engrambus.backends.sqlite.comparison import DIFFERS, ROWS, Row, describe
from engrambus.backends.sqlite.work.database import SqliteWorkDatabase
from engrambus.backends.sqlite.work.index import WorkIndex
from engrambus.gateway.ports import Finding

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


def find_differences(session: Session, journal: PostgresJournal, state: WorkIndexState, project: str) -> list[Finding]:
    """Recompute every checksum of a journal, and return where the tables differ from what its lines say."""
    with tempfile.NamedTemporaryFile(prefix="engrambus-verify-") as file, closing(apsw.Connection(file.name)) as draft:
        return list(_find_all(session, journal, state, draft, project))


def _find_all(
    session: Session, journal: PostgresJournal, state: WorkIndexState, draft: apsw.Connection, project: str
) -> Iterator[Finding]:
    expected = _fill(session, journal, state, draft, project)
    for table, (key, others) in COMPARED.items():
        row = _first_difference(session, draft, table, key, others)
        if row is not None:
            yield Finding(what=f"{DIFFERS}: {row}", where=f"table work_{table}", is_copy=True)
    if _counters(state) != _counters(expected):
        yield Finding(what=f"{DIFFERS}: its row has other values", where="table work_state", is_copy=True)
    actual_figures = all_figures(PostgresWorkDatabase(session), state)
    expected_figures = all_figures(SqliteWorkDatabase(draft), expected)
    for name in expected_figures:
        if actual_figures[name] != expected_figures[name]:
            yield Finding(what=f"{DIFFERS}: figures are others", where=f"figures of {name}", is_copy=True)


def _counters(state: WorkIndexState) -> tuple[Any, ...]:
    position = state.position
    return (
        *(position.offset, position.seq, position.checksum, position.at_us, state.ordinal, state.receipts),
        *(state.links, state.runs, state.epoch, state.boot, state.counter, state.rules),
    )


def _fill(
    session: Session, journal: PostgresJournal, state: WorkIndexState, draft: apsw.Connection, project: str
) -> WorkIndexState:
    """Apply every line to an empty index of SQLite."""
    start = journal.start(session)
    draft.execute("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA temp_store = MEMORY")
    expected = WorkIndex(state.indexed).create(draft, project, start)
    expected.is_from_start = True
    draft.execute("BEGIN")
    projection = WorkProjection(SqliteWorkDatabase(draft), expected)
    for line, behind in journal.read(session, start):
        for fact in decode_work_facts(line.facts):
            projection.apply(fact, line.at_us)
        expected.position = behind
    projection.finish()
    draft.execute("COMMIT")
    return expected


def _first_difference(session: Session, draft: apsw.Connection, table: str, key: str, others: str) -> str | None:
    """Return the first row that one of both has otherwise or not at all; None if they are the same."""
    width = key.count(",") + 1
    after: Row | None = None
    columns = f"{key}, {others}" if others else key
    while True:
        condition = f"WHERE ({key}) > ({', '.join('?' * width)})" if after else ""
        query = f"SELECT {columns} FROM {{}}{table} {condition} ORDER BY {key} LIMIT {ROWS}"  # noqa: S608  # our own names
        rows = [*session.execute(translate(query.format("work_")), after or ()).fetchall()]
        expected = [*draft.execute(query.format(""), after or ()).fetchall()]
        if rows != expected:
            return describe(key.split(", "), rows, expected)
        if len(rows) < ROWS:
            return None
        after = rows[-1][:width]
