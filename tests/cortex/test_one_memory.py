"""One memory on a real repository: the command line, agents over MCP, a session's start, and roles."""  # BX-12, EB-30

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engrambus.edges.integrations.client_hook import answer_event
from engrambus.edges.integrations.hook_events import read_event
from engrambus.edges.mcp.calls import ToolCalls
from engrambus.evidence.pointers import Pointer
from engrambus.gateway import Gateway
from engrambus.knowledge.engrams.schemas import validator
from engrambus.settings import Settings
from engrambus.testing.client import GatewayClient
from tests.cli.runner import Shell
from tests.integrations.told import recorded_event
from tests.projects import Repository, make_gateway, make_repository


class Opened:
    """A gateway as the test client takes it."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway


@pytest.fixture
def shell(repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """A repository with a fresh project."""
    shell = Shell(repository, tmp_path / "home", monkeypatch)
    shell.ok("init")
    return shell


@pytest.fixture
def client(gateway: Gateway) -> GatewayClient:
    return GatewayClient(Opened(gateway))


def test_a_person_keeps_something_and_finds_it_by_asking(shell: Shell) -> None:
    shell.ok("memory", "keep", "We deploy on Thursdays only.", "--pinned")
    lines = shell.ok("query", "when do we deploy").out.splitlines()
    assert lines[0] == "fact        We deploy on Thursdays only."
    assert "pinned memory" in lines[1]
    assert lines[1].endswith("sam:fact:we-deploy-on-thursdays-only@1")
    assert "not read" not in lines[1]
    answer = shell.ok("query", "when do we deploy", "--json").json
    for name in ("engram.v0.1.json", "less/engram.v0.1.json"):
        validator(name).validate(answer["engrams"][0])
    assert "[pinned memory] We deploy on Thursdays only." in shell.ok("brief").out


def test_memory_read_needs_nothing_but_a_query(shell: Shell) -> None:
    shell.ok("memory", "keep", "We deploy on Thursdays only.", "--pinned")
    out = shell.ok("memory", "read", "--query", "deploy").out
    assert "We deploy on Thursdays only." in out
    assert "of 400 tokens" in out
    refused = shell.run("memory", "read")
    assert refused.code == 1
    assert "--query" in refused.err
    assert "budget" not in refused.err


def test_the_pointer_of_a_found_memory_leads_to_its_whole_text(client: GatewayClient) -> None:
    text = "One sentence. Two sentences. Three sentences. The fourth one names the zeppelin."
    client.call("keep_episode", text=text, slug="long")
    coder = client.add_agent("coder")
    (memory,) = client.query("zeppelin", coder).engrams
    read = client.call("deref_pointer", coder, pointer=Pointer(type="sam", ref=memory.id))
    assert (read.excerpt, read.content_digest) == (text, memory.pointers[0].digest)
    used = client.call("put_engram", coder, claim="The hangar is full.", at=["src/parser.py:1-2"], used=[memory.id])
    assert client.call("show_engram", id=used.id).about[used.id].used == [memory.id]


def test_agents_find_memories_in_one_line_each(client: GatewayClient, gateway: Gateway) -> None:
    lead = client.add_agent("lead", "manager")
    client.call("keep_episode", lead, text="Releases are cut on Mondays.", kind="decision", slug="releases")
    client.call("keep_episode", lead, text="Releases need a tag.", slug="tags", pinned=True, at=["src/parser.py:1-2"])
    result = ToolCalls(lambda: gateway).call_tool("less_query_engrams", {"q": "releases"}, lead)
    lines = sorted(result["content"][0]["text"].splitlines())  # upper case first
    assert lines[0].startswith("Releases need a tag. [src/parser.py:1-2@")
    assert lines[0].endswith(", not read, pinned memory] sam:fact:tags@1")
    assert lines[1] == "decision: Releases are cut on Mondays. [memory] sam:decision:releases@1"


def test_a_memory_is_hidden_by_each_of_its_pointers_and_by_its_kind(client: GatewayClient) -> None:
    coder = client.add_agent("coder")
    many = [f"src/parser.py:{number}" for number in range(1, 14)]
    client.call("keep_episode", text="The zeppelin lands at noon.", slug="a", at=[*many, "docs/design.md:1-2"])
    client.call("keep_episode", text="The zeppelin is silver.", slug="b", kind="decision")
    assert len(client.query("zeppelin", coder).engrams) == 2
    client.call("apply_policy", policy={"visibility": {"programmer": {"paths": ["!docs/*"]}}})
    assert client.query_claims("zeppelin", coder) == client.query_claims("", coder) == ["The zeppelin is silver."]
    client.call("apply_policy", policy={"visibility": {"programmer": {"kinds": ["fact"]}}})
    assert client.query_claims("zeppelin", coder) == ["The zeppelin lands at noon."]
    assert not any("silver" in line for line in client.call("brief", coder).lines)
    assert [item.content for item in client.call("inherit", coder).items] == ["The zeppelin lands at noon."]


def test_memories_of_another_project_are_not_found(client: GatewayClient, tmp_path: Path, settings: Settings) -> None:
    client.call("keep_episode", text="The zeppelin is silver.")
    other = make_gateway(make_repository(tmp_path / "other").path, settings)
    try:
        assert GatewayClient(Opened(other)).query_claims("zeppelin") == []
    finally:
        other.close()


def test_a_session_starts_with_pinned_and_important_memories(
    client: GatewayClient, repository: Repository, settings: Settings
) -> None:
    client.call("keep_episode", text="We deploy on Thursdays only.", kind="policy", slug="deploys", pinned=True)
    client.call("keep_episode", text="Prices are in cents.", kind="constraint", slug="cents")
    event = read_event(recorded_event("claude-code", "SessionStart", repository.path))
    assert event is not None
    context = str(answer_event(event, settings, Path("/")))
    assert context.count("We deploy on Thursdays only.") == 1
    assert context.count("Prices are in cents.") == 1


# UC4: what did others learn?


def test_an_agent_follows_what_others_learn_without_their_prompts(shell: Shell) -> None:
    shell.ok("agent", "add", "lead", "--role", "manager")
    for name in ("ada", "ben"):
        shell.ok("agent", "add", name, "--role", "programmer", "--parent", "lead")
    put = ("put", "The parser numbers its lines from one.", "--at", "src/parser.py:1-3")
    shell.ok("--as", "ada", *put)
    shell.ok("--as", "ben", "put", "The design trusts its input.", "--at", "docs/design.md:5-7", "--kind", "risk")
    shell.ok("--as", "lead", "memory", "keep", "The lexer stays small.", "--kind", "decision", "--slug", "lexer")

    def ask(name: str, *words: str) -> list[dict[str, Any]]:
        answer = shell.ok("--as", name, "query", *words, "--json").json
        return list(answer["engrams"])

    learned = ask("ben", "--others", "--since-last")
    assert [engram["claim"] for engram in learned] == ["The lexer stays small.", put[1]]
    # What comes back is claims and pointers; ben reads only the lines that matter to it.
    ref = learned[1]["pointers"][0]["ref"]
    read = shell.ok("--as", "ben", "deref", ref, "--json").json
    assert read["excerpt"].splitlines()[0] == "line 1 of the parser"
    assert ask("ben", "--others", "--since-last") == []
    shell.ok("--as", "ada", "put", "The words are few.", "--at", "src/wörter.py:1")
    assert [engram["claim"] for engram in ask("ben", "--others", "--since-last")] == ["The words are few."]
    assert len(ask("ada", "--others", "--since-last")) == 2
    assert [engram["claim"] for engram in ask("ada", "--others", "--path", "docs")] == ["The design trusts its input."]
    assert [engram["claim"] for engram in ask("ada", "input", "--role", "programmer")] == [
        "The design trusts its input."
    ]
    assert [engram["claim"] for engram in ask("lead", "--agent", "ada", "--path", "src/wörter.py")] == [
        "The words are few."
    ]
