"""`engrambus up` and `engrambus mcp`, and `engrambus` as a client of a gateway."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cli.runner import COMMAND, Desk
from tests.projects import git

CLAIM = "The parser trusts its input."


@contextmanager
def up(desk: Desk, *words: str) -> Iterator[dict[str, Any]]:
    """`engrambus up` while it serves; what it said about itself."""
    with subprocess.Popen(
        [COMMAND, "up", "--json", *words], cwd=desk.path, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as serving:
        assert serving.stdout is not None
        line = serving.stdout.readline()
        try:
            assert line, serving.communicate(timeout=60)
            yield json.loads(line)
        finally:
            serving.send_signal(signal.SIGINT)
            _, said = serving.communicate(timeout=60)
        assert serving.returncode == 0
        assert b"Traceback" not in said


def token(desk: Desk, name: str, role: str) -> str:
    """A token for a new agent."""
    return str(desk.ok("agent", "add", name, "--role", role, "--json").json["token"])


def test_up_makes_a_project_serves_it_and_is_there_once(bare_desk: Desk) -> None:
    with up(bare_desk) as first:
        assert (bare_desk.path / ".catalog" / "project.yaml").exists()
        assert first["running"] is False
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/#code=[\w-]+", first["link"])
        assert (bare_desk.path / ".catalog" / "gateway.json").stat().st_mode & 0o777 == 0o600
        again = bare_desk.process("up", "--json")
        assert again.code == 0
        assert again.json["running"] is True
        assert again.json["url"] == first["url"]
        assert again.json["link"] != first["link"], "every link has a code of its own"
        told = bare_desk.process("up")
        assert told.out.startswith("Already serving project ")
        assert first["url"] in told.out
    with up(bare_desk) as later:
        assert later["running"] is False


def test_another_checkout_of_the_project_is_served_on_its_own(desk: Desk, tmp_path: Path) -> None:
    git(desk.path, "add", "-A")
    git(desk.path, "commit", "-q", "-m", "A project")
    git(tmp_path, "clone", "-q", str(desk.path), "clone")
    desk.ok("init", at=tmp_path / "clone")
    other = Desk(desk.repository._replace(path=tmp_path / "clone"), desk.home, desk.monkeypatch)
    assert other.ok("stats", "--json").json["project"] == desk.ok("stats", "--json").json["project"]
    with up(desk) as here, up(other) as there:
        assert there["running"] is False
        assert there["url"] != here["url"]


def test_a_port_that_is_taken(desk: Desk) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        refused = desk.process("up", "--port", str(port), "--json")
        assert refused.problem["code"] == "PORT_TAKEN"
        assert refused.problem["used"] == port


def test_a_port_that_is_taken_leaves_no_project_behind(bare_desk: Desk) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        refused = bare_desk.process("up", "--port", str(other.getsockname()[1]), "--json")
    assert refused.problem["code"] == "PORT_TAKEN"
    assert not (bare_desk.path / ".catalog").exists()
    assert not (bare_desk.home / ".local" / "state").exists()


def test_the_next_port_is_taken_when_none_was_asked_for(desk: Desk) -> None:
    with _listening_on_default(), up(desk) as serving:
        assert int(serving["url"].rpartition(":")[2]) > 7171


@contextmanager
def _listening_on_default() -> Iterator[None]:
    try:
        other = socket.create_server(("127.0.0.1", 7171))
    except OSError:  # somebody has it already, which is as good
        yield
        return
    with other:
        yield


def test_a_gateway_answers_as_the_files_do(desk: Desk) -> None:
    desk.ok("put", CLAIM, "--at", "src/parser.py:1-3", "--kind", "risk")
    lead = token(desk, "lead", "manager")
    desk.ok("agent", "add", "coder", "--parent", "lead")
    engram = desk.ok("query", "--json").json["engrams"][0]["id"]
    with up(desk) as serving:
        here = {"ENGRAMBUS_TOKEN": lead}
        there = {**here, "ENGRAMBUS_URL": serving["url"]}
        for words in (
            ["query", "parser"],
            ["query", "zebra"],
            ["show", engram],
            ["show", engram, "--json"],
            ["deref", "src/parser.py:1-3"],
            ["deref", "src/parser.py:1-3", "--max-tokens", "1", "--json"],
            ["link", "src/parser.py:1-3"],
            ["agent", "list"],
            ["agent", "list", "--as", "coder"],
            ["agent", "list", "--as", "nobody", "--json"],
            ["forget", engram, "--json"],
            ["show", "absent"],
        ):
            local, remote = desk.run(*words, env=here), desk.run(*words, env=there)
            assert _without_age(local.out) == _without_age(remote.out), words
            assert (local.code, local.err) == (remote.code, remote.err), words
        put = desk.ok("put", CLAIM, "--at", "src/parser.py:5", "--json", env=there).json
        assert desk.ok("show", put["id"], "--json").json == put
        (desk.path / "engrams.jsonl").write_text(json.dumps({"claim": CLAIM, "at": ["src/parser.py:2"]}) + "\n")
        assert desk.ok("put", "--file", "engrams.jsonl", "--json", env=there).json == {"stored": 1}
        missing = desk.run("query", "--json", env={"ENGRAMBUS_URL": serving["url"]}).problem
        assert missing["code"] == "TOKEN_MISSING"
        assert "ENGRAMBUS_TOKEN" in missing["detail"]
    gone = desk.run("query", "--json", env=there).problem
    assert gone["code"] == "UNREACHABLE"
    assert "engrambus up" in gone["hint"]


def _without_age(text: str) -> str:
    return re.sub(r"  (now|\d+[smhdy])  ", "  ", text)


@pytest.mark.parametrize("remote", [False, True], ids=["files", "gateway"])
def test_mcp_is_served_from_files_and_from_a_gateway(desk: Desk, remote: bool) -> None:
    env = {**os.environ, "ENGRAMBUS_TOKEN": token(desk, "coder", "programmer")}
    if not remote:
        assert _tool_call(desk, env)["provenance"]["created_by"].endswith("/coder")
        return
    with up(desk) as serving:
        assert _tool_call(desk, {**env, "ENGRAMBUS_URL": serving["url"]})["claim"] == CLAIM


def test_mcp_serves_the_agent_that_is_named_and_its_descendants_only(desk: Desk) -> None:
    token(desk, "lead", "manager")
    desk.ok("agent", "add", "child", "--parent", "lead")
    token(desk, "stranger", "programmer")
    env = dict(os.environ)
    for speak_as, name in ((None, "lead"), ("child", "child")):
        said = {"claim": f"{name} says so.", "at": ["src/parser.py:1"]} | ({"as": speak_as} if speak_as else {})
        put = _tool_call(desk, env, "--as", "lead", arguments=said)
        assert put["provenance"]["created_by"].endswith(f"/{name}")
    for speak_as, code in (("stranger", "NOT_YOUR_DESCENDANT"), ("admin", "AGENT_NOT_FOUND")):
        said = {"claim": "Not mine to say.", "at": ["src/parser.py:1"], "as": speak_as}
        assert _tool_call(desk, env, "--as", "lead", arguments=said)["code"] == code
    unknown = _tool_call(desk, env, "--as", "nobody", arguments={"claim": "x", "at": ["src/parser.py:1"]})
    assert unknown["code"] == "AGENT_NOT_FOUND"


def test_mcp_says_in_its_answers_what_is_missing(bare_desk: Desk) -> None:
    desk = bare_desk
    before = _tool_call(desk, dict(os.environ))
    assert (before["code"], "engrambus init" in before["hint"]) == ("PROJECT_NOT_FOUND", True)
    desk.ok("init")
    there = {**os.environ, "ENGRAMBUS_URL": "http://127.0.0.1:9"}
    no_token = _tool_call(desk, there)
    assert (no_token["code"], "engrambus agent token" in no_token["hint"]) == ("TOKEN_MISSING", True)
    gone = _tool_call(desk, {**there, "ENGRAMBUS_TOKEN": token(desk, "coder", "programmer")})
    assert (gone["code"], "engrambus up" in gone["hint"]) == ("UNREACHABLE", True)


def _tool_call(desk: Desk, env: dict[str, str], *words: str, arguments: dict[str, Any] | None = None) -> Any:
    """Put an engram through MCP; the answer, or the problem."""
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    arguments = arguments or {"claim": CLAIM, "at": ["src/parser.py:1"]}
    messages = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call",
         "params": {"name": "less_put_engram", "arguments": arguments}},
    ]  # fmt: skip
    with subprocess.Popen(
        [COMMAND, "mcp", *words],
        cwd=desk.path,
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        answers: dict[int, Any] = {}
        server.stdin.write("".join(json.dumps(each) + "\n" for each in messages).encode())
        server.stdin.flush()
        while 2 not in answers:
            line = server.stdout.readline()
            assert line, server.communicate(timeout=60)
            answer = json.loads(line)
            answers[answer.get("id", 0)] = answer
        server.communicate(timeout=60)
    answer = json.loads(answers[2]["result"]["content"][0]["text"])
    assert answers[2]["result"]["isError"] == ("code" in answer)
    return answer
