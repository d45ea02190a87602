"""The shared cortex and memory.read over HTTP, MCP and the command line, with invalid input too."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from engrambus.settings import Settings
from mcp import Client
from tests.cli.runner import Shell
from tests.http.running_server import RunningServer, run_server
from tests.mcp.transports import call_full, over_http, over_stdio, problem_of
from tests.projects import Repository, make_gateway, make_repository, make_settings

ELSEWHERE = '{"memory_id":"m","text":"gateway"}\n'


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """A repository, and a memory store outside it."""
    (tmp_path / "elsewhere.jsonl").write_text(ELSEWHERE, "utf-8")
    return make_repository(tmp_path / "repository")


@pytest.fixture
def settings(repository: Repository) -> Settings:
    """Settings with a home next to the repository."""
    return make_settings(repository.path.parent / "home")


@pytest.fixture
def bus(repository: Repository, settings: Settings) -> Iterator[RunningServer]:
    """A served project."""
    with closing(make_gateway(repository.path, settings)) as gateway, run_server(gateway, repository) as bus:
        yield bus


def memory_request(store: str = ".catalog/sam/episodes.jsonl") -> dict[str, Any]:
    """Return a body for memory.read."""
    return {"query": "gateway", "store_paths": [store], "budget": {"max_excerpt_tokens": 100}}


def test_a_memory_from_keeping_to_review_over_http(bus: RunningServer) -> None:  # SC-01, SC-02, SC-03, MC-08
    lead, coder = bus.add("lead", "manager"), bus.add("coder", parent="lead")
    episode = bus.call("POST", "/sam", {"text": "The gateway waits.", "kind": "decision", "slug": "waits"}, token=lead)
    assert episode.json["ref"] == "sam:decision:waits@1"
    assert bus.call("POST", "/sam/decision:waits/pin", {}, token=lead).json["pinned"] is True
    snapshot = bus.call("POST", "/snapshot", {"for_agent": "coder"}, token=lead).json
    assert [item["provenance"]["memory_id"] for item in snapshot["items"]] == ["decision:waits@2"]
    sent = bus.call("POST", "/contribution", {"content": "The gateway does not wait."}, token=coder).json
    assert (sent["status"], sent["conflict_check"]["against"]) == ("flagged", ["decision:waits@2"])
    listed = bus.call("GET", "/contribution?status=flagged", token=lead).json["contributions"]
    assert [item["contribution_id"] for item in listed] == [sent["contribution_id"]]
    assert bus.call("GET", f"/contribution/{sent['contribution_id']}", token=coder).status == 200
    refused = bus.call("POST", f"/contribution/{sent['contribution_id']}/reject", {}, token=lead)
    assert (refused.code, refused.json["field"]) == ("FIELD_MISSING", "reason")
    accepted = bus.call("POST", f"/contribution/{sent['contribution_id']}/accept", {}, token=lead).json
    package = bus.call("POST", "/memory/read", memory_request(), token=coder).json
    assert accepted["memory_id"] in [item["memory_id"] for item in package["selection"]["selected"]]
    assert package["selection"]["dropped"] == []
    repeated = bus.call("POST", f"/contribution/{sent['contribution_id']}/accept", {}, token=lead)
    assert (repeated.status, repeated.code) == (409, "CONTRIBUTION_DECIDED")


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
def test_invalid_contributions_are_refused_and_nothing_is_stored(
    bus: RunningServer, body: bytes, status: int, code: str
) -> None:
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
def test_a_server_reads_only_stores_in_the_project_even_for_the_admin(
    bus: RunningServer, store: str, code: str
) -> None:
    outside = bus.repository.path.parent / "elsewhere.jsonl"
    (bus.repository.path / "link.jsonl").symlink_to(outside)
    with bus.nothing_stored():
        answer = bus.call("POST", "/memory/read", memory_request(store=store.format(outside=outside)))
    assert answer.code == code
    assert ELSEWHERE not in answer.body.decode()


def test_the_command_line_shows_the_checks_of_a_contribution(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell = Shell(repository, repository.path.parent / "home", monkeypatch)
    shell.ok("init")
    assert "No contributions" in shell.ok("review", "list", "--status", "rejected").out
    shell.ok("contribute", "Retries are idempotent.")
    shell.ok("contribute", "The retries are idempotent")
    newer, older = shell.ok("review", "list", "--json").json["contributions"]
    assert f"similar to  {older['contribution_id'][:13]}" in shell.ok("review", "show", newer["contribution_id"]).out
    lines = shell.ok("contribute", "One line.\r\n\tAnother, indented.").out.splitlines()
    assert lines[1:3] == ["    One line.", "        Another, indented."]
    refused = shell.run("inherit", "--atoms", "--visibility", "org", "--json")
    assert (refused.problem["code"], refused.problem["field"]) == ("SCOPE_FORBIDDEN", "scope.visibility")
    assert shell.ok("inherit", "--atoms", "--visibility", "project", "--json").json["scope"]["visibility"] == [
        "project"
    ]


async def _call_tools(client: Client, outside: str) -> None:
    sent = await call_full(client, "contribute", {"content": "The gateway waits."})
    assert sent["status"] == "submitted"
    notes = {**memory_request(store="notes.jsonl"), "budget": {"max_excerpt_tokens": 5}}
    counted = await call_full(client, "memory_read", notes)
    assert counted["selection"]["dropped_counts"] == {"budget_exhausted": 2, "invalid_record_schema": 1}
    assert "dropped" not in counted["selection"]
    full = await call_full(client, "memory_read", {**notes, "dropped": "full"})
    assert len(full["selection"]["dropped"]) == 3
    assert full["package_hash"] == counted["package_hash"]
    snapshot = await call_full(client, "inherit", {"max_bytes": 4000})
    assert [item["content"] for item in snapshot["items"]] == ["The gateway waits for no one."]
    refused = problem_of(await client.call_tool("memory_read", memory_request(store=outside)))
    assert refused["code"] == "MEMORY_STORE_OUTSIDE"


@pytest.mark.parametrize("transport", ["stdio", "http"])
@pytest.mark.parametrize("caller", ["coder", "admin"])
def test_agents_call_the_tools(
    repository: Repository, settings: Settings, transport: str, caller: str
) -> None:  # MC-08
    lines = ['{"memory_id":"a","text":"gateway gateway gateway"}', '{"memory_id":"b","text":"a gateway for all"}', "{}"]
    (repository.path / "notes.jsonl").write_text("\n".join([*lines, lines[1]]), "utf-8")
    outside = str(repository.path.parent / "elsewhere.jsonl")
    with closing(make_gateway(repository.path, settings)) as gateway, run_server(gateway, repository) as bus:
        bus.call("POST", "/sam", {"text": "The gateway waits for no one.", "pinned": True})
        token = bus.add("coder") if caller == "coder" else None

        async def talk(client: Client) -> None:
            await _call_tools(client, outside)

        if transport == "http":
            over_http(bus, "auto", talk, token)
        else:
            over_stdio(repository, "auto", talk, *([token] if token else []))


def test_the_command_line_shows_a_snapshot_again_and_divides_a_contribution(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:  # SC-09
    shell = Shell(repository, repository.path.parent / "home", monkeypatch)
    shell.ok("init")
    shell.ok("memory", "keep", "Refunds need two approvals.", "--pinned")
    taken = shell.ok("inherit", "--json").json
    assert shell.ok("snapshot", taken["snapshot_id"], "--json").json == taken
    assert "Refunds need two approvals." in shell.ok("snapshot", taken["snapshot_id"]).out
    assert shell.run("snapshot", "0" * 64, "--json").problem["code"] == "SNAPSHOT_NOT_FOUND"
    text = "One refund took a day. One took two days. One took a week. One was lost."
    sent = shell.ok("contribute", text, "--inputs-used", taken["snapshot_id"], "--json").json
    shown = shell.ok("review", "show", sent["contribution_id"]).out
    assert f"based on     {taken['snapshot_id']}" in shown
    accepted = shell.ok("review", "accept", sent["contribution_id"], "--atomize").out
    assert accepted.count("\nengram ") == 2


def test_a_snapshot_is_fetched_over_http(bus: RunningServer) -> None:  # SC-09
    bus.call("POST", "/sam", {"text": "Refunds need two approvals.", "pinned": True})
    token, stranger = bus.add("reader"), bus.add("stranger")
    taken = bus.call("POST", "/snapshot", {}, token=token).json
    address = f"/snapshot/{taken['snapshot_id']}"
    assert bus.call("GET", address, token=token).json == taken
    assert bus.call("GET", address).json == taken
    assert bus.call("GET", address, token=stranger).code == "SNAPSHOT_NOT_FOUND"
