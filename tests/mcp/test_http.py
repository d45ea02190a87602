"""`/mcp`: its tokens, its sessions, and clients that disconnect."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import anyio
import pytest

from engrambus.edges.mcp.http import MAX_BODY_BYTES
from engrambus.gateway import Gateway
from mcp import Client
from tests.http.running_server import Answer, RunningServer, count_engrams, run_new_project, run_server
from tests.mcp.transports import GENERATIONS, call_full, http_client, over_http, parse_problem, problem_of
from tests.projects import Repository

OLDER = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
BOTH = {"Accept": "application/json, text/event-stream"}


@pytest.fixture(scope="module")
def bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """Run a server for this module."""
    with run_new_project(tmp_path_factory.mktemp("bus")) as bus:
        yield bus


def _post(bus: RunningServer, body: Any, *, token: str | None = "", **headers: str) -> Answer:
    renamed = {name.replace("_", "-"): value for name, value in headers.items()}
    return bus.call("POST", "/mcp", body, token=token, headers={**BOTH, **renamed})


def _initialize(version: str = "2025-06-18") -> dict[str, Any]:
    client = {"name": "test", "version": "1"}
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": client}
    return {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}


def _call(name: str, arguments: dict[str, Any], number: int = 1) -> dict[str, Any]:
    params = {"name": name, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


def _session(bus: RunningServer, token: str | None = "", version: str = "2025-06-18") -> str:
    opened = _post(bus, _initialize(version), token=token)
    assert opened.status == 200, opened.body
    assert opened.json["result"]["protocolVersion"] == version
    session = opened.headers["mcp-session-id"]
    started = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert _post(bus, started, token=token, Mcp_Session_Id=session).status == 202
    return session


def test_a_valid_token_of_this_project_is_required(bus: RunningServer, tmp_path: Path) -> None:  # EB-20
    with run_new_project(tmp_path) as other_bus:
        for token, code in (
            (None, "TOKEN_MISSING"),
            ("engrambus1.forged.token", "TOKEN_INVALID"),
            (other_bus.token, "TOKEN_INVALID"),
            (bus.sign(seconds=-1), "TOKEN_EXPIRED"),
            (bus.sign(name="nobody", role="programmer"), "TOKEN_INVALID"),
        ):
            for body in (_initialize(), _call("less_query_engrams", {})):
                answer = _post(bus, body, token=token)
                assert (answer.status, answer.code) == (401, code)
                assert answer.headers["www-authenticate"] == "Bearer"
            assert bus.call("GET", "/mcp", token=token, headers=BOTH).status == 401


@pytest.mark.parametrize(("headers", "status", "code"), [
    ({"Host": "evil.example"}, 421, "HOST_FORBIDDEN"),
    ({"Origin": "http://evil.example"}, 403, "ORIGIN_FORBIDDEN"),
    ({"Content-Type": "text/plain"}, 415, "CONTENT_TYPE"),
])  # fmt: skip
def test_host_origin_and_content_type_are_checked_as_everywhere(
    bus: RunningServer, headers: dict[str, str], status: int, code: str
) -> None:
    answer = bus.call("POST", "/mcp", _initialize(), headers={**BOTH, **headers})
    assert (answer.status, answer.code) == (status, code)


def test_other_methods_and_large_bodies_are_refused(bus: RunningServer) -> None:
    refused = bus.call("PUT", "/mcp", {}, headers=BOTH)
    assert (refused.status, refused.code) == (405, "METHOD_NOT_ALLOWED")
    large = _post(bus, b" " * (MAX_BODY_BYTES + 1))
    assert (large.status, large.code) == (413, "BODY_TOO_LARGE")


def test_a_tool_call_that_is_too_large_gets_the_problem_as_its_result(bus: RunningServer) -> None:  # YT-15
    for size in (MAX_BODY_BYTES, 3 * MAX_BODY_BYTES):
        answer = _post(bus, json.dumps(_call("less_put_engram", {"claim": "x" * size}, 5)).encode())
        assert (answer.status, answer.json["id"]) == (200, 5)
        result = answer.json["result"]
        problem = parse_problem(result["content"][0]["text"])
        assert (result["isError"], problem["code"], problem["limit"]) == (True, "BODY_TOO_LARGE", MAX_BODY_BYTES)

    async def talk(client: Client) -> None:
        refused = await client.call_tool("tuple_dispatch", {"lane": "x" * MAX_BODY_BYTES})
        assert problem_of(refused)["code"] == "BODY_TOO_LARGE"
        assert not (await client.call_tool("less_query_engrams", {"q": "x"})).is_error

    for mode in GENERATIONS:
        over_http(bus, mode, talk)


def test_invalid_bodies_are_refused_as_everywhere(bus: RunningServer) -> None:
    with bus.nothing_stored():
        for arguments, code in (
            (b'{"claim":"x","claim":"y"}', "DUPLICATE_KEY"),
            (b'{"claim":"x","confidence":NaN}', "NUMBER_RANGE"),
            (b'{"claim":"\\ud800"}', "BAD_TEXT"),
            (b'{"claim":' + b"[" * 900 + b"]" * 900 + b"}", "TOO_DEEP"),
        ):
            params = b'{"name":"less_put_engram","arguments":%s}' % arguments
            answer = _post(bus, b'{"jsonrpc":"2.0","id":5,"method":"tools/call","params":%s}' % params)
            assert (answer.status, answer.json["id"]) == (200, 5)
            assert answer.json["result"]["isError"] is True
            assert parse_problem(answer.json["result"]["content"][0]["text"])["code"] == code
        for body, code in ((b"this is no json", "BAD_JSON"), (b"\xff", "BAD_TEXT"), (b"[" * 5000, "TOO_DEEP")):
            broken = _post(bus, body)
            assert (broken.status, broken.json["id"], broken.json["error"]["code"]) == (400, None, -32700)
            assert broken.json["error"]["data"]["code"] == code


@pytest.mark.parametrize("version", OLDER)
def test_older_clients_use_a_session(bus: RunningServer, version: str) -> None:  # EB-29
    session = _session(bus, version=version)
    called = _post(bus, _call("less_query_engrams", {"k": 1}), Mcp_Session_Id=session, Mcp_Protocol_Version=version)
    result = called.json["result"]
    assert result["isError"] is False
    assert result["content"] == [{"type": "text", "text": "Nothing found."}]
    assert bus.call("DELETE", "/mcp", headers={**BOTH, "Mcp-Session-Id": session}).status == 200
    assert _post(bus, _call("less_query_engrams", {}), Mcp_Session_Id=session).status == 404


def test_a_session_can_be_used_only_by_its_agent(bus: RunningServer) -> None:
    ada, bob = bus.add("ada"), bus.add("bob")
    session = _session(bus, ada)
    put = _call("less_put_engram", {"claim": "Ada says so.", "at": ["src/parser.py:7"], "full": True})
    with bus.nothing_stored():
        assert _post(bus, put, token=bob, Mcp_Session_Id=session).status == 404
    renewed = bus.call("POST", "/agent/ada/token", {}).json["token"]
    engram = _post(bus, put, token=renewed, Mcp_Session_Id=session).json["result"]["structuredContent"]
    assert engram["provenance"]["created_by"].endswith("/ada")


def test_an_invalid_request_is_refused_and_the_next_one_is_answered(bus: RunningServer) -> None:
    session = _session(bus)
    call = _call("less_query_engrams", {})
    hostile: list[Any] = [
        [call],
        {**call, "params": {"name": "less_query_engrams", "arguments": ["q"]}},
        {**call, "params": {"name": {"$ref": "#"}, "arguments": {}}},
        {**call, "method": "tools/\u0000call"},
        {**call, "method": "x" * 100_000},
        {**call, "jsonrpc": "1.0"},
        {**call, "id": {"nested": 1}},
        {"result": {}, "id": 7, "jsonrpc": "2.0"},
        "less_query_engrams",
        7,
    ]
    with bus.nothing_stored():
        for body in hostile:
            for headers in ({"Mcp_Session_Id": session}, {"Mcp_Protocol_Version": "2026-07-28"}):
                answer = _post(bus, body, **headers)
                assert answer.status in (200, 202, 400, 404), (body, answer)
                assert answer.status != 200 or "error" in answer.json, (body, answer)
                assert b"Traceback" not in answer.body
        unknown = _post(bus, call, Mcp_Protocol_Version="1999-01-01")
        assert (unknown.status, "error" in unknown.json) == (400, True)
    assert _post(bus, call, Mcp_Session_Id=session).json["result"]["isError"] is False


def test_a_child_requests_a_parent_grants_and_the_child_reads(
    gateway: Gateway, repository: Repository
) -> None:  # EB-19
    ref = f"repo:src/parser.py#L1-L4@{repository.sha}"

    async def main(bus: RunningServer, lead: str, child: str) -> None:
        async with http_client(bus, "2026-07-28", lead) as parent, http_client(bus, "legacy", child) as agent:
            for _ in range(3):
                assert not (await agent.call_tool("less_deref_pointer", {"pointer": ref})).is_error
            denied = problem_of(await agent.call_tool("less_deref_pointer", {"pointer": ref}))
            assert denied["code"] == "LESS_DEREF_DENIED"
            request = await call_full(agent, "less_request_deref", {"pointer": ref, "reason": "To be sure."})
            assert request["asked"] == "lead"
            grant = {"child_id": "child", "pointer": ref, "cap_tokens": 300}
            refused = problem_of(await agent.call_tool("less_issue_grant", grant))
            assert refused["code"] == "ROLE_FORBIDDEN", "only parents issue grants"
            granted = await call_full(parent, "less_issue_grant", grant)
            paid = {"pointer": ref, "budget_token": granted["budget_token"]}
            read = await call_full(agent, "less_deref_pointer", paid)
            assert read["excerpt"].startswith("line 1 of the parser")

    with run_server(gateway, repository) as bus:
        lead = bus.add("lead", "manager")
        anyio.run(main, bus, lead, bus.add("child", parent="lead"))


@pytest.mark.parametrize("mode", GENERATIONS)
def test_a_client_acts_as_a_descendant_with_as(gateway: Gateway, repository: Repository, mode: str) -> None:
    body = {"claim": "Put in the name of another agent.", "at": ["src/parser.py:1"]}

    async def talk(client: Client) -> None:
        as_child = await call_full(client, "less_put_engram", {**body, "as": "child"})
        assert as_child["provenance"]["created_by"].endswith("/child")
        as_lead = await call_full(client, "less_put_engram", {**body, "claim": "Put in my own name."})
        assert as_lead["provenance"]["created_by"].endswith("/lead")
        for name, code in (("stranger", "NOT_YOUR_DESCENDANT"), ("admin", "AGENT_NOT_FOUND")):
            refused = await client.call_tool("less_put_engram", {**body, "as": name})
            assert problem_of(refused)["code"] == code

    with run_server(gateway, repository) as bus:
        lead = bus.add("lead", "manager")
        bus.add("child", parent="lead")
        bus.add("stranger")
        over_http(bus, mode, talk, lead)


def test_a_client_that_disconnects_does_not_affect_others(gateway: Gateway, repository: Repository) -> None:
    """Half of them disconnect before the body is complete, the others before they get the answer."""
    with run_server(gateway, repository) as bus:
        session = _session(bus)
        for number in range(20):
            claim = f"Sent by client number {number} of {number * 3}."
            call = _call("less_put_engram", {"claim": claim, "at": [f"src/parser.py:{number + 1}"]}, number)
            body = json.dumps(call)
            head = (
                f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{bus.port}\r\nAuthorization: Bearer {bus.token}\r\n"
                f"Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n"
                f"Mcp-Session-Id: {session}\r\nContent-Length: {len(body)}\r\n\r\n"
            )
            is_complete = number % 2 == 1
            with socket.create_connection(("127.0.0.1", bus.port), timeout=60) as client:
                client.sendall((head + body[: len(body) if is_complete else 40]).encode())
                deadline = time.monotonic() + 60
                while is_complete and count_engrams(gateway) <= number // 2:
                    assert time.monotonic() < deadline
                    time.sleep(0.01)
        assert count_engrams(gateway) == 10, "only complete requests are carried out"
        query = _post(bus, _call("less_query_engrams", {"k": 50, "full": True}, 99), Mcp_Session_Id=session)
        assert len(query.json["result"]["structuredContent"]["engrams"]) == 10


def test_the_server_stops_while_older_clients_hold_streams_open(gateway: Gateway, repository: Repository) -> None:
    with run_server(gateway, repository) as bus:
        session = _session(bus)
        connection = HTTPConnection("127.0.0.1", bus.port, timeout=60)
        headers = {"Authorization": f"Bearer {bus.token}", "Accept": "text/event-stream", "Mcp-Session-Id": session}
        connection.request("GET", "/mcp", headers=headers)
        stream = connection.getresponse()
        assert stream.status == 200
    assert b"Traceback" not in stream.read()
    connection.close()


def test_many_clients_of_both_generations_work_at_once(gateway: Gateway, repository: Repository) -> None:
    names = [f"agent-{number}" for number in range(8)]

    async def work(bus: RunningServer, name: str, token: str, mode: str) -> None:
        async with http_client(bus, mode, token) as client:
            for number in range(5):
                claim = f"{name} found number {number} of the rules."
                at = [f"src/parser.py:{number + 1}"]
                put = await call_full(client, "less_put_engram", {"claim": claim, "at": at, "scope": "run"})
                assert put["provenance"]["created_by"].endswith(f"/{name}")

    async def main(bus: RunningServer, tokens: dict[str, str]) -> None:
        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                for position, (name, token) in enumerate(tokens.items()):
                    group.start_soon(work, bus, name, token, GENERATIONS[position % 2])

    with run_server(gateway, repository) as bus:
        anyio.run(main, bus, {name: bus.add(name) for name in names})
        assert count_engrams(gateway) == len(names) * 5


def test_refused_tool_calls_are_logged(bus: RunningServer, caplog: pytest.LogCaptureFixture) -> None:
    session = _session(bus, bus.add("logged"))
    token = bus.call("POST", "/agent/logged/token", {}).json["token"]
    with caplog.at_level("INFO", logger="engrambus.refusals"):
        _post(bus, _call("less_put_engram", {"claim": "A secret claim."}), token=token, Mcp_Session_Id=session)
    (logged,) = (record.fields for record in caplog.records if record.name == "engrambus.refusals")  # type: ignore[attr-defined]
    assert (logged["code"], logged["operation"]) == ("NO_POINTER", "put_engram")
    assert logged["agent"].endswith("/logged")
    assert "secret claim" not in caplog.text


def test_the_protocols_library_is_loaded_with_the_first_client() -> None:
    """A server without MCP clients does not pay for the library."""
    program = "import sys; from engrambus.edges.http import serve; sys.exit('mcp' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
