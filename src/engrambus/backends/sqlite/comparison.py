"""Comparing an index with a draft that was built from the journal, in one ordered pass over each table (decision 94).

Both are read in the order of a table's key, some rows at a time, each time in a read transaction of its own: a long one
would keep SQLite from emptying the WAL. Before each the draft is brought up to the line at which the index is then, so
that what is committed during the comparison is no difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

import apsw

from engrambus.backends.sqlite.connections import FileId, connect, file_id, roll_back
from engrambus.errors import IndexDamaged
from engrambus.gateway.ports import Finding

if TYPE_CHECKING:
    from engrambus.backends.sqlite.journal_index import IndexDraft, IndexState, JournalIndex, Projection

ROWS = 1000
"""Rows of a table that are compared in one read transaction."""
MAX_KEY_TEXT = 100
"""Characters of a key that a finding shows."""
DIFFERS = "differs from the journal"

S = TypeVar("S", bound="IndexState")
P = TypeVar("P", bound="Projection")
S_contra = TypeVar("S_contra", bound="IndexState", contravariant=True)
P_co = TypeVar("P_co", bound="Projection", covariant=True)
Row = tuple[Any, ...]


_UNREAD_PAGE = "unable to get the page"
"""In SQLite's words for a page that the disk does not return, or whose checksum is wrong."""


class ComparedTable(NamedTuple):
    """What an index says in one table, however it came to say it."""

    sources: tuple[str, ...]
    """Queries without an order; the rows of several are read as those of one."""
    key: tuple[str, ...] = ()
    """Columns by which rows are unique and stored in order. Without a key, the query has an order and few rows."""

    def rows(self, connection: apsw.Connection, at_us: int, after: Row | None) -> list[Row]:
        """Return the next rows behind a key, each after its key; `:at` in a query is `at_us`."""
        return connection.execute(*self.query(at_us, after)).fetchall()

    def query(self, at_us: int, after: Row | None) -> tuple[str, dict[str, Any]]:
        """Return the query for the next rows behind a key, and its named values."""
        names, values = ", ".join(self.key), {f"k{position}": value for position, value in enumerate(after or ())}
        condition = f" WHERE ({names}) > ({', '.join(f':{name}' for name in values)})" if values else ""
        parts = (f"SELECT {names}, * FROM ({source}) AS source{condition}" for source in self.sources)  # noqa: S608
        order = ", ".join(str(position + 1) for position in range(len(self.key)))
        query = f"{' UNION ALL '.join(parts)} ORDER BY {order} LIMIT {ROWS}" if self.key else self.sources[0]
        return query, {"at": at_us, **values}


def whole_tables(**keys: str) -> dict[str, ComparedTable]:
    """Return whole tables to compare, each with the columns of its key separated by spaces."""
    queries = {name: f"SELECT * FROM {name}" for name in keys}  # noqa: S608
    return {name: ComparedTable((queries[name],), tuple(key.split())) for name, key in keys.items()}


class Comparison(Protocol[S_contra, P_co]):
    """What is particular to one kind of index when it is compared with a draft."""

    tables: dict[str, ComparedTable]

    def prepare(self, draft: apsw.Connection) -> None:
        """Drop from an empty draft what only readers of an index need."""
        ...

    def projection(self, draft: apsw.Connection, state: S_contra) -> P_co:
        """Return a projection that applies facts to the draft."""
        ...

    def find_rest(
        self, index: apsw.Connection, draft: apsw.Connection, state: S_contra, draft_state: S_contra
    ) -> Iterator[Finding]:
        """Find what the tables do not show: lists and figures. Both are at the same line of the journal."""
        ...


