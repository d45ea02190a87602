"""Adding up figures: gathered while facts are applied, written once at the end of a transaction (decision 20)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from engrambus.backends.facts import MINUTE_US
from engrambus.backends.sql.connection import SqlConnection
from engrambus.gateway.delivered import DeliveredContent, changed_delivered
from engrambus.gateway.tallies import FIELDS, Count, buckets_of
from engrambus.knowledge.messages import PointedContent
from engrambus.policy import ADMIN

_TURNS = FIELDS.index("turns")


class TallyWriter:
    """Gathers what facts add to the figures and writes it through one connection."""

    def __init__(self, connection: SqlConnection, sql: Mapping[str, str]) -> None:
        self._connection = connection
        self._sql = sql
        self._added: defaultdict[tuple[str, str, int], list[int]] = defaultdict(lambda: [0] * len(FIELDS))
        self._kinds: defaultdict[tuple[str, str, str], int] = defaultdict(int)
        self._denials: defaultdict[tuple[str, str, str], int] = defaultdict(int)
        self._outcomes: defaultdict[tuple[str, str], str] = defaultdict(str)
        self._turns: dict[tuple[str, str], int] = {}
        self._roles: dict[tuple[str, str], str] = {}

    def add(self, count: Count, at_us: int) -> None:
        """Add the count of a fact."""
        added = self._added[count.run, count.agent, at_us - at_us % MINUTE_US]
        for position, amount in enumerate(msgspec.structs.astuple(count.tally)):
            if amount:
                added[position] += amount
        if count.kind is not None:
            self._kinds[count.run, count.agent, count.kind] += 1
        if count.code is not None:
            self._denials[count.run, count.agent, count.code] += count.tally.denials
        if count.outcome is not None:
            self._outcomes[count.run, count.agent] += count.outcome
        if count.turn is not None and count.turn > self._counted_turn(count.run, count.agent):
            self._turns[count.run, count.agent] = count.turn
            added[_TURNS] += 1

    def add_delivered(self, fact: object, at_us: int) -> None:
        """Store what a fact delivers as pointers or reads of that, and add its counts."""
        for delivered, count in changed_delivered(fact, self._find_delivered):
            content = delivered.content
            key = (delivered.run, delivered.agent, content.digest)
            extent = (content.file, content.first, content.last, content.tokens)
            self._connection.execute(self._sql["put_delivered"], (*key, *extent, delivered.read_tokens))
            self.add(count, at_us)

    def _find_delivered(self, run: str, agent: str, digest: str, files: Sequence[str]) -> list[DeliveredContent]:
        execute = self._connection.execute
        rows: list[tuple[Any, ...]] = execute(self._sql["delivered_content"], (run, agent, digest)).fetchall()
        for file in files:
            rows += execute(self._sql["delivered_in_file"], (run, agent, file)).fetchall()
        found = {
            row[0]: DeliveredContent(
                run=run,
                agent=agent,
                content=PointedContent(digest=row[0], tokens=row[1], file=row[2], first=row[3], last=row[4]),
                read_tokens=row[5],
            )
            for row in rows
        }
        return [found[name] for name in sorted(found)]

    def write(self) -> None:
        """Write everything added so far. No change reads figures to decide, so this can wait for the end."""
        if not self._added:
            return
        executemany = self._connection.executemany
        executemany(self._sql["add_tally"], self._tally_rows())
        executemany(self._sql["add_history"], self._history_rows())
        executemany(self._sql["add_kind_count"], self._rows_by_name(self._kinds))
        executemany(self._sql["add_denial_count"], self._rows_by_name(self._denials))
        outcomes = ((run, agent, letters) for (run, agent), letters in self._outcomes.items())
        executemany(self._sql["add_outcomes"], outcomes)
        self._outcomes.clear()
        self._added.clear()
        self._kinds.clear()
        self._denials.clear()

    def _tally_rows(self) -> Iterator[tuple[Any, ...]]:
        for (run, agent, _), added in self._added.items():
            yield run, agent, self._role(run, agent), *added, self._turns.get((run, agent), 0)

    def _history_rows(self) -> Iterator[tuple[Any, ...]]:
        for (run, agent, minute), added in self._added.items():
            role = self._role(run, agent)
            for bucket, start in buckets_of(minute):  # minute, hour and day, so that no query adds up many rows
                yield bucket, start, run, role, *added

    def _rows_by_name(self, counts: Mapping[tuple[str, str, str], int]) -> Iterator[tuple[Any, ...]]:
        for (run, agent, name), count in counts.items():
            yield run, agent, name, self._role(run, agent), count

    def _counted_turn(self, run: str, agent: str) -> int:
        turn: int = self._look_up(self._turns, "counted_turn", run, agent, 0)
        return turn

    def _role(self, run: str, agent: str) -> str:
        role: str = self._look_up(self._roles, "agent_role", run, agent, ADMIN)
        return role

    def _look_up(self, cache: dict[tuple[str, str], Any], query: str, run: str, agent: str, default: Any) -> Any:
        """Return what a query says of an agent, asked once per transaction."""
        if (run, agent) not in cache:
            row: Any = self._connection.execute(self._sql[query], (run, agent)).fetchone()
            cache[run, agent] = row[0] if row else default
        return cache[run, agent]
