"""The same things over HTTP and MCP, with bodies nobody should send."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from engrambus.settings import Settings
from mcp import Client
from tests.cli.runner import Desk
from tests.http.running_server import RunningServer, run_server
from tests.mcp.transports import over_http, over_stdio, problem_of
from tests.projects import Repository, make_gateway, make_repository, make_settings

ELSEWHERE = '{"memory_id":"m","text":"gateway"}\n'


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """A repository, and a store that lies outside it."""
    (tmp_path / "elsewhere.jsonl").write_text(ELSEWHERE, "utf-8")
    return make_repository(tmp_path / "repository")


@pytest.fixture
def settings(repository: Repository) -> Settings:
    """Settings of somebody whose home lies beside the repository."""
    return make_settings(repository.path.parent / "home")


@pytest.fixture
def bus(repository: Repository, settings: Settings) -> Iterator[RunningServer]:
    """A served project."""
    with closing(make_gateway(repository.path, settings)) as gateway, run_server(gateway, repository) as bus:
        yield bus


def ask(query: str = "gateway", store: str = ".catalog/sam/episodes.jsonl", **more: Any) -> dict[str, Any]:
    """The controller's input."""
    return {"query": query, "store_paths": [store], "budget": {"max_excerpt_tokens": 100}, **more}


def test_the_whole_way_over_http(bus: RunningServer) -> None:  # SC-01, SC-02, SC-03, MC-08
    lead, coder = bus.add("lead", "manager"), bus.add("coder", parent="lead")
    kept = bus.call("POST", "/sam", {"text": "The gateway waits.", "kind": "decision", "slug": "waits"}, token=lead)
    assert kept.json["ref"] == "sam:decision:waits@1"
    assert bus.call("POST", "/sam/decision:waits/pin", {}, token=lead).json["pinned"] is True
    snapshot = bus.call("POST", "/snapshot", {"for_agent": "coder"}, token=lead).json
    assert [item["provenance"]["memory_id"] for item in snapshot["items"]] == ["decision:waits@2"]
    sent = bus.call("POST", "/contribution", {"content": "The gateway does not wait."}, token=coder).json
    assert (sent["status"], sent["conflict_check"]["against"]) == ("flagged", ["decision:waits@2"])
    listed = bus.call("GET", "/contribution?status=flagged", token=lead).json["contributions"]
    assert [each["contribution_id"] for each in listed] == [sent["contribution_id"]]
    assert bus.call("GET", f"/contribution/{sent['contribution_id']}", token=coder).status == 200
    refused = bus.call("POST", f"/contribution/{sent['contribution_id']}/reject", {}, token=lead)
    assert (refused.code, refused.json["field"]) == ("FIELD_MISSING", "reason")
    accepted = bus.call("POST", f"/contribution/{sent['contribution_id']}/accept", {}, token=lead).json
    package = bus.call("POST", "/memory/read", ask(), token=coder).json
    assert accepted["memory_id"] in [each["memory_id"] for each in package["selection"]["selected"]]
    assert package["selection"]["dropped"] == []
    again = bus.call("POST", f"/contribution/{sent['contribution_id']}/accept", {}, token=lead)
    assert (again.status, again.code) == (409, "CONTRIBUTION_DECIDED")


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b'{"content":"' + b"x" * 10_000_000 + b'"}', 413, "BODY_TOO_LARGE"),
        (json.dumps({"content": "x" * 4001}).encode(), 422, "FIELD_VALUE"),
        (b'{"content":"a bell \\u0007"}', 422, "FIELD_VALUE"),
        (b'{"content":"a line \\u0000"}', 422, "FIELD_VALUE"),
        (b'{"content":"half \\ud800"}', 422, "BAD_TEXT"),
        (b'{"content":"x","confidence":NaN}', 422, "NUMBER_RANGE"),
        (b'{"content":"x","content":"y"}', 422, "DUPLICATE_KEY"),
        (b'{"content":"x","evidence":[{"kind":"path"}]}', 422, "FIELD_MISSING"),
        (b'{"content":"x","status":"accepted"}', 422, "FIELD_UNKNOWN"),
    ],
)
def test_contributions_nobody_should_send_are_refused(bus: RunningServer, body: bytes, status: int, code: str) -> None:
    coder = bus.add("coder")
    with bus.nothing_stored():
        answer = bus.call("POST", "/contribution", body, token=coder)
    assert (answer.status, answer.code) == (status, code)


