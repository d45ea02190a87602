"""Attacks with tokens and grants: outliving what was allowed, and living on after the run or the agent has ended."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from engrambus.core import parse_time
from engrambus.policy.marks import Mark, MarkKey
from tests.cli.runner import COMMAND
from tests.http.running_server import Answer, RunningServer, run_new_project

DAY_US = 86_400_000_000
EVERY_READ = (
    "/engram/query?q=parser",
    "/agent",
    "/inbox",
    "/brief",
    "/grant",
    "/token",
    "/stats",
    "/catalog",
    "/metrics",
)
POINTER = {"pointer": "src/parser.py:1-3"}
MCP_HEADERS = {"Accept": "application/json, text/event-stream"}


class Team(NamedTuple):
    """A server with a lead, its child and its grandchild, in a run of their own."""

    bus: RunningServer
    run: str
    lead: str
    boss: str
    coder: str

    def refusals(self, token: str) -> set[str]:
        """Return the codes that a token gets from every kind of request; `ok` if one is answered."""
        answers = [self.bus.call("GET", target, token=token) for target in EVERY_READ]
        answers.append(self.bus.call("POST", "/pointer/deref", POINTER, token=token))
        answers.append(self.bus.call("POST", "/agent/coder/token", {}, token=token))
        answers.append(self.bus.put("It is still here.", token=token))
        answers.append(self.bus.call("GET", "/events?limit=1", token=token, headers={"Accept": "application/json"}))
        answers.append(_list_tools(self.bus, token))
        return {"ok" if answer.status < 400 else answer.code for answer in answers} | {self.command(token)}

    def command(self, token: str) -> str:
        """Return the code that the command line gets with a token."""
        url = f"http://127.0.0.1:{self.bus.port}"
        environment = {**os.environ, "ENGRAMBUS_URL": url, "ENGRAMBUS_TOKEN": token}
        words = [COMMAND, "query", "parser", "--json"]
        done = subprocess.run(words, cwd=self.bus.repository.path, env=environment, capture_output=True, timeout=60)
        return str(json.loads(done.stderr)["code"]) if done.returncode else "ok"

    def token(self, name: str, token: str = "", **fields: Any) -> Answer:
        """Ask for another token."""
        return self.bus.call("POST", f"/agent/{name}/token", fields, token=token)


def _list_tools(bus: RunningServer, token: str) -> Answer:
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    return bus.call("POST", "/mcp", message, token=token, headers=MCP_HEADERS)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A gateway."""
    with run_new_project(tmp_path_factory.mktemp("bus")) as bus:
        yield bus


@pytest.fixture
def team(served: RunningServer) -> Team:
    """A run with three agents."""
    run = served.call("POST", "/run", {"goal": "attacks"}).json["run_id"]
    served.token = served.sign()
    lead = served.add("lead", "architect")
    return Team(served, run, lead, served.add("boss", "manager", parent="lead"), served.add("coder", parent="boss"))


def _days(answer: Answer) -> float:
    """Return how many days from now a new token or grant lives."""
    assert answer.status == 200, answer.body
    now_us = parse_time(answer.json["as_of"]) if "as_of" in answer.json else None
    return (parse_time(answer.json["expires_at"]) - (now_us or _now_us())) / DAY_US


def _now_us() -> int:
    from engrambus.core import SystemClock

    return SystemClock().now()


def test_no_token_is_issued_for_longer_than_the_ceiling(team: Team) -> None:
    """Asks, as an architect and as its parent, for a token that lives for 9,999 days."""
    for token in (team.lead, ""):
        answer = team.token("lead", token, expires_in="P9999D")
        assert (answer.status, answer.code) == (422, "LIFETIME_TOO_LONG")
        assert answer.json["field"] == "expires_in"
        assert answer.json["limit"]


