"""The bus as MCP tools, spoken to by the SDK's own client over pipes, in both generations of the protocol."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.types import CallToolResult

import stigmergy
from mcp import Client, StdioServerParameters
from stigmergy.app import init_project
from stigmergy.core import estimate_tokens
from stigmergy.operations import LOCAL_ADMIN, OPERATIONS
from stigmergy.settings import Settings
from tests.projects import Repository, make_gateway

PROGRAM = """
import sys
from pathlib import Path
from stigmergy.app import open_project
from stigmergy.edges.mcp import serve_stdio
from stigmergy.operations import Credential
from stigmergy.settings import Settings

settings = Settings.from_environment({"HOME": sys.argv[2]})
token = sys.argv[3] if len(sys.argv) > 3 else None
print("a stray word before the protocol begins", file=sys.stderr)
serve_stdio(lambda: open_project(Path(sys.argv[1]), settings), Credential(token=token, local_admin=token is None))
"""

OURS = {"PYTHONPATH": str(Path(stigmergy.__file__).parents[1])}
"""The client passes little of the environment on; the server has to be the one that is tested."""

GENERATIONS = ["legacy", "2026-07-28", "auto"]


def _command(repository: Repository, *token: str) -> list[str]:
    return ["-c", PROGRAM, str(repository.path), str(repository.path.parent / "home"), *token]


def _speak(repository: Repository, mode: str, talk: Callable[[Client], Awaitable[None]], *token: str) -> None:
    async def main() -> None:
        command = StdioServerParameters(command=sys.executable, args=_command(repository, *token), env=OURS)
        async with Client(command, mode=mode) as client:
            with anyio.fail_after(30):
                await talk(client)

    anyio.run(main)


def _problem(result: CallToolResult) -> dict[str, Any]:
    assert result.is_error
    problem: dict[str, Any] = result.structured_content
    assert [json.loads(block.text) for block in result.content if block.type == "text"] == [problem]
    return problem


@pytest.mark.parametrize("mode", GENERATIONS)
def test_an_agent_puts_finds_and_reads(repository: Repository, settings: Settings, mode: str) -> None:  # EB-29
    init_project(repository.path, settings)

    async def talk(client: Client) -> None:
        put = await client.call_tool(
            "less_put_engram", {"claim": "The parser trusts its input.", "at": ["src/parser.py:10-12"], "kind": "risk"}
        )
        assert not put.is_error
        engram = put.structured_content
        found = await client.call_tool("less_query_engrams", {"q": "parser input", "k": 3})
        assert [each["id"] for each in found.structured_content["engrams"]] == [engram["id"]]
        read = await client.call_tool("less_deref_pointer", {"pointer": engram["pointers"][0]["ref"]})
        assert read.structured_content["excerpt"].startswith("line 10 of the parser\n")
        assert read.structured_content["content_digest"] == engram["pointers"][0]["digest"]
        assert json.loads(read.content[0].text) == read.structured_content  # type: ignore[union-attr]

    _speak(repository, mode, talk)


@pytest.mark.parametrize("mode", GENERATIONS)
def test_before_there_is_a_project_every_tool_says_what_to_do(
    repository: Repository, settings: Settings, mode: str
) -> None:  # EB-29
    async def talk(client: Client) -> None:
        for tool in (await client.list_tools()).tools:
            problem = _problem(await client.call_tool(tool.name, {}))
            assert problem["code"] == "PROJECT_NOT_FOUND"
            assert "stig init" in problem["hint"]
        await anyio.to_thread.run_sync(init_project, repository.path, settings)
        assert not (await client.call_tool("less_query_engrams", {})).is_error

    _speak(repository, mode, talk)


@pytest.mark.parametrize("mode", GENERATIONS)
def test_the_tools_are_few_small_and_always_the_same(repository: Repository, mode: str) -> None:  # EB-29
    async def talk(client: Client) -> None:
        first, second = (await client.list_tools()).tools, (await client.list_tools()).tools
        assert first == second
        offered = [operation for operation in OPERATIONS.values() if operation.tool]
        expected = sorted(offered, key=lambda operation: operation.tool_name)
        assert [(tool.name, tool.title) for tool in first] == [(each.tool_name, each.title) for each in expected]
        shown = json.dumps(
            [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in first], separators=(",", ":")
        )
        assert estimate_tokens(shown) <= 1500
        assert "$ref" not in shown
        for tool, operation in zip(first, expected, strict=True):
            assert "." not in tool.name
            assert tool.annotations is not None
            assert tool.annotations.open_world_hint is False
            assert bool(tool.annotations.read_only_hint) is not operation.writes
            assert tool.input_schema["type"] == "object"
            assert "as" in tool.input_schema["properties"]

    _speak(repository, mode, talk)


@pytest.mark.parametrize("mode", GENERATIONS)
def test_refusals_are_problems_with_the_same_codes(repository: Repository, settings: Settings, mode: str) -> None:
    gateway = make_gateway(repository.path, settings)
    journal = repository.path / ".catalog" / "memory.jsonl"
    before = journal.read_bytes()
    at = ["src/parser.py:1"]

    async def talk(client: Client) -> None:
        for name, arguments, code, field in (
            ("less_put_engram", {"claim": "No evidence."}, "NO_POINTER", "pointers"),
            ("less_put_engram", {"at": at}, "FIELD_MISSING", "claim"),
            ("less_put_engram", {"claim": 7, "at": at}, "FIELD_TYPE", "claim"),
            ("less_put_engram", {"claim": "x", "at": at, "colour": "red"}, "FIELD_UNKNOWN", "colour"),
            ("less_put_engram", {"claim": "x", "at": at, "confidence": 10**22}, "NUMBER_RANGE", None),
            ("less_put_engram", {"claim": "x", "at": at, "provenance": {}}, "PROVENANCE_STAMPED", "provenance"),
            ("less_put_engram", {"claim": "x" * 501, "at": at}, "CLAIM_TOO_LONG", "claim"),
            ("less_query_engrams", {"k": "3"}, "FIELD_TYPE", "k"),
            ("less_query_engrams", {"k": 3, "as": "nobody"}, "AGENT_NOT_FOUND", "as"),
            ("less_query_engrams", {"as": 7}, "FIELD_TYPE", "as"),
            ("less_deref_pointer", {"pointer": "repo:src/parser.py"}, "POINTER_NOT_PINNED", None),
            ("less_no_such_tool", {}, "FIELD_VALUE", "name"),
            ("forget_engram", {"id": "x"}, "FIELD_VALUE", "name"),
        ):
            problem = _problem(await client.call_tool(name, arguments))
            assert problem["code"] == code, (name, arguments, problem)
            if field is not None:
                assert problem["field"] == field
            assert "Traceback" not in json.dumps(problem)

    _speak(repository, mode, talk)
    assert journal.read_bytes() == before
    gateway.close()


def test_one_server_speaks_for_the_descendants_of_its_token(repository: Repository, settings: Settings) -> None:
    gateway = make_gateway(repository.path, settings)
    add = OPERATIONS["add_agent"]
    lead = gateway.call(add, add.request(name="lead", role="manager"), LOCAL_ADMIN)
    gateway.call(add, add.request(name="child", parent="lead"), LOCAL_ADMIN)
    gateway.call(add, add.request(name="stranger"), LOCAL_ADMIN)
    gateway.close()
    body = {"claim": "Said for another.", "at": ["src/parser.py:1"]}

    async def talk(client: Client) -> None:
        spoken = await client.call_tool("less_put_engram", {**body, "as": "child"})
        assert spoken.structured_content["provenance"]["created_by"].endswith("/child")
        own = await client.call_tool("less_put_engram", {**body, "claim": "Told by myself."})
        assert own.structured_content["provenance"]["created_by"].endswith("/lead")
        refused = await client.call_tool("less_put_engram", {**body, "as": "stranger"})
        assert _problem(refused)["code"] == "NOT_YOUR_DESCENDANT"

    _speak(repository, "2026-07-28", talk, lead.token)


def test_less_tools_prefix_the_two_refusals_of_the_budget(repository: Repository, settings: Settings) -> None:
    """# EB-06 # EB-09: the specification's names for agents; every other code is as everywhere."""
    gateway = make_gateway(repository.path, settings)
    add = OPERATIONS["add_agent"]
    token = gateway.call(add, add.request(name="paul"), LOCAL_ADMIN).token
    gateway.close()
    ref = {"pointer": f"repo:src/parser.py#L1-L2@{repository.sha}"}
    report = "ROLE: programmer\nTASK_STATUS: done\nOUTPUT: "

    async def talk(client: Client) -> None:
        for _ in range(3):
            assert not (await client.call_tool("less_deref_pointer", ref)).is_error
        denied = _problem(await client.call_tool("less_deref_pointer", ref))
        assert (denied["code"], denied["status"], denied["field"]) == ("LESS_DEREF_DENIED", 403, "turn.repo")
        large = _problem(await client.call_tool("less_message", {"text": report + "It went on and on. " * 300}))
        assert (large["code"], large["status"], large["limit"]) == ("LESS_BUDGET_EXCEEDED", 413, 800)
        again = {"text": large["resend"].replace("...", "It went on.")}
        assert (await client.call_tool("less_message", again)).structured_content["resends"]
        assert not (await client.call_tool("less_deref_pointer", ref)).is_error  # the report closed the turn
        other = _problem(await client.call_tool("less_message", {"text": "ROLE: programmer"}))
        assert other["code"] == "MESSAGE_SECTION_MISSING"

    _speak(repository, "2026-07-28", talk, token)


