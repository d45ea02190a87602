"""The server on standard input and output: its start, its token, its lines, its end."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from typing import Any

import anyio
import pytest

from engrambus.app import init_project
from engrambus.gateway import LOCAL_ADMIN
from engrambus.operations import OPERATIONS
from engrambus.settings import Settings
from mcp import Client
from tests.mcp.transports import GENERATIONS, call_full, over_stdio, parse_problem, problem_of, server_arguments
from tests.projects import Repository, make_gateway


@pytest.mark.parametrize("mode", GENERATIONS)
def test_without_a_project_every_tool_says_how_to_create_one(
    repository: Repository, settings: Settings, mode: str
) -> None:  # EB-29
    async def talk(client: Client) -> None:
        for tool in (await client.list_tools()).tools:
            problem = problem_of(await client.call_tool(tool.name, {}))
            assert problem["code"] == "PROJECT_NOT_FOUND"
            assert "engrambus init" in problem["hint"]
        await anyio.to_thread.run_sync(init_project, repository.path, settings)
        assert not (await client.call_tool("less_query_engrams", {})).is_error

    over_stdio(repository, mode, talk)


def test_a_client_acts_as_the_descendants_of_its_token(repository: Repository, settings: Settings) -> None:
    gateway = make_gateway(repository.path, settings)
    add = OPERATIONS["add_agent"]
    lead = gateway.call(add, add.request(name="lead", role="manager"), LOCAL_ADMIN)
    gateway.call(add, add.request(name="child", parent="lead"), LOCAL_ADMIN)
    gateway.call(add, add.request(name="stranger"), LOCAL_ADMIN)
    gateway.close()
    body = {"claim": "Put in the name of another agent.", "at": ["src/parser.py:1"]}

    async def talk(client: Client) -> None:
        as_child = await call_full(client, "less_put_engram", {**body, "as": "child"})
        assert as_child["provenance"]["created_by"].endswith("/child")
        as_lead = await call_full(client, "less_put_engram", {**body, "claim": "Put in my own name."})
        assert as_lead["provenance"]["created_by"].endswith("/lead")
        refused = await client.call_tool("less_put_engram", {**body, "as": "stranger"})
        assert problem_of(refused)["code"] == "NOT_YOUR_DESCENDANT"

    over_stdio(repository, "2026-07-28", talk, lead.token)


def test_less_tools_prefix_the_codes_of_the_two_budget_errors(repository: Repository, settings: Settings) -> None:
    """# EB-06 # EB-09: the specification's names for agents; all other codes are unchanged."""
    gateway = make_gateway(repository.path, settings)
    add = OPERATIONS["add_agent"]
    token = gateway.call(add, add.request(name="paul"), LOCAL_ADMIN).token
    gateway.close()
    ref = {"pointer": f"repo:src/parser.py#L1-L2@{repository.sha}"}
    report = "ROLE: programmer\nTASK_STATUS: done\nOUTPUT: "

    async def talk(client: Client) -> None:
        for _ in range(3):
            assert not (await client.call_tool("less_deref_pointer", ref)).is_error
        denied = problem_of(await client.call_tool("less_deref_pointer", ref))
        assert (denied["code"], denied["field"]) == ("LESS_DEREF_DENIED", "turn.repo")
        large = problem_of(await client.call_tool("less_message", {"text": report + "It went on and on. " * 300}))
        assert (large["code"], large["limit"]) == ("LESS_BUDGET_EXCEEDED", 800)
        resend = {"text": large["resend"].replace("...", "It went on.")}
        assert (await call_full(client, "less_message", resend))["resends"]
        assert not (await client.call_tool("less_deref_pointer", ref)).is_error  # the report closed the turn
        incomplete = problem_of(await client.call_tool("less_message", {"text": "ROLE: programmer"}))
        assert incomplete["code"] == "MESSAGE_SECTION_MISSING"

    over_stdio(repository, "2026-07-28", talk, token)


def test_code_is_refused_in_a_claim_and_pointed_at_once_it_is_stored(
    repository: Repository, settings: Settings
) -> None:  # EB-07
    gateway = make_gateway(repository.path, settings)
    add = OPERATIONS["add_agent"]
    token = gateway.call(add, add.request(name="paul"), LOCAL_ADMIN).token
    gateway.close()
    code = "def login(user, password): token = make_token(user); return token"

    async def talk(client: Client) -> None:
        put = {"claim": code, "at": ["src/parser.py:1-2"]}
        refused = problem_of(await client.call_tool("less_put_engram", put))
        assert (refused["code"], refused["field"], refused["limit"]) == ("LESS_BUDGET_EXCEEDED", "claim", 0)
        (pointer,) = refused["pointers"]
        assert pointer["ref"] in refused["hint"]
        assert not (await client.call_tool("less_store_artifact", {"text": code})).is_error
        put = {"claim": "Login returns a token for each user.", "at": [pointer["ref"]]}
        assert not (await client.call_tool("less_put_engram", put)).is_error

    over_stdio(repository, "2026-07-28", talk, token)


