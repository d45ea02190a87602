"""A colleague logs a clone in, and every edge uses the server from then on."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from mcp.client.stdio import stdio_client

from mcp import ClientSession, StdioServerParameters
from tests.projects import commit_files, git, make_repository
from tests.team_server.machines import COMMAND, Machine, TeamServer


def stored_login(machine: Machine) -> Path:
    """Return the file of a machine's only login."""
    (path,) = (machine.home / ".local" / "state" / "engrambus" / "logins").glob("*.json")
    return path


def test_the_operator_is_told_what_is_exposed_and_how_to_add_people(server: TeamServer) -> None:  # YT-19
    assert server.started["url"] == server.url
    assert server.started["listens"] == f"{server.address}:{server.port}"
    assert server.started["local_url"].startswith("http://127.0.0.1:")


def test_a_login_serves_every_command_until_logout(server: TeamServer, stranger: Machine) -> None:  # YT-19
    assert stranger.run("query", "parser", "--json").problem["code"] == "PROJECT_NOT_FOUND"
    token = server.add_person("Berta")
    assert server.login(stranger, token).json == {
        "url": server.url, "name": "berta", "role": "person", "project": server.project,
    }  # fmt: skip
    engram = stranger.ok("put", "The parser reads lines.", "--at", "src/parser.py:1-5", "--json").json
    assert engram["provenance"]["created_by"].endswith("/berta")
    assert stranger.ok("query", "parser", "lines", "--json").json["engrams"][0]["id"] == engram["id"]
    assert "The parser reads lines." in stranger.ok("brief").out
    assert stranger.ok("task", "add", "Write the lexer", "--json").json["id"]
    assert f"server   {server.url}" in stranger.ok("whoami").out
    assert stranger.ok("logout", "--json").json == {"url": server.url}
    assert stranger.run("query", "parser", "--json").problem["code"] == "PROJECT_NOT_FOUND"
    assert not list(stored_login_folder(stranger).iterdir())


def stored_login_folder(machine: Machine) -> Path:
    return machine.home / ".local" / "state" / "engrambus" / "logins"


def test_the_token_is_private_and_not_in_the_worktree(server: TeamServer, anna: Machine) -> None:  # YT-19
    login = stored_login(anna)
    token = json.loads(login.read_bytes())["token"]
    assert stat.S_IMODE(login.stat().st_mode) == 0o600
    assert stat.S_IMODE(login.parent.stat().st_mode) == 0o700
    anna.ok("put", "The parser trusts its input.", "--at", "src/parser.py:1-5")
    found = subprocess.run(["grep", "-rl", token, str(anna.folder)], capture_output=True)
    assert found.stdout == b""
    assert git(anna.folder, "status", "--porcelain") == ""
    assert token not in server.log.read_text("utf-8")
    assert subprocess.run(["grep", "-rl", token, str(server.operator.folder)], capture_output=True).stdout == b""


def test_a_login_that_others_can_read_is_refused(anna: Machine) -> None:
    stored_login(anna).chmod(0o644)
    assert anna.run("query", "parser", "--json").problem["code"] == "LOGIN_INVALID"
    anna.ok("logout")
    assert anna.run("query", "parser", "--json").problem["code"] == "PROJECT_NOT_FOUND"


def test_a_server_of_another_project_is_refused(server: TeamServer, stranger: Machine, tmp_path: Path) -> None:
    token = server.add_person("carl")
    other = Machine(make_repository(tmp_path / "other").path, tmp_path / "other-home", stranger.prefix)
    other.ok("init", "--files-only")
    assert server.login(other, token).problem["code"] == "PROJECT_DIFFERS"
    assert not (other.home / ".local" / "state" / "engrambus" / "logins").exists()


def test_without_a_project_file_the_first_commits_tell(anna: Machine, server: TeamServer, tmp_path: Path) -> None:
    anna.ok("push")
    token = json.loads(stored_login(anna).read_bytes())["token"]
    same = Machine(tmp_path / "same", tmp_path / "same-home", anna.prefix)
    git(tmp_path, "clone", "-q", str(anna.folder), str(same.folder))
    git(same.folder, "rm", "-rq", ".catalog")
    git(same.folder, "commit", "-qm", "without the project")
    assert server.login(same, token).json["project"] == server.project
    folder = tmp_path / "different"
    git(tmp_path, "init", "-q", str(folder))
    commit_files(folder, {"a.txt": "a different beginning\n"})
    different = Machine(folder, tmp_path / "different-home", anna.prefix)
    assert server.login(different, token).problem["code"] == "PROJECT_DIFFERS"


def test_a_certificate_that_this_machine_does_not_trust_gets_no_token(server: TeamServer, stranger: Machine) -> None:
    token = server.add_person("dora")
    assert stranger.run("login", server.url, "--json", stdin=token).problem["code"] == "LISTENER_UNPROVEN"
    assert stranger.run("login", f"http://{server.address}:{server.port}", "--json", stdin=token).problem["code"] in (
        "ADDRESS_INSECURE", "LISTENER_UNPROVEN", "UNREACHABLE",
    )  # fmt: skip


