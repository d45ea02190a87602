"""Which blobs hold which lines, in a file that anyone may delete.

It is keyed by blob, so a new commit costs only what is new in it, and one file serves every repository and every
process. What cannot be trusted or written is thrown away and made anew; where nothing can be written at all, the index
lives in memory.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import apsw

LAYOUT = 1
BUSY = 10_000
IN_MEMORY = 2
"""After how many troubles the index is kept in memory."""
MEMORY = ":memory:"

T = TypeVar("T")

_SCHEMA = f"""
CREATE TABLE IF NOT EXISTS blob (id INTEGER PRIMARY KEY, oid BLOB NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS line (hash INTEGER NOT NULL, blob INTEGER NOT NULL, PRIMARY KEY (hash, blob)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS complete (oid BLOB PRIMARY KEY) WITHOUT ROWID;
PRAGMA user_version = {LAYOUT};
"""


class CacheLost(Exception):
    """What was known is gone: begin again."""


class LineCache:
    """Line hashes by blob. Safe under threads and across processes; after a fork it opens its own."""

    def __init__(self, path: Path | None) -> None:
        self._path = path or Path(MEMORY)
        self._lock = threading.RLock()
        self._connection: apsw.Connection | None = None
        self._file: tuple[int, int] | None = None
        self._troubles = 0 if path else IN_MEMORY
        _alive.add(self)

    def is_complete(self, commit: str) -> bool:
        """Whether every blob of a commit is here."""
        return (
            self._do(lambda db: db.execute("SELECT 1 FROM complete WHERE oid = ?", (bytes.fromhex(commit),)).fetchone())
            is not None
        )

    def mark_complete(self, commit: str) -> None:
        """Every blob of a commit is here."""
        self._do(lambda db: db.execute("INSERT OR IGNORE INTO complete VALUES (?)", (bytes.fromhex(commit),)))

    def missing(self, blob_ids: Iterable[str]) -> list[str]:
        """Those of the blobs that are not here."""
        asked = "SELECT 1 FROM blob WHERE oid = ?"
        return self._do(
            lambda db: [each for each in blob_ids if db.execute(asked, (bytes.fromhex(each),)).fetchone() is None]
        )

    def add(self, blobs: Sequence[tuple[str, Iterable[int]]]) -> None:
        """Take in blobs with the hashes of their lines; those that came meanwhile are let be."""
        self._do(lambda db: _add(db, blobs))

    def count(self, line: int, limit: int) -> int:
        """How many blobs hold a line; no more than `limit` are counted."""
        asked = "SELECT count(*) FROM (SELECT 1 FROM line WHERE hash = ? LIMIT ?)"
        return int(self._do(lambda db: db.execute(asked, (line, limit)).get))

    def known(self, lines: Sequence[int]) -> set[int]:
        """Those of the lines that any blob holds."""
        asked = "SELECT value FROM json_each(?) WHERE EXISTS (SELECT 1 FROM line WHERE hash = value)"
        return self._do(lambda db: {value for (value,) in db.execute(asked, (f"[{','.join(map(str, lines))}]",))})

    def blobs(self, line: int) -> list[str]:
        """The blobs that hold a line."""
        asked = "SELECT oid FROM line JOIN blob ON blob.id = line.blob WHERE hash = ?"
        return self._do(lambda db: [oid.hex() for (oid,) in db.execute(asked, (line,))])

    def keep_in_memory(self) -> None:
        """Do without the file from here on."""
        with self._lock:
            self._troubles = IN_MEMORY
            self._drop()

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
            self._connection = None

    def _do(self, work: Callable[[apsw.Connection], T]) -> T:
        with self._lock:
            known = self._connection
            try:
                connection = self._opened()
                if known is not None and connection is not known:
                    raise CacheLost  # somebody deleted it: what was put into it is no longer there
                return work(connection)
            except apsw.BusyError:
                self.keep_in_memory()
                raise CacheLost from None
            except apsw.Error:
                self._give_up()
                raise CacheLost from None

    def _opened(self) -> apsw.Connection:
        if self._connection is not None and self._file in (None, _identity(self._path)):
            return self._connection
        self.close()
        in_memory = self._troubles >= IN_MEMORY
        self._connection = _open(MEMORY if in_memory else str(self._path))
        self._file = None if in_memory else _identity(self._path)
        return self._connection

    def _give_up(self) -> None:
        """Throw the file away, if it is still the one that gave trouble; the second time, do without one."""
        self._troubles += 1
        self._drop()
        if self._file in (None, _identity(self._path)):
            with suppress(OSError):
                # The parts first, so that none is ever taken for a new file's.
                for part in (f"{self._path}-wal", f"{self._path}-shm", self._path):
                    Path(part).unlink(missing_ok=True)
        self._file = None

    def _drop(self) -> None:
        with suppress(apsw.Error):
            self.close()
        self._connection = None

    def _after_fork(self) -> None:
        """In a child: the connection is the parent's, and so may the lock be. It is never closed here."""
        self._lock = threading.RLock()
        if self._connection is not None:
            _parents.append(self._connection)
        self._connection = None


def _open(path: str) -> apsw.Connection:
    connection = apsw.Connection(path)
    connection.set_busy_timeout(BUSY)
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("PRAGMA cache_size = -32000")
    version = connection.execute("PRAGMA user_version").get
    if version not in (0, LAYOUT):
        connection.close()
        raise apsw.NotADBError("another layout")
    if version == 0:
        _prepare(connection)
    return connection


def _prepare(connection: apsw.Connection) -> None:
    """Make the tables. Where several do so at once, SQLite lets all but one fail at once instead of waiting."""
    for last_try in (*[False] * 100, True):
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(f"BEGIN IMMEDIATE; {_SCHEMA} COMMIT")
        except apsw.BusyError:
            if last_try:
                raise
            time.sleep(0.02)
        else:
            return


def _add(db: apsw.Connection, blobs: Sequence[tuple[str, Iterable[int]]]) -> None:
    db.execute("BEGIN IMMEDIATE")
    try:
        rows = []
        for blob_id, hashes in blobs:
            db.execute("INSERT OR IGNORE INTO blob (oid) VALUES (?)", (bytes.fromhex(blob_id),))
            if db.changes():
                number = db.last_insert_rowid()
                rows += [(line, number) for line in hashes]
        rows.sort()  # neighbours in the tree are written together
        db.executemany("INSERT OR IGNORE INTO line VALUES (?, ?)", rows)
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            with suppress(apsw.Error):
                db.execute("ROLLBACK")
        raise


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


_alive: weakref.WeakSet[LineCache] = weakref.WeakSet()
_parents: list[apsw.Connection] = []


def _after_fork() -> None:
    for cache in list(_alive):
        cache._after_fork()


os.register_at_fork(after_in_child=_after_fork)
