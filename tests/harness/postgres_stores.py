"""The stores in PostgreSQL, opened for tests: each with projects of its own in a database that the tests share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from engrambus.backends.postgres.connections import Database
from engrambus.backends.postgres.knowledge import TABLES
from engrambus.backends.postgres.migrations import prepare
from engrambus.backends.postgres.projects import NO_PROJECT, find_project
from engrambus.backends.postgres.store import PostgresStore, create_store
from engrambus.gateway import Gateway
from engrambus.gateway.ports import Store
from engrambus.testing.clock import ManualClock, SeededRandomness
from engrambus.testing.harness import KEY, PROJECT, SHARED_PROJECTS, open_first_run, open_gateway

_databases: dict[str, Database] = {}


def shared_database(url: str) -> Database:
    """Return the database at a URL, set up and connected to once in this process."""
    if url not in _databases:
        _databases[url] = Database(url)
        prepare(_databases[url])
    return _databases[url].share()


class PostgresHarness:
    """The store in PostgreSQL. Projects of earlier tests with the same ids are deleted."""

    def __init__(self, url: str, clock: ManualClock | None = None, seed: int = 0) -> None:
        self.clock = clock or ManualClock()
        self.database = shared_database(url)
        self._randomness = SeededRandomness(seed)
        self._created_us = self.clock.now()
        for project in (PROJECT, *SHARED_PROJECTS.values()):
            self._forget(project)
        create_store(self.database, KEY, project=PROJECT, now_us=self.clock.now())
        self._open()
        open_first_run(self.gateway.store, self.clock, self._randomness)

    @property
    def gateway(self) -> Gateway:
        """The gateway of the open project."""
        return self._gateway

    @property
    def number(self) -> int:
        """The number of the project in its database."""
        number = find_project(self.database, PROJECT)
        assert number is not None
        return number

    def reopen(self) -> None:
        """Close the store and open it again."""
        self._close_stores()
        self._open()

    def delete_index(self) -> None:
        """Empty every table but the journal, as a person with a client of the database may."""
        for project in (PROJECT, *SHARED_PROJECTS.values()):
            self._empty(project, TABLES)

    def journal_bytes(self) -> bytes:
        """Return the project's journal, header included."""
        return b"".join(self._lines(PROJECT))

    def shared_bytes(self, scope: str) -> bytes:
        """Return the journal of a shared store from its first commit on."""
        return b"".join(self._lines(SHARED_PROJECTS[scope])[1:])

    def close(self) -> None:
        """Close the project's store and the shared ones."""
        self._close_stores()
        self.database.close()

    def _close_stores(self) -> None:
        self._gateway.store.close()
        self._gateway.shared.close()

    def _open(self) -> None:
        store = PostgresStore(self.database.share(), KEY, PROJECT, self.clock)
        shared: dict[str, Callable[[], Store]] = {scope: self._opener(scope) for scope in SHARED_PROJECTS}
        self._gateway = open_gateway(store, Path("/nowhere"), self._randomness, shared)

    def _opener(self, scope: str) -> Callable[[], Store]:
        def open_store() -> Store:
            project = SHARED_PROJECTS[scope]
            create_store(self.database, KEY, project=project, now_us=self._created_us)
            return PostgresStore(self.database.share(), KEY, project, self.clock)

        return open_store

    def _lines(self, project: str) -> list[bytes]:
        number = find_project(self.database, project)
        if number is None:
            return []
        with self.database.reading(number, {}) as session:
            return [line for (line,) in session.execute("SELECT line FROM journal ORDER BY seq")]

    def _forget(self, project: str) -> None:
        """Have the project get another number, with which it has no rows."""
        with self.database.writing(NO_PROJECT, {}) as session:
            session.execute("DELETE FROM projects WHERE project_id = $1", (project,))

    def _empty(self, project: str, tables: tuple[str, ...]) -> None:
        number = find_project(self.database, project)
        if number is not None:
            with self.database.writing(number, {}) as session:
                for table in tables:
                    session.execute(f"DELETE FROM {table}")
