"""The tables of `memory`, the journal of what the team knows: created, filled from the journal, viewed."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any

from engrambus.backends.facts import Fact, decode_facts
from engrambus.backends.postgres.connections import ProjectSession
from engrambus.backends.postgres.postings import PostgresPostingsReader
from engrambus.backends.postgres.queries import queries
from engrambus.backends.postgres.view import PostgresView
from engrambus.backends.sql.knowledge.postings import BulkPostings
from engrambus.backends.sql.knowledge.projection import KnowledgeIndexState, KnowledgeProjection
from engrambus.backends.sql.knowledge.view import ReadCache
from engrambus.backends.sql.positions import encode_clock, read_position
from engrambus.backends.sqlite.knowledge_comparison import COMPARED
from engrambus.core import SECOND_US, ProjectTime, boot_id
from engrambus.core.journal import JournalPosition

KIND = "memory"
TABLES = ("applied", *(COMPARED.keys() - {"applied"}), "past", "live", "pending", "postings", "posting_blocks")
"""Everything that is made from the journal."""
SWEEP_EVERY_US = SECOND_US


class PostgresKnowledgeState(KnowledgeIndexState, kw_only=True):
    """The state row of the knowledge tables."""

    built: str
    """Another one after each rebuild, which may number rows otherwise."""


class KnowledgeTables:
    """How the tables of knowledge follow their journal."""

    queries = queries()

    def __init__(self) -> None:
        self._cache: tuple[str, ReadCache] = ("", ReadCache())
        self._next_sweep_us = 0

    def create(self, session: ProjectSession, start: JournalPosition) -> PostgresKnowledgeState:
        """Empty every table and write the first state row."""
        for table in TABLES:
            session.execute(f"DELETE FROM {table}")  # noqa: S608  # names of ours
        built = secrets.token_hex(8)
        values = (start.offset, start.seq, start.checksum, start.at_us, encode_clock(start), built)
        session.execute(self.queries["insert_state"], values)
        state = _state(start, 0, 0, 0, 0, 0, 0, built)
        state.is_from_start = True
        return state

    def read_state(self, session: ProjectSession, query: str = "state") -> PostgresKnowledgeState | None:
        """Read the state row; None if the tables were emptied. `lock_state` waits for other writers."""
        row: Any = session.execute(self.queries[query]).fetchone()
        return None if row is None else _state(read_position(row[:5]), *row[5:])

    def save_state(self, session: ProjectSession, state: PostgresKnowledgeState) -> None:
        """Write the state row."""
        position = state.position
        values = (
            *(position.offset, position.seq, position.checksum, position.at_us, encode_clock(position)),
            *(state.ordinal, state.runs, state.pending, state.tail, state.merged, state.identity),
        )
        session.execute(self.queries["update_state"], values)

    def decode_facts(self, text: bytes) -> Sequence[Fact]:
        """Decode the facts of a line."""
        return decode_facts(text)

    def projection(self, session: ProjectSession, state: PostgresKnowledgeState) -> KnowledgeProjection:
        """Return a projection that writes through a session."""
        return KnowledgeProjection(session, self.queries, state)

    def replay_projection(self, session: ProjectSession, state: PostgresKnowledgeState) -> KnowledgeProjection:
        """Return a projection that gathers postings until its transaction ends."""
        return KnowledgeProjection(session, self.queries, state, BulkPostings(session, self.queries, state))

    def end_batch(self, projection: KnowledgeProjection, now_us: int) -> None:
        """Sweep out some expired engrams, at most once a second, and write everything gathered."""
        if not 0 <= self._next_sweep_us - now_us <= SWEEP_EVERY_US:
            self._next_sweep_us = now_us + SWEEP_EVERY_US
            projection.sweep(now_us)
        projection.finish()

    def decision_view(self, projection: KnowledgeProjection, time: ProjectTime) -> PostgresView:
        """Return the view that a change decides on. It caches nothing: its transaction may be rolled back."""
        return PostgresView(
            projection.connection, self.queries, projection.state, time, make_reader=PostgresPostingsReader
        )

    def read_view(self, session: ProjectSession, state: PostgresKnowledgeState, time: ProjectTime) -> PostgresView:
        """Return the view of a snapshot."""
        if self._cache[0] != state.built:
            self._cache = (state.built, ReadCache())
        return PostgresView(session, self.queries, state, time, self._cache[1], PostgresPostingsReader)


def _state(
    position: JournalPosition,
    ordinal: int,
    runs: int,
    pending: int,
    tail: int,
    merged: int,
    identity: int,
    built: str,
) -> PostgresKnowledgeState:
    return PostgresKnowledgeState(
        position=position,
        synced_bytes=position.offset,
        boot_id=boot_id(),
        ordinal=ordinal,
        runs=runs,
        pending=pending,
        tail=tail,
        merged=merged,
        identity=identity,
        built=built,
    )