@pytest.mark.parametrize(
    ("store", "code"),
    [
        ("../elsewhere.jsonl", "MEMORY_STORE_OUTSIDE"),
        ("{outside}", "MEMORY_STORE_OUTSIDE"),
        ("link.jsonl", "MEMORY_STORE_OUTSIDE"),
        ("src", "MEMORY_STORE_NOT_A_FILE"),
        ("nowhere.jsonl", "MEMORY_STORE_NOT_FOUND"),
    ],
)
def test_a_server_reads_beneath_the_project_even_for_the_admin(bus: RunningServer, store: str, code: str) -> None:
    outside = bus.repository.path.parent / "elsewhere.jsonl"
    (bus.repository.path / "link.jsonl").symlink_to(outside)
    with bus.nothing_stored():
        answer = bus.call("POST", "/memory/read", ask(store=store.format(outside=outside)))
    assert answer.code == code
    assert ELSEWHERE not in answer.body.decode()


def test_people_see_what_was_found_out_about_contributions(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk(repository, repository.path.parent / "home", monkeypatch)
    desk.ok("init")
    assert "No contributions" in desk.ok("review", "list", "--status", "rejected").out
    desk.ok("contribute", "Retries are idempotent.")
    desk.ok("contribute", "Idempotent are retries.")
    shown = desk.ok("review", "list", "--json").json["contributions"]
    assert f"similar to  {shown[1]['contribution_id']}" in desk.ok("review", "show", shown[0]["contribution_id"]).out
    lines = desk.ok("contribute", "One line.\r\n\tAnother, indented.").out.splitlines()
    assert lines[1:3] == ["    One line.", "        Another, indented."]
    refused = desk.run("inherit", "--atoms", "--visibility", "org", "--json")
    assert (refused.problem["code"], refused.problem["field"]) == ("SCOPE_FORBIDDEN", "scope.visibility")
    assert desk.ok("inherit", "--atoms", "--visibility", "project", "--json").json["scope"]["visibility"] == ["project"]


async def _tools(client: Client, outside: str) -> None:
    sent = (await client.call_tool("contribute", {"content": "The gateway waits."})).structured_content
    assert sent["status"] == "submitted"
    notes = {**ask(store="notes.jsonl"), "budget": {"max_excerpt_tokens": 5}}
    counted = (await client.call_tool("memory_read", notes)).structured_content
    assert counted["selection"]["dropped_counts"] == {"budget_exhausted": 2, "invalid_record_schema": 1}
    assert "dropped" not in counted["selection"]
    whole = (await client.call_tool("memory_read", {**notes, "dropped": "full"})).structured_content
    assert len(whole["selection"]["dropped"]) == 3
    assert whole["package_hash"] == counted["package_hash"]
    snapshot = (await client.call_tool("inherit", {"max_bytes": 4000})).structured_content
    assert [item["content"] for item in snapshot["items"]] == ["The gateway waits for no one."]
    refused = problem_of(await client.call_tool("memory_read", ask(store=outside)))
    assert refused["code"] == "MEMORY_STORE_OUTSIDE"


@pytest.mark.parametrize("way", ["stdio", "http"])
@pytest.mark.parametrize("who", ["coder", "admin"])
def test_agents_have_it_as_tools(repository: Repository, settings: Settings, way: str, who: str) -> None:  # MC-08
    lines = ['{"memory_id":"a","text":"gateway gateway gateway"}', '{"memory_id":"b","text":"a gateway for all"}', "{}"]
    (repository.path / "notes.jsonl").write_text("\n".join([*lines, lines[1]]), "utf-8")
    outside = str(repository.path.parent / "elsewhere.jsonl")
    with closing(make_gateway(repository.path, settings)) as gateway, run_server(gateway, repository) as bus:
        bus.call("POST", "/sam", {"text": "The gateway waits for no one.", "pinned": True})
        token = bus.add("coder") if who == "coder" else None

        async def talk(client: Client) -> None:
            await _tools(client, outside)

        if way == "http":
            over_http(bus, "auto", talk, token)
        else:
            over_stdio(repository, "auto", talk, *([token] if token else []))
