"""How a test holds a back end: open it, close it, open it again, take its index away, look at its journal."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Protocol

from engrambus.backends.memory import MemoryJournal, MemoryStore
from engrambus.backends.sqlite import SqliteStore, create_store
from engrambus.core import Randomness, new_ulid
from engrambus.evidence.pointers import BodyAddress, Evidence, RepoAddress, Repositories
from engrambus.gateway import Gateway, ProjectFiles
from engrambus.gateway.ports import Store
from engrambus.gateway.shared_stores import SharedStores
from engrambus.policy import SHARED_SCOPES, RunOpened, TokenKey
from engrambus.policy.grants import GrantKey
from engrambus.testing.clock import TurningClock
from engrambus.testing.randomness import SeededRandomness
from engrambus.testing.shelf import Drawer, Shelf

PROJECT = "01KDVP9R00STGMERGYTEST0000"
SHARED = {scope: f"01KDVP9R00STGMERGYTEST{scope.upper():X>4.4}" for scope in SHARED_SCOPES}
"""What the stores beyond the project are called."""
FIRST_GOAL = "first run"


class Opened(Protocol):
    """A project somebody has opened."""

    @property
    def gateway(self) -> Gateway:
        """The project, open for business."""
        ...


class Harness(Opened, Protocol):
    """One project on one back end, with a clock to turn."""

    clock: TurningClock

    def reopen(self) -> None:
        """Close the project and open it again, as another process would."""
        ...

    def delete_index(self) -> None:
        """Take away everything that is not the journal, while the project is open."""
        ...

    def journal_bytes(self) -> bytes:
        """The whole journal."""
        ...

    def shared_bytes(self, scope: str) -> bytes:
        """The journal of a store beyond the project from its first commit on."""
        ...

    def close(self) -> None:
        """Let go of everything."""
        ...


def open_gateway(
    store: Store, root: Path, randomness: Randomness, shared: dict[str, Callable[[], Store]] | None = None
) -> Gateway:
    """A gateway without repositories: `sam:` and `test:` pointers are stored as they are, `repo:` ones can be read.

    `shared` opens the stores beyond the project, by scope.
    """
    return Gateway(
        store=store,
        evidence=Evidence({RepoAddress: Shelf(), BodyAddress: Drawer()}),
        project_files=ProjectFiles(root, Repositories(None)),
        key=TokenKey(b"a key that only the tests know .."),
        grant_key=GrantKey(b"another key only the tests know."),
        randomness=randomness,
        shared=SharedStores(shared or {}),
    )


def open_first_run(store: Store, clock: TurningClock, randomness: Randomness) -> None:
    """Open the run every new project has."""
    run = new_ulid(clock.now(), randomness)
    store.commit(lambda view: ([RunOpened(run=run, goal=FIRST_GOAL, by=f"{run}/admin")], None))


class MemoryHarness:
    """The reference back end."""

    def __init__(self, clock: TurningClock | None = None, seed: int = 0) -> None:
        self.clock = clock or TurningClock()
        self._randomness = SeededRandomness(seed)
        self._journal = MemoryJournal(project=PROJECT, at=self.clock.now())
        self._shared = {scope: MemoryJournal(project=name, at=self.clock.now()) for scope, name in SHARED.items()}
        self._open()
        open_first_run(self.gateway.store, self.clock, self._randomness)

    @property
    def gateway(self) -> Gateway:
        """The project, open for business."""
        return self._gateway

    def reopen(self) -> None:
        """Read the journal into another store."""
        self.close()
        self._open()

    def delete_index(self) -> None:
        """Forget the state and read the journal again."""
        self._gateway.store.rebuild()

    def journal_bytes(self) -> bytes:
        """The whole journal."""
        return self._journal.text()

    def shared_bytes(self, scope: str) -> bytes:
        """The journal of a store beyond the project from its first commit on."""
        return b"".join(self._shared[scope].lines[1:])

    def close(self) -> None:
        """Close the stores."""
        self._gateway.store.close()
        self._gateway.shared.close()

    def _open(self) -> None:
        store = MemoryStore(self._journal, self.clock)
        shared = {scope: partial(MemoryStore, journal, self.clock) for scope, journal in self._shared.items()}
        self._gateway = open_gateway(store, Path("/nowhere"), self._randomness, {**shared})


class SqliteHarness:
    """The store on disk, in a folder of its own."""

    def __init__(self, folder: Path, clock: TurningClock | None = None, seed: int = 0) -> None:
        self.folder = folder
        self.clock = clock or TurningClock()
        self._randomness = SeededRandomness(seed)
        self._begun = self.clock.now()
        folder.mkdir(parents=True, exist_ok=True)
        create_store(folder, project=PROJECT, at=self.clock.now())
        self._open()
        open_first_run(self.gateway.store, self.clock, self._randomness)

    @property
    def gateway(self) -> Gateway:
        """The project, open for business."""
        return self._gateway

    def reopen(self) -> None:
        """Close the store and open its folder again."""
        self.close()
        self._open()

    def delete_index(self) -> None:
        """Unlink the index under the running store; what SQLite keeps beside it is left behind."""
        for folder in (self.folder, *(self.folder / scope for scope in SHARED)):
            (folder / "index.db").unlink(missing_ok=True)

    def journal_bytes(self) -> bytes:
        """The whole journal."""
        return (self.folder / "memory.jsonl").read_bytes()

    def shared_bytes(self, scope: str) -> bytes:
        """The journal of a store beyond the project from its first commit on."""
        journal = self.folder / scope / "memory.jsonl"
        return journal.read_bytes().partition(b"\n")[2] if journal.exists() else b""

    def close(self) -> None:
        """Close the stores."""
        self._gateway.store.close()
        self._gateway.shared.close()

    def _open(self) -> None:
        store = SqliteStore(self.folder, self.clock)
        shared = {scope: partial(self._open_shared, scope) for scope in SHARED}
        self._gateway = open_gateway(store, self.folder, self._randomness, {**shared})

    def _open_shared(self, scope: str) -> Store:
        folder = self.folder / scope
        folder.mkdir(exist_ok=True)
        create_store(folder, project=SHARED[scope], at=self._begun)
        return SqliteStore(folder, self.clock)
