"""The index of `memory.jsonl`: its tables and views, sweeping out expired engrams, and comparing it with a rebuild."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import apsw
import msgspec

from engrambus.backends.facts import Fact, decode_facts
from engrambus.backends.sqlite.connections import FileId, transaction
from engrambus.backends.sqlite.journal_index import JournalIndex, encode_clock, read_position, same_rows
from engrambus.backends.sqlite.postings import all_postings
from engrambus.backends.sqlite.projection import (
    LAYOUT,
    PAST,
    KnowledgeIndexState,
    KnowledgeProjection,
    decode_engram,
    tokens_of,
)
from engrambus.backends.sqlite.queries import queries, schema
from engrambus.backends.sqlite.view import ReadCache, SqliteView
from engrambus.core import SECOND_US, ProjectTime, boot_id
from engrambus.core.journal import JournalPosition, encode_facts
from engrambus.gateway.ports import Finding, View

SWEEP_EVERY_US = SECOND_US

# Each query selects what an index says, however it came to say it: rows in an order of their own, without expired
# engrams (when they are swept out is not recorded in the journal) and without where new postings wait.
COMPARED = {
    "runs": "SELECT * FROM runs ORDER BY number",
    "agents": "SELECT run, name, role, parent, client_id, session_turns, removed, tokens_revoked FROM agents "
    "ORDER BY position",
    "tokens": "SELECT * FROM tokens ORDER BY token_id",
    "policies": "SELECT * FROM policies ORDER BY position",
    "gate_overrides": "SELECT * FROM gate_overrides ORDER BY position",
    "promotions": "SELECT * FROM promotions ORDER BY request_id",
    "engrams": "SELECT * FROM engrams WHERE expires_at > :at ORDER BY ordinal",
    # An expired engram is in `past` or waits to be swept there.
    "past": "SELECT ordinal, space, id, run, kind, scope, created_at, expires_at, confidence, names, more_keys, "
    "sequence, body, replaced_at, replaced_by FROM past "
    "UNION ALL SELECT ordinal, space, id, run, kind, scope, created_at, expires_at, confidence, names, more_keys, "
    "sequence, body, NULL, NULL FROM engrams WHERE expires_at <= :at ORDER BY ordinal",
    "used_ids": "SELECT id FROM used_ids ORDER BY id",
    "listed": "SELECT * FROM listed ORDER BY run, agent",
    "puts": "SELECT * FROM puts ORDER BY root, second, author",
    "mail": "SELECT * FROM mail ORDER BY position",
    "mail_handed_over": "SELECT * FROM mail_handed_over ORDER BY run, agent",
    "packs": "SELECT * FROM packs ORDER BY position",
    "requests": "SELECT * FROM requests ORDER BY request_id",
    "grants": "SELECT * FROM grants ORDER BY grant_id",
    "reservations": "SELECT * FROM reservations ORDER BY reservation_id",
    "blocks": "SELECT * FROM blocks ORDER BY block_id",
    "given_budgets": "SELECT * FROM given_budgets ORDER BY run, agent",
    "rejections": "SELECT * FROM rejections ORDER BY run, agent, kind, rejection",
    "briefs": "SELECT * FROM briefs ORDER BY run, role, version",
    "agent_paths": "SELECT * FROM agent_paths ORDER BY run, agent, path",
    "delivered": "SELECT * FROM delivered ORDER BY run, agent, digest",
    "tallies": "SELECT * FROM tallies ORDER BY run, agent",
    "kinds_put": "SELECT * FROM kinds_put ORDER BY run, agent, kind",
    "outcomes": "SELECT * FROM outcomes ORDER BY run, agent",
    "denials": "SELECT * FROM denials ORDER BY run, agent, code",
    "history": "SELECT * FROM history ORDER BY bucket, start, run, role",
    "pins": "SELECT ordinal FROM pins JOIN engrams USING (ordinal) WHERE expires_at > :at ORDER BY position",
    "adoptions": "SELECT a.* FROM adoptions a JOIN engrams USING (ordinal) WHERE expires_at > :at ORDER BY ordinal",
    "captures": "SELECT c.* FROM captures c JOIN engrams USING (ordinal) WHERE expires_at > :at ORDER BY ordinal",
    "learned": "SELECT l.* FROM learned l JOIN engrams USING (ordinal) WHERE expires_at > :at ORDER BY ordinal",
    "learned_from": "SELECT * FROM learned_from",
    "unwanted": "SELECT * FROM unwanted ORDER BY key",
    "votes": "SELECT ordinal, root FROM votes JOIN engrams USING (ordinal) WHERE expires_at > :at ORDER BY 1, 2",
    "recalled": "SELECT run, agent, engram, stale FROM recalled ORDER BY run, agent, engram",
    "recalled_tasks": "SELECT run, agent, task, engrams FROM recalled_tasks ORDER BY position",
    "uses": "SELECT * FROM uses ORDER BY position",
    "episodes": "SELECT * FROM episodes ORDER BY ordinal",
    "contradictions": "SELECT * FROM contradictions ORDER BY id",
    "contributions": "SELECT * FROM contributions ORDER BY id",
    "turns": "SELECT * FROM turns ORDER BY run, agent",
    "reads": "SELECT * FROM reads ORDER BY content, run, agent, first, last, to_end, unit",
    "remembered": "SELECT * FROM remembered ORDER BY caller, key",
    "applied": "SELECT layout, project, position, seq, checksum, at, ordinal, runs, identity FROM applied",
}

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
        return KnowledgeProjection(connection, state)

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
        return SqliteView(projection.connection, projection.state, time)

    def read_view(
        self, connection: apsw.Connection, state: KnowledgeIndexState, time: ProjectTime, file: FileId
    ) -> View:
        """Return the view of a snapshot of the index file with this id."""
        if self._cache[0] != file:  # a rebuilt index may number its rows otherwise
            self._cache = (file, ReadCache())
        return SqliteView(connection, state, time, self._cache[1])

    def upkeep_after(
        self, view: View
    ) -> Callable[[KnowledgeJournalIndex, apsw.Connection, KnowledgeIndexState], None] | None:
        """Return the sweep if a read had to skip many expired engrams."""
        return sweep_expired if isinstance(view, SqliteView) and view.saw_many_expired else None

    def differences(self, index: apsw.Connection, rebuilt: apsw.Connection, project: str) -> list[Finding]:
        """Return where an index differs from one that was just rebuilt from the journal."""
        ((at_us,),) = rebuilt.execute("SELECT at FROM applied").fetchall()
        findings = [
            Finding(what="differs from a rebuild", where=f"index table {table}")
            for table, query in COMPARED.items()
            if not same_rows(index, rebuilt, query, {"at": at_us})
        ]
        return [*findings, *_live_findings(index), *_postings_findings(index)]


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
            projection = KnowledgeProjection(writer, state)
            swept = projection.sweep(time.expiry_us) > 0
            projection.finish()
            state.position = position
            index.schema.save_state(writer, state)


def _live_findings(index: apsw.Connection) -> list[Finding]:
    """Compare the counts in `live` with the rows of `engrams`, expired ones included."""
    counted = index.execute("SELECT space, kind, engrams FROM live WHERE engrams != 0").fetchall()
    actual = index.execute("SELECT space, kind, count(*) FROM engrams GROUP BY space, kind").fetchall()
    if sorted(counted) == sorted(actual):
        return []
    return [Finding(what="engrams are miscounted", where="index table live")]


def _postings_findings(index: apsw.Connection) -> list[Finding]:
    """Check that every engram is on the list of each of its keys, and on no other."""
    expected = _PostingsSum()
    rows: Any = index.execute(
        "SELECT ordinal, space, more_keys, body FROM engrams "
        "UNION ALL SELECT ordinal, ? || space, more_keys, body FROM past",
        (PAST,),
    )
    for ordinal, space, more_keys, body in rows:
        for token in tokens_of(space, decode_engram(body), more_keys.split()).split(" "):
            expected.add(token, ordinal)
    actual = _PostingsSum()
    for token, ordinals in all_postings(index):
        for ordinal in ordinals:
            actual.add(token, ordinal)
    if actual == expected:
        return []
    if actual.count == expected.count:
        return [Finding(what="an engram is not on the lists of its keys", where="index postings")]
    what = f"there are {actual.count:,} postings where {expected.count:,} belong"
    return [Finding(what=what, where="index postings")]


class _PostingsSum(msgspec.Struct):
    """The number of some postings and a sum that shows whether they are the same, in whatever order they come."""

    count: int = 0
    total: int = 0

    def add(self, token: str, ordinal: int) -> None:
        self.count += 1
        self.total = (self.total + hash((token, ordinal))) & 0xFFFF_FFFF_FFFF_FFFF
