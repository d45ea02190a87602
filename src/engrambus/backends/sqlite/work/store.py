"""The work of one project on disk: `.catalog/tuples.jsonl` is the truth, `work.db` a projection of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import apsw
import msgspec

from engrambus.backends.sqlite.index import Progress
from engrambus.backends.sqlite.projected import Projected
from engrambus.backends.sqlite.queries import queries, schema
from engrambus.backends.sqlite.readers import Identity
from engrambus.backends.sqlite.work.applied import QUERIES, Applied, Figures, save_applied
from engrambus.backends.sqlite.work.bells import Bells
from engrambus.backends.sqlite.work.projection import LAYOUT, Projection
from engrambus.backends.sqlite.work.verify import work_differences
from engrambus.backends.sqlite.work.view import SqliteWorkView
from engrambus.backends.work_facts import decode_work
from engrambus.core import Clock
from engrambus.core.boot import boot_id
from engrambus.core.journal import Place, create_journal
from engrambus.errors import IndexDamaged
from engrambus.gateway.ports import Finding
from engrambus.space.tuples import (
    STAMPED_FIELDS,
    TupleClaimed,
    TupleDone,
    TuplePut,
    TupleReleased,
    TupleTaken,
    Waiter,
    WaitKind,
    WorkDecide,
    WorkView,
)

T = TypeVar("T")

_decode_figures = msgspec.json.Decoder(Figures).decode

WORK_JOURNAL = "tuples.jsonl"
WORK_INDEX = "work.db"
WORK_LOCK = "work.lock"
WORK_BELLS = "bells"

NOBODY: frozenset[str] = frozenset()
RINGS: dict[type[Any], frozenset[str]] = {
    TuplePut: frozenset({"work", "any"}),
    TupleReleased: frozenset({"work", "any"}),
    TupleDone: frozenset({"room", "any"}),
    TupleTaken: frozenset({"room", "any"}),
    TupleClaimed: frozenset({"room"}),
}
"""Who may be waiting for what happened."""


def create_work(folder: Path, *, project: str, at: int) -> None:
    """Make an empty journal of work in a folder; an existing one is left alone."""
    create_journal(folder / WORK_JOURNAL, kind="tuples", project=project, at=at)


class SqliteWork(Projected[Applied, Projection, WorkView]):
    """The work in one `.catalog` folder."""

    def __init__(
        self, folder: Path, clock: Clock, *, indexed: tuple[str, ...] = (), progress: Progress | None = None
    ) -> None:
        self._indexed = tuple(path for path in indexed if path not in STAMPED_FIELDS)
        self._bells = Bells(folder / WORK_BELLS)
        self._to_ring: set[str] = set()
        super().__init__(folder / WORK_JOURNAL, folder / WORK_INDEX, folder / WORK_LOCK, clock, progress)
        self.watch(self._ring)

    def commit(self, decide: WorkDecide[T], *, synced: bool = True) -> T:
        """Change the space; returns once the change is on the disk, or, when not to be synced, in the journal."""
        return self._commit(decide, synced)

    @contextmanager
    def wait_on(self, kind: WaitKind) -> Iterator[Waiter]:
        """A bell that commits of any process ring."""
        with self._bells.hang(kind) as bell:
            yield bell

    def close(self) -> None:
        """Let go of every file."""
        super().close()
        self._bells.close()

    def _ring(self) -> None:
        kinds, self._to_ring = self._to_ring, set()
        self._bells.ring(kinds)

    def _begin(self, connection: apsw.Connection, start: Place) -> Applied:
        connection.execute(schema("work.sql"))
        applied = Applied(place=start, synced=0, machine=boot_id(), indexed=self._indexed)
        indexed = msgspec.json.encode(applied.indexed).decode()
        values = (LAYOUT, self.project, indexed, start.offset, start.seq, start.sum, start.at, 0, applied.machine)
        connection.execute(queries(QUERIES)["begin_applied"], values)
        return applied

    def _read_applied(self, connection: apsw.Connection) -> Applied | None:
        try:
            row: Any = connection.execute(queries(QUERIES)["applied"]).fetchone()
        except apsw.SQLError:  # no such table, or not its columns
            return None
        if row is None or row[0] != LAYOUT or row[1] != self.project:
            return None
        indexed = tuple(msgspec.json.decode(row[2]))
        if not set(self._indexed) <= set(indexed):
            # Another process may have asked for other fields: the next index has them all.
            self._indexed = tuple(sorted({*indexed, *self._indexed}))
            return None
        self._indexed = indexed
        return Applied(
            indexed=indexed,
            place=Place(offset=row[3], seq=row[4], sum=row[5], at=row[6]),
            synced=row[7],
            machine=row[8],
            ordinal=row[9],
            receipts=row[10],
            links=row[11],
            runs=row[12],
            epoch=row[13],
            boot=row[14],
            counter=row[15],
            sorted_tuples=row[16],
            sorted_receipts=row[17],
            figures=_decode_figures(row[18]),
        )

    def _projection(self, connection: apsw.Connection, applied: Applied) -> Projection:
        return Projection(connection, applied)

    def _facts(self, text: bytes) -> Sequence[Any]:
        return decode_work(text)

    def _deciding(self, writer: apsw.Connection, applied: Applied, at: int, projection: Projection) -> WorkView:
        return SqliteWorkView(writer, applied, at, projection.read)

    def _end(self, projection: Projection, at: int) -> None:
        projection.end()

    def _happened(self, facts: Sequence[Any]) -> None:
        for kind in set(map(type, facts)):
            self._to_ring |= RINGS.get(kind, NOBODY)

    def _lasts(self, facts: Sequence[Any]) -> bool:
        return TupleDone in map(type, facts)  # the end of a tuple, whoever came across it

    def _view(self, connection: apsw.Connection, applied: Applied, as_of: int, file: Identity) -> WorkView:
        return SqliteWorkView(connection, applied, as_of)

    def _save(self, writer: apsw.Connection, applied: Applied) -> None:
        save_applied(writer, applied)

    def _differences(self, kept: apsw.Connection, built: apsw.Connection) -> list[Finding]:
        of_kept, of_built = self._read_applied(kept), self._read_applied(built)
        if of_kept is None or of_built is None:
            raise IndexDamaged
        return work_differences(kept, of_kept, built, of_built)
