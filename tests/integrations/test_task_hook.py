"""Tasks at the hooks of clients: a session is shown what is ready, and gives back what it claimed. # YT-05 # EB-29"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from engrambus.edges.sdk import Bus
from engrambus.gateway import Gateway
from engrambus.settings import Settings
from tests.integrations.test_hook import BOTH, Hook
from tests.integrations.test_reservation_hook import lead_of
from tests.projects import Repository


@pytest.fixture
def hook(gateway: Gateway, repository: Repository, settings: Settings) -> Callable[[str], Hook]:
    return lambda client: Hook(client, repository.path, settings)


@pytest.fixture
def bus(gateway: Gateway, repository: Repository, settings: Settings) -> Iterator[Bus]:
    with Bus.open(repository.path, settings=settings) as bus:
        yield bus


@BOTH
def test_a_session_is_shown_a_ready_task_and_gives_back_what_it_claimed(
    hook: Callable[[str], Hook], bus: Bus, client: str
) -> None:
    task = bus.add_task("Rename the parser module", priority=5)
    bus.add_task("Another")
    context = hook(client).context("SessionStart")
    line = f"Ready task {task.id[7:19]}: Rename the parser module, +1 more: task claim"
    assert context.count(line) == 1
    lead = lead_of(bus)
    assert lead.claim_task().id == task.id
    assert f"Your task {task.id[7:19]}: Rename the parser module" in hook(client).context("SessionStart")
    if client != "claude-code":  # Codex reports no end of a session: its server's process ends, or the lease
        return
    hook(client)("SessionEnd")
    row = bus.show_task(task.id)
    assert (row.state, [note.what for note in row.history]) == ("ready", ["claimed", "released"])
