"""A file of alignments that git has worked out, so that a process need not ask again what an earlier one has asked.

It can be deleted at any time. A damaged file is deleted and made again, and a damaged row is not used.
"""

from __future__ import annotations

import hashlib
import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from engrambus.core.database import CacheFile
    from engrambus.evidence.pointers.line_alignment import FileAlignment

LAYOUT = 2
MAX_ROWS = 50_000
MAX_TARGETS = 4
"""Targets remembered for each file at a commit: the checked-out commits of a few worktrees."""
MAX_ROW_BYTES = 256 * 1024
SLOW_FOR_S = 3600
"""Seconds in which a file that took git long is not tried again by commands: the machine may only have been busy."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS alignment (
    id INTEGER PRIMARY KEY, file BLOB NOT NULL, target BLOB NOT NULL, runs BLOB NOT NULL, UNIQUE (file, target));
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
        self._opened: CacheFile | None = None

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
        except ValueError:
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
        if self._opened is not None:
            self._opened.close()

    def _do(self, query: str, values: tuple[object, ...]) -> list[tuple[object, ...]]:
        if self._path is None:
            return []
        if self._opened is None:
            from engrambus.core.database import CacheFile  # apsw takes long to load

            self._opened = CacheFile(self._path, _SCHEMA, LAYOUT)
        return self._opened.run(query, [values])


def _encode(*parts: str) -> bytes:
    return "\0".join((*parts, "")).encode("utf-8", "surrogateescape")


def _file_key(commit: str, path: str) -> bytes:
    return hashlib.sha256(_encode(commit, path)).digest()[:20]


def _checksum(commit: str, path: str, target: str, data: bytes) -> bytes:
    return hashlib.sha256(_encode(commit, path, target) + data).digest()[:16]
