"""The tool `task`: everything an agent needs to do tasks, in few tokens; a killed client's task comes back. # EB-29"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator

import pytest

from engrambus import Bus, init_project
from engrambus.core import estimate_tokens
from engrambus.settings import Settings
from mcp import Client
from tests.mcp.test_process_reservations import Server
from tests.mcp.transports import TRANSPORTS, talk_over, text_of
from tests.projects import Repository


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_an_agent_adds_claims_blocks_and_finishes_tasks(
    repository: Repository, settings: Settings, transport: str
) -> None:
    async def talk(client: Client) -> None:
        async def task(**arguments: object) -> str:
            text = text_of(await client.call_tool("task", arguments))
            assert estimate_tokens(text) < 150
            return text

        assert await task() == "No task is ready for you."
        first = await task(action="add", title="Rename the parser", at=["src/parser.py:1-5"], priority=2)
        match = re.fullmatch(r"([0-9a-f]{12}) ready: Rename the parser \[src/parser.py:1-5@\w{7}\] \(p2\)", first)
        assert match is not None, first
        tuple_id = match[1]
        second = await task(action="add", title="Update the docs", after=[tuple_id])
        assert second.split("\n")[1] == f"It waits for {tuple_id}, which is ready."
        assert (await task(action="ready")).startswith(f"{tuple_id} ready: Rename the parser")
        claimed = await task(action="claim")
        assert "yours" in claimed
        assert "renewed by each of your calls" in claimed
        assert "TASK_EVIDENCE" in await task(action="done", id=tuple_id)
        assert "DEPENDENCY_CYCLE" in await task(action="block", id=tuple_id, after=[second[:12]])
        done = await task(action="done", id=tuple_id, evidence=["src/parser.py:1-5"])
        assert f"ready now: {second[:12]} ready: Update the docs" in done
        assert "blocked: no time" in await task(action="block", id=second[:12], note="no time")
        assert "ready" in await task(action="unblock", id=second[:12])
        assert "claimed" in await task(action="show", id=tuple_id)
        await task(action="claim", id=second[:12])
        assert await task(action="release", id=second[:12], note="half done") == f"released: {second[:12]}"

    talk_over(transport, repository, settings, "auto", talk)


@pytest.fixture
def bus(repository: Repository, settings: Settings) -> Iterator[Bus]:
    init_project(repository.path, settings)
    with Bus.open(repository.path, settings=settings) as bus:
        yield bus


@pytest.mark.parametrize("ending", ["killed", "closed"])
def test_a_task_claimed_through_a_server_is_ready_again_when_that_has_ended(
    bus: Bus, repository: Repository, ending: str
) -> None:
    task = bus.add_task("long work")
    server = Server(repository, tool="task")
    try:
        assert server.call(action="claim").startswith(f"{task.id[7:19]} claimed: long work")
        assert bus.show_task(task.id).state == "claimed"
    finally:
        if ending == "killed":
            os.kill(server.process.pid, signal.SIGKILL)
        server.process.communicate(timeout=60)
    row = bus.show_task(task.id)
    assert (row.state, row.attempts) == ("ready", 1)
    assert bus.claim_task().attempts == 2
