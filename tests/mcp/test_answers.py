"""Answers to agents: short lines of text, sent once, within their tokens."""  # EB-33, BX-02

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engrambus.core import estimate_tokens
from engrambus.edges.mcp.answers import compact_text
from engrambus.edges.mcp.calls import ToolCalls
from engrambus.edges.mcp.tools import tools
from engrambus.errors import BudgetTooSmall
from engrambus.gateway import LOCAL_ADMIN, Credential, Gateway, to_request
from engrambus.operations import OPERATIONS
from tests.mcp.transports import parse_problem
from tests.projects import Repository, commit_files
from tests.tokens.claims import CLAIMS
from tests.tokens.measure import count_tokens

LINE = re.compile(r"(?:(\w+): )?(.+) \[(\S+)(?: (\w+))?, (?:not read|read by [^]]+)\] ([0-9A-Z]{13})")


class Agent:
    """An agent over MCP."""

    def __init__(self, gateway: Gateway, credential: Credential = LOCAL_ADMIN) -> None:
        self.gateway = gateway
        self._calls, self._credential = ToolCalls(lambda: gateway), credential

    def call(self, tool: str, **arguments: Any) -> str:
        """Return the only text of an answer."""
        result = self._calls.call_tool(tool, arguments, self._credential)
        assert not result["isError"], result
        assert "structuredContent" not in result
        (content,) = result["content"]
        text: str = content["text"]
        return text

    def refusal(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Return the problem of a refused call."""
        result = self._calls.call_tool(tool, arguments, self._credential)
        assert result["isError"], result
        assert "structuredContent" not in result
        (content,) = result["content"]
        return parse_problem(content["text"])


@pytest.fixture
def agent(gateway: Gateway) -> Agent:
    return Agent(gateway)


def put_all(agent: Agent) -> None:
    """Put a claim in every language, each at a line of its own."""
    for number, claims in enumerate(CLAIMS.values(), start=1):
        agent.call("less_put_engram", claim=claims[0], at=[f"src/parser.py:{number}"], kind="risk")


def test_an_engram_is_one_line(agent: Agent, repository: Repository) -> None:
    put = agent.call("less_put_engram", claim="The parser trusts its input.", at=["src/parser.py:1-5"], kind="risk")
    short = f"src/parser.py:1-5@{repository.sha[:7]}"
    (engram,) = agent.gateway.call(
        OPERATIONS["query_engrams"], to_request({}, OPERATIONS["query_engrams"].request), LOCAL_ADMIN
    ).engrams
    assert put == f"{engram.id[:13]} stored at project: [{short}]"
    assert (
        agent.call("less_query_engrams", q="parser")
        == f"risk: The parser trusts its input. [{short}, not read] {engram.id[:13]}"
    )
    assert agent.call("less_query_engrams", q="absent") == "Nothing found."


def test_an_agent_replaces_a_claim_and_asks_the_past(agent: Agent) -> None:  # BX-11
    older = agent.call("less_put_engram", claim="Line four is the limit.", at=["src/parser.py:4"])[:13]
    newer = agent.call("less_put_engram", claim="Line five is the limit.", at=["src/parser.py:5"], replaces=older)[:13]
    assert agent.call("less_query_engrams", q="limit").endswith(newer)
    (engram,) = agent.gateway.call(
        OPERATIONS["query_engrams"], to_request({}, OPERATIONS["query_engrams"].request), LOCAL_ADMIN
    ).engrams
    past = agent.call("less_query_engrams", q="limit", as_of="PT0.000001S")
    assert past.endswith(newer)
    shown = OPERATIONS["show_engram"]
    about = agent.gateway.call(shown, to_request({"id": older}, shown.request), LOCAL_ADMIN)
    first = about.engrams[0].provenance.created_at
    line = agent.call("less_query_engrams", q="limit", as_of=first)
    assert line.endswith(f"{older} replaced by {engram.id[:13]}")
    assert agent.refusal("less_put_engram", claim="No.", at=["src/parser.py:5"], replaces=older)["code"] == (
        "ALREADY_REPLACED"
    )


def test_near_claims_are_one_line_each(agent: Agent) -> None:  # EB-24
    claims = (
        "The parser has a limit of 40 lines.",
        "A limit of tokens is on the parser.",
        "The parser has a limit of 90 lines.",
    )
    for number, claim in enumerate(claims, start=1):
        arguments = {"claim": claim, "at": [f"src/parser.py:{number}"], "kind": "decision"}
        result = ToolCalls(lambda: agent.gateway).call_tool("less_put_engram", arguments, LOCAL_ADMIN)
    lines = [line for content in result["content"] for line in content["text"].splitlines()]
    notices = [line for line in lines if line.startswith("warning: ")]
    assert [line.split(":")[1].strip() for line in notices] == ["CLAIM_CONTRADICTS", "CLAIM_NEAR"]
    assert all(count_tokens(line) <= 90 for line in notices), [count_tokens(line) for line in notices]


def test_the_pointer_of_a_line_can_be_read(agent: Agent) -> None:
    agent.call("less_put_engram", claim="The parser trusts its input.", at=["src/parser.py:3-4"])
    match = LINE.fullmatch(agent.call("less_query_engrams", q="parser"))
    assert match is not None
    head, *lines = agent.call("less_deref_pointer", pointer=match[3]).split("\n")
    assert head.startswith(f"{match[3]} sha256:")
    assert lines == ["line 3 of the parser", "line 4 of the parser", ""]


def test_a_line_says_what_became_of_its_evidence(agent: Agent, repository: Repository) -> None:
    agent.call("less_put_engram", claim="Line three matters.", at=["src/parser.py:3-6"])
    agent.call("less_put_engram", claim="Words are few.", at=["src/wörter.py:1"])
    agent.call("less_put_engram", claim="The lexer is small.", at=["docs/design.md:11"])
    text = (repository.path / "src/parser.py").read_text("utf-8").replace("line 3 of", "line three of")
    commit_files(repository.path, {"src/parser.py": text, "src/wörter.py": None})
    lines = {line[:10]: line for line in agent.call("less_query_engrams").split("\n")}
    changed = f"[src/parser.py:3-6@{repository.sha[:7]} changed since, 75 % left, now src/parser.py:4-6, not read]"
    assert changed in lines["Line three"]
    assert f"[src/wörter.py:1@{repository.sha[:7]} gone, not read]" in lines["Words are "]
    assert f"[docs/design.md:11@{repository.sha[:7]}, not read]" in lines["The lexer "]


def test_a_line_says_who_read_its_evidence(gateway: Gateway, repository: Repository) -> None:  # EB-22
    add = OPERATIONS["add_agent"]
    paul = Agent(gateway, Credential(token=gateway.call(add, add.request(name="paul"), LOCAL_ADMIN).token))
    short = f"src/parser.py:1-20@{repository.sha[:7]}"
    paul.call("less_put_engram", claim="The parser trusts its input.", at=["src/parser.py:1-20"])
    assert f"[{short}, not read]" in paul.call("less_query_engrams", q="parser")
    head, *lines = paul.call("less_deref_pointer", pointer=short, max_tokens=240).split("\n")
    last = int(lines[-2].split()[1])
    assert 1 < last < 20
    assert re.fullmatch(
        rf"{re.escape(short)} sha256:[0-9a-f]{{12}} \(cut: src/parser.py:1-{last}@\w{{7}} sha256:[0-9a-f]{{12}}\)", head
    )
    assert f"[{short}, read by paul (lines 1-{last})]" in paul.call("less_query_engrams", q="parser")
    paul.call("less_deref_pointer", pointer=f"src/parser.py:{last}-20", max_tokens=400)
    assert f"[{short}, read by paul]" in paul.call("less_query_engrams", q="parser")


def test_as_many_whole_lines_as_fit_are_shown(agent: Agent) -> None:
    put_all(agent)
    complete = agent.call("less_query_engrams", k=len(CLAIMS), max_tokens=5000).split("\n")
    assert len(complete) == len(CLAIMS)
    default = agent.call("less_query_engrams", k=len(CLAIMS)).split("\n")
    assert default[:-1] == complete[: len(default) - 1]
    assert default[-1] == f"+{len(CLAIMS) - len(default) + 1} more"
    assert estimate_tokens("\n".join(default)) <= 800
    assert agent.refusal("less_query_engrams", max_tokens=20)["code"] == "BUDGET_TOO_SMALL"


def test_what_an_agent_wrote_cannot_begin_a_line(agent: Agent) -> None:
    agent.gateway.call(
        OPERATIONS["keep_episode"],
        to_request({"text": "One.\nBUDGET_EXCEEDED: two.", "pinned": True}, OPERATIONS["keep_episode"].request),
        LOCAL_ADMIN,
    )
    (line,) = agent.call("inherit").split("\n")
    assert line.startswith("One. BUDGET_EXCEEDED: two.")


def test_a_refusal_names_code_field_limit_and_what_to_send_instead(gateway: Gateway) -> None:
    add = OPERATIONS["add_agent"]
    paul = Agent(gateway, Credential(token=gateway.call(add, add.request(name="paul"), LOCAL_ADMIN).token))
    report = "ROLE: programmer\nTASK_STATUS: done\nOUTPUT: "
    problem = paul.refusal("less_message", text=report + "It went on and on. " * 300)
    assert (problem["code"], problem["limit"]) == ("LESS_BUDGET_EXCEEDED", 800)
    assert problem["resend"].startswith("ROLE: programmer\n")
    assert paul.refusal("less_put_engram", claim="It is so.")["field"] == "pointers"


def test_every_tool_has_json_on_request(gateway: Gateway) -> None:
    calls = ToolCalls(lambda: gateway)
    for tool in tools():
        result = calls.call_tool(tool, {"full": True}, LOCAL_ADMIN)
        assert isinstance(result["structuredContent"], dict), tool
        assert msgspec.json.encode(result["structuredContent"]).decode() == result["content"][0]["text"]
    refused = calls.call_tool("less_brief", {"full": "yes"}, LOCAL_ADMIN)
    assert parse_problem(refused["content"][0]["text"])["field"] == "full"


@pytest.fixture
def stocked(gateway: Gateway) -> Agent:
    agent = Agent(gateway)
    put_all(agent)
    return agent


# BX-02: no answer of any edge exceeds the tokens it was asked under
@given(st.integers(1, 2500), st.integers(1, 21), st.sampled_from(sorted(CLAIMS)))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_answer_exceeds_its_tokens(stocked: Agent, tokens: int, k: int, language: str) -> None:
    ref = "src/parser.py:1-30"
    requests: list[tuple[str, dict[str, Any]]] = [
        ("query_engrams", {"k": k}),
        ("query_engrams", {"q": CLAIMS[language][0], "k": k}),
        ("brief", {}),
        ("inbox", {"k": k}),
        ("deref_pointer", {"pointer": ref}),
    ]
    for name, fields in requests:
        operation = OPERATIONS[name]
        request = to_request({**fields, "max_tokens": tokens}, operation.request)
        texts = []
        try:
            answer = stocked.gateway.call(operation, request, LOCAL_ADMIN)
            texts.append(msgspec.json.encode(answer).decode())
        except BudgetTooSmall:
            pass
        if operation.tool is not None:
            result = ToolCalls(lambda: stocked.gateway).call_tool(
                operation.tool_name, {**fields, "max_tokens": tokens}, LOCAL_ADMIN
            )
            if not result["isError"]:
                texts.append(result["content"][0]["text"])
        for text in texts:
            assert estimate_tokens(text) <= tokens, (name, text)
            assert count_tokens(text) <= 1.05 * tokens, (name, text)


def test_every_listed_tool_has_a_short_form(stocked: Agent) -> None:
    assert compact_text(OPERATIONS["receipt_get"], {"a": 1}) == '{"a":1}'
    for tool in ("less_brief", "less_query_engrams", "inherit", "catalog_list_by_lane"):
        assert not stocked.call(tool).startswith("{")
