"""A team over standard input and output, a process for each agent: reports, requests, grants, answers, peers."""
# EB-16, EB-32, EB-34

from __future__ import annotations

import re
import sys
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import anyio
from mcp.types import CallToolResult

from engrambus.gateway import LOCAL_ADMIN, Credential, Gateway
from engrambus.operations import OPERATIONS
from mcp import Client, StdioServerParameters
from tests.mcp.transports import SERVER_ENVIRONMENT, problem_of, server_arguments, text_of
from tests.projects import Repository

REPORT = """\
ROLE: programmer
TASK_STATUS: done
ENGRAMS:
  - kind: risk
    claim: The parser reads past the end.
    scope: run
    pointers: [{pointer}]
OUTPUT:
  summary: The parser is checked.
"""
BROADCAST = """\
ROLE: manager
SHARED_BRIEF_MICRO: ["Goal: a parser that stops."]
TARGET_POINTER_PACK:
  - {{ type: repo, ref: "{pointer}", for: paul }}
INSTRUCTIONS: ["Begin with the tests."]
"""
ID = re.compile(r"\b01[0-9A-Z]{11,24}\b")


class TeamMember:
    """An agent with a process and a client of its own."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def call(self, tool: str, **arguments: Any) -> str:
        """Return the text of an answer."""
        result = await self.result(tool, **arguments)
        assert not result.is_error, text_of(result)
        return text_of(result)

    async def refusal(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Return the problem of a refused call."""
        return problem_of(await self.result(tool, **arguments))

    async def result(self, tool: str, **arguments: Any) -> CallToolResult:
        """Call a tool."""
        return await self._client.call_tool(tool, arguments)


def add(gateway: Gateway, name: str, role: str, opener: Credential = LOCAL_ADMIN) -> str:
    """Add an agent and return its token."""
    operation = OPERATIONS["add_agent"]
    token: str = gateway.call(operation, operation.request(name=name, role=role), opener).token
    return token


def work_together(repository: Repository, tokens: list[str], work: Callable[..., Awaitable[None]]) -> None:
    """Start a server process for each token and let `work` use a client of each."""

    async def main() -> None:
        async with AsyncExitStack() as stack:
            members = []
            for token in tokens:
                server = StdioServerParameters(
                    command=sys.executable, args=server_arguments(repository, token), env=SERVER_ENVIRONMENT
                )
                members.append(TeamMember(await stack.enter_async_context(Client(server, mode="2026-07-28"))))
            with anyio.fail_after(120):
                await work(*members)

    anyio.run(main)


def test_a_lead_and_two_children_work_through_their_inboxes(gateway: Gateway, repository: Repository) -> None:
    lead_token = add(gateway, "lead", "manager")
    lead_credential = Credential(token=lead_token)
    tokens = [lead_token, *(add(gateway, name, "programmer", lead_credential) for name in ("paul", "pia"))]
    pointer = f"repo:src/parser.py#L1-L2@{repository.sha}"

    async def work(lead: TeamMember, paul: TeamMember, pia: TeamMember) -> None:
        assert await lead.call("less_inbox") == "No new mail."

        sent = await lead.call(
            "less_inbox", action="broadcast", text=BROADCAST.format(pointer=pointer), to=["programmer"]
        )
        assert sent.endswith("sent to paul, pia")
        # A client without hooks is told once, with its next answer.
        assert (await paul.call("less_query_engrams")).endswith("\nmail: 1 waiting, less_inbox")
        assert "mail:" not in await paul.call("less_query_engrams")
        line = await paul.call("less_inbox")
        assert re.fullmatch(r"01[0-9A-Z]{11} broadcast from lead, just now: Goal: a parser that stops\.", line)
        whole = await paul.call("less_inbox", action="read", id=line.split()[0])
        assert "Begin with the tests." in whole
        assert "src/parser.py" in whole
        theirs = await pia.call("less_inbox", action="read", id=line.split()[0])
        assert "src/parser.py" not in theirs, "the pack is for paul"

        draft = REPORT.format(pointer=pointer)
        assert (await paul.call("less_inbox", action="validate", text=draft)).startswith("It would be accepted.")
        await paul.call("less_message", text=draft)
        await paul.call("less_request_deref", pointer="src/parser.py:1-9", reason="To see the loop.", max_tokens=300)
        await pia.call("less_request_deref", pointer="src/parser.py:1-9", reason="To see it, too.", max_tokens=300)
        report, first, second = (await lead.call("less_inbox")).split("\n")
        assert report.endswith("message from paul, just now, done: The parser is checked. (1 engram)")
        assert "request from paul" in first
        whole = await lead.call("less_inbox", action="read", id=report.split()[0])
        (engram,) = ID.findall(whole.rpartition("engrams: ")[2])
        promoted = await lead.call("less_inbox", action="promote", id=engram)
        assert "stored at project" in promoted
        await lead.call("less_inbox", action="approve", id=first.split()[0])
        assert (await lead.call("less_inbox", action="decline", id=second.split()[0])).endswith("is declined")
        assert (await lead.call("less_inbox")).startswith("No new mail.\nseen before:\n")

        assert "grant from lead, just now: You may read src/parser.py:1-9@" in await paul.call("less_inbox")
        assert "denial from lead, just now: You may not read src/parser.py:1-9@" in await pia.call("less_inbox")
        for action, fields in (
            ("broadcast", {"text": draft}),
            ("approve", {"id": engram}),
            ("promote", {"id": engram}),
        ):
            assert (await paul.refusal("less_inbox", action=action, **fields))["code"] == "ROLE_FORBIDDEN"
        assert (await paul.refusal("less_inbox", action="delete"))["field"] == "action"
        assert (await paul.refusal("less_inbox", action="read", id="01K7Z3V5QX000"))["code"] == "MAIL_NOT_FOUND"
        assert (await paul.refusal("less_inbox", action="list", id="01K7Z3V5QX000"))["code"] == "FIELD_UNKNOWN"

    work_together(repository, tokens, work)


def test_two_leads_without_a_common_parent_exchange_a_message(gateway: Gateway, repository: Repository) -> None:
    tokens = []
    for name in ("ada", "ben"):
        opened = OPERATIONS["open_run"]
        run = gateway.call(opened, opened.request(goal=f"session of {name}"), LOCAL_ADMIN).run_id
        tokens.append(add(gateway, name, "architect", Credential(local_admin=True, run=run)))
    kid = add(gateway, "kid", "programmer", Credential(token=tokens[0]))

    async def work(ada: TeamMember, ben: TeamMember, kid: TeamMember) -> None:
        unknown = await ada.refusal("less_message", text="Are you there?", to="bern")
        assert "ben" in unknown["hint"]
        sent = await ada.call("less_message", text="I rename src/parser.py today; please wait.", to="ben")
        assert re.search(r" sent to [0-9A-Z]{26}/ben; turn 1 is open", sent)
        assert (await ben.call("less_query_engrams")).endswith("mail: 1 waiting, less_inbox")
        line = await ben.call("less_inbox")
        assert line.endswith("note from ada, just now: I rename src/parser.py today; please wait.")
        await ben.call("less_message", text="Fine, I wait.", to="ada")
        assert "note from ben, just now: Fine, I wait." in await ada.call("less_inbox")
        refused = await kid.refusal("less_message", text="Hello.", to="ben")
        assert (refused["code"], "'ada'" in refused["detail"]) == ("NOT_YOUR_PEER", True)
        assert await kid.call("less_inbox") == "No new mail."

    work_together(repository, [*tokens, kid], work)