def test_a_forged_token_is_refused(repository: Repository, settings: Settings) -> None:
    init_project(repository.path, settings)

    async def talk(client: Client) -> None:
        assert problem_of(await client.call_tool("less_query_engrams", {}))["code"] == "TOKEN_INVALID"

    over_stdio(repository, "2026-07-28", talk, "engrambus1.forged.token")


def _exchange(repository: Repository, expected: int, *lines: bytes) -> list[dict[str, Any]]:
    """Send lines as an older client and return the answers; every line of the output must be a message.

    They are sorted by id, those without one first, because the protocol promises no order.
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
    with subprocess.Popen(
        [sys.executable, *server_arguments(repository)], stdin=pipe, stdout=pipe, stderr=pipe
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(sent)
        process.stdin.flush()
        output = [process.stdout.readline() for _ in range(expected + 1)]
        remaining, errors = process.communicate(timeout=60)
    assert (process.returncode, remaining) == (0, b"")
    assert b"Traceback" not in errors
    answers = [json.loads(line) for line in output]
    assert all(answer["jsonrpc"] == "2.0" for answer in answers)
    answers.sort(key=lambda answer: -1 if answer["id"] is None else answer["id"])
    (initialized,) = (answer for answer in answers if answer["id"] == 0)
    assert initialized["result"]["protocolVersion"] == "2025-06-18"
    return [answer for answer in answers if answer["id"] != 0]


def _call(arguments: bytes, number: int, *, id_first: bool = True) -> bytes:
    ids, method = b'"id":%d' % number, b'"method":"tools/call"'
    first, second = (ids, method) if id_first else (method, ids)
    params = b'"params":{"name":"less_put_engram","arguments":%s}' % arguments
    return b'{"jsonrpc":"2.0",%s,%s,%s}' % (first, second, params)


def test_invalid_arguments_are_refused_as_over_http(repository: Repository, settings: Settings) -> None:
    init_project(repository.path, settings)
    journal = repository.path / ".catalog" / "memory.jsonl"
    stored = journal.read_bytes()
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
    answers = _exchange(repository, len(sent), *sent)
    assert [answer["id"] for answer in answers] == list(range(1, len(sent) + 1))
    for answer, (_, code) in zip(answers, [*cases, *cases[1:]], strict=True):
        assert answer["result"]["isError"] is True
        problem = parse_problem(answer["result"]["content"][0]["text"])
        assert problem["code"] == code
        assert code != "NUMBER_RANGE" or problem["field"] == "confidence"
    assert journal.read_bytes() == stored


def test_an_invalid_line_is_refused_and_the_next_one_is_read(repository: Repository) -> None:
    answers = _exchange(
        repository,
        5,
        _call(b'{"claim":"' + b"x" * 3_000_000 + b'"}', 5),
        b"this is no json",
        b"",
        b"\xff\xfe",
        b"[" * 100_000,
        json.dumps({"jsonrpc": "2.0", "id": 9, "method": "tools/list"}).encode(),
    )
    *broken, long, tool_list = answers
    assert long["id"] == 5
    assert long["result"]["content"][0]["text"].startswith("BODY_TOO_LARGE: ")
    assert [(answer["id"], answer["error"]["data"]["code"]) for answer in broken] == [
        (None, "BAD_JSON"),
        (None, "BAD_TEXT"),
        (None, "TOO_DEEP"),
    ]
    assert tool_list["id"] == 9
    assert "less_put_engram" in [tool["name"] for tool in tool_list["result"]["tools"]]


def test_an_interrupt_stops_the_server_while_its_input_is_open(repository: Repository) -> None:
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, *server_arguments(repository)], stdin=pipe, stdout=pipe, stderr=pipe
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"no json\n")
        process.stdin.flush()
        assert b"BAD_JSON" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 0
        assert process.stderr is not None
        assert b"Traceback" not in process.stderr.read()


def test_the_server_stops_without_errors_when_its_client_is_gone(repository: Repository, settings: Settings) -> None:
    init_project(repository.path, settings)
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, *server_arguments(repository)], stdin=pipe, stdout=pipe, stderr=pipe
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(b"no json\n")
        process.stdin.flush()
        assert b"BAD_JSON" in process.stdout.readline()
        process.stdout.close()
        process.stdin.write(b"no json\n" * 20)
        process.stdin.flush()
        assert process.wait(timeout=60) == 0
        assert b"Traceback" not in process.stderr.read()
