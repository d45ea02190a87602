"""The queries of the work store inside one transaction of PostgreSQL."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import count
from typing import Any

from engrambus.backends.postgres.connections import ProjectSession
from engrambus.backends.postgres.queries import queries
from engrambus.backends.sql.work.database import raw_id

QUERIES = "work_queries.sql"
LISTS = frozenset(
    {
        *("waiting", "runs_in_turn", "siblings_in_turn", "groups_in_turn", "posted_live", "posted_all"),
        *("in_lane", "dead", "everything", "not_due_yet", "claimed_in_lane"),
    }
)
"""Queries whose rows may be very many, of which a caller mostly reads a few."""
_NUMBERS = re.compile(r"\$(\d+)")
FIRST_ROWS = 64
MORE_ROWS = 512


@cache
def work_queries() -> Mapping[str, str]:
    """Return the queries by name; one that there is nothing to do for is not among them."""
    return queries(QUERIES)


@cache
def _of_many_rows() -> frozenset[str]:
    """Return the names of the queries that take one array for each column."""
    return frozenset(name for name, text in work_queries().items() if "unnest(" in text or "array_position(" in text)


class PostgresWorkDatabase:
    """The tables of one project's work through one session."""

    def __init__(self, session: ProjectSession) -> None:
        self.session = session
        self._sql = work_queries()
        self._many = _of_many_rows()
        self._cursors = count(1)

    def row(self, name: str, *values: Any) -> Any:
        """Return the first row of a query; None if it has none."""
        return self.session.execute(self._sql[name], values).fetchone()

    def rows(self, name: str, *values: Any, expected: int = 0) -> Iterator[Any]:
        """Return the rows of a query. Of long lists the first are fetched at once, and others if they are read."""
        if name in LISTS:
            return self._few_and_more(name, values, expected or FIRST_ROWS)
        return iter(self.session.execute(self._sql[name], values).fetchall())

    def rows_of_ids(self, name: str, ids: Sequence[str]) -> Iterator[Any]:
        """Return the rows of a query about many ids."""
        if not ids:
            return iter(())
        return iter(self.session.execute(self._sql[name], ([raw_id(item) for item in ids],)).fetchall())

    def run(self, name: str, *values: Any) -> None:
        """Run a query that has no rows."""
        text = self._sql.get(name)
        if text:
            self.session.execute(text, [[value] for value in values] if name in self._many else values)

    def write(self, name: str, values: list[Any]) -> None:
        """Run a query once for many rows: it takes the values of each column as an array."""
        text = self._sql.get(name)
        if text:
            width = _width(text)
            self.session.execute(text, [values[column::width] for column in range(width)])

    def id_key(self, text: str) -> tuple[object, ...]:
        """Return what finds a digest: an index has all of it."""
        return (raw_id(text),)

    def id_range(self, low: bytes, high: bytes) -> tuple[object, ...]:
        """Return what finds digests from one to another."""
        return low, high

    def _few_and_more(self, name: str, values: tuple[Any, ...], few: int) -> Iterator[Any]:
        text = self._sql[name]
        rows = self.session.execute(f"{text}\nLIMIT {_page(few)}", values).fetchall()
        yield from rows
        if len(rows) < _page(few):
            return
        cursor = f"more_{next(self._cursors)}"
        self.session.execute(f"DECLARE {cursor} NO SCROLL CURSOR FOR {text}", values)
        self.session.execute(f"MOVE FORWARD {len(rows)} IN {cursor}")
        while rows:
            rows = self.session.execute(f"FETCH FORWARD {MORE_ROWS} FROM {cursor}").fetchall()
            yield from rows
            if len(rows) < MORE_ROWS:
                break
        self.session.execute(f"CLOSE {cursor}")


def _page(few: int) -> int:
    """Return how many rows to fetch first: few sizes, so that few statements are prepared."""
    return next((size for size in (1, 4, 16, FIRST_ROWS) if few <= size), 4 * FIRST_ROWS)


@cache
def _width(query: str) -> int:
    """Return the number of arrays that a query takes."""
    return max(int(number) for number in _NUMBERS.findall(query))
