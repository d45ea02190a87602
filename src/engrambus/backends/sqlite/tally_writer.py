"""Adding up the figures: gathered while facts are applied, written once for all of a transaction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import apsw
import msgspec

from engrambus.backends.facts import MINUTE
from engrambus.backends.sqlite.queries import queries
from engrambus.gateway.tallies import FIELDS, Count, buckets_of
from engrambus.policy import ADMIN

_TURNS = FIELDS.index("turns")


class TallyWriter:
    """What facts add to the figures, through one connection inside one transaction."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._sql = queries()
        self._added: defaultdict[tuple[str, str, int], list[int]] = defaultdict(lambda: [0] * len(FIELDS))
        self._kinds: defaultdict[tuple[str, str, str], int] = defaultdict(int)
        self._turns: dict[tuple[str, str], int] = {}
        self._roles: dict[tuple[str, str], str] = {}

    def add(self, count: Count, at: int) -> None:
        """Take a fact's count in."""
        added = self._added[count.run, count.agent, at - at % MINUTE]
        for position, more in enumerate(msgspec.structs.astuple(count.tally)):
            if more:
                added[position] += more
        if count.kind is not None:
            self._kinds[count.run, count.agent, count.kind] += 1
        if count.turn is not None and count.turn > self._counted_turn(count.run, count.agent):
            self._turns[count.run, count.agent] = count.turn
            added[_TURNS] += 1

    def write(self) -> None:
        """Write what was taken in. Nobody asks for figures in the midst of a transaction."""
        if not self._added:
            return
        run = self._connection.executemany
        run(self._sql["add_tally"], self._rows_of_tallies())
        run(self._sql["add_history"], self._rows_of_history())
        run(self._sql["add_kind_count"], self._rows_of_kinds())
        self._added.clear()
        self._kinds.clear()

    def _rows_of_tallies(self) -> Iterator[tuple[Any, ...]]:
        for (run, agent, _), added in self._added.items():
            yield run, agent, self._role(run, agent), *added, self._turns.get((run, agent), 0)

    def _rows_of_history(self) -> Iterator[tuple[Any, ...]]:
        for (run, agent, minute), added in self._added.items():
            role = self._role(run, agent)
            for bucket, start in buckets_of(minute):
                yield bucket, start, run, role, *added

    def _rows_of_kinds(self) -> Iterator[tuple[Any, ...]]:
        for (run, agent, kind), count in self._kinds.items():
            yield run, agent, kind, self._role(run, agent), count

    def _counted_turn(self, run: str, agent: str) -> int:
        turn: int = self._kept(self._turns, "counted_turn", run, agent, 0)
        return turn

    def _role(self, run: str, agent: str) -> str:
        role: str = self._kept(self._roles, "agent_role", run, agent, ADMIN)
        return role

    def _kept(self, kept: dict[tuple[str, str], Any], query: str, run: str, agent: str, otherwise: Any) -> Any:
        """What a row says of an agent, looked up once."""
        if (run, agent) not in kept:
            row: Any = self._connection.execute(self._sql[query], (run, agent)).fetchone()
            kept[run, agent] = row[0] if row else otherwise
        return kept[run, agent]
