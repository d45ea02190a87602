"""The work store on PostgreSQL, opened for tests: each harness has a project of its own in a shared database."""

from __future__ import annotations

from engrambus.backends.postgres.projects import NO_PROJECT, find_project
from engrambus.backends.postgres.work import PostgresWork, create_work
from engrambus.backends.postgres.work.store import TABLES
from engrambus.space.tuples import SpaceSettings, TupleSpace
from engrambus.testing.clock import ManualClock
from engrambus.testing.harness import KEY, PROJECT
from tests.harness.postgres_stores import shared_database


class PostgresWorkHarness:
    """The work of a new project. One of earlier tests with the same id gets out of its way."""

    def __init__(self, url: str, clock: ManualClock | None = None, settings: SpaceSettings | None = None) -> None:
        self.clock = clock or ManualClock()
        self.database = shared_database(url)
        self._settings = settings
        self._boot = "first"
        with self.database.writing(NO_PROJECT, {}) as session:
            session.execute("DELETE FROM projects WHERE project_id = $1", (PROJECT,))
        create_work(self.database, KEY, project=PROJECT, now_us=self.clock.now())
        self.number = find_project(self.database, PROJECT) or 0
        self._open()

    def reopen(self) -> None:
        """Close the store and open another, as another process would."""
        self.space.close()
        self._open()

    def reboot(self, boot: str) -> None:
        """Open the space again under another boot id: every claim of the old one is lost."""
        self._boot = boot
        self.reopen()

    def delete_index(self) -> None:
        """Delete everything but the journal."""
        with self.database.writing(self.number, {}) as session:
            for table in TABLES:
                session.execute(f"DELETE FROM work_{table}")

    def journal_bytes(self) -> bytes:
        """Return the journal, header included."""
        with self.database.reading(self.number, {}) as session:
            rows = session.execute("SELECT line FROM journal WHERE kind = 'tuples' ORDER BY seq").fetchall()
        return b"".join(line for (line,) in rows)

    def close(self) -> None:
        """Close the store."""
        self.space.close()
        self.database.close()

    def open_store(self) -> PostgresWork:
        """Open another store of the same project, as another host would."""
        indexed = self._settings.indexed_fields if self._settings is not None else ()
        return PostgresWork(self.database.share(), KEY, PROJECT, self.clock, indexed=indexed)

    def _open(self) -> None:
        self.space = TupleSpace(self.open_store(), settings=self._settings, boot=self._boot)


class TwoHostsHarness(PostgresWorkHarness):
    """The work of a new project, on two hosts that take turns: each call goes through the other's store."""

    @property
    def space(self) -> TupleSpace:
        """The space of the host whose turn it is."""
        self._spaces.reverse()
        return self._spaces[0]

    @space.setter
    def space(self, space: TupleSpace) -> None:
        other = TupleSpace(self.open_store(), settings=self._settings, boot=self._boot)
        self._spaces = [space, other]
        for opened in self._spaces:
            opened.store.commit(lambda view: ([], None))  # each has found what is there, as one store would

    def reopen(self) -> None:
        """Close both stores and open two others."""
        for space in self._spaces:
            space.close()
        self._open()

    def close(self) -> None:
        """Close both stores."""
        for space in self._spaces:
            space.close()
        self.database.close()