def test_a_token_that_is_none(repository: Repository, settings: Settings) -> None:
    init_project(repository.path, settings)

    async def talk(client: Client) -> None:
        assert _problem(await client.call_tool("less_query_engrams", {}))["code"] == "TOKEN_INVALID"

    _speak(repository, "2026-07-28", talk, "stig1.forged.token")


def _lines(repository: Repository, expected: int, *lines: bytes) -> list[dict[str, Any]]:
    """What is said on standard output to a client that begins as older ones do; every line of it is the protocol.

    The answers come in the order of their ids, those without one first: the protocol promises none.
    """
    opening = {
        "jsonrpc": "2.0",
        "id": 0,
        "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
    }
    started = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    sent = b"\n".join([json.dumps(opening).encode(), json.dumps(started).encode(), *lines]) + b"\n"
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, *_command(repository)], stdin=pipe, stdout=pipe, stderr=pipe) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(sent)
        process.stdin.flush()
        said = [process.stdout.readline() for _ in range(expected + 1)]
        rest, errors = process.communicate(timeout=30)
    assert (process.returncode, rest) == (0, b"")
    assert b"Traceback" not in errors
    answers = [json.loads(line) for line in said]
    assert all(answer["jsonrpc"] == "2.0" for answer in answers)
    answers.sort(key=lambda answer: -1 if answer["id"] is None else answer["id"])
    (hello,) = (answer for answer in answers if answer["id"] == 0)
    assert hello["result"]["protocolVersion"] == "2025-06-18"
    return [answer for answer in answers if answer["id"] != 0]


