"""Who calls over standard input and output: `engrambus mcp` as `install` writes it, with a real client."""  # EB-31

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Coroutine
from typing import Any, get_args

import anyio
import pytest

from engrambus.edges.cli.commands.start import LEAD_ROLES, MAX_SESSION_TURNS
from engrambus.edges.sdk import Bus
from engrambus.policy import LeadRole
from engrambus.policy.marks import Mark, MarkKey
from engrambus.policy.membership import MAX_SESSION_TURNS as POLICY_MAX_SESSION_TURNS
from mcp import Client, StdioServerParameters
from tests.cli.conftest import bare_shell, shell
from tests.cli.runner import COMMAND, Shell
from tests.mcp.transports import problem_of

__all__ = ["bare_shell", "shell"]

Talk = Callable[[Client], Coroutine[Any, Any, None]]


def serve(shell: Shell, talk: Talk, *words: str, **environment: str) -> None:
    """Let `talk` use a client of `engrambus mcp`."""

    async def main() -> None:
        server = StdioServerParameters(
            command=COMMAND, args=["mcp", *words], cwd=shell.path, env={**os.environ, **environment}
        )
        async with Client(server, mode="legacy") as client:
            with anyio.fail_after(60):
                await talk(client)

    anyio.run(main)


def put_claims(*claims: str, **more: str) -> Talk:
    """Return a talk that puts claims; none may be refused."""

    async def talk(client: Client) -> None:
        for claim in claims:
            result = await client.call_tool("less_put_engram", {"claim": claim, "at": ["src/parser.py:1"], **more})
            assert not result.is_error, result

    return talk


def refused_put(code: str, **more: str) -> Talk:
    """Return a talk whose put must be refused with a code."""

    async def talk(client: Client) -> None:
        arguments = {"claim": "Nobody may say so.", "at": ["src/parser.py:1"], **more}
        assert problem_of(await client.call_tool("less_put_engram", arguments))["code"] == code

    return talk


def authors(shell: Shell) -> dict[str, str]:
    """Return the author of each claim."""
    with Bus.open(shell.path) as bus:
        return {engram.claim: engram.provenance.created_by for engram in bus.query_engrams().engrams}


def runs(shell: Shell) -> list[dict[str, Any]]:
    """Return the project's runs, newest first."""
    rows: list[dict[str, Any]] = shell.ok("run", "list", "--json").json["runs"]
    return rows


def agents(shell: Shell, run: str) -> list[dict[str, Any]]:
    """Return the agents of a run."""
    rows: list[dict[str, Any]] = shell.ok("agent", "list", "--run", run, "--json").json["agents"]
    return rows


def test_a_client_without_a_token_is_a_lead_with_a_run_of_its_own(shell: Shell) -> None:
    (first,) = runs(shell)
    serve(shell, put_claims("The parser is one.", "The parser is two."))
    session, original = runs(shell)
    assert (session["goal"], session["session"], session["current"]) == (
        f"MCP session in {shell.path.name}",
        True,
        False,
    )
    assert original == first, "others keep their current run"
    (lead,) = agents(shell, session["run_id"])
    assert (lead["role"], lead.get("parent"), lead.get("session_turns", 1)) == ("architect", None, 1)
    assert len(lead["agent_id"].split("-")) == 2
    assert set(authors(shell).values()) == {f"{session['run_id']}/{lead['agent_id']}"}
    serve(shell, put_claims("The parser is three."))
    assert len({author.partition("/")[0] for author in authors(shell).values()}) == 2, "another process, another run"


def test_a_lead_is_added_only_when_a_call_needs_it(shell: Shell) -> None:
    before = runs(shell)

    async def talk(client: Client) -> None:
        await client.list_tools()
        assert (await client.call_tool("less_put_engram", {"claim": 7})).is_error
        assert (await client.call_tool("no_such_tool", {})).is_error

    serve(shell, talk)
    assert runs(shell) == before


def test_calls_at_once_make_one_lead(shell: Shell) -> None:
    async def talk(client: Client) -> None:
        async with anyio.create_task_group() as group:
            for number in range(8):
                group.start_soon(put_claims(f"The parser has part {number}."), client)

    serve(shell, talk)
    assert len(runs(shell)) == 2
    assert len(set(authors(shell).values())) == 1


