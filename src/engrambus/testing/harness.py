"""The harness that an author of a back end supplies: it opens, reopens and inspects one project."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from engrambus.core import Randomness, new_ulid
from engrambus.core.journal import JournalKey
from engrambus.evidence.pointers import BodyAddress, Evidence, RepoAddress, SamAddress, TestAddress
from engrambus.gateway import Gateway, ProjectFiles
from engrambus.gateway.ports import Store
from engrambus.gateway.shared_stores import SharedStores
from engrambus.policy import SHARED_SCOPES, RunOpened, TokenKey
from engrambus.policy.grants import GrantKey
from engrambus.testing.clock import ManualClock
from engrambus.testing.fakes import FakeBodyStore, FakeMemory, FakeReports, FakeRepositories, FakeRepository

PROJECT = "01KDVP9R00STGMERGYTEST0000"
SHARED_PROJECTS = {scope: f"01KDVP9R00STGMERGYTEST{number:04}" for number, scope in enumerate(SHARED_SCOPES, 1)}
"""Project ids of the shared stores, by scope."""
FIRST_GOAL = "first run"
KEY = JournalKey(b"the key of the journals in tests")
"""The key of the project's journals."""


class HasGateway(Protocol):
    """Anything that has an open gateway."""

    @property
    def gateway(self) -> Gateway:
        """The gateway of the open project."""
        ...


class Harness(HasGateway, Protocol):
    """One project on one back end, with a manual clock."""

    clock: ManualClock

    def reopen(self) -> None:
        """Close the project and open it again, as another process would."""
        ...

    def delete_index(self) -> None:
        """Delete everything but the journal while the project is open."""
        ...

    def journal_bytes(self) -> bytes:
        """Return the project's journal, header included."""
        ...

    def shared_bytes(self, scope: str) -> bytes:
        """Return the journal of a shared store from its first commit on."""
        ...

    def close(self) -> None:
        """Close every store."""
        ...


def open_gateway(
    store: Store, root: Path, randomness: Randomness, shared: dict[str, Callable[[], Store]] | None = None
) -> Gateway:
    """Open a gateway over a store with fake evidence: `artifact:` documents, `diff:` and `url:` do not resolve.

    `shared` opens the stores of the wider scopes, by scope.
    """
    return Gateway(
        store=store,
        evidence=Evidence(
            {
                RepoAddress: FakeRepository,
                BodyAddress: FakeBodyStore,
                SamAddress: FakeMemory,
                TestAddress: FakeReports,
            }
        ),
        project_files=ProjectFiles(root, FakeRepositories()),
        key=TokenKey(b"a key that only the tests know .."),
        grant_key=GrantKey(b"another key only the tests know."),
        randomness=randomness,
        shared=SharedStores(shared or {}),
    )


def open_first_run(store: Store, clock: ManualClock, randomness: Randomness) -> None:
    """Open the run that every new project begins with."""
    run = new_ulid(clock.now(), randomness)
    store.commit(lambda view: ([RunOpened(run=run, goal=FIRST_GOAL, by=f"{run}/admin")], None))