def test_an_agent_does_not_renew_itself_for_ever(team: Team) -> None:
    """Renews its own token again and again, always with the newest one, each time for as long as it gets."""
    token, last = team.lead, 0.0
    for _ in range(5):
        answer = team.token("lead", token)
        token, last = answer.json["token"], _days(answer)
    assert last <= 90
    assert team.token("lead", token, expires_in="P90D").code == "LIFETIME_TOO_LONG"
    assert _days(team.token("lead", expires_in="P90D")) > 89  # the admin issues afresh


def test_no_grant_is_issued_for_longer_than_the_ceiling(team: Team) -> None:
    """Issues a grant for 9,999 days, and passes a grant on for longer than it lives."""
    grant = {"child_id": "boss", "pointer": "src/parser.py"}
    answer = team.bus.call("POST", "/grant", {**grant, "expires_in": "P9999D"}, token=team.lead)
    assert (answer.status, answer.code, answer.json["field"]) == (422, "LIFETIME_TOO_LONG", "expires_in")
    issued = team.bus.call("POST", "/grant", {**grant, "expires_in": "PT1H"}, token=team.lead).json
    passed = {"child_id": "coder", "budget_token": issued["budget_token"], "expires_in": "P2D"}
    assert team.bus.call("POST", "/grant/narrow", passed, token=team.boss).code == "GRANT_WIDER"
    asked = {"pointer": "src/parser.py:1-3", "reason": "To read it."}
    request = team.bus.call("POST", "/pointer/request", asked, token=team.coder).json["request_id"]
    answer = team.bus.call("POST", f"/pointer/request/{request}/approve", {"expires_in": "P9999D"}, token=team.boss)
    assert answer.code == "LIFETIME_TOO_LONG"


def test_an_ended_run_gives_its_agents_nothing(team: Team) -> None:
    """Uses the tokens of a run that has ended: to read, to dereference, to get a new token, to follow events."""
    assert team.bus.call("POST", f"/run/{team.run}/end", {}).status == 200
    assert team.refusals(team.lead) == {"RUN_ENDED"}
    assert team.refusals(team.coder) == {"RUN_ENDED"}
    assert team.token(f"{team.run}/lead").code == "RUN_ENDED"


def test_a_removed_agent_and_its_descendants_get_nothing(team: Team) -> None:
    """Goes on with a token after the agent was removed, and with the token of a child that the agent had added."""
    removed = team.bus.call("POST", "/agent/boss/remove", {}, token=team.lead)
    assert (removed.status, removed.json["removed"]) == (200, ["boss", "coder"])
    assert team.refusals(team.boss) == {"AGENT_REMOVED"}
    assert team.refusals(team.coder) == {"AGENT_REMOVED"}
    assert team.bus.call("GET", "/agent", token=team.lead).json["agents"][0]["agent_id"] == "lead"


def test_a_removed_agent_does_not_come_back_under_its_name(team: Team) -> None:
    """Has its name given to a new agent, so that its old token fits again."""
    team.bus.call("POST", "/agent/coder/remove", {}, token=team.boss)
    added = team.bus.call("POST", "/agent", {"name": "coder", "role": "programmer", "parent": "boss"})
    assert added.code == "AGENT_EXISTS"
    assert team.token("coder", team.boss).code == "AGENT_REMOVED"
    assert team.bus.call("GET", "/inbox?as=coder", token=team.lead).code == "AGENT_REMOVED"
    assert team.refusals(team.coder) == {"AGENT_REMOVED"}


def test_an_agent_removes_only_its_descendants(team: Team) -> None:
    """Removes its parent, its sibling and itself."""
    other = team.bus.add("other", "manager", parent="lead")
    for name, token in (("lead", team.boss), ("boss", other), ("boss", team.boss), ("coder", other)):
        answer = team.bus.call("POST", f"/agent/{name}/remove", {}, token=token)
        assert answer.code in ("NOT_YOUR_DESCENDANT", "ROLE_FORBIDDEN"), (name, answer.body)
    assert len(team.bus.call("GET", "/agent", token=team.lead).json["agents"]) == 4


