"""A careless and a hostile team over stdio MCP, wired exactly as `engrambus install` wires it.

The model behind these calls never passes `as`, or passes what it should not. Every limit holds all the same.
"""  # EB-31

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

import pytest
from splintr import Tokenizer

from engrambus.app import open_project
from engrambus.core import estimate_tokens
from engrambus.gateway import LOCAL_ADMIN
from tests.cli.runner import Shell
from tests.limits.installed_client import InstalledClient, installed
from tests.projects import make_settings

CODE = "def refund(order):\n    if order.paid:\n        raise ValueError(order)\n    return bank.send(order)\n"
ONE_LINE = "def login(user, password): token = make_token(user); return token"


@pytest.fixture
def client(shell: Shell) -> Iterator[InstalledClient]:
    """A fresh project with Claude Code installed, in a session of its own."""
    with installed(shell) as client:
        yield client


@pytest.fixture
def lines(shell: Shell) -> dict[str, Any]:
    """A pointer to two lines of the repository, as an argument."""
    return {"pointer": f"repo:src/parser.py#L1-L2@{shell.repository.sha}"}


def engrams(shell: Shell) -> list[dict[str, Any]]:
    """Every engram the admin sees."""
    found: list[dict[str, Any]] = shell.ok("--json", "query", "--k", "100").json["engrams"]
    return found


# A careless team


def test_an_agent_that_never_names_itself_has_a_name_and_three_reads(
    client: InstalledClient, shell: Shell, lines: dict[str, Any]
) -> None:  # EB-08
    answers = [client.call("less_deref_pointer", **lines) for _ in range(6)]
    assert [answer.is_error for answer in answers] == [False, False, False, True, True, True]
    assert answers[3].code == "LESS_DEREF_DENIED"
    client.call("less_put_engram", claim="The parser has thirty lines.", at=["src/parser.py:1-2"])
    (engram,) = engrams(shell)
    author = engram["provenance"]["created_by"].rpartition("/")[2]
    assert author != "admin"
    assert author.count("-") == 1


def test_without_hooks_the_server_acts_as_a_lead_of_its_own(
    client: InstalledClient, shell: Shell, lines: dict[str, Any]
) -> None:
    answers = [client.call_unhooked("less_deref_pointer", lines) for _ in range(4)]
    assert [answer.is_error for answer in answers] == [False, False, False, True]
    client.call_unhooked("less_put_engram", {"claim": "The parser is short.", "at": ["src/parser.py:1-2"]})
    (engram,) = engrams(shell)
    assert not engram["provenance"]["created_by"].endswith("/admin")


def test_eight_sub_agents_have_eight_budgets(client: InstalledClient, lines: dict[str, Any]) -> None:
    for number in range(8):
        agent = client.start_subagent(number)
        assert [client.call("less_deref_pointer", agent, **lines).is_error for _ in range(4)] == [False] * 3 + [True]
    assert not client.call("less_deref_pointer", **lines).is_error  # and the main agent has its own


def test_a_session_leaves_the_run_of_the_others_alone(shell: Shell) -> None:
    shell.ok("run", "new", "The orchestrator's run")
    before = shell.ok("--json", "run", "list").json["runs"]
    with installed(shell) as client:
        client.call("less_put_engram", claim="The parser has thirty lines.", at=["src/parser.py:1-2"])
        after = shell.ok("--json", "run", "list").json["runs"]
    current = [run["goal"] for run in after if run["current"]]
    assert current == [run["goal"] for run in before if run["current"]] == ["The orchestrator's run"]


def test_a_query_of_twelve_fits_eight_hundred_tokens(client: InstalledClient, shell: Shell) -> None:  # EB-33
    for number in range(30):
        shell.ok("put", f"Rule {number} says that the parser reads line {number} first.", "--at", "src/parser.py:1-2")
    answer = client.call("less_query_engrams", q="parser reads line")
    assert estimate_tokens(answer.text) <= 800
    assert len(answer.text.splitlines()) >= 12


def test_a_sub_agents_new_code_is_stored_and_pointed_at(client: InstalledClient) -> None:  # EB-07
    agent = client.start_subagent(1)
    answer = client.tell(
        "SubagentStop", agent, last_assistant_message=f"The refund needs a check.\n\n```python\n{CODE}```\n"
    )
    assert answer.get("decision") != "block"
    digest = hashlib.sha256(CODE.encode()).hexdigest()
    stored = client.call("less_deref_pointer", pointer=f"artifact:sha256:{digest}#L1-L4")
    assert "def refund(order)" in stored.text


def test_a_claim_said_twice_is_confirmed(client: InstalledClient, shell: Shell) -> None:  # EB-21
    claim: dict[str, Any] = {"at": ["src/parser.py:1-2"]}
    client.call("less_put_engram", claim="The parser reads 1,000 lines at once.", confidence=0.6, **claim)
    agent = client.start_subagent(1)
    answer = client.call("less_put_engram", agent, claim="The parser reads 1000 lines at once", confidence=0.9, **claim)
    assert "confirmed" in answer.text
    (engram,) = engrams(shell)
    assert engram["confidence"] == 0.9


def test_an_unsure_claim_stays_in_its_run(client: InstalledClient, shell: Shell) -> None:  # EB-20
    answer = client.call(
        "less_put_engram", claim="The parser may be slow.", at=["src/parser.py:1-2"], confidence=0.2, scope="project"
    )
    assert "SCOPE_LOWERED" in answer.text
    assert engrams(shell) == []  # the current run is another one


