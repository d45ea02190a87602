"""Comparing the tables of a project with its journal: a draft of the index is made from the lines, in SQLite.

So a difference between the two dialects would be found as well, and nothing is written to the server.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import apsw

from engrambus.backends.facts import decode_facts
from engrambus.backends.postgres.connections import ProjectSession
from engrambus.backends.postgres.journal import PostgresJournal
from engrambus.backends.sql.knowledge.projection import KnowledgeIndexState
from engrambus.backends.sqlite.comparison import DIFFERS, ROWS, ComparedTable, Row, describe
from engrambus.backends.sqlite.knowledge_comparison import KnowledgeComparison
from engrambus.backends.sqlite.knowledge_index import KnowledgeIndex
from engrambus.gateway.ports import Finding

_NAMED = re.compile(r":(\w+)")
_APPLIED = ComparedTable(("SELECT seq, checksum, at, ordinal, runs, identity FROM applied",))


def compare_tables(
    session: ProjectSession, journal: PostgresJournal, state: KnowledgeIndexState, project: str
) -> list[Finding]:
    """Check every line of a journal, and return where the tables differ from what the lines say."""
    with tempfile.NamedTemporaryFile(prefix="engrambus-verify-") as file, closing(apsw.Connection(file.name)) as draft:
        return list(_find_all(session, journal, state, draft, project))


def _find_all(
    session: ProjectSession,
    journal: PostgresJournal,
    state: KnowledgeIndexState,
    draft: apsw.Connection,
    project: str,
) -> Iterator[Finding]:
    comparison = KnowledgeComparison()
    _fill(session, journal, draft, comparison, project)
    for name, table in {**comparison.tables, "applied": _APPLIED}.items():
        difference = _first_difference(session, draft, _with_columns(table, name, draft), state.position.at_us)
        if difference is not None:
            yield Finding(what=f"{DIFFERS}: {difference}", where=f"table {name}", is_copy=True)
    yield from comparison.find_miscounted(session, session.queries, draft)


def _fill(
    session: ProjectSession,
    journal: PostgresJournal,
    draft: apsw.Connection,
    comparison: KnowledgeComparison,
    project: str,
) -> None:
    """Apply every line to an empty index of SQLite."""
    start = journal.start(session)
    draft.execute("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA temp_store = MEMORY")
    state = KnowledgeIndex().create(draft, project, start)
    state.is_from_start = True
    comparison.prepare(draft)
    draft.execute("BEGIN")
    projection = comparison.projection(draft, state)
    for line, behind in journal.read(session, start):
        for fact in decode_facts(line.facts):
            projection.apply(fact, line.at_us)
        state.position = behind
    projection.finish()
    KnowledgeIndex().save_state(draft, state)
    draft.execute("COMMIT")


def _with_columns(table: ComparedTable, name: str, draft: apsw.Connection) -> ComparedTable:
    """Return a whole table with the columns it has in SQLite: here it has its project as well."""
    if table.sources != (f"SELECT * FROM {name}",):  # noqa: S608
        return table
    columns: Any = draft.execute("SELECT name FROM pragma_table_info(?)", (name,))
    names = ", ".join(column for (column,) in columns)
    return ComparedTable((f"SELECT {names} FROM {name}",), table.key)  # noqa: S608


def _first_difference(session: ProjectSession, draft: apsw.Connection, table: ComparedTable, at_us: int) -> str | None:
    """Return the first row of a table that is missing, has other values or should not be there; None if none."""
    after: Row | None = None
    while True:
        actual, expected = _rows(session, table, at_us, after), table.rows(draft, at_us, after)
        if actual != expected:
            return describe(table.key, actual, expected)
        if not table.key or len(actual) < ROWS:
            return None
        after = actual[-1][: len(table.key)]


def _rows(session: ProjectSession, table: ComparedTable, at_us: int, after: Row | None) -> list[Row]:
    """Return the next rows behind a key, as `ComparedTable.rows` does."""
    query, named = table.query(at_us, after)
    values: list[Any] = []

    def number(match: re.Match[str]) -> str:
        values.append(named[match[1]])
        return f"${len(values)}"

    found: list[Row] = session.execute(_NAMED.sub(number, query), values).fetchall()
    return found