def test_the_mark_of_a_hook_does_not_revive_a_removed_agent(team: Team) -> None:
    """Speaks for a removed sub-agent of a session with the marks that the client's hook still makes."""
    added = {"client_id": "sub-1", "role": "programmer"}
    name = team.bus.call("POST", "/agent", added, token=team.lead).json["agent_id"]
    mark = MarkKey.of_token(team.lead).make(Mark("", "sub-1"), _now_us())
    target = f"/inbox?as={mark}"
    assert team.bus.call("GET", target, token=team.lead).status == 200
    assert team.bus.call("POST", f"/agent/{name}/remove", {}, token=team.lead).status == 200
    assert team.bus.call("GET", target, token=team.lead).code == "AGENT_REMOVED"
    assert team.bus.call("POST", "/agent", added, token=team.lead).code == "AGENT_REMOVED"


def test_a_grant_dies_with_its_holder(team: Team) -> None:
    """Keeps a grant as a Biscuit, and lets somebody else use it after the holder was removed."""
    grant = {"child_id": "boss", "pointer": "src/parser.py", "biscuit": True, "uses": 5}
    issued = team.bus.call("POST", "/grant", grant, token=team.lead).json
    team.bus.call("POST", "/agent/boss/remove", {}, token=team.lead)
    for text in (issued["budget_token"], issued["biscuit"]):
        for token in (team.boss, team.coder):
            read = team.bus.call("POST", "/pointer/deref", {**POINTER, "budget_token": text}, token=token)
            assert read.code == "AGENT_REMOVED"
    (row,) = team.bus.call("GET", "/grant", token=team.lead).json["grants"]
    assert row["state"] == "revoked"


@pytest.mark.parametrize("how", ["removed", "revoked", "ended"])
def test_an_open_stream_ends_with_its_reader(team: Team, how: str) -> None:
    """Opens the stream of events while its token is good, and reads on after that."""
    with _stream(team, "/events", team.boss) as stream:
        assert b"retry:" in _read_some(stream)
        if how == "removed":
            team.bus.call("POST", "/agent/boss/remove", {}, token=team.lead)
        elif how == "revoked":
            team.bus.call("POST", "/token/revoke", {"agent": "boss"}, token=team.lead)
        else:
            team.bus.call("POST", f"/run/{team.run}/end", {})
        team.bus.put("What happened afterwards is nobody's business.")
        rest = _read_all(stream)
    assert b"less.engram.put" not in rest


def _stream(team: Team, target: str, token: str) -> socket.socket:
    stream = socket.create_connection(("127.0.0.1", team.bus.port), timeout=30)
    head = f"GET {target} HTTP/1.1\r\nHost: 127.0.0.1:{team.bus.port}\r\nAuthorization: Bearer {token}\r\n"
    stream.sendall(f"{head}Accept: text/event-stream\r\n\r\n".encode())
    return stream


def _read_some(stream: socket.socket) -> bytes:
    data = b""
    while b"\n\n" not in data.partition(b"\r\n\r\n")[2]:
        data += stream.recv(65536)
    return data


def _read_all(stream: socket.socket) -> bytes:
    """Return everything up to the end of the stream; fails with a timeout if it does not end."""
    data = b""
    while not data.endswith(b"0\r\n\r\n") and (part := stream.recv(65536)):
        data += part
    return data


def test_a_revoked_token_is_refused_on_every_edge(team: Team) -> None:
    """Goes on with a token that the parent has revoked by its id."""
    (row,) = [
        row for row in team.bus.call("GET", "/token", token=team.lead).json["tokens"] if row["agent_id"] == "boss"
    ]
    answer = team.bus.call("POST", "/token/revoke", {"id": row["token_id"]}, token=team.lead)
    assert (answer.status, answer.json["tokens"]) == (200, 1)
    assert team.refusals(team.boss) == {"TOKEN_REVOKED"}
    assert team.bus.call("GET", "/agent", token=team.token("boss", team.lead).json["token"]).status == 200


