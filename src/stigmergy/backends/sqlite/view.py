"""Reading the index as of one moment."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import merge
from itertools import islice
from typing import Any

import apsw
import msgspec

from stigmergy.backends.facts import REMEMBERED_FOR
from stigmergy.backends.sqlite.projection import Applied, run_from_row
from stigmergy.backends.sqlite.queries import queries
from stigmergy.knowledge.engrams import EVERYTHING, Engram, Stored, Traits, kind_key
from stigmergy.operations.ports import Counts, Remembered
from stigmergy.policy import DEFAULT_POLICY, Agent, Policy, Run, read_policy

_decode_engram = msgspec.json.Decoder(Engram).decode
_NEVER = 1 << 62


class SqliteView:
    """The index through one connection, inside one transaction."""

    def __init__(self, connection: apsw.Connection, applied: Applied, as_of: int) -> None:
        self._connection = connection
        self._sql = queries()
        self._applied = applied
        self._as_of = as_of
        self._pending: list[tuple[int, frozenset[str]]] | None = None
        self._overdue: frozenset[int] | None = None

    @property
    def as_of(self) -> int:
        """The moment."""
        return self._as_of

    def policy(self) -> Policy:
        """The policy in force."""
        row = self._one("policy")
        return read_policy(msgspec.json.decode(row[0])) if row else DEFAULT_POLICY

    def run(self, run_id: str) -> Run | None:
        """The run of that id."""
        row = self._one("run", run_id)
        return run_from_row(row) if row else None

    def current_run(self) -> Run | None:
        """The run opened last that goes on, or else the last."""
        row = self._one("current_run")
        return run_from_row(row) if row else None

    def agent(self, run_id: str, name: str) -> Agent | None:
        """The agent of that name in that run."""
        row = self._one("agent", run_id, name)
        return Agent(run=row[0], name=row[1], role=row[2], parent=row[3]) if row else None

    def agents(self, run_id: str) -> list[Agent]:
        """Every agent of a run, in the order they came."""
        return [
            Agent(run=run, name=name, role=role, parent=parent)
            for run, name, role, parent in self._connection.execute(self._sql["agents"], (run_id,))
        ]

    def postings(self, spaces: Sequence[str], key: str, *, kind: str | None, limit: int) -> Sequence[int]:
        """The newest live engrams posted under a key."""
        return self._posted(spaces, (key,) if kind is None else (key, kind_key(kind)), limit, _NEVER)

    def newest(self, spaces: Sequence[str], *, kind: str | None, limit: int, before: int | None) -> Sequence[int]:
        """The newest live engrams."""
        key = EVERYTHING if kind is None else kind_key(kind)
        return self._posted(spaces, (key,), limit, _NEVER if before is None else before)

    def traits(self, ordinals: Sequence[int]) -> list[Traits]:
        """What decides between these."""
        rows = self._connection.executemany(self._sql["traits"], ((ordinal,) for ordinal in ordinals))
        return [Traits(*row) for row in rows]

    def engrams(self, ordinals: Sequence[int]) -> list[Engram]:
        """These engrams."""
        rows = self._connection.executemany(self._sql["body"], ((ordinal,) for ordinal in ordinals))
        return [_decode_engram(body) for (body,) in rows]

    def find(self, spaces: Sequence[str], engram_id: str) -> Stored | None:
        """The live engram of that id."""
        for space in spaces:
            row = self._one("find_engram", space, engram_id, self._as_of)
            if row:
                return Stored(ordinal=row[0], engram=_decode_engram(row[1]), run=row[2], expires_at=row[3])
        return None

    def remembered(self, caller: str, key: str) -> Remembered | None:
        """The answer once given under this key."""
        row = self._one("remembered", caller, key, self._as_of - REMEMBERED_FOR)
        return Remembered(request=row[0], answer=row[1]) if row else None

    def counts(self) -> Counts:
        """How much there is."""
        rows = self._connection.execute(self._sql["count_kinds"], (self._as_of,))
        kinds: dict[Any, Any] = {row[0]: row[1] for row in rows}
        agents = self._one("count_agents")
        return Counts(
            commits=self._applied.place.seq,
            journal_bytes=self._applied.place.offset,
            runs=self._applied.runs,
            agents=agents[0] if agents else 0,
            engrams=sum(kinds.values()),
            kinds=kinds,
        )

    def _posted(self, spaces: Sequence[str], keys: tuple[str, ...], limit: int, before: int) -> Sequence[int]:
        overdue = self._overdue_set()
        wanted = limit + len(overdue)
        lists = [self._in_space(tuple(f"{space}:{key}" for key in keys), wanted, before) for space in spaces]
        found = [found for found in lists if found]
        if not overdue and len(found) <= 1:
            return found[0][:limit] if found else ()
        return list(islice((at for at in merge(*found, reverse=True) if at not in overdue), limit))

    def _in_space(self, tokens: tuple[str, ...], limit: int, before: int) -> list[int]:
        question = " AND ".join(f'"{token}"' for token in tokens)
        posted: list[tuple[Any, ...]]
        if before == _NEVER:
            posted = self._connection.execute(self._sql["posted"], (question, limit)).fetchall()
        else:
            posted = self._connection.execute(self._sql["posted_before"], (question, before, limit)).fetchall()
        found = [ordinal for (ordinal,) in posted]
        held = [
            ordinal
            for ordinal, holds in self._pending_rows()
            if ordinal < before and all(token in holds for token in tokens)
        ]
        return sorted([*held, *found], reverse=True) if held else found

    def _pending_rows(self) -> list[tuple[int, frozenset[str]]]:
        if self._pending is None:
            rows = self._connection.execute(self._sql["held"]) if self._applied.pending else ()
            self._pending = [(ordinal, frozenset(tokens.split(" "))) for ordinal, tokens in rows]
        return self._pending

    def _overdue_set(self) -> frozenset[int]:
        """Engrams whose time has passed but that no commit has swept out yet; mostly none."""
        if self._overdue is None:
            rows = self._connection.execute(self._sql["overdue"], (self._as_of, -1))
            self._overdue = frozenset(ordinal for (ordinal,) in rows)
        return self._overdue

    def _one(self, name: str, *values: object) -> tuple[Any, ...] | None:
        row: tuple[Any, ...] | None = self._connection.execute(self._sql[name], values).fetchone()
        return row
