"""The index of `tuples.jsonl`: its tables and views, and comparing it with a rebuild."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import apsw
import msgspec

from engrambus.backends.facts import decode_work_facts
from engrambus.backends.sql.positions import encode_clock, read_position
from engrambus.backends.sql.work.figures import all_figures
from engrambus.backends.sql.work.projection import WorkProjection
from engrambus.backends.sql.work.state import WorkIndexState, new_shape, read_row
from engrambus.backends.sql.work.view import SqlWorkView
from engrambus.backends.sqlite.comparison import DIFFERS, ComparedTable, whole_tables
from engrambus.backends.sqlite.connections import FileId
from engrambus.backends.sqlite.queries import queries, schema
from engrambus.backends.sqlite.work.database import QUERIES, SqliteWorkDatabase
from engrambus.core import ProjectTime, boot_id
from engrambus.core.journal import JournalPosition
from engrambus.gateway.ports import Finding
from engrambus.space.schedules import ScheduleFact, ScheduleView
from engrambus.space.tuples import STAMPED_FIELDS, Fact, TupleDone

LAYOUT = 12
"""Version of `sql/work.sql`; an index of another version is rebuilt."""

_encode = msgspec.json.Encoder().encode

COMPARED = {
    **whole_tables(bodies="ordinal"),
    # `due` is set by the first claim that finds it so.
    "tuples": ComparedTable(
        (
            "SELECT ordinal, id, state, lane, rank, run, attempts, ready_at, epoch, counter, worker, until, deadline, "
            "retries, budget_micros, budget_tokens, micros, tokens, own_micros, own_tokens, held_micros, held_tokens, "
            "alarmed, parent, again, ended, needs, grp FROM tuples",
        ),
        ("ordinal",),
    ),
    "lane_runs": ComparedTable(("SELECT number, lane, needs, rank, run, authority FROM lane_runs",), ("number",)),
    "siblings": ComparedTable(("SELECT number, lane_run, parent FROM siblings",), ("number",)),
    "groups": ComparedTable(("SELECT number, siblings, key FROM groups",), ("number",)),
    "tuple ids": ComparedTable(
        ("SELECT * FROM tuple_ids", "SELECT * FROM new_tuple_ids"),
        ("head", "ordinal"),
    ),
    "receipt ids": ComparedTable(
        ("SELECT * FROM receipt_ids", "SELECT * FROM new_receipt_ids"),
        ("head", "number"),
    ),
    **whole_tables(
        posted="path value live rank ordinal",
        receipts="number",
        links="ordinal number",
        hits="receipt_number number",
        results="key number",
        purged="sha",
        asked="key",
        running="ordinal step",
        blocks="ordinal blocker",
        task_changes="ordinal number",
        counted="ordinal epoch counter step",
        rules="name",
        slots="pool ordinal",
        starts="pool number",
    ),
    **whole_tables(
        needs="number",
        batches="ordinal",
        folded_leaves="batch start",
        folded_ends="batch level state",
        agents="ordinal",
        schedules="number",
    ),
    "run numbers": ComparedTable(("SELECT number, run FROM runs",), ("number",)),
    "applied": ComparedTable(
        (
            "SELECT layout, project, indexed, position, seq, checksum, at, ordinal, receipts, links, runs, epoch, "
            "boot, counter, rules FROM applied",
        )
    ),
}


class WorkIndex:
    """The index schema of the work store. `indexed` are the fields by which tuples are posted."""

    kind = "tuples"

    def __init__(self, indexed: tuple[str, ...]) -> None:
        self._indexed = tuple(path for path in indexed if path not in STAMPED_FIELDS)

    def create(self, connection: apsw.Connection, project: str, start: JournalPosition) -> WorkIndexState:
        """Create the tables of an empty index."""
        connection.execute(schema("work.sql"))
        state = WorkIndexState(position=start, synced_bytes=0, boot_id=boot_id(), indexed=self._indexed)
        indexed = msgspec.json.encode(state.indexed).decode()
        position = (start.offset, start.seq, start.checksum, start.at_us, encode_clock(start))
        values = (LAYOUT, project, indexed, *position, 0, state.boot_id, new_shape())
        connection.execute(queries(QUERIES)["insert_state"], values)
        return state

    def read_state(self, connection: apsw.Connection, project: str) -> WorkIndexState | None:
        """Read the state row; None if the index has another layout, another project or not all indexed fields."""
        try:
            row: Any = connection.execute(queries(QUERIES)["state"]).fetchone()
        except apsw.SQLError:  # no such table, or other columns
            return None
        if row is None or row[0] != LAYOUT or row[1] != project:
            return None
        indexed = tuple(msgspec.json.decode(row[2]))
        if not set(self._indexed) <= set(indexed):
            # Another process may have asked for other fields: the next index has them all.
            self._indexed = tuple(sorted({*indexed, *self._indexed}))
            return None
        self._indexed = indexed
        return read_row(row, indexed, read_position(row[3:8]))

    def save_state(self, connection: apsw.Connection, state: WorkIndexState) -> None:
        """Write the state row."""
        position = state.position
        connection.execute(
            queries(QUERIES)["update_state"],
            (
                position.offset,
                position.seq,
                position.checksum,
                position.at_us,
                encode_clock(position),
                state.synced_bytes,
                state.boot_id,
                state.ordinal,
                state.receipts,
                state.links,
                state.runs,
                state.epoch,
                state.boot,
                state.counter,
                state.merged_tuples,
                state.merged_receipts,
                state.rules,
                _encode(state.figures),
            ),
        )

    def decode_facts(self, text: bytes) -> Sequence[Fact | ScheduleFact]:
        """Decode the facts of a line."""
        return decode_work_facts(text)

    def projection(self, connection: apsw.Connection, state: WorkIndexState) -> WorkProjection:
        """Return a projection that writes through `connection`."""
        return WorkProjection(SqliteWorkDatabase(connection), state)

    def replay_projection(self, connection: apsw.Connection, state: WorkIndexState) -> WorkProjection:
        """Return a projection that writes through `connection`."""
        return WorkProjection(SqliteWorkDatabase(connection), state)

    def end_batch(self, projection: WorkProjection, now_us: int) -> None:
        """Write what the batch has gathered; figures only when they have become many."""
        projection.end_batch()

    def must_sync(self, facts: Sequence[Fact | ScheduleFact]) -> bool:
        """True if a tuple has ended: its last receipt is synced by the commit that notices the end (decision 22)."""
        return TupleDone in map(type, facts)

    def decision_view(self, projection: WorkProjection, time: ProjectTime) -> ScheduleView:
        """Return the view that a change decides on; the projection reuses the tuples it reads."""
        return SqlWorkView(projection.database, projection.state, time.now_us, projection)

    def read_view(
        self, connection: apsw.Connection, state: WorkIndexState, time: ProjectTime, file: FileId
    ) -> ScheduleView:
        """Return the view of a snapshot."""
        return SqlWorkView(SqliteWorkDatabase(connection), state, time.now_us)

    def upkeep_after(self, view: ScheduleView) -> None:
        """No read calls for upkeep."""

    def comparison(self) -> WorkComparison:
        """Return what compares an index with a draft built from the journal."""
        return WorkComparison()


class WorkComparison:
    """Compares the work index with a draft."""

    tables = COMPARED

    def prepare(self, draft: apsw.Connection) -> None:
        """Leave the draft as it is: facts are applied with the help of all its indexes."""

    def projection(self, draft: apsw.Connection, state: WorkIndexState) -> WorkProjection:
        """Return a projection that applies facts to the draft."""
        return WorkProjection(SqliteWorkDatabase(draft), state)

    def find_rest(
        self, index: apsw.Connection, draft: apsw.Connection, state: WorkIndexState, draft_state: WorkIndexState
    ) -> Iterator[Finding]:
        """Compare the figures."""
        actual = all_figures(SqliteWorkDatabase(index), state)
        expected = all_figures(SqliteWorkDatabase(draft), draft_state)
        for table in expected:
            if actual[table] != expected[table]:
                yield Finding(what=f"{DIFFERS}: figures are others", where=f"work.db, table {table}", is_copy=True)
