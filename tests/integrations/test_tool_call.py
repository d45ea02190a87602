"""Hooks set `as` on calls of our tools, and the server believes what a hook has marked."""  # EB-31 BX-05

from __future__ import annotations

import json
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from engrambus.app import open_project
from engrambus.core import SECOND_US, SystemClock
from engrambus.edges.integrations.client_hook import answer_event
from engrambus.edges.integrations.hook_events import read_event
from engrambus.edges.integrations.tool_call_hook import answer_tool_call, calls_our_tool
from engrambus.edges.mcp.marked_calls import MarkedCalls
from engrambus.errors import AgentNotFound, MarkInvalid, MarkMissing, NotYourDescendant, SessionUnknown
from engrambus.gateway import Credential, Gateway
from engrambus.gateway.declare import Tool
from engrambus.operations import OPERATIONS
from engrambus.policy import Caller
from engrambus.policy.marks import LIFETIME_SECONDS
from engrambus.settings import Settings
from engrambus.testing import ManualClock
from tests.cli.runner import Shell
from tests.integrations.told import recorded_event
from tests.projects import Repository

BOTH = pytest.mark.parametrize("client", ["claude-code", "codex"])
STDIO = Credential(local_admin=True)
"""The credential of a process that a client has started in the project."""


class Client:
    """A client's hooks in one project, and the server that gets its calls."""

    def __init__(self, client: str, gateway: Gateway, repository: Repository, settings: Settings) -> None:
        self.client, self.gateway, self.repository = client, gateway, repository
        self.settings = settings
        self.environment = {"HOME": str(settings.home), "XDG_STATE_HOME": str(settings.state_home)}

    def tell(self, event: str, **more: Any) -> dict[str, Any]:
        parsed = read_event(recorded_event(self.client, event, self.repository.path, **more))
        assert parsed is not None
        return answer_event(parsed, self.settings, Path("/"))

    def rewrite(self, event: str = "ToolCall", **more: Any) -> dict[str, Any]:
        """What the hook makes of a tool call."""
        call = calls_our_tool(recorded_event(self.client, event, self.repository.path, **more))
        assert call is not None
        return answer_tool_call(call, self.environment)

    def speak_as(self, event: str = "ToolCall", **more: Any) -> str:
        return str(self.rewrite(event, **more)["hookSpecificOutput"]["updatedInput"]["as"])

    def caller(self, speak_as: str, **credential: Any) -> Caller:
        given = msgspec.structs.replace(STDIO, speak_as=speak_as, **credential)
        return self.gateway.identify(given)


@pytest.fixture
def claude(gateway: Gateway, repository: Repository, settings: Settings) -> Client:
    return Client("claude-code", gateway, repository, settings)


@pytest.fixture
def client(request: pytest.FixtureRequest, gateway: Gateway, repository: Repository, settings: Settings) -> Client:
    return Client(request.param, gateway, repository, settings)


of_both = pytest.mark.parametrize("client", ["claude-code", "codex"], indirect=True)


@of_both
def test_a_call_is_that_of_the_agent_that_makes_it(client: Client) -> None:
    client.tell("SessionStart")
    client.tell("SubagentStart")
    lead = client.caller(client.speak_as())
    child = client.caller(client.speak_as("SubagentToolCall"))
    assert (lead.role, lead.spoken_by) == ("architect", None)
    assert (child.role, child.spoken_by) == ("programmer", None)
    with client.gateway.store.read() as view:
        agent = view.agent(child.run.run_id, child.name)
    assert agent is not None
    assert (agent.parent, child.run) == (lead.name, lead.run)


@of_both
def test_everything_else_in_the_input_stays(client: Client) -> None:
    given = {"claim": "A claim.", "at": ["a.py:1-2"], "tags": [], "unknown": {"deep": [None, 1.5, "\ud83d"]}}
    made = client.rewrite(tool_input=given)["hookSpecificOutput"]
    marked = made["updatedInput"].pop("as")
    assert made["updatedInput"] == given
    assert marked.startswith("~")


