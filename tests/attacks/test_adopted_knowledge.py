"""Knowledge of a stranger's project that a person has taken on: it is shown as untrusted, and in no brief."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.attacks.cloned_knowledge import PINNED, Machine, clone, hostile_machine, mcp_call, session_start


@pytest.fixture
def victim(tmp_path: Path) -> Machine:
    """The machine of a person who has cloned the stranger's repository and taken its knowledge on."""
    machine = clone(hostile_machine(tmp_path), tmp_path)
    machine.ok("adopt")
    return machine


def test_an_adopted_pin_stands_in_no_brief(victim: Machine) -> None:
    """The stranger has pinned a constraint; every role reads its brief."""
    for role in ("admin", "architect", "programmer"):
        assert PINNED not in victim.ok("brief", "--role", role).out


def test_an_adopted_pin_reaches_no_agent_over_mcp(victim: Machine) -> None:
    """The stranger has pinned a constraint; an agent asks for its brief with a tool."""
    assert PINNED not in mcp_call(victim, "less_brief")


def test_an_adopted_pin_reaches_no_starting_session(victim: Machine) -> None:
    """The stranger has pinned a constraint; a client starts a session, and its hook hands over the brief."""
    assert PINNED not in session_start(victim)