class IndexVerifier(Generic[S, P]):
    """Compares the index of a journal with a draft that is built from it, while others go on writing."""

    def __init__(self, index: JournalIndex[S, P], comparison: Comparison[S, P], *, in_memory: bool = False) -> None:
        """With `in_memory` the draft takes no room on the disk."""
        self._index = index
        self._comparison = comparison
        self._in_memory = in_memory
        self._connection: apsw.Connection | None = None
        self._file: FileId | None = None
        self._draft: IndexDraft[S, P]

    def run(self) -> list[Finding]:
        """Recompute every checksum of the journal, and return where the index differs from it."""
        index = self._index
        index.run_locked(index.catch_up)
        try:
            projection, prepare = self._comparison.projection, self._comparison.prepare
            with index.open_draft(projection, prepare, in_memory=self._in_memory) as self._draft:
                self._draft.fill(self._peek())
                return list(self._find_all())
        finally:
            self._close()

    def _find_all(self) -> Iterator[Finding]:
        total = self._index.path.stat().st_size
        for number, (name, table) in enumerate(self._comparison.tables.items()):
            row = self._first_difference(table, self._part_done(number, total))
            if row is not None:
                yield Finding(what=f"{DIFFERS}: {row}", where=f"{self._index.path.name}, table {name}", is_copy=True)
        yield from self._find_structure()
        with self._both() as (index, state):
            yield from self._comparison.find_rest(index, self._draft.connection, state, self._draft.state)
        self._index.report_progress(total, total)

    def _find_structure(self) -> Iterator[Finding]:
        """Have SQLite check each table: that its pages hang together, and that its indexes list the same rows."""
        with self._read() as (connection, _):
            rows: Any = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND rootpage > 0")
            names = [name for (name,) in rows]
        for name in names:
            with self._read() as (connection, _):
                ((result, *_), *_) = connection.execute(f"PRAGMA integrity_check({name})").fetchall()
            if result != "ok":
                problem = "a page could not be read: " if _UNREAD_PAGE in str(result) else ""
                where = f"{self._index.path.name}, table {name}"
                yield Finding(what=f"{problem}SQLite says: {result}", where=where, is_copy=True)

    def _part_done(self, number: int, total: int) -> Callable[[int], None]:
        """Return what reports progress inside a table. The first one counts for most: it holds the bodies."""
        count = len(self._comparison.tables)
        share = total // 2 if number == 0 else total // 2 // count
        start = 0 if number == 0 else total // 2 + (number - 1) * share
        rows_in_all = max(1, self._draft.state.position.seq, getattr(self._draft.state, "ordinal", 0))

        def report(rows: int) -> None:
            self._index.report_progress(min(start + share * rows // rows_in_all, start + share, total - 1), total)

        return report

    def _first_difference(self, table: ComparedTable, report: Callable[[int], None]) -> str | None:
        """Return the first row of a table that the index lacks, has otherwise or should not have; None if none."""
        after: Row | None = None
        rows = 0
        while True:
            with self._both() as (index, state):
                at_us = state.position.at_us
                actual, expected = table.rows(index, at_us, after), table.rows(self._draft.connection, at_us, after)
            if actual != expected:
                return describe(table.key, actual, expected)
            rows += len(actual)
            report(rows)
            if not table.key or len(actual) < ROWS:
                return None
            after = actual[-1][: len(table.key)]

    @contextmanager
    def _both(self) -> Iterator[tuple[apsw.Connection, S]]:
        """Open a short read transaction on the index, with the draft at the same line of the journal."""
        self._follow(self._peek())  # without a transaction: others may have committed much since the last one
        with self._read() as (connection, state):
            self._follow(state)
            yield connection, state

    def _peek(self) -> S:
        with self._read() as (_, state):
            return state

    @contextmanager
    def _read(self) -> Iterator[tuple[apsw.Connection, S]]:
        connection = self._open()
        connection.execute("BEGIN")
        try:
            state = self._index.schema.read_state(connection, self._index.project)
            if state is None:
                raise IndexDamaged
            yield connection, state
        finally:
            roll_back(connection)  # nothing was written; after an error SQLite may have ended it already

    def _open(self) -> apsw.Connection:
        """Return a connection to the index file that is there now: another process may have rebuilt it."""
        file = file_id(self._index.name)
        if self._connection is None or file != self._file:
            self._close()
            self._connection, self._file = connect(self._index.path), file
        return self._connection

    def _follow(self, state: S) -> None:
        reached = self._draft.state.position.offset
        if reached > state.position.offset:  # the journal was cut or replaced meanwhile: the gateway repeats the call
            raise IndexDamaged
        if reached < state.position.offset:
            self._draft.fill(state)

    def _close(self) -> None:
        if self._connection is not None:
            with closing(self._connection):
                self._connection = None


def describe(key: Sequence[str], actual: Sequence[Row], expected: Sequence[Row]) -> str:
    """Describe the first difference between two lists of rows."""
    if not key:
        return "its rows are others"
    pairs = zip_longest(actual, expected)
    row, expected_row = next((row, expected_row) for row, expected_row in pairs if row != expected_row)
    rows = {"is missing": expected_row, "does not belong there": row}
    if row and expected_row and row[: len(key)] == expected_row[: len(key)]:
        rows = {"has other values": row}
    names = ", ".join(key)
    return " and ".join(f"the row {names} = {_text(row[: len(key)])} {problem}" for problem, row in rows.items() if row)


def _text(values: Row) -> str:
    return ", ".join(value.hex() if isinstance(value, bytes) else str(value) for value in values)[:MAX_KEY_TEXT]
