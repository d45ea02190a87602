"""What an index that was made before its journal was damaged still knows of the lost lines (decision 97).

Only `recover` reads it, and only for what must not come undone: engrams that were forgotten, bodies that were deleted,
and tuples that had ended. Everything else comes from the lines that still check.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import apsw

from engrambus.backends.sqlite.connections import connect, is_misread
from engrambus.backends.sqlite.journal_index import IndexSchema
from engrambus.core import files, fixed_time
from engrambus.evidence.receipts import Receipt
from engrambus.knowledge.engrams import EngramForgotten
from engrambus.policy import ADMIN
from engrambus.space.tuples import BodyPurged

_BATCH = 500
_ENGRAMS = "SELECT space, id FROM engrams UNION ALL SELECT space, id FROM past"
_KNOWN = "SELECT 1 FROM engrams WHERE id = ?1 UNION ALL SELECT 1 FROM past WHERE id = ?1 LIMIT 1"
_WAS_PUT = "SELECT 1 FROM used_ids WHERE id = ?"
_MEMORIES = "m"
"""The space of memories: what became of those is decided by facts of their own."""


class EarlierIndex:
    """An index as it was when the damage was found."""

    def __init__(self, connection: apsw.Connection, schema: IndexSchema[Any, Any, Any], state: Any) -> None:
        self._connection = connection
        self._schema = schema
        self._state = state

    def forgotten(self, trial: apsw.Connection) -> Iterator[EngramForgotten]:
        """Yield facts that forget each engram of a trial index that this index knew and had no more."""
        with _until_misread():
            for space, engram_id in trial.execute(_ENGRAMS).fetchall():
                if space == _MEMORIES or self._has(_KNOWN, engram_id):
                    continue
                if self._has(_WAS_PUT, engram_id):
                    yield EngramForgotten(id=str(engram_id), space=str(space), by=ADMIN)

    def purged(self, trial: apsw.Connection) -> Iterator[BodyPurged]:
        """Yield the deletions of bodies that a trial index does not know of."""
        with _until_misread():
            rows: list[Any] = self._connection.execute("SELECT sha, why FROM purged ORDER BY sha").fetchall()
            for sha, why in rows:
                if trial.execute("SELECT 1 FROM purged WHERE sha = ?", (sha,)).fetchone() is None:
                    yield BodyPurged(sha=f"sha256:{sha.hex()}", size_bytes=0, reason=why)

    def receipts(self) -> Iterator[Receipt]:
        """Yield the receipts of work."""
        view = self._schema.read_view(self._connection, self._state, fixed_time(self._state.position.at_us), (0, 0))
        after = 0
        with _until_misread():
            while page := view.list_receipts(None, limit=_BATCH, after=after):
                after = page[-1][0]
                yield from (receipt for _, receipt in page)

    def _has(self, query: str, engram_id: Any) -> bool:
        return self._connection.execute(query, (engram_id,)).fetchone() is not None


@contextmanager
def _until_misread() -> Iterator[None]:
    """Go on without the rest of an index that is damaged as well."""
    try:
        yield
    except Exception as problem:
        if not (isinstance(problem, apsw.Error) or is_misread(problem)):
            raise


@contextmanager
def open_earlier_index(path: Path, schema: IndexSchema[Any, Any, Any], project: str) -> Iterator[EarlierIndex | None]:
    """Open the index of a damaged journal as it is; yield None if there is none, or it is damaged itself."""
    connection = state = None
    with _until_misread():
        if files.is_file(path):
            connection = connect(path)
            state = schema.read_state(connection, project)
    if connection is None:
        yield None
        return
    with closing(connection):
        yield EarlierIndex(connection, schema, state) if state is not None else None