def test_a_lead_is_bound_by_the_budget_of_a_turn(shell: Shell) -> None:
    pointer = {"pointer": f"repo:src/parser.py#L1-L2@{shell.repository.sha}"}

    async def talk(client: Client) -> None:
        answers = [await client.call_tool("less_deref_pointer", pointer) for _ in range(6)]
        assert [answer.is_error for answer in answers] == [False] * 3 + [True] * 3
        assert problem_of(answers[-1])["code"] == "LESS_DEREF_DENIED"

    serve(shell, talk)


@pytest.mark.parametrize("name", ["admin", "boss", "kid", "coder"])
def test_a_lead_speaks_for_no_agent_of_another_run(shell: Shell, name: str) -> None:
    shell.ok("agent", "add", "boss", "--role", "architect")
    shell.ok("agent", "add", "kid", "--parent", "boss")
    run = runs(shell)[0]["run_id"]
    for spelled in (name, f"{run}/{name}", f"{run}/../{name}", f"{name}~mark"):
        serve(shell, refused_put("AGENT_NOT_FOUND", **{"as": spelled}))


def test_the_role_of_a_lead_is_chosen_up_to_what_the_policy_allows(shell: Shell) -> None:
    serve(shell, put_claims("A director says so."), "--role", "director", "--session-turns", "4")
    (lead,) = agents(shell, runs(shell)[0]["run_id"])
    assert (lead["role"], lead["session_turns"]) == ("director", 4)
    policy = shell.path / ".catalog" / "policy.yaml"
    policy.write_text("lead_role: manager\n")
    shell.ok("policy", "apply")
    serve(shell, put_claims("A manager says so."))
    assert agents(shell, runs(shell)[0]["run_id"])[0]["role"] == "manager"
    serve(shell, refused_put("ROLE_FORBIDDEN"), "--role", "director")
    assert "Nobody may say so." not in authors(shell)


def test_a_lead_joins_the_run_that_was_chosen(shell: Shell) -> None:
    run = runs(shell)[0]["run_id"]
    serve(shell, put_claims("The run was chosen."), "--run", run)
    assert len(runs(shell)) == 1
    (author,) = authors(shell).values()
    assert author.startswith(f"{run}/")


def hook_value(shell: Shell, session: str, **more: str) -> str:
    """Return the value of `as` that the hook of Claude Code sets on a call."""
    event = {
        "hook_event_name": "PreToolUse",
        "session_id": session,
        "cwd": str(shell.path),
        "tool_name": "mcp__engrambus__less_put_engram",
        "tool_input": {},
        **more,
    }
    answer = shell.process("hook", stdin=json.dumps(event).encode()).json
    value: str = answer["hookSpecificOutput"]["updatedInput"]["as"]
    return value


def test_a_call_that_a_hook_missed_is_that_of_the_sessions_lead(shell: Shell) -> None:
    lead = hook_value(shell, "session-1")
    child = hook_value(shell, "session-1", agent_id="sub-1", agent_type="Explore")
    other = hook_value(shell, "session-2")

    async def talk(client: Client) -> None:
        await put_claims("The child says so.", **{"as": child})(client)
        await put_claims("A hook has failed.")(client)
        await put_claims("The lead says so.", **{"as": lead})(client)
        await put_claims("The other lead says so.", **{"as": other})(client)
        await put_claims("Its hook has failed, too.")(client)

    serve(shell, talk)
    by = authors(shell)
    assert by["A hook has failed."] == by["The lead says so."] != by["The child says so."]
    assert by["Its hook has failed, too."] == by["The other lead says so."] != by["The lead says so."]
    assert len(runs(shell)) == 3, "no lead was made for the process"
    run, _, name = by["The child says so."].partition("/")
    assert {row["agent_id"]: row.get("parent") for row in agents(shell, run)} == {
        by["The lead says so."].partition("/")[2]: None,
        name: by["The lead says so."].partition("/")[2],
    }


