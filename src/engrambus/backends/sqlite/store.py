"""One project's store on disk: `memory.jsonl` is the truth, `index.db` a projection of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import apsw

from engrambus.backends.facts import decode_facts
from engrambus.backends.sqlite.following import transaction
from engrambus.backends.sqlite.index import Progress
from engrambus.backends.sqlite.projected import Projected
from engrambus.backends.sqlite.projection import LAYOUT, Applied, Projection, save_applied
from engrambus.backends.sqlite.queries import queries, schema
from engrambus.backends.sqlite.readers import Identity
from engrambus.backends.sqlite.verify import store_differences
from engrambus.backends.sqlite.view import Kept, SqliteView
from engrambus.core import SECOND, Clock
from engrambus.core.boot import boot_id
from engrambus.core.journal import Place, create_journal, encode_facts, print_line
from engrambus.gateway.ports import Decide, Finding, View
from engrambus.policy import JOURNAL

T = TypeVar("T")

INDEX = "index.db"
LOCK = "lock"
SWEEP_EVERY = SECOND


def create_store(folder: Path, *, project: str, at: int) -> None:
    """Make an empty store in a folder; an existing one is left alone."""
    create_journal(folder / JOURNAL, kind="memory", project=project, at=at)


class SqliteStore(Projected[Applied, Projection, View]):
    """The store in one `.catalog` folder."""

    def __init__(self, folder: Path, clock: Clock, progress: Progress | None = None) -> None:
        self._kept: tuple[Identity, Kept] = ((0, 0), Kept())
        self._sweep_at = 0
        super().__init__(folder / JOURNAL, folder / INDEX, folder / LOCK, clock, progress)

    def commit(self, decide: Decide[T]) -> T:
        """Change the store; returns once the change is on the disk."""
        return self._commit(decide, synced=True)

    def _begin(self, connection: apsw.Connection, start: Place) -> Applied:
        connection.execute(schema())
        values = (LAYOUT, self.project, start.offset, start.seq, start.sum, start.at)
        connection.execute(queries()["begin_applied"], values)
        return _applied(start, 0, 0, 0, 0)

    def _read_applied(self, connection: apsw.Connection) -> Applied | None:
        try:
            row: Any = connection.execute(queries()["applied"]).fetchone()
        except apsw.SQLError:  # no such table, or not its columns
            return None
        if row is None or row[0] != LAYOUT or row[1] != self.project:
            return None
        _, _, position, seq, checksum, at, *counts = row
        return _applied(Place(offset=position, seq=seq, sum=checksum, at=at), *counts)

    def _projection(self, connection: apsw.Connection, applied: Applied) -> Projection:
        return Projection(connection, applied)

    def _facts(self, text: bytes) -> Sequence[Any]:
        return decode_facts(text)

    def _deciding(self, writer: apsw.Connection, applied: Applied, at: int, projection: Projection) -> View:
        return SqliteView(writer, applied, at)

    def _end(self, projection: Projection, at: int) -> None:
        if at >= self._sweep_at:
            self._sweep_at = at + SWEEP_EVERY
            projection.sweep(at)
        projection.finish()

    def _view(self, connection: apsw.Connection, applied: Applied, as_of: int, file: Identity) -> View:
        return SqliteView(connection, applied, as_of, self._kept_of(file))

    def _kept_of(self, file: Identity) -> Kept:
        """What was kept from reading this very index; another one, though it says the same, is laid out otherwise."""
        if self._kept[0] != file:
            self._kept = (file, Kept())
        return self._kept[1]

    def _seen(self, view: View) -> None:
        if isinstance(view, SqliteView) and view.saw_many_overdue:
            self._tend(self._sweep)

    def _save(self, writer: apsw.Connection, applied: Applied) -> None:
        save_applied(writer, applied)

    def _differences(self, kept: apsw.Connection, built: apsw.Connection) -> list[Finding]:
        return store_differences(kept, built)

    def _sweep(self, writer: apsw.Connection, applied: Applied) -> None:
        """Take out everything past its time. The journal says until when: no clock turned back brings it to life."""
        place = applied.place
        now = self._clock.now(place.at)
        if now > place.at:
            line, checksum = print_line(place.sum, at=now, facts=encode_facts([]), mark=place.offset, seq=place.seq + 1)
            self._journal.append([line])
            self._journal.sync()
            place = Place(offset=place.offset + len(line), seq=place.seq + 1, sum=checksum, at=now)
        swept = True
        while swept:
            with transaction(writer):
                projection = Projection(writer, applied)
                swept = projection.sweep(place.at) > 0
                projection.finish()
                applied.place = place
                save_applied(writer, applied)


def _applied(place: Place, ordinal: int, runs: int, pending: int, identity: int) -> Applied:
    return Applied(
        place=place,
        synced=place.offset,
        machine=boot_id(),
        ordinal=ordinal,
        runs=runs,
        pending=pending,
        identity=identity,
    )
