"""Reading the tables of knowledge on a server: many rows with one statement, because each costs a round trip."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engrambus.backends.sql.knowledge.projection import decode_engram
from engrambus.backends.sql.knowledge.view import SqlView
from engrambus.knowledge.engrams import Engram, Traits


class PostgresView(SqlView):
    """The tables of knowledge through one session."""

    def traits(self, ordinals: Sequence[int]) -> list[Traits]:
        rows: Any = self._connection.execute(self._sql["traits_of"], (list(ordinals),))
        found = {row[0]: Traits(*row) for row in rows}
        return [found[ordinal] for ordinal in ordinals if ordinal in found]

    def engrams(self, ordinals: Sequence[int]) -> list[Engram]:
        rows: Any = self._connection.execute(self._sql["bodies_of"], (list(ordinals),))
        found = {ordinal: decode_engram(body) for ordinal, body in rows}
        return [found[ordinal] for ordinal in ordinals if ordinal in found]

    def sequence_rows(self, space: str, ordinals: Sequence[int], reach: int) -> dict[int, int]:
        near = {row for ordinal in ordinals for row in range(ordinal - reach, ordinal + reach + 1)}
        rows: Any = self._connection.execute(self._sql["sequences_of"], (sorted(near), space, self._expiry_us))
        return dict(rows.fetchall())
