"""What the team remembers and what waits for review, in the index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

import apsw
import msgspec

from engrambus.core import parse_time
from engrambus.knowledge.cortex import (
    Contribution,
    ContributionMoved,
    ContributionSubmitted,
    Episode,
    EpisodeKept,
    Status,
    apply_move,
)

_encode = msgspec.json.Encoder().encode
_episode = msgspec.json.Decoder(Episode).decode
_contribution = msgspec.json.Decoder(Contribution).decode


def apply_cortex(
    connection: apsw.Connection,
    sql: Mapping[str, str],
    fact: EpisodeKept | ContributionSubmitted | ContributionMoved,
    at: int,
) -> None:
    """Let one fact have happened."""
    match fact:
        case EpisodeKept():
            kept = fact.episode
            connection.execute(sql["mark_superseded"], (kept.kind, kept.slug))
            connection.execute(
                sql["insert_episode"],
                (
                    kept.kind,
                    kept.slug,
                    kept.version,
                    kept.created_us,
                    kept.importance,
                    kept.pinned,
                    kept.expires_us,
                    _encode(kept),
                ),
            )
        case ContributionSubmitted():
            _write(connection, sql, fact.contribution)
        case ContributionMoved():
            row: Any = connection.execute(sql["contribution"], (fact.contribution_id,)).fetchone()
            _write(connection, sql, apply_move(_contribution(row[0]), fact, at))


def _write(connection: apsw.Connection, sql: Mapping[str, str], it: Contribution) -> None:
    connection.execute(
        sql["replace_contribution"],
        (
            it.contribution_id,
            it.status,
            it.thread_id,
            it.from_session,
            it.dedupe.content_hash,
            it.dedupe.similarity_key,
            parse_time(it.submitted_at),
            _encode(it),
        ),
    )


class SqliteCortex:
    """Reads of the cortex as of one moment."""

    _connection: apsw.Connection
    _sql: Mapping[str, str]
    _as_of: int

    def episode(
        self, kind: str, slug: str, *, version: int | None = None, before_us: int | None = None
    ) -> Episode | None:
        found = self._episodes("episode", kind, slug, version, version, before_us, before_us)
        return found[0] if found else None

    def pins(self, *, limit: int) -> Sequence[Episode]:
        return self._episodes("pinned_episodes", self._as_of, limit)

    def important(self, min_importance: float, *, categories: frozenset[str], limit: int) -> Sequence[Episode]:
        return self._with_category(categories, limit, "important_episodes", min_importance)

    def recent(self, since_us: int, *, categories: frozenset[str], limit: int) -> Sequence[Episode]:
        return self._with_category(categories, limit, "recent_episodes", since_us)

    def episodes_after(self, ordinal: int, *, limit: int) -> Sequence[Episode]:
        return self._episodes("episodes_after", ordinal, limit)

    def contribution(self, contribution_id: str) -> Contribution | None:
        row: Any = self._connection.execute(self._sql["contribution"], (contribution_id,)).fetchone()
        return _contribution(row[0]) if row else None

    def contributions(
        self, status: Status | None, *, thread: str | None, limit: int, before: str | None
    ) -> Sequence[Contribution]:
        values = (status, status, thread, thread, before, before, limit)
        return [_contribution(body) for (body,) in self._connection.execute(self._sql["contributions"], values)]

    def find_duplicate(self, session: str, content_hash: str, since_us: int) -> str | None:
        row: Any = self._connection.execute(
            self._sql["first_contribution"], (session, content_hash, since_us)
        ).fetchone()
        return str(row[0]) if row else None

    def similar_contributions(self, similarity_key: str, *, limit: int) -> Sequence[str]:
        rows: Any = self._connection.execute(self._sql["similar_contributions"], (similarity_key, limit))
        return [name for (name,) in rows]

    def _with_category(self, categories: frozenset[str], limit: int, name: str, *values: object) -> list[Episode]:
        """The first so many that are filed under one of these categories: read until there are as many, no further."""
        rows: Any = self._connection.execute(self._sql[name], (*values, self._as_of))
        return list(islice((each for (body,) in rows if (each := _episode(body)).has_category(categories)), limit))

    def _episodes(self, name: str, *values: object) -> list[Episode]:
        rows: Any = self._connection.execute(self._sql[name], values)
        return [_episode(body) for (body,) in rows]