def test_a_person_answers_what_a_sub_agent_asks_for(
    client: InstalledClient, shell: Shell, lines: dict[str, Any]
) -> None:  # EB-11
    agent = client.start_subagent(1)
    for _ in range(3):
        client.call("less_deref_pointer", agent, **lines)
    assert not client.call("less_request_deref", agent, **lines, reason="To compare both lines.").is_error
    (request,) = shell.ok("--json", "grant", "requests").json["requests"]
    assert client.call("less_deref_pointer", agent, **lines).is_error
    shell.ok("grant", "approve", request["request_id"])
    assert not client.call("less_deref_pointer", agent, **lines).is_error
    assert client.call("less_deref_pointer", agent, **lines).is_error


# A hostile team


def test_a_sub_agent_cannot_speak_as_the_main_agent(
    client: InstalledClient, shell: Shell, lines: dict[str, Any]
) -> None:
    client.call("less_put_engram", claim="The main agent wrote this.", at=["src/parser.py:1-2"])
    lead = engrams(shell)[0]["provenance"]["created_by"]
    agent = client.start_subagent(1)
    for name in (lead, lead.rpartition("/")[2], "admin"):
        client.call("less_deref_pointer", agent, **lines, **{"as": name})
    assert client.call("less_deref_pointer", agent, **lines, **{"as": lead}).is_error
    assert not client.call("less_deref_pointer", **lines).is_error


def test_a_main_agent_gains_no_reads_by_naming_its_sub_agents(
    client: InstalledClient, shell: Shell, lines: dict[str, Any]
) -> None:  # EB-09
    agents = [client.start_subagent(number) for number in range(4)]
    names = []
    for number, agent in enumerate(agents):
        client.call("less_put_engram", agent, claim=f"Sub-agent {number} was here.", at=["src/parser.py:1-2"])
    names = [engram["provenance"]["created_by"].rpartition("/")[2] for engram in engrams(shell)]
    assert len(set(names)) == 4
    reads = [client.call("less_deref_pointer", **lines, **{"as": name}).is_error for name in names]
    assert reads == [False, False, False, True]


def test_a_main_agent_cannot_use_the_mark_of_a_sub_agent(client: InstalledClient, lines: dict[str, Any]) -> None:
    agent = client.start_subagent(1)
    mark = client.rewritten("less_deref_pointer", agent, **lines)["as"]
    for _ in range(3):
        client.call("less_deref_pointer", **lines)
    assert client.call("less_deref_pointer", **lines, **{"as": mark}).is_error


@pytest.mark.parametrize("name", ["admin", "nobody-here", "x~y", "../admin", "amber-fox~AAAAAAAAAAAAAAAAAAAAAAAA"])
def test_a_name_that_the_model_made_up_is_refused(client: InstalledClient, lines: dict[str, Any], name: str) -> None:
    assert client.call_unhooked("less_deref_pointer", {**lines, "as": name}).is_error


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("less_put_engram", {"claim": ONE_LINE, "at": ["src/parser.py:1-2"]}),
        ("less_put_engram", {"claim": "A tag.", "at": ["src/parser.py:1-2"], "tags": ["if(x){return y;}"]}),
        ("less_request_deref", {"reason": CODE}),
    ],
)
def test_code_is_refused_in_every_text(
    client: InstalledClient, shell: Shell, lines: dict[str, Any], tool: str, arguments: dict[str, Any]
) -> None:  # EB-07
    if tool == "less_request_deref":
        arguments = {**lines, **arguments}
    assert client.call(tool, **arguments).code == "LESS_BUDGET_EXCEEDED"
    assert engrams(shell) == []


def test_words_put_in_a_turn_have_a_limit(client: InstalledClient) -> None:
    sentence = "Rule {number} of the parser keeps the lines that were read, in the order in which they came in, "
    answers = [
        client.call(
            "less_put_engram",
            claim=(sentence.format(number=number) * 4).strip(", ")[:480] + ".",
            at=["src/parser.py:1-2"],
        )
        for number in range(40)
    ]
    refused = [answer for answer in answers if answer.is_error]
    assert len(refused) > 10
    assert {answer.code for answer in refused} == {"LESS_BUDGET_EXCEEDED"}


def test_denials_are_counted(client: InstalledClient, shell: Shell, lines: dict[str, Any]) -> None:  # EB-26
    for _ in range(5):
        client.call("less_deref_pointer", **lines)
    assert "DEREF_DENIED" in shell.ok("--json", "stats", "--over", "project").out


def test_a_query_reaches_those_who_follow_a_running_gateway(client: InstalledClient, shell: Shell) -> None:  # EB-26
    gateway = open_project(shell.path, make_settings(shell.home))
    follower = gateway.event_log.follow(None, matches=gateway.event_filter(LOCAL_ADMIN).matches, wake=lambda: None)
    try:
        agents: list[str | None] = []
        for _ in range(300):  # a follower is woken by a thread of its own
            client.call("less_query_engrams", q="parser")
            agents += [event.agent for event in follower.read()[0] if event.type == "less.engram.query"]
            if agents:
                break
        assert agents
        assert "admin" not in agents
    finally:
        follower.close()
        gateway.close()


# A client whose hooks cannot name the caller


def test_cursor_has_four_turns_worth_in_a_turn(shell: Shell, lines: dict[str, Any]) -> None:
    with installed(shell, "cursor") as client:
        answers = [client.call_unhooked("less_deref_pointer", lines) for _ in range(13)]
    assert [answer.is_error for answer in answers] == [False] * 12 + [True]


def test_the_list_of_tools_is_small(client: InstalledClient) -> None:
    listing = json.dumps(client.tools(), separators=(",", ":"))
    assert len(Tokenizer.from_pretrained("o200k_base").encode_ordinary(listing)) < 1500