def test_revoking_an_agents_tokens_takes_those_of_its_descendants(team: Team) -> None:
    """Keeps a copy of the token of a child it has added, for the time when its own is revoked."""
    spare = team.token("coder", team.boss).json["token"]
    assert team.bus.call("POST", "/token/revoke", {"agent": "boss"}, token=team.lead).json["tokens"] == 3
    for token in (team.boss, team.coder, spare):
        assert team.bus.call("GET", "/agent", token=token).code == "TOKEN_REVOKED"
    assert team.bus.call("GET", "/agent", token=team.lead).status == 200


def test_a_token_of_an_earlier_version_is_revoked_with_its_agent(team: Team) -> None:
    """Has a token from before tokens had ids, which no list shows."""
    old = team.bus.sign(name="coder", role="programmer", parent="boss", run=team.run, seconds=9_999 * 86_400)
    assert team.bus.call("GET", "/agent", token=old).status == 200
    team.bus.call("POST", "/token/revoke", {"agent": "coder"}, token=team.boss)
    assert team.bus.call("GET", "/agent", token=old).code == "TOKEN_REVOKED"


def test_a_token_of_an_earlier_version_does_not_renew_itself_past_its_end(team: Team) -> None:
    """Renews a token whose first issue nobody has recorded."""
    old = team.bus.sign(name="lead", role="architect", run=team.run, seconds=3600)
    renewed = team.token("lead", old)
    assert _days(renewed) < 1 / 23
    assert team.token("lead", old, expires_in="P1D").code == "LIFETIME_TOO_LONG"


def test_all_tokens_are_revoked_by_the_admin_alone(team: Team) -> None:
    """Revokes the tokens of the whole project, to stop everybody else's work."""
    assert team.bus.call("POST", "/token/revoke", {"all": True}, token=team.lead).code == "ROLE_FORBIDDEN"
    assert team.bus.call("GET", "/agent", token=team.coder).status == 200
    assert team.bus.call("POST", "/token/revoke", {"all": True}).status == 200
    for token in (team.lead, team.boss, team.coder):
        assert team.bus.call("GET", "/agent", token=token).code == "TOKEN_REVOKED"


def test_an_agent_sees_and_revokes_no_tokens_of_others(team: Team) -> None:
    """Lists the tokens of the project, and revokes its parent's by id."""
    rows = team.bus.call("GET", "/token", token=team.boss)
    assert {row["agent_id"] for row in rows.json["tokens"]} == {"boss", "coder"}
    everybody = team.bus.call("GET", "/token").json["tokens"]
    lead = next(row for row in everybody if row["agent_id"] == "lead" and row["run_id"] == team.run)
    answer = team.bus.call("POST", "/token/revoke", {"id": lead["token_id"]}, token=team.boss)
    assert (answer.status, answer.code) == (404, "TOKEN_NOT_FOUND")
    absent = team.bus.call("POST", "/token/revoke", {"id": "01ARZ3NDEKTSV4RRFFQ69G5FAV"}, token=team.boss)
    assert absent.body == answer.body
    assert team.bus.call("GET", "/agent", token=team.lead).status == 200


def test_the_list_of_tokens_holds_no_token(team: Team) -> None:
    """Reads the list, the journal and the answers of idempotent requests, to find a token in them."""
    headers = {"Idempotency-Key": "again"}
    tokens = {
        team.bus.call("POST", "/agent/coder/token", {}, token=team.boss, headers=headers).json["token"]
        for _ in range(2)
    }
    assert len(tokens) == 1
    listed = team.bus.call("GET", "/token").body
    for token in (team.lead, team.boss, team.coder, *tokens):
        mac = token.rpartition(".")[2].encode()
        assert mac not in listed
        assert mac not in team.bus.journal()