def test_only_codex_is_told_to_allow_the_call(gateway: Gateway, repository: Repository, settings: Settings) -> None:
    """Codex rewrites a call only together with `allow`; Claude Code still asks its user."""
    decisions = {
        name: Client(name, gateway, repository, settings).rewrite()["hookSpecificOutput"].get("permissionDecision")
        for name in ("claude-code", "codex")
    }
    assert decisions == {"claude-code": None, "codex": "allow"}


@of_both
@pytest.mark.parametrize("written", ["admin", "lead", "01K7Z3V5QX0000000000000000/x", "a~b", 7, None, ["x"]])
def test_inside_a_sub_agent_what_the_model_wrote_is_overwritten(client: Client, written: Any) -> None:
    client.tell("SubagentStart")
    arguments = {"claim": "x", "as": written}
    child = client.caller(client.speak_as("SubagentToolCall"))
    assert client.caller(client.speak_as("SubagentToolCall", tool_input=arguments)) == child


@of_both
def test_the_main_agent_may_name_a_descendant_and_speaks_for_it(client: Client) -> None:
    client.tell("SubagentStart")
    child = client.caller(client.speak_as("SubagentToolCall"))
    lead = client.caller(client.speak_as())
    named = client.caller(client.speak_as(tool_input={"as": child.name}))
    assert (named.full_name, named.spoken_by) == (child.full_name, lead.full_name)
    for own in (lead.name, lead.full_name):
        assert client.caller(client.speak_as(tool_input={"as": own})) == lead
    with pytest.raises(AgentNotFound):
        client.caller(client.speak_as(tool_input={"as": "nobody-here"}))


def test_the_main_agent_may_not_name_an_agent_of_another_session(claude: Client) -> None:
    claude.tell("SubagentStart", session_id="other")
    other = claude.caller(claude.speak_as("SubagentToolCall", session_id="other"))
    claude.tell("SessionStart")
    for name in (other.name, other.full_name):
        with pytest.raises(AgentNotFound):
            claude.caller(claude.speak_as(tool_input={"as": name}))


def test_a_mark_covers_the_name_in_front_of_it(claude: Client) -> None:
    claude.tell("SubagentStart")
    child = claude.caller(claude.speak_as("SubagentToolCall"))
    text = claude.speak_as()
    for forged in (f"{child.name}{text}", f"~{text}", text[:-1] + ("Q" if text.endswith("A") else "A")):
        with pytest.raises(MarkInvalid):
            claude.caller(forged)


def test_a_mark_made_with_another_key_is_refused(claude: Client, tmp_path: Path) -> None:
    claude.tell("SessionStart")
    claude.environment["XDG_STATE_HOME"] = str(tmp_path / "elsewhere")
    with pytest.raises(MarkInvalid):
        claude.caller(claude.speak_as())


def test_a_mark_expires(claude: Client) -> None:
    claude.tell("SessionStart")
    text = claude.speak_as()
    clock = ManualClock(SystemClock().now() + (LIFETIME_SECONDS - 60) * SECOND_US)
    with closing(open_project(claude.repository.path, claude.settings, clock=clock)) as later:
        credential = msgspec.structs.replace(STDIO, speak_as=text)
        assert later.identify(credential).role == "architect"
        clock.advance(seconds=120)
        with pytest.raises(MarkInvalid):
            later.identify(credential)


def test_an_agent_that_no_hook_reported_is_unknown(claude: Client) -> None:
    with pytest.raises(SessionUnknown):
        claude.caller(claude.speak_as("SubagentToolCall"))


def test_a_token_is_good_for_marks_of_its_descendants_only(claude: Client) -> None:
    claude.tell("SubagentStart")
    child = claude.caller(claude.speak_as("SubagentToolCall"))
    add = OPERATIONS["add_agent"]
    stranger = claude.gateway.call(add, add.request(name="stranger", role="architect"), STDIO)
    lead_name = claude.caller(claude.speak_as()).full_name
    token = OPERATIONS["agent_token"]
    lead = claude.gateway.call(token, token.request(name=lead_name), STDIO)
    text = claude.speak_as("SubagentToolCall")
    assert claude.gateway.identify(Credential(token=lead.token, speak_as=text)).full_name == child.full_name
    with pytest.raises(NotYourDescendant):
        claude.gateway.identify(Credential(token=stranger.token, speak_as=text))


