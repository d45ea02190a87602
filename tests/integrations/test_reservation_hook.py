"""Reservations at the hooks of clients: an edit is warned about or refused; sessions release what they hold. # BX-14"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from engrambus.edges.sdk import Bus
from engrambus.gateway import Gateway
from engrambus.settings import Settings
from tests.integrations.test_hook import BOTH, Hook
from tests.integrations.test_recall_hook import edit
from tests.projects import Repository


@pytest.fixture
def hook(gateway: Gateway, repository: Repository, settings: Settings) -> Callable[[str], Hook]:
    return lambda client: Hook(client, repository.path, settings)


@pytest.fixture
def bus(gateway: Gateway, repository: Repository, settings: Settings) -> Iterator[Bus]:
    with Bus.open(repository.path, settings=settings) as bus:
        yield bus


def lead_of(bus: Bus, goal_number: int = 0) -> Bus:
    """Return a bus that acts as the lead of a session, the newest first."""
    run = [row for row in bus.list_runs().runs if row.session][goal_number]
    return bus.speak_as(f"{run.run_id}/{run.lead}")


def reserved(bus: Bus) -> list[list[str]]:
    return [row.paths for row in bus.list_reservations().reservations]


@BOTH
def test_an_edit_of_a_reserved_file_is_warned_about_refused_or_ignored(
    hook: Callable[[str], Hook], bus: Bus, repository: Repository, client: str
) -> None:
    bus.add_agent("amber", role="architect")
    row = bus.speak_as("amber").reserve(["src/**"], reason="a new grammar of requests")
    call = edit(client, str(repository.path / "src/parser.py"), "line 3 of the parser\n")
    context = hook(client).context("PreToolUse", **call)
    until = f"{row.expires_at[:16]}Z"
    assert context == f"src/** is reserved by amber until {until}: a new grammar of requests."
    assert hook(client)("PreToolUse", **edit(client, str(repository.path / "README.md"))) == {}
    bus.apply_policy({"limits": {"reservations": "enforce"}})
    output = hook(client)("PreToolUse", **call)["hookSpecificOutput"]
    assert output["permissionDecision"] == "deny"
    assert output["permissionDecisionReason"].startswith(f"'src/**' is reserved by amber until {until}")
    bus.apply_policy({"limits": {"reservations": {"architect": "off"}}})
    assert hook(client)("PreToolUse", **call) == {}


@BOTH
def test_a_session_and_its_sub_agents_edit_what_its_lead_has_reserved(
    hook: Callable[[str], Hook], bus: Bus, repository: Repository, client: str
) -> None:
    hook(client)("SessionStart")
    lead_of(bus).reserve(["src/parser.py"])
    call = edit(client, str(repository.path / "src/parser.py"))
    assert hook(client)("PreToolUse", **call) == {}
    assert hook(client)("PreToolUse", **call, agent_id="a1", agent_type="worker") == {}
    assert "src/parser.py is reserved" in hook(client).context("PreToolUse", **{**call, "session_id": "another"})


@BOTH
def test_a_sub_agent_that_stops_releases_its_own(hook: Callable[[str], Hook], bus: Bus, client: str) -> None:
    child: dict[str, Any] = {"agent_id": "a1", "agent_type": "worker"}
    hook(client)("SessionStart")
    hook(client)("SubagentStart", **child)
    lead = lead_of(bus)
    run = next(row.run_id for row in bus.list_runs().runs if row.session)
    (name,) = (row.agent_id for row in lead.list_agents().agents if row.parent)
    lead.reserve(["README.md"])
    bus.speak_as(f"{run}/{name}").reserve(["src/**"])
    hook(client)("SubagentStop", **child, last_assistant_message="Much too long. " * 800)
    assert len(reserved(bus)) == 2, "its answer was sent back, so it goes on"
    hook(client)("SubagentStop", **child, last_assistant_message="It is done.", stop_hook_active=True)
    assert reserved(bus) == [["README.md"]]


def test_the_end_of_a_session_releases_what_its_agents_hold(hook: Callable[[str], Hook], bus: Bus) -> None:
    claude = hook("claude-code")
    for session in ("one", "two"):
        claude("SessionStart", session_id=session)
        lead_of(bus).reserve([f"{session}.py"])
    bus.reserve(["mine.py"])
    claude("SubagentStart", session_id="one", agent_id="a1", agent_type="worker")
    run = [row.run_id for row in bus.list_runs().runs if row.session][1]
    (name,) = (row.agent_id for row in lead_of(bus, 1).list_agents().agents if row.parent)
    bus.speak_as(f"{run}/{name}").reserve(["child.py"])
    assert claude("SessionEnd", session_id="one", reason="other") == {}
    assert reserved(bus) == [["two.py"], ["mine.py"]]
