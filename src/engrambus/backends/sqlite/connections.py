"""SQLite connections to an index file: how they are opened, and the pool from which readers take them."""

from __future__ import annotations

import os
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import msgspec

from engrambus.core.database import BUSY_TIMEOUT_MS, is_damage, open_database
from engrambus.errors import EngramBusError

WRITER_CACHE_KIB = 16_000
READER_CACHE_KIB = 4_000

FileId = tuple[int, int]
"""Device and inode of a file: they tell it from another file that was put in its place."""


def file_id(path: str) -> FileId | None:
    """Return the id of the file at `path` now; None if there is none."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def connect(path: Path, *, writer: bool = False) -> apsw.Connection:
    """Open a connection to an existing index."""
    connection = open_database(path, flags=apsw.SQLITE_OPEN_NOMUTEX)
    connection.set_busy_timeout(BUSY_TIMEOUT_MS)
    # decision 22: without this guarantee SQLite prepares a join again whenever a value is bound, 50 µs instead of 4
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    connection.execute(f"PRAGMA cache_size = {-(WRITER_CACHE_KIB if writer else READER_CACHE_KIB)}")
    connection.execute("PRAGMA synchronous = NORMAL")  # decision 1: an index that a power cut damages is rebuilt
    connection.execute("PRAGMA temp_store = MEMORY")
    if not writer:
        connection.execute("PRAGMA query_only = ON")
    return connection


_READING_CODE = ("engrambus.backends.sqlite.", "engrambus.backends.sql.")
_NOT_READING = frozenset(
    f"{_READING_CODE[0]}{name}" for name in ("indexed_store", "journal_index", "connections", "lock")
)
_MISREADINGS = (UnicodeDecodeError, msgspec.DecodeError, ValueError, TypeError, LookupError, AttributeError)
_CALLERS_FAULTS = (UnicodeEncodeError,)
"""Raised where a caller's text cannot be passed to SQLite."""


def is_misread(problem: BaseException) -> bool:
    """True if a problem says that an index is not what was written: SQLite's own, or a row that makes no sense.

    Rows are decoded in many places, so what counts is whether the problem came up inside the code that reads rows.
    """
    if isinstance(problem, apsw.Error):
        return is_damage(problem)
    if not isinstance(problem, _MISREADINGS) or isinstance(problem, (*_CALLERS_FAULTS, EngramBusError)):
        return False
    names = (frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(problem.__traceback__))
    return any(name.startswith(_READING_CODE) and name not in _NOT_READING for name in names)


class ReaderPool:
    """Idle reading connections to one index file. Connections to a replaced file are closed when they turn up."""

    def __init__(self, index: Path) -> None:
        self._index = index
        self._idle: list[tuple[FileId, apsw.Connection]] = []
        self._lock = threading.Lock()

    def take(self, file: FileId) -> apsw.Connection:
        """Return a connection to the index file with this id."""
        with self._lock:
            while self._idle:
                idle_file, connection = self._idle.pop()
                if idle_file == file:
                    return connection
                connection.close()
        return connect(self._index)

    def give_back(self, file: FileId, connection: apsw.Connection) -> None:
        """Return a connection without an open transaction to the pool."""
        with self._lock:
            self._idle.append((file, connection))

    def close(self) -> None:
        """Close the idle connections."""
        with self._lock:
            for _, connection in self._idle:
                connection.close()
            self._idle.clear()


@contextmanager
def transaction(connection: apsw.Connection) -> Iterator[None]:
    """Run a block in a transaction: everything inside happens, or nothing."""
    try:
        connection.execute("BEGIN IMMEDIATE")  # inside the try: Ctrl-C may come right after it
        yield
        connection.execute("COMMIT")
    except BaseException:
        roll_back(connection)
        raise


def roll_back(connection: apsw.Connection) -> None:
    """Undo a transaction, unless SQLite has done so itself."""
    if connection.in_transaction:
        connection.execute("ROLLBACK")