def test_with_a_token_its_agent_is_the_lead_and_the_token_is_the_key(claude: Client) -> None:
    add = OPERATIONS["add_agent"]
    lead = claude.gateway.call(add, add.request(name="lead", role="architect"), STDIO)
    claude.environment["ENGRAMBUS_TOKEN"] = lead.token
    claude.settings = msgspec.structs.replace(claude.settings, token=lead.token)
    claude.tell("SubagentStart")
    assert claude.gateway.identify(Credential(token=lead.token, speak_as=claude.speak_as())).name == "lead"
    child = claude.gateway.identify(Credential(token=lead.token, speak_as=claude.speak_as("SubagentToolCall")))
    assert (child.role, child.spoken_by) == ("programmer", None)
    with pytest.raises(MarkInvalid):
        claude.gateway.identify(Credential(local_admin=True, speak_as=claude.speak_as()))


def test_in_a_chosen_run_the_session_has_its_agents_there(claude: Client) -> None:
    run = OPERATIONS["open_run"]
    chosen = claude.gateway.call(run, run.request(goal="Shared"), STDIO).run_id
    claude.environment["ENGRAMBUS_RUN"] = chosen
    claude.settings = msgspec.structs.replace(claude.settings, run=chosen)
    claude.tell("SubagentStart")
    callers = [claude.caller(claude.speak_as(event)) for event in ("ToolCall", "SubagentToolCall")]
    assert [caller.run.run_id for caller in callers] == [chosen, chosen]
    assert callers[0].name != callers[1].name


# What the server does with a call that no hook has marked well


def whoami(target: MarkedCalls, speak_as: str | None) -> str:
    """The author of what is put through the process."""
    put = OPERATIONS["put_engram"]
    request = put.request(claim=f"Said by {speak_as}."[:60], at=["src/parser.py:1"])
    answer = target.call(put, request, Credential(from_model=True, local_admin=True, speak_as=speak_as))
    return str(getattr(answer, "engram", answer).provenance.created_by)


def test_a_bad_mark_does_not_stop_work(claude: Client) -> None:
    """The call is made as it would be without a hook."""
    target = MarkedCalls(claude.gateway, claude.gateway, STDIO)
    assert whoami(target, "~a.b.AAAAAAAAAAAAAAAAAAAAAA") == whoami(target, None)
    for text in ("nobody~a.b.AAAAAAAAAAAAAAAAAAAAAA", "nobody~mark", "nobody~"):
        with pytest.raises(AgentNotFound):
            whoami(target, text)


def test_agents_that_no_hook_reported_are_added_with_their_first_call(claude: Client) -> None:
    target = MarkedCalls(claude.gateway, claude.gateway, STDIO)
    author = whoami(target, claude.speak_as("SubagentToolCall"))
    child, lead = claude.caller(claude.speak_as("SubagentToolCall")), claude.caller(claude.speak_as())
    assert author == child.full_name
    assert child.run == lead.run
    assert child.name != lead.name


def guarded() -> Any:
    """An operation that asks for permission, with a request that anybody can make."""
    return msgspec.structs.replace(OPERATIONS["issue_grant"], tool=Tool(asks_permission=True))


def test_in_a_session_with_sub_agents_a_guarded_call_must_be_marked(claude: Client) -> None:
    claude.tell("SubagentStart")
    operation = guarded()
    child = claude.caller(claude.speak_as("SubagentToolCall"))
    sha = claude.repository.sha
    request = operation.request(child_id=child.name, pointer=f"repo:src/parser.py#L1-L9@{sha}", cap_tokens=100)
    target = MarkedCalls(claude.gateway, claude.gateway, STDIO)
    model = Credential(from_model=True, local_admin=True)
    whoami(target, claude.speak_as())  # by now the process knows its session
    with pytest.raises(MarkMissing) as refused:
        target.call(operation, request, model)
    assert refused.value.hint
    target.call(operation, request, msgspec.structs.replace(model, speak_as=claude.speak_as()))
    target.call(operation, request, Credential(local_admin=True))  # a person is not asked for a mark


