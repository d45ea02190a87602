"""The index file: opening it, and taking it away."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import apsw

Progress = Callable[[int, int], None]
"""Told how many bytes of how many are done."""


def connect(path: Path, *, writer: bool = False) -> apsw.Connection:
    """A connection to an existing index."""
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_NOMUTEX
    connection = apsw.Connection(str(path), flags=flags)
    connection.set_busy_timeout(10_000)
    # Without this SQLite prepares a join anew whenever a value is bound, in case another plan suits it: 50 µs for 4.
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    connection.execute(f"PRAGMA cache_size = {-16_000 if writer else -4_000}")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("PRAGMA temp_store = MEMORY")
    if not writer:
        connection.execute("PRAGMA query_only = ON")
    return connection


def remove_index(path: Path) -> None:
    """Take an index away with all its parts; the parts first, so that none is ever taken for a new index's."""
    for part in (path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm"), path):
        part.unlink(missing_ok=True)
