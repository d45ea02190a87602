"""What the work store asks of a database: queries by name, inside one transaction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

Row = Any


def raw_id(text: str) -> bytes:
    """Return the 32 bytes of a digest."""
    return bytes.fromhex(text[7:])


def id_head(raw: bytes) -> int:
    """Return the first eight bytes of a digest as a number."""
    return int.from_bytes(raw[:8], "big", signed=True)


def print_id(raw: bytes) -> str:
    """Return a digest as text."""
    return "sha256:" + raw.hex()


class WorkDatabase(Protocol):
    """The tables of one work store inside one transaction. Each dialect has a file with the same queries."""

    def row(self, name: str, *values: object) -> Row:
        """Return the first row of a query; None if it has none."""
        ...

    def rows(self, name: str, *values: object, expected: int = 0) -> Iterator[Row]:
        """Return the rows of a query; they are read as far as they are needed.

        `expected` is how many the caller will probably read, 0 for all of them.
        """
        ...

    def rows_of_ids(self, name: str, ids: Sequence[str]) -> Iterator[Row]:
        """Return the rows of a query about many tuples or receipts, by their ids."""
        ...

    def run(self, name: str, *values: object) -> None:
        """Run a query that has no rows."""
        ...

    def write(self, name: str, values: list[Any]) -> None:
        """Run a query once for each of many rows, whose values follow one another."""
        ...

    def id_key(self, text: str) -> tuple[object, ...]:
        """Return the values by which a query finds a digest."""
        ...

    def id_range(self, low: bytes, high: bytes) -> tuple[object, ...]:
        """Return the values by which a query finds the digests from one to another."""
        ...
