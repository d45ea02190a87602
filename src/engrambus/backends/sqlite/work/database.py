"""The queries of the work index through one SQLite connection."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import apsw

from engrambus.backends.sql.work.database import id_head, raw_id
from engrambus.backends.sqlite.queries import queries, statements_for

QUERIES = "work_queries.sql"
MAX_IDS_PER_QUERY = 256


class SqliteWorkDatabase:
    """The tables of a work index through one connection, inside one transaction."""

    def __init__(self, connection: apsw.Connection) -> None:
        self.connection = connection
        self._sql = queries(QUERIES)

    def row(self, name: str, *values: Any) -> Any:
        """Return the first row of a query; None if it has none."""
        return self.connection.execute(self._sql[name], values).fetchone()

    def rows(self, name: str, *values: Any, expected: int = 0) -> Iterator[Any]:
        """Return the rows of a query; SQLite computes them as they are read."""
        return self.connection.execute(self._sql[name], values)

    def rows_of_ids(self, name: str, ids: Sequence[str]) -> Iterator[Any]:
        """Yield the rows of a query about many ids, some of them at a time."""
        for start in range(0, len(ids), MAX_IDS_PER_QUERY):
            heads = [id_head(raw_id(item)) for item in ids[start : start + MAX_IDS_PER_QUERY]]
            query = self._sql[name].replace("(?)", f"({', '.join('?' * len(heads))})")
            yield from self.connection.execute(query, heads)

    def run(self, name: str, *values: Any) -> None:
        """Run a query that has no rows."""
        self.connection.execute(self._sql[name], values)

    def write(self, name: str, values: list[Any]) -> None:
        """Run a query once for each of many rows, by few statements."""
        for text, part in statements_for(self._sql[name], values):
            self.connection.execute(text, part)

    def id_key(self, text: str) -> tuple[object, ...]:
        """Return what finds a digest: its head, which the index has, and the digest itself to compare."""
        raw = raw_id(text)
        return id_head(raw), raw

    def id_range(self, low: bytes, high: bytes) -> tuple[object, ...]:
        """Return what finds digests from one to another: heads are found by index, whole ids compared."""
        return id_head(low), id_head(high), low, high
