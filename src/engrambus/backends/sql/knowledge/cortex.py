"""Episodes and contributions in the knowledge index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

import msgspec

from engrambus.backends.facts import CortexChange
from engrambus.backends.sql.connection import SqlConnection
from engrambus.core import parse_time
from engrambus.knowledge.cortex import (
    Contradiction,
    ContradictionRecorded,
    ContradictionSettled,
    Contribution,
    ContributionMoved,
    ContributionSubmitted,
    Episode,
    EpisodeKept,
    SnapshotRecipe,
    SnapshotTaken,
    SnapshotTaking,
    Status,
    apply_move,
    settle,
)

_encode = msgspec.json.Encoder().encode
_decode_episode = msgspec.json.Decoder(Episode).decode
_decode_contradiction = msgspec.json.Decoder(Contradiction).decode
_decode_recipe = msgspec.json.Decoder(SnapshotRecipe).decode
_decode_contribution = msgspec.json.Decoder(Contribution).decode


def apply_cortex(
    connection: SqlConnection,
    sql: Mapping[str, str],
    fact: CortexChange,
    at_us: int,
) -> None:
    """Apply one fact about episodes, snapshots, contributions or contradictions."""
    match fact:
        case EpisodeKept():
            # decision 26: earlier versions stay, since pointers lead to them
            episode = fact.episode
            connection.execute(sql["mark_superseded"], (episode.kind, episode.slug))
            connection.execute(
                sql["insert_episode"],
                (
                    episode.kind,
                    episode.slug,
                    episode.version,
                    episode.created_us,
                    episode.importance,
                    episode.pinned,
                    episode.expires_us,
                    _encode(episode),
                ),
            )
        case ContributionSubmitted():
            _replace(connection, sql, fact.contribution)
        case ContributionMoved():
            row: Any = connection.execute(sql["contribution"], (fact.contribution_id,)).fetchone()
            _replace(connection, sql, apply_move(_decode_contribution(row[0]), fact, at_us))
        case SnapshotTaken():
            recipe = None if fact.recipe is None else _encode(fact.recipe)
            values = (fact.snapshot_id, fact.run, fact.by, fact.heir, at_us, recipe)
            connection.execute(sql["insert_snapshot"], values)
        case ContradictionRecorded():
            _store_contradiction(connection, sql, fact.record(at_us))
        case ContradictionSettled():
            found: Any = connection.execute(sql["contradiction"], (fact.contradiction_id,)).fetchone()
            _store_contradiction(connection, sql, settle(_decode_contradiction(found[0]), fact, at_us))


def _store_contradiction(connection: SqlConnection, sql: Mapping[str, str], record: Contradiction) -> None:
    values = (record.contradiction_id, record.newer, record.older, record.risk, record.keep is None, _encode(record))
    connection.execute(sql["replace_contradiction"], values)


def _replace(connection: SqlConnection, sql: Mapping[str, str], contribution: Contribution) -> None:
    connection.execute(
        sql["replace_contribution"],
        (
            contribution.contribution_id,
            contribution.status,
            contribution.thread_id,
            contribution.from_session,
            contribution.dedupe.content_hash,
            contribution.dedupe.similarity_key,
            parse_time(contribution.submitted_at),
            _encode(contribution),
        ),
    )


class SqlCortex:
    """The part of `SqlView` that reads episodes and contributions. `CortexReads` documents the methods."""

    _connection: SqlConnection
    _sql: Mapping[str, str]
    _expiry_us: int

    def episode(
        self, kind: str, slug: str, *, version: int | None = None, before_us: int | None = None
    ) -> Episode | None:
        episodes = self._episodes("episode", kind, slug, version, version, before_us, before_us)
        return episodes[0] if episodes else None

    def pins(self, *, limit: int) -> Sequence[Episode]:
        return self._episodes("pinned_episodes", self._expiry_us, limit)

    def important(self, min_importance: float, *, categories: frozenset[str], limit: int) -> Sequence[Episode]:
        return self._with_category(categories, limit, "important_episodes", min_importance)

    def recent(self, since_us: int, *, categories: frozenset[str], limit: int) -> Sequence[Episode]:
        return self._with_category(categories, limit, "recent_episodes", since_us)

    def episodes_after(self, ordinal: int, *, limit: int) -> Sequence[Episode]:
        return self._episodes("episodes_after", ordinal, limit)

    def snapshot_takings(self, snapshot_id: str) -> Sequence[SnapshotTaking]:
        rows: Any = self._connection.execute(self._sql["snapshot_takings"], (snapshot_id,))
        return [
            SnapshotTaking(
                run=run,
                by=by,
                heir=heir,
                taken_us=taken_us,
                recipe=None if recipe is None else _decode_recipe(recipe),
            )
            for run, by, heir, taken_us, recipe in rows
        ]

    def contribution(self, contribution_id: str) -> Contribution | None:
        row: Any = self._connection.execute(self._sql["contribution"], (contribution_id,)).fetchone()
        return _decode_contribution(row[0]) if row else None

    def contributions(
        self, status: Status | None, *, thread: str | None, limit: int, before: str | None
    ) -> Sequence[Contribution]:
        values = (status, status, thread, thread, before, before, limit)
        return [_decode_contribution(body) for (body,) in self._connection.execute(self._sql["contributions"], values)]

    def find_duplicate(self, session: str, content_hash: str, since_us: int) -> str | None:
        row: Any = self._connection.execute(
            self._sql["first_contribution"], (session, content_hash, since_us)
        ).fetchone()
        return str(row[0]) if row else None

    def similar_contributions(self, similarity_key: str, *, limit: int) -> Sequence[str]:
        rows: Any = self._connection.execute(self._sql["similar_contributions"], (similarity_key, limit))
        return [contribution_id for (contribution_id,) in rows]

    def contradiction(self, contradiction_id: str) -> Contradiction | None:
        row: Any = self._connection.execute(self._sql["contradiction"], (contradiction_id,)).fetchone()
        return _decode_contradiction(row[0]) if row else None

    def contradictions(self, *, waiting: bool, limit: int, before: str | None) -> Sequence[Contradiction]:
        rows: Any = self._connection.execute(self._sql["contradictions"], (waiting, before, before, limit))
        return [_decode_contradiction(body) for (body,) in rows]

    def waiting_contradictions(self, engram_id: str) -> Sequence[Contradiction]:
        rows: Any = self._connection.execute(self._sql["waiting_contradictions"], (engram_id,))
        return [_decode_contradiction(body) for (body,) in rows]

    def _with_category(self, categories: frozenset[str], limit: int, name: str, *values: object) -> list[Episode]:
        # Categories are inside the JSON body, so rows are decoded one by one until there are enough.
        rows: Any = self._connection.execute(self._sql[name], (*values, self._expiry_us))
        episodes = (_decode_episode(body) for (body,) in rows)
        return list(islice((episode for episode in episodes if episode.has_category(categories)), limit))

    def _episodes(self, name: str, *values: object) -> list[Episode]:
        rows: Any = self._connection.execute(self._sql[name], values)
        return [_decode_episode(body) for (body,) in rows]
