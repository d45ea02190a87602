"""A file of alignments that git has worked out, so that a process need not ask again what an earlier one has asked.

It can be deleted at any time. A damaged file is deleted and made again, and a damaged row is not used.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
import weakref
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from engrambus.core import files

if TYPE_CHECKING:
    import apsw

    from engrambus.evidence.pointers.line_alignment import FileAlignment

LAYOUT = 1
MAX_ROWS = 50_000
MAX_TARGETS = 4
"""Targets remembered for each file at a commit: the checked-out commits of a few worktrees."""
MAX_ROW_BYTES = 256 * 1024
SLOW_FOR_S = 3600
"""Seconds in which a file that took git long is not tried again by commands: the machine may only have been busy."""
BUSY_TIMEOUT_MS = 200
"""Short: without the file an answer is slower, not different."""

_SCHEMA = f"""
CREATE TABLE IF NOT EXISTS alignment (
    id INTEGER PRIMARY KEY, file BLOB NOT NULL, target BLOB NOT NULL, runs BLOB NOT NULL, UNIQUE (file, target));
PRAGMA user_version = {LAYOUT};
"""
_PRUNE = "DELETE FROM alignment WHERE id <= (SELECT max(id) FROM alignment) - ?"
_PRUNE_FILE = (
    "DELETE FROM alignment WHERE file = ?1 AND id NOT IN "
    "(SELECT id FROM alignment WHERE file = ?1 ORDER BY id DESC LIMIT ?2)"
)


class AlignmentCache:
    """Alignments by file, commit and target, in a file. Safe across threads and processes."""

    def __init__(self, path: Path | None) -> None:
        """Without a path, nothing is stored."""
        self._path = path
        self._lock = threading.Lock()
        self._connection: apsw.Connection | None = None
        _caches.add(self)

    def get(self, commit: str, path: str, target: str) -> FileAlignment | None:
        """Return the alignment of a file with a target, if it is stored."""
        from engrambus.evidence.pointers.line_alignment import FileAlignment

        query = "SELECT runs FROM alignment WHERE file = ? AND target = ?"
        rows = self._do(query, (_file_key(commit, path), bytes.fromhex(target)))
        if not rows or not isinstance(rows[0][0], bytes):
            return None
        checksum, data = rows[0][0][:16], rows[0][0][16:]
        if checksum != _checksum(commit, path, target, data):
            return None
        try:
            return msgspec.json.decode(data, type=FileAlignment)
        except msgspec.DecodeError:
            return None

    def targets(self, commit: str, path: str) -> list[str]:
        """Return the targets up to which a file was followed, the newest first."""
        query = "SELECT target FROM alignment WHERE file = ? AND target != x'' ORDER BY id DESC"
        rows = self._do(query, (_file_key(commit, path),))
        return [target.hex() for (target,) in rows if isinstance(target, bytes)]

    def mark_slow(self, commit: str, path: str) -> None:
        """Record that git takes long for a file; what is stored for it later takes the mark away."""
        query = "INSERT OR REPLACE INTO alignment (file, target, runs) VALUES (?, x'', ?)"
        self._do(query, (_file_key(commit, path), int(time.time())))

    def is_slow(self, commit: str, path: str) -> bool:
        """True if git took long for a file a short time ago, and nothing is stored for it since."""
        query = "SELECT target, runs FROM alignment WHERE file = ? ORDER BY id DESC LIMIT 1"
        rows = self._do(query, (_file_key(commit, path),))
        marked_s = rows[0][1] if rows and rows[0][0] == b"" else None
        return isinstance(marked_s, int) and abs(time.time() - marked_s) < SLOW_FOR_S

    def put(self, commit: str, path: str, target: str, alignment: FileAlignment) -> None:
        """Store an alignment; where that is impossible, it is worked out again later."""
        try:
            data = msgspec.json.encode(alignment)
        except UnicodeEncodeError:  # a path that is not UTF-8
            return
        if self._path is None or len(data) > MAX_ROW_BYTES:
            return
        file, row = _file_key(commit, path), _checksum(commit, path, target, data) + data
        query = "INSERT OR REPLACE INTO alignment (file, target, runs) VALUES (?, ?, ?)"
        self._do(query, (file, bytes.fromhex(target), row))
        self._do(_PRUNE_FILE, (file, MAX_TARGETS))
        self._do(_PRUNE, (MAX_ROWS,))

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
            self._connection = None

    def _do(self, query: str, values: tuple[object, ...]) -> list[tuple[object, ...]]:
        if self._path is None:
            return []
        import apsw

        with self._lock:
            try:
                if self._connection is None:
                    self._connection = _open(self._path)
                return self._connection.execute(query, values).fetchall()
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

    def _after_fork(self) -> None:
        # Closing the parent's connection would release the parent's file locks, so it is only put aside.
        self._lock = threading.Lock()
        if self._connection is not None:
            _parent_connections.append(self._connection)
        self._connection = None


def _open(path: Path) -> apsw.Connection:
    import apsw

    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_NOFOLLOW
    connection = apsw.Connection(files.check_database(path, create=True), flags=flags)
    connection.set_busy_timeout(BUSY_TIMEOUT_MS)
    connection.execute("PRAGMA synchronous = OFF")
    version = connection.execute("PRAGMA user_version").get
    if version not in (0, LAYOUT):
        connection.close()
        raise apsw.NotADBError("another layout")
    if version == 0:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"BEGIN IMMEDIATE; {_SCHEMA} COMMIT")
    return connection


def _encode(*parts: str) -> bytes:
    return "\0".join((*parts, "")).encode("utf-8", "surrogateescape")


def _file_key(commit: str, path: str) -> bytes:
    return hashlib.sha256(_encode(commit, path)).digest()[:20]


def _checksum(commit: str, path: str, target: str, data: bytes) -> bytes:
    return hashlib.sha256(_encode(commit, path, target) + data).digest()[:16]


_caches: weakref.WeakSet[AlignmentCache] = weakref.WeakSet()
_parent_connections: list[object] = []


def _after_fork() -> None:
    for cache in list(_caches):
        cache._after_fork()


os.register_at_fork(after_in_child=_after_fork)
