"""Claims from prose on every interface: the command line, hooks of clients, MCP, an orchestrator's hooks."""  # BX-10

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engrambus.core import estimate_tokens
from engrambus.edges.integrations.client_hook import answer_event
from engrambus.edges.integrations.hook_events import read_event
from engrambus.edges.mcp.answers import compact_text
from engrambus.edges.sdk import Bus
from engrambus.edges.sdk.hooks import Accepted, Hooks
from engrambus.gateway import LOCAL_ADMIN, Gateway
from engrambus.operations import OPERATIONS
from engrambus.settings import Settings
from engrambus.testing import GatewayClient
from tests.capture.team import AnsweringTeam
from tests.cli.conftest import bare_shell, shell
from tests.cli.runner import Shell
from tests.integrations.told import recorded_event
from tests.projects import Repository

__all__ = ["bare_shell", "shell"]

TEXT = "I have read all of it.\n\nRisk: the parser trusts its input (src/parser.py:10-20).\n\nThat is all."
CLAIM = "the parser trusts its input."
BOTH = pytest.mark.parametrize("client", ["claude-code", "codex"])


class ClientHook:
    """A client's hooks in a repository with a project."""

    def __init__(self, client: str, folder: Path, settings: Settings) -> None:
        self.client, self.folder, self.settings = client, folder, settings

    def __call__(self, event: str, **more: Any) -> dict[str, Any]:
        """Return the answer to an event."""
        parsed = read_event(recorded_event(self.client, event, self.folder, **more))
        assert parsed is not None
        return answer_event(parsed, self.settings, Path("/"))

    def context(self, event: str, **more: Any) -> str:
        """Return the context that an event adds; empty if it adds none."""
        return str(self(event, **more).get("hookSpecificOutput", {}).get("additionalContext", ""))


@pytest.fixture
def client_hook(gateway: Gateway, repository: Repository, settings: Settings, client: str) -> ClientHook:
    """The hooks of one client."""
    return ClientHook(client, repository.path, settings)


def test_an_orchestrator_gets_the_pointers_and_the_claims(team: AnsweringTeam) -> None:  # EB-30
    with Bus(team.gateway, LOCAL_ADMIN, owns_transport=False) as bus:
        outcome = Hooks(bus).on_child_response("paul", TEXT)
    assert isinstance(outcome, Accepted)
    assert outcome.cited == (team.lines(10, 20),)
    (engram_id,) = outcome.unconfirmed
    assert team.client.call("show_engram", id=engram_id).engrams[0].claim == CLAIM


def test_commands(shell: Shell, tmp_path: Path) -> None:
    def ok(*words: str) -> str:
        return shell.ok(*words).out

    ok("agent", "add", "mia", "--role", "manager")
    ok("agent", "add", "coder-1", "--role", "programmer", "--parent", "mia")
    file = tmp_path / "answer.txt"
    file.write_text(
        f"{TEXT}\n\nLearned: the lexer is small and fast (docs/design.md:11).\n\nSee src/gone.py:3.\n", "utf-8"
    )
    printed = ok("answer", str(file), "--as", "coder-1")
    assert "It cites 2 places:" in printed
    assert "Citations that lead nowhere: 1" in printed
    assert "Claims that await confirmation" in printed
    assert "unconfirmed" in ok("query", "parser input")
    inbox = ok("inbox")
    assert "Claims from answers that await confirmation: 2" in inbox
    assert f"risk: {CLAIM}" in inbox
    listed = ok("feed", "--unconfirmed")
    assert CLAIM in listed
    assert "the lexer is small and fast." in listed
    assert CLAIM not in ok("brief")
    first, second = printed.split()[-2:]
    shown = ok("show", first)
    assert "unconfirmed" in shown
    assert f"engrambus confirm {first}" in shown
    assert "2 engrams confirmed." in ok("confirm", first, second)
    assert "confirmed by" in ok("show", first)
    assert f"[risk] {CLAIM}" in ok("brief")
    assert "Nothing awaits confirmation." in ok("confirm", "--from", "coder-1")
    file.write_text("Decision: the lexer is rewritten next week (docs/design.md:9-11).\n", "utf-8")
    ok("answer", str(file), "--as", "coder-1")
    assert "1 engram confirmed." in ok("confirm", "--from", "coder-1")
    assert shell.run("confirm").code == 2


def test_agents_see_the_mark_in_their_own_language(team: AnsweringTeam) -> None:
    (engram_id,) = team.answer(TEXT).unconfirmed
    found = compact_text(OPERATIONS["query_engrams"], team.client.query("parser input", team.mia))
    assert found.startswith(f"(unconfirmed) risk: {CLAIM} [src/parser.py:10-20@")
    inbox = team.client.call("inbox", team.mia, unseen=True, short=True, recent=5, max_tokens=400)
    lines = compact_text(OPERATIONS["inbox"], inbox).split("\n")
    assert lines[-2:] == [
        "1 unconfirmed in answers of your sub-agents; action confirm takes an id:",
        f"risk: {CLAIM} (paul) {engram_id[:13]}",
    ]


@BOTH
def test_the_hook_of_a_sub_agent_that_stops(client_hook: ClientHook, gateway: Gateway) -> None:
    client_hook("SessionStart")
    rules = client_hook.context("SubagentStart")
    assert "begin with Learned:, Decision:, Risk:, Constraint: or TODO:" in rules
    name = rules.partition("Your name there is ")[2].partition(";")[0]
    answer = client_hook("SubagentStop", last_assistant_message=TEXT)
    assert answer == {
        "systemMessage": f"Engram Bus: 1 claim in the answer of {name} awaits confirmation: "
        f"engrambus feed --unconfirmed, engrambus confirm --from {name}."
    }
    assert estimate_tokens(answer["systemMessage"]) <= 300
    assert client_hook("SubagentStop", last_assistant_message="All is well.") == {}
    for event in ("SessionStart", "SubagentStart", "UserPromptSubmit"):
        assert CLAIM not in client_hook.context(event, prompt="the parser trusts its input")
    client = GatewayClient(_Opened(gateway))
    assert client.call("confirm_several", agent=name).ids
    assert CLAIM in client_hook.context("SessionStart")


@pytest.mark.parametrize("client", ["claude-code"])
def test_the_parent_is_shown_that_claims_wait_when_its_child_returns(client_hook: ClientHook) -> None:
    client_hook("SessionStart")
    name = client_hook.context("SubagentStart").partition("Your name there is ")[2].partition(";")[0]
    client_hook("SubagentStop", last_assistant_message=TEXT)
    context = client_hook.context("PostToolUse", tool_name="Agent")
    assert context == (
        f"1 claim in answers of {name} awaits confirmation on Engram Bus; less_inbox lists what waits, its action "
        "confirm takes an id."
    )
    assert CLAIM not in client_hook.context("UserPromptSubmit", prompt="the parser trusts its input")


class _Opened:
    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