def test_a_hook_that_begins_late_takes_over_from_the_lead_of_the_process(shell: Shell) -> None:
    marked = hook_value(shell, "session-1")

    async def talk(client: Client) -> None:
        await put_claims("Before any hook.")(client)
        await put_claims("With a hook.", **{"as": marked})(client)
        await put_claims("After a hook.")(client)

    serve(shell, talk)
    by = authors(shell)
    assert by["Before any hook."] != by["With a hook."] == by["After a hook."]


def test_a_sub_agent_called_like_a_high_role_joins_below_a_low_lead(shell: Shell) -> None:
    (shell.path / ".catalog" / "policy.yaml").write_text("lead_role: manager\n")
    shell.ok("policy", "apply")
    event = {
        "hook_event_name": "SubagentStart",
        "session_id": "session-1",
        "agent_id": "sub-1",
        "agent_type": "director",
        "cwd": str(shell.path),
    }
    assert shell.process("hook", stdin=json.dumps(event).encode()).code == 0
    assert [row["role"] for row in agents(shell, runs(shell)[0]["run_id"])] == ["manager", "programmer"]


@pytest.mark.parametrize("place", ["", "session-1"])
def test_no_mark_makes_a_caller_the_admin(shell: Shell, place: str) -> None:
    folder = next((shell.home / ".local" / "state" / "engrambus").glob("*/token.key")).parent
    forged = MarkKey.load(folder).make(Mark(place, "", "admin"), time.time_ns() // 1000)
    alone = MarkKey.load(folder).make(Mark("", ""), time.time_ns() // 1000)

    async def talk(client: Client) -> None:
        for value in (forged, alone):
            await client.call_tool("less_put_engram", {"claim": "Who says so?", "at": ["src/parser.py:1"], "as": value})

    serve(shell, talk)
    assert not any(author.endswith("/admin") for author in authors(shell).values())


def test_admin_is_written_out_by_hand(shell: Shell) -> None:
    serve(shell, put_claims("A person says so."), "--admin")
    (author,) = authors(shell).values()
    assert author.endswith("/admin")
    assert len(runs(shell)) == 1
    token = shell.ok("agent", "add", "coder", "--json").json["token"]
    for words, env in (
        (["--role", "manager"], {}),
        (["--session-turns", "2"], {}),
        (["--as", "coder"], {}),
        ([], {"ENGRAMBUS_TOKEN": token}),
        ([], {"ENGRAMBUS_URL": "http://127.0.0.1:9"}),
    ):
        result = shell.run("mcp", "--admin", *words, env=env)
        assert (result.code, "--admin" in result.err) == (2, True), (words, env)


def test_a_token_is_the_route_of_headless_orchestrators(shell: Shell) -> None:
    token = shell.ok("agent", "add", "boss", "--role", "manager", "--json").json["token"]
    shell.ok("agent", "add", "kid", "--parent", "boss")
    options = ("--session-turns", "4", "--role", "architect")
    serve(shell, put_claims("The boss says so."), *options, ENGRAMBUS_TOKEN=token)
    serve(shell, put_claims("The kid says so.", **{"as": "kid"}), ENGRAMBUS_TOKEN=token)
    assert {claim: author.partition("/")[2] for claim, author in authors(shell).items()} == {
        "The boss says so.": "boss",
        "The kid says so.": "kid",
    }
    assert len(runs(shell)) == 1
    serve(shell, refused_put("TOKEN_INVALID"), ENGRAMBUS_TOKEN="engrambus1.forged.token")  # nobody's


def test_the_options_are_those_of_the_policy() -> None:
    assert get_args(LeadRole) == LEAD_ROLES
    assert MAX_SESSION_TURNS == POLICY_MAX_SESSION_TURNS


@pytest.mark.skipif(sys.platform == "darwin", reason="APFS refuses such names")
@pytest.mark.parametrize("name", [b"bad-\xff-bytes", b"AKIAIOSFODNN7EXAMPL3", b"x" * 220])
def test_a_folder_of_any_name_can_be_served(shell: Shell, name: bytes) -> None:
    folder = os.fsdecode(bytes(shell.path) + b"/" + name)
    os.mkdir(folder)  # the name is no text
    serve(shell, put_claims("It can be served."), "--project", folder)
    assert runs(shell)[0]["goal"].startswith("MCP session")
    assert len(runs(shell)) == 2