def test_without_sub_agents_a_guarded_call_needs_no_mark(claude: Client) -> None:
    claude.tell("SessionStart")
    operation = guarded()
    child = OPERATIONS["add_agent"]
    claude.gateway.call(child, child.request(name="kid"), STDIO)
    sha = claude.repository.sha
    request = operation.request(child_id="kid", pointer=f"repo:src/parser.py#L1-L9@{sha}", cap_tokens=100)
    target = MarkedCalls(claude.gateway, claude.gateway, STDIO)
    whoami(target, claude.speak_as())
    target.call(operation, request, Credential(from_model=True, local_admin=True))


def test_the_prompt_of_a_guarded_call_is_never_skipped(
    gateway: Gateway, repository: Repository, settings: Settings
) -> None:
    claude, codex = (Client(name, gateway, repository, settings) for name in ("claude-code", "codex"))
    inbox = {"tool_name": "mcp__engrambus__less_inbox"}
    for action in ("approve", "decline", "promote"):
        rewritten = claude.rewrite(**inbox, tool_input={"action": action})["hookSpecificOutput"]
        assert "permissionDecision" not in rewritten
        assert rewritten["updatedInput"]["as"]
        assert codex.rewrite(**inbox, tool_input={"action": action}) == {}
    for arguments in ({}, {"action": "list"}, {"action": "read", "id": "01K7Z3V5QX000"}, {"action": "broadcast"}):
        allowed = codex.rewrite(**inbox, tool_input=arguments)["hookSpecificOutput"]
        assert allowed["permissionDecision"] == "allow"


# The process


@pytest.mark.parametrize(
    "name",
    ["mcp__engrambus__less_put_engram", "mcp__plugin_engrambus_engrambus__less_put_engram"],
)
def test_our_tools_are_recognised_by_both_of_their_names(claude: Client, name: str) -> None:
    assert claude.rewrite(tool_name=name)


@pytest.mark.parametrize(
    "name", ["Bash", "mcp__other__less_put_engram", "mcp__engrambus__rm_rf", "mcp__engrambus2__less_put_engram", ""]
)
def test_other_tools_are_left_alone(repository: Repository, name: str) -> None:
    assert calls_our_tool(recorded_event("claude-code", "ToolCall", repository.path, tool_name=name)) is None


def test_without_a_project_a_call_stays_as_it_is(tmp_path: Path, claude: Client) -> None:
    call = calls_our_tool(recorded_event("claude-code", "ToolCall", tmp_path))
    assert call is not None
    assert answer_tool_call(call, claude.environment) == {}


@pytest.mark.parametrize("more", [{"session_id": 7}, {"session_id": ""}, {"tool_input": None}, {"tool_input": "x"}])
def test_an_invalid_call_stays_as_it_is(claude: Client, more: dict[str, Any]) -> None:
    assert claude.rewrite(**more) == {}


@BOTH
def test_the_executable_rewrites_a_call_without_opening_the_store(shell: Shell, client: str) -> None:
    for index in shell.path.glob(".catalog/derived-*/index.db"):
        index.unlink()
    before = sorted(path.name for path in (shell.path / ".catalog").iterdir())
    result = shell.process("hook", stdin=recorded_event(client, "ToolCall", shell.path))
    assert (result.code, result.err) == (0, "")
    assert "~" in json.loads(result.out)["hookSpecificOutput"]["updatedInput"]["as"]
    assert sorted(path.name for path in (shell.path / ".catalog").iterdir()) == before


def test_in_a_linked_worktree_the_key_is_the_projects(claude: Client, tmp_path: Path) -> None:
    claude.tell("SessionStart")
    lead = claude.caller(claude.speak_as())
    worktree = tmp_path / "linked"
    subprocess.run(["git", "worktree", "add", "-q", str(worktree)], cwd=claude.repository.path, check=True)
    assert claude.caller(claude.speak_as(cwd=str(worktree))) == lead
