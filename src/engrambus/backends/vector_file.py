"""A file of engrams' vectors, so that each claim is computed once.

It can be deleted at any time. A damaged file is deleted and made again; without it, answers are slower, not different.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from engrambus.core import files
from engrambus.knowledge.engrams import StoredVector

if TYPE_CHECKING:
    import apsw

LAYOUT = 1
MAX_ROWS = 200_000
"""About 100 MB."""
MAX_AGE_DAYS = 30
"""Days after which a vector is removed: its engram may be gone by then, and if not, it is computed again."""
BUSY_TIMEOUT_MS = 200
DAY_S = 86_400
QUERY_ROWS = 500
"""Refs that are looked up by one statement."""

_SCHEMA = f"""
CREATE TABLE IF NOT EXISTS vector (
    ref TEXT PRIMARY KEY, model TEXT NOT NULL, text_digest BLOB NOT NULL, vector BLOB NOT NULL, day INTEGER NOT NULL);
PRAGMA user_version = {LAYOUT};
"""
_PRUNE = "DELETE FROM vector WHERE day < ? OR rowid <= (SELECT max(rowid) FROM vector) - ?"


class VectorFile:
    """Vectors by their ref, in a file. Safe across threads and processes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._connection: apsw.Connection | None = None
        self._process = os.getpid()

    def get(self, model: str, refs: Sequence[str]) -> dict[str, StoredVector]:
        """Return the vectors of a model that are stored under these refs."""
        vectors: dict[str, StoredVector] = {}
        for start in range(0, len(refs), QUERY_ROWS):
            part = refs[start : start + QUERY_ROWS]
            marks = ",".join("?" * len(part))
            query = f"SELECT ref, text_digest, vector FROM vector WHERE model = ? AND ref IN ({marks})"  # noqa: S608
            for ref, text_digest, vector in self._do(query, [(model, *part)]):
                if isinstance(ref, str) and isinstance(text_digest, bytes) and isinstance(vector, bytes):
                    vectors[ref] = StoredVector(ref, text_digest, vector)
        return vectors

    def put(self, model: str, vectors: Sequence[StoredVector]) -> None:
        """Store vectors of a model, and remove what is old."""
        today = int(time.time()) // DAY_S
        rows = [(row.ref, model, row.text_digest, row.vector, today) for row in vectors]
        self._do("INSERT OR REPLACE INTO vector VALUES (?, ?, ?, ?, ?)", rows)
        self._do(_PRUNE, [(today - MAX_AGE_DAYS, MAX_ROWS)])

    def remove(self, refs: Sequence[str]) -> None:
        """Remove the vectors stored under these refs."""
        if files.is_file(self._path):
            self._do("DELETE FROM vector WHERE ref = ?", [(ref,) for ref in refs])

    def close(self) -> None:
        with self._lock:
            if self._connection is not None and self._process == os.getpid():
                self._connection.close()
            self._connection = None

    def _do(self, query: str, rows: Sequence[tuple[object, ...]]) -> list[tuple[object, ...]]:
        """Run a statement once for each row of values, in one transaction, and return what it yields."""
        import apsw

        with self._lock:
            try:
                if self._connection is None or self._process != os.getpid():
                    if self._connection is not None:
                        # Closing the parent's connection would release the parent's file locks.
                        _parent_connections.append(self._connection)
                    self._connection, self._process = _open(self._path), os.getpid()
                with self._connection:
                    yielded = self._connection.executemany(query, rows).fetchall()
                return yielded
            except (apsw.BusyError, apsw.ReadOnlyError, apsw.CantOpenError, OSError):
                return []
            except apsw.Error:
                self._discard()
                return []

    def _discard(self) -> None:
        import apsw

        with suppress(apsw.Error):
            if self._connection is not None:
                self._connection.close()
        self._connection = None
        # WAL and shared memory first: left behind, they would be taken for parts of the next file.
        with suppress(OSError):
            for part in (f"{self._path}-wal", f"{self._path}-shm", str(self._path)):
                files.remove(part)


def _open(path: Path) -> apsw.Connection:
    import apsw

    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_NOFOLLOW
    connection = apsw.Connection(files.check_database(path, create=True), flags=flags)
    connection.set_busy_timeout(BUSY_TIMEOUT_MS)
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("PRAGMA secure_delete = ON")  # a vector says something about the claim that was forgotten
    version = connection.execute("PRAGMA user_version").get
    if version not in (0, LAYOUT):
        connection.close()
        raise apsw.NotADBError("another layout")
    if version == 0:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"BEGIN IMMEDIATE; {_SCHEMA} COMMIT")
    return connection


_parent_connections: list[object] = []
