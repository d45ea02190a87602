"""A file of engrams' vectors, so that each claim is computed once.

It can be deleted at any time. A damaged file is deleted and made again; without it, answers are slower, not different.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from engrambus.core import files
from engrambus.knowledge.engrams import StoredVector

LAYOUT = 2
MAX_ROWS = 200_000
"""About 100 MB."""
MAX_AGE_DAYS = 30
"""Days after which a vector is removed: its engram may be gone by then, and if not, it is computed again."""
DAY_S = 86_400
QUERY_ROWS = 500
"""Refs that are looked up by one statement."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS vector (
    ref TEXT PRIMARY KEY, model TEXT NOT NULL, text_digest BLOB NOT NULL, vector BLOB NOT NULL, day INTEGER NOT NULL);
"""
_PRUNE = "DELETE FROM vector WHERE day < ? OR rowid <= (SELECT max(rowid) FROM vector) - ?"


class VectorFile:
    """Vectors by their ref, in a file. Safe across threads and processes."""

    def __init__(self, path: Path) -> None:
        from engrambus.core.database import CacheFile  # apsw takes long to load

        self._path = path
        # a vector says something about the claim that was forgotten
        self._file = CacheFile(path, _SCHEMA, LAYOUT, secure_delete=True)

    def get(self, model: str, refs: Sequence[str]) -> dict[str, StoredVector]:
        """Return the vectors of a model that are stored under these refs."""
        vectors: dict[str, StoredVector] = {}
        for start in range(0, len(refs), QUERY_ROWS):
            part = refs[start : start + QUERY_ROWS]
            marks = ",".join("?" * len(part))
            query = f"SELECT ref, text_digest, vector FROM vector WHERE model = ? AND ref IN ({marks})"  # noqa: S608
            for ref, text_digest, vector in self._file.run(query, [(model, *part)]):
                if isinstance(ref, str) and isinstance(text_digest, bytes) and isinstance(vector, bytes):
                    vectors[ref] = StoredVector(ref, text_digest, vector)
        return vectors

    def put(self, model: str, vectors: Sequence[StoredVector]) -> None:
        """Store vectors of a model, and remove what is old."""
        today = int(time.time()) // DAY_S
        rows = [(row.ref, model, row.text_digest, row.vector, today) for row in vectors]
        self._file.run("INSERT OR REPLACE INTO vector VALUES (?, ?, ?, ?, ?)", rows)
        self._file.run(_PRUNE, [(today - MAX_AGE_DAYS, MAX_ROWS)])

    def remove(self, refs: Sequence[str]) -> None:
        """Remove the vectors stored under these refs."""
        if files.is_file(self._path):
            self._file.run("DELETE FROM vector WHERE ref = ?", [(ref,) for ref in refs])

    def close(self) -> None:
        self._file.close()