def _call(arguments: bytes, number: int, *, id_first: bool = True) -> bytes:
    ids, method = b'"id":%d' % number, b'"method":"tools/call"'
    first, second = (ids, method) if id_first else (method, ids)
    params = b'"params":{"name":"less_put_engram","arguments":%s}' % arguments
    return b'{"jsonrpc":"2.0",%s,%s,%s}' % (first, second, params)


def test_arguments_are_read_as_strictly_as_over_http(repository: Repository, settings: Settings) -> None:
    init_project(repository.path, settings)
    journal = repository.path / ".catalog" / "memory.jsonl"
    before = journal.read_bytes()
    cases = [
        (b'{"claim":"x","claim":"y"}', "DUPLICATE_KEY"),
        (b'{"claim":"x","confidence":NaN}', "NUMBER_RANGE"),
        (b'{"claim":"x","confidence":1e999}', "NUMBER_RANGE"),
        (b'{"claim":"x","confidence":10000000000000000000000}', "NUMBER_RANGE"),
        (b'{"claim":"\\ud800"}', "BAD_TEXT"),
        (b'{"claim":' + b"[" * 900 + b"]" * 900 + b"}", "TOO_DEEP"),
    ]
    sent = [
        _call(arguments, number, id_first=number % 2 == 0)
        for number, (arguments, _) in enumerate([*cases, *cases[1:]], start=1)
    ]
    answers = _lines(repository, len(sent), *sent)
    assert [answer["id"] for answer in answers] == list(range(1, len(sent) + 1))
    for answer, (_, code) in zip(answers, [*cases, *cases[1:]], strict=True):
        assert answer["result"]["isError"] is True
        assert answer["result"]["structuredContent"]["code"] == code
    assert journal.read_bytes() == before


def test_a_line_that_is_too_long_or_no_json_is_refused_and_the_next_is_read(repository: Repository) -> None:
    answers = _lines(
        repository,
        5,
        _call(b'{"claim":"' + b"x" * 3_000_000 + b'"}', 5),
        b"this is no json",
        b"",
        b"\xff\xfe",
        b"[" * 100_000,
        json.dumps({"jsonrpc": "2.0", "id": 9, "method": "tools/list"}).encode(),
    )
    *broken, long, listed = answers
    assert (long["id"], long["result"]["structuredContent"]["code"]) == (5, "BODY_TOO_LARGE")
    assert [(each["id"], each["error"]["data"]["code"]) for each in broken] == [
        (None, "BAD_JSON"),
        (None, "BAD_TEXT"),
        (None, "TOO_DEEP"),
    ]
    assert listed["id"] == 9
    assert "less_put_engram" in [tool["name"] for tool in listed["result"]["tools"]]


def test_it_ends_when_interrupted_although_its_input_stays_open(repository: Repository) -> None:
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, *_command(repository)], stdin=pipe, stdout=pipe, stderr=pipe) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"no json\n")
        process.stdin.flush()
        assert b"BAD_JSON" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=10) == 0
        assert process.stderr is not None
        assert b"Traceback" not in process.stderr.read()
