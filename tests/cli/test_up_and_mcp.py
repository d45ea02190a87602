"""`engrambus up` and `engrambus mcp`, and `engrambus` as a client of a gateway."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import pytest

from tests.cli.runner import COMMAND, Shell
from tests.projects import commit_files, git

CLAIM = "The parser trusts its input."


@contextmanager
def up(shell: Shell, *words: str) -> Iterator[dict[str, Any]]:
    """Run `engrambus up`; yield what it printed when it was ready."""
    with subprocess.Popen(
        [COMMAND, "up", "--json", *words], cwd=shell.path, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as serving:
        assert serving.stdout is not None
        line = serving.stdout.readline()
        try:
            assert line, serving.communicate(timeout=60)
            yield json.loads(line)
        finally:
            serving.send_signal(signal.SIGINT)
            _, errors = serving.communicate(timeout=60)
        assert serving.returncode == 0
        assert b"Traceback" not in errors


def token(shell: Shell, name: str, role: str) -> str:
    """Add an agent and return its token."""
    return str(shell.ok("agent", "add", name, "--role", role, "--json").json["token"])


def test_a_server_puts_an_alarm_for_a_lane_without_a_worker(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:  # YT-06
    monkeypatch.setenv("YOOL_TUPLE_ALARM_WAIT_SECONDS", "1")
    (shell.path / "alarm_yools.py").write_text(
        'from engrambus import yool\n\nyool("agent.lint.ruff", lane="build", inputs=[])(["true"])\n'
    )
    (shell.path / "AGENTS.md").write_text("# Agents\n\n## Agents\n")
    built = shell.process("catalog", "build", "--import", "alarm_yools")
    assert built.code == 0, built
    shell.ok("out", "--lane", "build", "--yool", "agent.lint.ruff")
    with up(shell, "--no-learn"):
        ends = time.monotonic() + 60
        while "op.worker.alarm" not in shell.process("rd", "--lane", "alarm", "--json").out:
            assert time.monotonic() < ends, "no alarm followed"
            time.sleep(0.5)


def test_up_creates_a_project_and_serves_it_once(bare_shell: Shell) -> None:
    with up(bare_shell) as first:
        assert (bare_shell.path / ".catalog" / "project.yaml").exists()
        assert first["running"] is False
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/#code=[\w-]+", first["link"])
        assert (bare_shell.path / ".catalog" / "gateway.json").stat().st_mode & 0o777 == 0o600
        second = bare_shell.process("up", "--json")
        assert second.code == 0
        assert second.json["running"] is True
        assert second.json["url"] == first["url"]
        assert second.json["link"] != first["link"], "every link has a code of its own"
        printed = bare_shell.process("up")
        assert printed.out.startswith("Already serving project ")
        assert first["url"] in printed.out
    with up(bare_shell) as later:
        assert later["running"] is False


def learned_commit(shell: Shell) -> str:
    """Wait until a server has learned from the repository; return the commit."""
    for _ in range(600):
        found = shell.ok("query", "quarterly", "rounding", "--json").json
        for about in found.get("about", {}).values():
            return str(about["learned"]["commit"])
        time.sleep(0.05)
    raise AssertionError("nothing was learned")


def test_the_first_start_learns_from_the_repository(bare_shell: Shell) -> None:  # BX-09
    commit_files(bare_shell.path, {"CONTRIBUTING.md": "Quarterly rounding must never be changed without a review.\n"})
    with up(bare_shell):
        assert learned_commit(bare_shell) == git(bare_shell.path, "rev-parse", "HEAD")
    journal = bare_shell.path / ".catalog" / "memory.jsonl"
    assert journal.read_bytes().count(b'"repository.learned"') == 1
    commit_files(bare_shell.path, {"HACKING.md": "Tests must always be run before a release.\n"})
    with up(bare_shell):
        bare_shell.ok("stats")
    assert journal.read_bytes().count(b'"repository.learned"') == 1, "only an empty memory is filled"


def test_the_first_start_learns_nothing_if_it_is_told_not_to(bare_shell: Shell) -> None:  # BX-09
    with up(bare_shell, "--no-learn"):
        bare_shell.ok("stats")
    assert b"repository.learned" not in (bare_shell.path / ".catalog" / "memory.jsonl").read_bytes()


def open_session(served: dict[str, Any]) -> int:
    """Open a session of the page with the link that `up` printed; return the status of a view."""
    code = served["link"].partition("#code=")[2]
    form = urlencode({"code": code}).encode()
    with urlopen(Request(served["url"] + "/page/open", form, {"Origin": served["url"]})) as opened:
        secret = json.load(opened)["session"]
    with urlopen(Request(served["url"] + "/page/work", headers={"Engrambus-Session": secret})) as view:
        return int(view.status)


def test_sessions_of_the_page_are_listed_and_ended(shell: Shell) -> None:
    none = "No server runs for this project, so no browser is signed in.\n"
    assert shell.ok("session", "list").out == shell.ok("session", "end", "--all").out == none
    assert shell.ok("session", "list", "--json").json == {"sessions": []}
    with up(shell) as served:
        assert shell.ok("session", "list").out == "No browser is signed in.\n"
        assert open_session(served) == 200
        assert open_session(shell.process("up", "--json").json) == 200
        first, second = shell.ok("session", "list", "--json").json["sessions"]
        assert re.match(
            rf"{first['id']}  signed in (now|\d+s ago), last used .*ends in 11h\n", shell.ok("session", "list").out
        )
        assert shell.ok("session", "end", second["id"]).out == "Signed out: 1 browser.\n"
        assert shell.run("session", "end", second["id"], "--json").problem["code"] == "SESSION_NOT_FOUND"
        for words in ((), (first["id"], "--all")):
            assert shell.run("session", "end", *words).code == 2
        assert shell.ok("session", "end", "--all", "--json").json == {"ended": 1}
        assert shell.ok("session", "list", "--json").json["sessions"] == []
    assert shell.ok("session", "list").out == none


def test_sessions_are_not_asked_for_at_the_port_of_a_server_that_was_killed(shell: Shell) -> None:
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        record = {"pid": 1, "port": stranger.getsockname()[1]}
        (shell.path / ".catalog" / "gateway.json").write_text(json.dumps(record))
        assert shell.ok("session", "list", "--json").json == {"sessions": []}
        stranger.settimeout(0)
        with pytest.raises(BlockingIOError):  # nobody has connected
            stranger.accept()


def test_another_checkout_of_the_project_has_its_own_server(shell: Shell, tmp_path: Path) -> None:
    git(shell.path, "add", "-A")
    git(shell.path, "commit", "-q", "-m", "A project")
    git(tmp_path, "clone", "-q", str(shell.path), "clone")
    shell.ok("init", folder=tmp_path / "clone")
    other_checkout = Shell(shell.repository._replace(path=tmp_path / "clone"), shell.home, shell.monkeypatch)
    assert other_checkout.ok("stats", "--json").json["project"] == shell.ok("stats", "--json").json["project"]
    with up(shell) as first, up(other_checkout) as second:
        assert second["running"] is False
        assert second["url"] != first["url"]


def test_a_port_that_is_taken_is_refused(shell: Shell) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        refused = shell.process("up", "--port", str(port), "--json")
        assert refused.problem["code"] == "PORT_TAKEN"
        assert refused.problem["used"] == port


def test_a_port_that_is_taken_leaves_no_project_behind(bare_shell: Shell) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        refused = bare_shell.process("up", "--port", str(other.getsockname()[1]), "--json")
    assert refused.problem["code"] == "PORT_TAKEN"
    assert not (bare_shell.path / ".catalog").exists()
    assert not (bare_shell.home / ".local" / "state").exists()


def test_without_a_port_the_next_free_one_is_used(shell: Shell) -> None:
    with _listening_on_default(), up(shell) as serving:
        assert int(serving["url"].rpartition(":")[2]) > 7171


@contextmanager
def _listening_on_default() -> Iterator[None]:
    try:
        other = socket.create_server(("127.0.0.1", 7171))
    except OSError:  # it is taken already, which serves as well
        yield
        return
    with other:
        yield


def test_a_server_answers_like_the_files(shell: Shell) -> None:
    shell.ok("put", CLAIM, "--at", "src/parser.py:1-3", "--kind", "risk")
    lead = token(shell, "lead", "manager")
    shell.ok("agent", "add", "coder", "--parent", "lead")
    engram = shell.ok("query", "--json").json["engrams"][0]["id"]
    with up(shell) as serving:
        local_env = {"ENGRAMBUS_TOKEN": lead}
        remote_env = {**local_env, "ENGRAMBUS_URL": serving["url"]}
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
            local, remote = shell.run(*words, env=local_env), shell.run(*words, env=remote_env)
            assert _without_age(local.out) == _without_age(remote.out), words
            assert (local.code, local.err) == (remote.code, remote.err), words
        put = shell.ok("put", CLAIM, "--at", "src/parser.py:5", "--json", env=remote_env).json
        assert shell.ok("show", put["id"], "--json").json["engrams"] == [put]
        (shell.path / "engrams.jsonl").write_text(json.dumps({"claim": CLAIM, "at": ["src/parser.py:2"]}) + "\n")
        assert shell.ok("put", "--file", "engrams.jsonl", "--json", env=remote_env).json == {"stored": 1}
        missing = shell.run("query", "--json", env={"ENGRAMBUS_URL": serving["url"]}).problem
        assert missing["code"] == "TOKEN_MISSING"
        assert "ENGRAMBUS_TOKEN" in missing["detail"]
    gone = shell.run("query", "--json", env=remote_env).problem
    assert gone["code"] == "UNREACHABLE"
    assert "engrambus up" in gone["hint"]


def _without_age(text: str) -> str:
    return re.sub(r"  (now|\d+[smhdy])  |\"as_of\":\"[^\"]*\"", "  ", text)


@pytest.mark.parametrize("remote", [False, True], ids=["files", "gateway"])
def test_mcp_works_on_files_and_on_a_server(shell: Shell, remote: bool) -> None:
    env = {**os.environ, "ENGRAMBUS_TOKEN": token(shell, "coder", "programmer")}
    if not remote:
        assert _tool_call(shell, env)["provenance"]["created_by"].endswith("/coder")
        return
    with up(shell) as serving:
        assert _tool_call(shell, {**env, "ENGRAMBUS_URL": serving["url"]})["claim"] == CLAIM


def test_mcp_with_as_serves_that_agent_and_its_descendants_only(shell: Shell) -> None:
    token(shell, "lead", "manager")
    shell.ok("agent", "add", "child", "--parent", "lead")
    token(shell, "stranger", "programmer")
    env = dict(os.environ)
    for speak_as, name in ((None, "lead"), ("child", "child")):
        claim = {"claim": f"{name} says so.", "at": ["src/parser.py:1"]} | ({"as": speak_as} if speak_as else {})
        put = _tool_call(shell, env, "--as", "lead", arguments=claim)
        assert put["provenance"]["created_by"].endswith(f"/{name}")
    for speak_as, code in (("stranger", "NOT_YOUR_DESCENDANT"), ("admin", "AGENT_NOT_FOUND")):
        claim = {"claim": "Not mine to say.", "at": ["src/parser.py:1"], "as": speak_as}
        assert _tool_call(shell, env, "--as", "lead", arguments=claim)["code"] == code
    unknown = _tool_call(shell, env, "--as", "nobody", arguments={"claim": "x", "at": ["src/parser.py:1"]})
    assert unknown["code"] == "AGENT_NOT_FOUND"


def test_mcp_reports_a_missing_project_or_token_in_its_answers(bare_shell: Shell) -> None:
    shell = bare_shell
    no_project = _tool_call(shell, dict(os.environ))
    assert (no_project["code"], "engrambus init" in no_project["hint"]) == ("PROJECT_NOT_FOUND", True)
    shell.ok("init")
    unreachable = {**os.environ, "ENGRAMBUS_URL": "http://127.0.0.1:9"}
    no_token = _tool_call(shell, unreachable)
    assert (no_token["code"], "engrambus agent token" in no_token["hint"]) == ("TOKEN_MISSING", True)
    gone = _tool_call(shell, {**unreachable, "ENGRAMBUS_TOKEN": token(shell, "coder", "programmer")})
    assert (gone["code"], "engrambus up" in gone["hint"]) == ("UNREACHABLE", True)


def _tool_call(shell: Shell, env: dict[str, str], *words: str, arguments: dict[str, Any] | None = None) -> Any:
    """Put an engram through MCP; return the answer or the error."""
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    arguments = arguments or {"claim": CLAIM, "at": ["src/parser.py:1"]}
    messages = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call",
         "params": {"name": "less_put_engram", "arguments": {**arguments, "full": True}}},
    ]  # fmt: skip
    with subprocess.Popen(
        [COMMAND, "mcp", *words],
        cwd=shell.path,
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        answers: dict[int, Any] = {}
        server.stdin.write("".join(json.dumps(message) + "\n" for message in messages).encode())
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
