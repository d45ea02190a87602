"""The two back ends, opened for tests: the knowledge store and the work store, in memory and on disk."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from engrambus.backends.memory import MemoryJournal, MemoryStore
from engrambus.backends.memory.work import MemoryWork
from engrambus.backends.sqlite import SqliteStore, create_store
from engrambus.backends.sqlite.work import WORK_INDEX, WORK_JOURNAL, SqliteWork, create_work
from engrambus.gateway import Gateway
from engrambus.gateway.ports import Store
from engrambus.space.tuples import SpaceSettings, TupleSpace
from engrambus.testing.clock import ManualClock, SeededRandomness
from engrambus.testing.harness import KEY, PROJECT, SHARED_PROJECTS, open_first_run, open_gateway


class MemoryHarness:
    """The reference back end."""

    def __init__(self, clock: ManualClock | None = None, seed: int = 0) -> None:
        self.clock = clock or ManualClock()
        self._randomness = SeededRandomness(seed)
        self._journal = MemoryJournal(KEY, project=PROJECT, now_us=self.clock.now())
        self._shared = {
            scope: MemoryJournal(KEY, project=project, now_us=self.clock.now())
            for scope, project in SHARED_PROJECTS.items()
        }
        self._open()
        open_first_run(self.gateway.store, self.clock, self._randomness)

    @property
    def gateway(self) -> Gateway:
        """The gateway of the open project."""
        return self._gateway

    def reopen(self) -> None:
        """Read the journal into another store."""
        self.close()
        self._open()

    def delete_index(self) -> None:
        """Drop the state and read the journal again."""
        self._gateway.store.rebuild()

    def journal_bytes(self) -> bytes:
        """Return the project's journal, header included."""
        return self._journal.text()

    def shared_bytes(self, scope: str) -> bytes:
        """Return the journal of a shared store from its first commit on."""
        return b"".join(self._shared[scope].lines[1:])

    def close(self) -> None:
        """Close the project's store and the shared ones."""
        self._gateway.store.close()
        self._gateway.shared.close()

    def _open(self) -> None:
        store = MemoryStore(self._journal, self.clock)
        shared = {scope: partial(MemoryStore, journal, self.clock) for scope, journal in self._shared.items()}
        self._gateway = open_gateway(store, Path("/nowhere"), self._randomness, {**shared})


class SqliteHarness:
    """The store on disk."""

    def __init__(self, folder: Path, clock: ManualClock | None = None, seed: int = 0) -> None:
        self.folder = folder
        self.clock = clock or ManualClock()
        self._randomness = SeededRandomness(seed)
        self._created_us = self.clock.now()
        folder.mkdir(parents=True, exist_ok=True)
        create_store(folder, KEY, project=PROJECT, now_us=self.clock.now())
        self._open()
        open_first_run(self.gateway.store, self.clock, self._randomness)

    @property
    def gateway(self) -> Gateway:
        """The gateway of the open project."""
        return self._gateway

    def reopen(self) -> None:
        """Close the store and open its folder again."""
        self.close()
        self._open()

    def delete_index(self) -> None:
        """Unlink the index of the open store; the `-wal` and `-shm` files of SQLite stay."""
        for folder in (self.folder, *(self.folder / scope for scope in SHARED_PROJECTS)):
            (folder / KEY.derived_folder / "index.db").unlink(missing_ok=True)

    def journal_bytes(self) -> bytes:
        """Return the project's journal, header included."""
        return (self.folder / "memory.jsonl").read_bytes()

    def shared_bytes(self, scope: str) -> bytes:
        """Return the journal of a shared store from its first commit on."""
        journal = self.folder / scope / "memory.jsonl"
        return journal.read_bytes().partition(b"\n")[2] if journal.exists() else b""

    def close(self) -> None:
        """Close the project's store and the shared ones."""
        self._gateway.store.close()
        self._gateway.shared.close()

    def _open(self) -> None:
        store = SqliteStore(self.folder, KEY, self.clock)
        shared = {scope: partial(self._open_shared, scope) for scope in SHARED_PROJECTS}
        self._gateway = open_gateway(store, self.folder, self._randomness, {**shared})

    def _open_shared(self, scope: str) -> Store:
        folder = self.folder / scope
        folder.mkdir(exist_ok=True)
        create_store(folder, KEY, project=SHARED_PROJECTS[scope], now_us=self._created_us)
        return SqliteStore(folder, KEY, self.clock)


class MemoryWorkHarness:
    """The reference back end of the work plane."""

    def __init__(self, clock: ManualClock | None = None, settings: SpaceSettings | None = None) -> None:
        self.clock = clock or ManualClock()
        self._settings = settings
        self._journal = MemoryJournal(KEY, project=PROJECT, now_us=self.clock.now(), kind="tuples")
        self._boot = "first"
        self._open()

    def reopen(self) -> None:
        """Read the journal into another store."""
        self.space.close()
        self._open()

    def reboot(self, boot: str) -> None:
        """Open the space again under another boot id: every claim of the old one is lost."""
        self._boot = boot
        self.reopen()

    def delete_index(self) -> None:
        """Drop the state and read the journal again."""
        self.space.store.rebuild()

    def journal_bytes(self) -> bytes:
        """Return the journal, header included."""
        return self._journal.text()

    def close(self) -> None:
        """Close the store."""
        self.space.close()

    def _open(self) -> None:
        self.space = TupleSpace(MemoryWork(self._journal, self.clock), settings=self._settings, boot=self._boot)


class SqliteWorkHarness:
    """The work store on disk."""

    def __init__(self, folder: Path, clock: ManualClock | None = None, settings: SpaceSettings | None = None) -> None:
        self.folder = folder
        self.clock = clock or ManualClock()
        self._settings = settings
        self._boot = "first"
        folder.mkdir(parents=True, exist_ok=True)
        create_work(folder, KEY, project=PROJECT, now_us=self.clock.now())
        self._open()

    def reopen(self) -> None:
        """Close the store and open its folder again."""
        self.space.close()
        self._open()

    def reboot(self, boot: str) -> None:
        """Open the space again under another boot id: every claim of the old one is lost."""
        self._boot = boot
        self.reopen()

    def delete_index(self) -> None:
        """Unlink the index of the open store; the `-wal` and `-shm` files of SQLite stay."""
        (self.folder / KEY.derived_folder / WORK_INDEX).unlink(missing_ok=True)

    def journal_bytes(self) -> bytes:
        """Return the journal, header included."""
        return (self.folder / WORK_JOURNAL).read_bytes()

    def close(self) -> None:
        """Close the store."""
        self.space.close()

    def _open(self) -> None:
        indexed = self._settings.indexed_fields if self._settings is not None else ()
        store = SqliteWork(self.folder, KEY, self.clock, indexed=indexed)
        self.space = TupleSpace(store, settings=self._settings, boot=self._boot)
