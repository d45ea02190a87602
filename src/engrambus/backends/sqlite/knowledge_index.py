"""The index of `memory.jsonl`: its tables and views, and sweeping out expired engrams."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import apsw

from engrambus.backends.facts import Fact, decode_facts
from engrambus.backends.sql.knowledge.postings import BulkPostings
from engrambus.backends.sql.knowledge.projection import LAYOUT, KnowledgeIndexState, KnowledgeProjection
from engrambus.backends.sql.knowledge.view import ReadCache, SqlView
from engrambus.backends.sql.positions import encode_clock, read_position
from engrambus.backends.sqlite.connections import FileId, transaction
from engrambus.backends.sqlite.journal_index import JournalIndex
from engrambus.backends.sqlite.knowledge_comparison import KnowledgeComparison
from engrambus.backends.sqlite.queries import queries, schema
from engrambus.core import SECOND_US, ProjectTime, boot_id
from engrambus.core.journal import JournalPosition, encode_facts
from engrambus.gateway.ports import View

SWEEP_EVERY_US = SECOND_US

KnowledgeJournalIndex = JournalIndex[KnowledgeIndexState, KnowledgeProjection]


class KnowledgeIndex:
    """The index schema of the knowledge store."""

    kind = "memory"

    def __init__(self) -> None:
        self._cache: tuple[FileId, ReadCache] = ((0, 0), ReadCache())
        self._next_sweep_us = 0

    def create(self, connection: apsw.Connection, project: str, start: JournalPosition) -> KnowledgeIndexState:
        """Create the tables of an empty index."""
        connection.execute(schema())
        values = (LAYOUT, project, start.offset, start.seq, start.checksum, start.at_us, encode_clock(start))
        connection.execute(queries()["insert_state"], values)
        return _state(start, 0, 0, 0, 0, 0, 0)

    def read_state(self, connection: apsw.Connection, project: str) -> KnowledgeIndexState | None:
        """Read the state row; None if the index has another layout or belongs to another project."""
        try:
            row: Any = connection.execute(queries()["state"]).fetchone()
        except apsw.SQLError:  # no such table, or other columns
            return None
        if row is None or row[0] != LAYOUT or row[1] != project:
            return None
        return _state(read_position(row[2:7]), *row[7:])

    def save_state(self, connection: apsw.Connection, state: KnowledgeIndexState) -> None:
        """Write the state row."""
        position = state.position
        values = (
            *(position.offset, position.seq, position.checksum, position.at_us, encode_clock(position)),
            *(state.ordinal, state.runs, state.pending, state.tail, state.merged, state.identity),
        )
        connection.execute(queries()["update_state"], values)

    def decode_facts(self, text: bytes) -> Sequence[Fact]:
        """Decode the facts of a line."""
        return decode_facts(text)

    def projection(self, connection: apsw.Connection, state: KnowledgeIndexState) -> KnowledgeProjection:
        """Return a projection that writes through `connection`."""
        return KnowledgeProjection(connection, queries(), state)

    def replay_projection(self, connection: apsw.Connection, state: KnowledgeIndexState) -> KnowledgeProjection:
        """Return a projection that gathers postings until its transaction ends."""
        return KnowledgeProjection(connection, queries(), state, BulkPostings(connection, queries(), state))

    def end_batch(self, projection: KnowledgeProjection, now_us: int) -> None:
        """Sweep out some expired engrams, at most once a second, and write everything gathered."""
        if not 0 <= self._next_sweep_us - now_us <= SWEEP_EVERY_US:
            self._next_sweep_us = now_us + SWEEP_EVERY_US
            projection.sweep(now_us)
        projection.finish()

    def must_sync(self, facts: Sequence[Any]) -> bool:
        """Every commit of this store is synced anyway."""
        return False

    def decision_view(self, projection: KnowledgeProjection, time: ProjectTime) -> View:
        """Return the view that a change decides on. It caches nothing: its transaction may be rolled back."""
        return SqlView(projection.connection, projection.sql, projection.state, time)

    def read_view(
        self, connection: apsw.Connection, state: KnowledgeIndexState, time: ProjectTime, file: FileId
    ) -> View:
        """Return the view of a snapshot of the index file with this id."""
        if self._cache[0] != file:  # a rebuilt index may number its rows otherwise
            self._cache = (file, ReadCache())
        return SqlView(connection, queries(), state, time, self._cache[1])

    def upkeep_after(
        self, view: View
    ) -> Callable[[KnowledgeJournalIndex, apsw.Connection, KnowledgeIndexState], None] | None:
        """Return the sweep if a read had to skip many expired engrams."""
        return sweep_expired if isinstance(view, SqlView) and view.saw_many_expired else None

    def comparison(self) -> KnowledgeComparison:
        """Return what compares an index with a draft built from the journal."""
        return KnowledgeComparison()


def _state(
    position: JournalPosition, ordinal: int, runs: int, pending: int, tail: int, merged: int, identity: int
) -> KnowledgeIndexState:
    return KnowledgeIndexState(
        position=position,
        synced_bytes=position.offset,
        boot_id=boot_id(),
        ordinal=ordinal,
        runs=runs,
        pending=pending,
        tail=tail,
        merged=merged,
        identity=identity,
    )


def sweep_expired(index: KnowledgeJournalIndex, writer: apsw.Connection, state: KnowledgeIndexState) -> None:
    """Delete every expired engram. An empty line records the time first: a clock set back revives none of them."""
    position = state.position
    time = index.clock.commit_time(position.at_us, position.clock)
    if time.now_us > position.at_us:
        start = position.offset
        line, position = index.journal.encode(position, stamp=time.stamp, facts=encode_facts([]), mark=start)
        index.journal.append([line])
        index.journal.sync(cut_to=start)
    swept = True
    while swept:
        with transaction(writer):
            projection = KnowledgeProjection(writer, queries(), state)
            swept = projection.sweep(time.expiry_us) > 0
            projection.finish()
            state.position = position
            index.schema.save_state(writer, state)
