"""What the shared code asks of a connection to a database: `apsw.Connection` and the session of PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol


class SqlConnection(Protocol):
    """One connection inside a transaction."""

    def execute(self, query: str, values: Sequence[Any] = (), /) -> Any:
        """Execute a statement; return its rows."""
        ...

    def executemany(self, query: str, rows: Iterable[Sequence[Any]], /) -> Any:
        """Execute a statement once for each row of values; return the rows of all of them."""
        ...

    def changes(self) -> int:
        """Return how many rows the last statement has changed."""
        ...
