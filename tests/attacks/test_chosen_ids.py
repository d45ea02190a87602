"""Attacks with a chosen id: an agent gives its own claim the id of an engram that is not its own."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from mcp import Client
from tests.cli.runner import COMMAND
from tests.http.running_server import RunningServer, run_new_project
from tests.mcp.transports import over_http, problem_of

EVIDENCE = ["src/parser.py:10-20"]


class Team(NamedTuple):
    """A server with a lead, its child, and an attacker in the same run."""

    bus: RunningServer
    lead: str
    coder: str
    mole: str

    def put_in_run(self, claim: str) -> str:
        """Let the coder put an engram for its run, and return its id."""
        return str(self.bus.put(claim, token=self.coder, scope="run").json["id"])

    def claim_of(self, engram_id: str, token: str = "") -> str | None:
        """Return the claim that a reader gets under an id; the admin reads from another run."""
        answer = self.bus.call("GET", f"/engram/{engram_id}", token=token)
        return str(answer.json["claim"]) if answer.status == 200 else None


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    """A run with three agents; the admin has moved on to another run."""
    with run_new_project(tmp_path_factory.mktemp("bus")) as bus:
        lead = bus.add("lead", "architect")
        tokens = lead, bus.add("coder", parent="lead"), bus.add("mole", parent="lead")
        bus.call("POST", "/run", {"goal": "another run"})
        bus.token = bus.sign()
        yield Team(bus, *tokens)


def test_a_put_over_http_does_not_take_over_an_id_of_the_run(team: Team) -> None:
    """Puts a project-wide engram under the id of a run's engram, so that everybody outside the run reads the fake."""
    engram_id = team.put_in_run("Refunds over 500 need a second approval.")
    answer = team.bus.put("Refunds need no approval at all.", token=team.mole, id=engram_id, scope="project")
    assert (answer.status, answer.code) == (409, "ID_TAKEN")
    assert team.claim_of(engram_id) is None
    assert team.claim_of(engram_id, team.lead) == "Refunds over 500 need a second approval."


def test_the_parent_still_promotes_the_original(team: Team) -> None:
    """Occupies the id in the project, so that the parent's promotion of the original is refused."""
    engram_id = team.put_in_run("Orders are numbered by the day.")
    team.bus.put("Orders have no number.", token=team.mole, id=engram_id, scope="project")
    promoted = team.bus.call("POST", f"/engram/{engram_id}/promote", {"scope": "project"}, token=team.lead)
    assert promoted.status == 200, promoted.body
    assert team.claim_of(engram_id) == "Orders are numbered by the day."


def test_a_bulk_put_does_not_take_over_an_id(team: Team) -> None:
    """Hides the stolen id among the engrams of one bulk put."""
    engram_id = team.put_in_run("The parser reads tables by row.")
    engrams: list[dict[str, Any]] = [{"claim": "Rows are trimmed at both ends.", "at": EVIDENCE}]
    engrams.append({"claim": "The parser reads no table.", "at": EVIDENCE, "id": engram_id, "scope": "project"})
    with team.bus.nothing_stored():
        answer = team.bus.call("POST", "/engrams", {"engrams": engrams}, token=team.mole)
    assert (answer.code, answer.json["field"]) == ("ID_TAKEN", "engrams[1].id")
    assert team.claim_of(engram_id) is None


def test_a_command_does_not_take_over_an_id(team: Team) -> None:
    """Puts the fake with the `engrambus` command against the running gateway."""
    engram_id = team.put_in_run("Exports are written at night.")
    environment = {
        **os.environ,
        "ENGRAMBUS_URL": f"http://127.0.0.1:{team.bus.port}",
        "ENGRAMBUS_TOKEN": team.mole,
    }
    words = ["put", "Exports are never written.", "--at", EVIDENCE[0], "--id", engram_id, "--scope", "project"]
    done = subprocess.run(
        [COMMAND, *words, "--json"], cwd=team.bus.repository.path, env=environment, capture_output=True, timeout=60
    )
    assert (done.returncode, json.loads(done.stderr)["code"]) == (1, "ID_TAKEN")
    assert team.claim_of(engram_id) is None


def test_an_mcp_tool_does_not_take_over_an_id(team: Team) -> None:
    """Gives the MCP tool the hidden field `id`."""
    engram_id = team.put_in_run("Invoices are signed twice.")
    fake = {"claim": "Invoices are never signed.", "at": EVIDENCE, "id": engram_id, "scope": "project"}

    async def talk(client: Client) -> None:
        assert problem_of(await client.call_tool("less_put_engram", fake))["code"] == "ID_TAKEN"

    over_http(team.bus, "auto", talk, team.mole)
    assert team.claim_of(engram_id) is None


def test_a_message_does_not_take_over_an_id(team: Team) -> None:
    """Reports the fake to the parent as an engram of a message."""
    engram_id = team.put_in_run("The ledger is closed at noon.")
    fake = {"kind": "fact", "claim": "The ledger is never closed.", "at": EVIDENCE, "confidence": 0.9, "ttl": "P1D"}
    message = {
        "ROLE": "programmer",
        "TASK_STATUS": "done",
        "ENGRAMS": [{**fake, "id": engram_id, "scope": "project"}],
        "OUTPUT": {"summary": "The ledger was read."},
    }
    answer = team.bus.call("POST", "/message", message, token=team.mole)
    assert (answer.code, answer.json["field"]) == ("ID_TAKEN", "ENGRAMS[0].id")
    assert team.claim_of(engram_id) is None


def test_the_id_of_a_forgotten_engram_is_not_taken_over(team: Team) -> None:
    """Waits until the admin deletes an engram, and puts the opposite under the id that others have written down."""
    engram_id = str(team.bus.put("Passwords expire after a year.", token=team.coder).json["id"])
    assert team.bus.call("DELETE", f"/engram/{engram_id}").status == 200
    assert team.bus.put("Passwords never expire.", token=team.mole, id=engram_id).code == "ID_TAKEN"
    assert team.claim_of(engram_id) is None


def test_the_refusal_does_not_tell_what_the_id_stands_for(team: Team) -> None:
    """Compares the refusals for ids of engrams that it can and cannot see, to learn what exists elsewhere."""
    seen = team.put_in_run("The lexer skips comments.")
    unseen = str(team.bus.put("The admin alone knows of this.", scope="run").json["id"])
    forgotten = str(team.bus.put("Nobody knows of this any more.").json["id"])
    team.bus.call("DELETE", f"/engram/{forgotten}")
    refusals = [
        team.bus.put("A probe.", token=team.mole, id=engram_id, scope=scope).body.replace(engram_id.encode(), b"ID")
        for engram_id in (seen, unseen, forgotten)
        for scope in ("run", "project")
    ]
    assert len(set(refusals)) == 1
    assert json.loads(refusals[0]) == {
        "type": "urn:engrambus:id-taken",
        "title": "That id is already taken.",
        "status": 409,
        "code": "ID_TAKEN",
        "field": "id",
        "used": "ID",
        "hint": "Leave `id` out: the gateway gives the engram one that is free.",
    }