def test_linked_worktrees_share_the_login_and_other_repositories_do_not(anna: Machine, tmp_path: Path) -> None:
    git(anna.folder, "worktree", "add", "-q", str(tmp_path / "linked"))
    assert anna.run("whoami", "--json", folder=tmp_path / "linked").json["role"] == "person"
    (anna.folder / "src" / "deep").mkdir()
    assert anna.run("whoami", "--json", folder=anna.folder / "src" / "deep").json["role"] == "person"
    git(tmp_path, "clone", "-q", str(anna.folder), str(tmp_path / "again"))
    assert anna.run("whoami", "--json", folder=tmp_path / "again").problem["code"] == "PROJECT_NOT_FOUND"


def test_a_token_of_the_environment_wins(server: TeamServer, anna: Machine) -> None:
    agent = server.operator.ok("agent", "add", "scout", "--role", "manager", "--token-only").out.strip()
    answer = anna.ok("whoami", "--json", env={"ENGRAMBUS_TOKEN": agent}).json
    assert (answer["name"], answer["role"]) == ("scout", "manager")


def test_a_removed_person_is_refused(server: TeamServer, stranger: Machine) -> None:
    assert server.login(stranger, server.add_person("emil")).code == 0
    server.operator.ok("person", "remove", "Emil")
    assert stranger.run("query", "parser", "--json").problem["code"] == "AGENT_REMOVED"


def test_python_programs_use_the_login(anna: Machine) -> None:  # YT-19
    program = (
        "from engrambus import Bus\n"
        "with Bus.open() as bus:\n"
        "    put = bus.put_engram(claim='Words are kept.', at=['src/wörter.py:1'])\n"
        "    print(put.pointers[0].digest, [e.claim for e in bus.query_engrams(q='words').engrams])\n"
    )
    out = anna.python(program)
    assert out.startswith("sha256:")
    assert "Words are kept." in out


def hook(machine: Machine, **event: object) -> dict[str, object]:
    """Answer one event of a client's session in a machine's clone."""
    data = {"session_id": "session-1", "cwd": str(machine.folder), **event}
    return dict(json.loads(machine.ok("hook", stdin=json.dumps(data)).out))


def test_hooks_give_a_persons_session_a_lead_of_its_own(server: TeamServer, anna: Machine) -> None:  # YT-19
    anna.ok("put", "The parser is strict about tabs.", "--at", "src/parser.py:1-5")
    started = hook(anna, hook_event_name="SessionStart", source="startup")
    text = started["hookSpecificOutput"]["additionalContext"]  # type: ignore[index]
    assert "The parser is strict about tabs." in text
    name = text.partition("Your name there is ")[2].partition(";")[0]
    rows = anna.ok("run", "list", "--json").json["runs"]
    assert [row["lead"] for row in rows if row.get("session")] == [name]
    made = hook(
        anna, hook_event_name="PreToolUse", tool_name="mcp__engrambus__less_query_engrams", tool_input={"q": "tabs"}
    )
    assert made["hookSpecificOutput"]["updatedInput"]["as"].startswith("~")  # type: ignore[index]


def test_an_mcp_client_works_through_the_login(server: TeamServer, anna: Machine) -> None:  # YT-19
    async def talk() -> tuple[str, str]:
        command = [*anna.prefix, COMMAND, "mcp"]
        parameters = StdioServerParameters(
            command=command[0], args=command[1:], env=anna.environment, cwd=str(anna.folder)
        )
        async with stdio_client(parameters) as (read, write), ClientSession(read, write) as session:
            await session.initialize()
            put = await session.call_tool(
                "less_put_engram", {"claim": "Design says what it is.", "at": ["docs/design.md:1-3"]}
            )
            found = await session.call_tool("less_query_engrams", {"q": "design"})
            return put.content[0].text, found.content[0].text  # type: ignore[union-attr]

    put, found = anyio.run(talk)
    assert "Design says what it is." in found, put
    author = server.operator.ok("query", "design", "--json").json["engrams"][0]["provenance"]["created_by"]
    assert not author.endswith("/admin")
    assert not author.rpartition("/")[2].startswith("anna")  # a lead of the session, not the person


def test_a_worker_with_a_login_says_where_workers_run(anna: Machine) -> None:
    done = anna.run("worker", "--lane", "build")
    assert done.code == 2
    assert "ENGRAMBUS_STORE" in done.err


@pytest.mark.skipif(sys.platform != "linux", reason="it names a file of the kernel")
def test_a_token_is_in_no_command_line_and_no_environment_of_git(anna: Machine) -> None:
    """A push runs git; its processes get no token."""
    token = json.loads(stored_login(anna).read_bytes())["token"]
    wrapper = anna.home / "bin"
    wrapper.mkdir()
    record = anna.home / "git-calls"
    (wrapper / "git").write_text(
        f'#!/bin/sh\necho "$@" >> {record}\nenv >> {record}\nexec /usr/bin/env -u _ {_git()} "$@"\n'
    )
    (wrapper / "git").chmod(0o755)
    commit_files(anna.folder, {"new.txt": "new\n"})
    path = f"{wrapper}:{os.environ['PATH']}"
    anna.ok("put", "The new file is new.", "--at", "new.txt:1", env={"PATH": path})
    assert "pack-objects" in record.read_text("utf-8", "replace")
    assert token not in record.read_text("utf-8", "replace")


def _git() -> str:
    import shutil

    path = shutil.which("git")
    assert path is not None
    return path
