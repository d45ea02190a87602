"""Tools and resources over both transports, in both generations of the protocol."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest
from mcp.shared.exceptions import MCPError
from mcp.types import TextResourceContents

from engrambus.knowledge.engrams.schemas import ENGRAM, LESS_ENGRAM, validator
from engrambus.settings import Settings
from engrambus.space.catalog import CAPABILITIES, Catalog, CatalogEntry, write_catalog
from mcp import Client
from tests.mcp.transports import GENERATIONS, TRANSPORTS, call_full, problem_of, talk_over, text_of
from tests.projects import Repository

ALL = [(transport, mode) for transport in TRANSPORTS for mode in GENERATIONS]
KNOWN = [(transport, mode) for transport, mode in ALL if mode != "auto"]
"""A client that detects the generation goes on as one of the others does, so it is tried where it begins."""


@pytest.mark.parametrize(("transport", "mode"), ALL)
def test_an_agent_puts_queries_and_dereferences(
    repository: Repository, settings: Settings, transport: str, mode: str
) -> None:  # EB-29
    async def talk(client: Client) -> None:
        risk = {"claim": "The parser trusts its input.", "at": ["src/parser.py:10-12"], "kind": "risk"}
        engram = await call_full(client, "less_put_engram", risk)
        assert "hash_keys" not in engram
        query = await call_full(client, "less_query_engrams", {"q": "parser input", "k": 3})
        assert query["engrams"] == [engram]
        assert query["about"] == {engram["id"]: {"read_by": [], "evidence": {"state": "same"}}}
        read = await call_full(client, "less_deref_pointer", {"pointer": engram["pointers"][0]["ref"]})
        assert read["excerpt"].startswith("line 10 of the parser\n")
        assert read["content_digest"] == engram["pointers"][0]["digest"]
        second = await call_full(
            client, "less_put_engram", {"claim": "Lines 10 to 12 do it.", "at": [engram["pointers"][0]["ref"]]}
        )
        assert second["pointers"] == engram["pointers"]

    talk_over(transport, repository, settings, mode, talk)


@pytest.mark.parametrize(("transport", "mode"), KNOWN)
def test_the_tools_of_less_answer_by_its_schema_and_other_edges_by_that_of_the_bus(
    repository: Repository, settings: Settings, transport: str, mode: str
) -> None:  # EB-01
    bus_engram, less_engram = validator(ENGRAM), validator(LESS_ENGRAM)

    async def talk(client: Client) -> None:
        draft = {"claim": "The parser trusts its input.", "at": ["src/parser.py:10-12"], "embedding_ref": "emb:1"}
        stored = await call_full(client, "less_put_engram", draft)
        (found,) = (await call_full(client, "less_query_engrams", {"q": "parser input"}))["engrams"]
        for exported in (stored, found):
            less_engram.validate(exported)
        (content,) = (await client.read_resource(f"engrambus://engram/{stored['id']}")).contents
        assert isinstance(content, TextResourceContents)
        (engram,) = json.loads(content.text)["engrams"]
        bus_engram.validate(engram)
        assert engram["embedding_ref"] == "emb:1"
        assert not less_engram.is_valid(engram)

    talk_over(transport, repository, settings, mode, talk)


@pytest.mark.parametrize(("transport", "mode"), KNOWN)
def test_the_brief_is_returned_as_text_without_structured_content(
    repository: Repository, settings: Settings, transport: str, mode: str
) -> None:  # EB-22
    async def talk(client: Client) -> None:
        await client.call_tool(
            "less_put_engram", {"claim": "Never trust it.", "at": ["src/parser.py:1"], "kind": "constraint"}
        )
        brief = await client.call_tool("less_brief", {})
        assert brief.structured_content is None
        lines = text_of(brief).splitlines()
        assert lines[0] == "Brief 1 (admin); call with since=1 to get only what is new."
        assert any(line.startswith("[constraint] Never trust it. (src/parser.py:1@") for line in lines)
        await client.call_tool("less_put_engram", {"claim": "It may crash.", "at": ["src/parser.py:2"], "kind": "risk"})
        later = text_of(await client.call_tool("less_brief", {"since": 1})).splitlines()
        assert any(line.startswith("+ [risk] It may crash.") for line in later)
        assert not any("Never trust it." in line for line in later)

    talk_over(transport, repository, settings, mode, talk)


@pytest.mark.parametrize(("transport", "mode"), KNOWN)
def test_resources_can_be_read_and_cached(
    repository: Repository, settings: Settings, transport: str, mode: str
) -> None:
    async def talk(client: Client) -> None:
        listing = await client.list_resources()
        assert [str(resource.uri) for resource in listing.resources] == ["engrambus://brief"]
        templates = await client.list_resource_templates()
        assert [template.uri_template for template in templates.resource_templates] == [
            "engrambus://engram/{id}",
            "engrambus://receipt/{id}",
        ]
        engram = await call_full(client, "less_put_engram", {"claim": "A fact.", "at": ["src/parser.py:3"]})
        resource = await client.read_resource(f"engrambus://engram/{engram['id']}")
        (content,) = resource.contents
        assert content.mime_type == "application/json"
        shown = json.loads(content.text)  # type: ignore[union-attr]
        assert shown["engrams"] == [engram]
        assert shown["about"][engram["id"]]["evidence"] == {"state": "same"}  # BX-01
        brief = await client.read_resource("engrambus://brief")
        assert "[fact] A fact." in brief.contents[0].text  # type: ignore[union-attr]
        if mode != "legacy":
            assert [(result.ttl_ms, result.cache_scope) for result in (resource, brief)] == [
                (5000, "private"),
                (5000, "private"),
            ]
        for uri, code in (
            ("engrambus://engram/01K7Z3V5QX0000000000000000", "ENGRAM_NOT_FOUND"),
            ("engrambus://engram/", "FIELD_VALUE"),
            ("engrambus://engram/../brief", "FIELD_VALUE"),
            ("engrambus://receipt/sha256:00", "RECEIPT_NOT_FOUND"),
            ("file:///etc/passwd", "FIELD_VALUE"),
        ):
            with pytest.raises(MCPError) as refused:
                await client.read_resource(uri)
            assert refused.value.data["code"] == code, uri
            assert "Traceback" not in str(refused.value)

    talk_over(transport, repository, settings, mode, talk)


@pytest.mark.parametrize(("transport", "mode"), KNOWN)
def test_a_receipt_is_a_resource(repository: Repository, settings: Settings, transport: str, mode: str) -> None:
    async def talk(client: Client) -> None:
        lint = CatalogEntry(name="agent.lint.ruff", version=1, authority=("user", "agent"), lane="build")
        write_catalog(repository.path / ".catalog" / CAPABILITIES, Catalog([lint]))
        sent = await call_full(client, "tuple_dispatch", {"lane": "build", "payload": [{"yool": lint.name}]})
        receipt = sent["receipt_id"]
        resource = await client.read_resource(f"engrambus://receipt/{receipt}")
        answer = await call_full(client, "receipt_get", {"id": receipt})
        assert json.loads(resource.contents[0].text) == answer  # type: ignore[union-attr]
        if mode != "legacy":
            assert (resource.ttl_ms, resource.cache_scope) == (3_600_000, "private")

    talk_over(transport, repository, settings, mode, talk)


@pytest.mark.parametrize(("transport", "mode"), ALL)
def test_a_refused_call_returns_the_problem_with_its_code(
    repository: Repository, settings: Settings, transport: str, mode: str
) -> None:
    at = ["src/parser.py:1"]

    async def talk(client: Client) -> None:
        journal = repository.path / ".catalog" / "memory.jsonl"
        stored = journal.read_bytes()
        cases: list[tuple[str, dict[str, Any], str, str | None]] = [
            ("less_put_engram", {"claim": "No evidence."}, "NO_POINTER", "pointers"),
            ("less_put_engram", {"at": at}, "FIELD_MISSING", "claim"),
            ("less_put_engram", {"claim": 7, "at": at}, "FIELD_TYPE", "claim"),
            ("less_put_engram", {"claim": "x", "at": at, "colour": "red"}, "FIELD_UNKNOWN", "colour"),
            ("less_put_engram", {"claim": "x", "at": at, "confidence": 10**22}, "NUMBER_RANGE", None),
            ("less_put_engram", {"claim": "x", "at": at, "provenance": {}}, "PROVENANCE_STAMPED", "provenance"),
            ("less_put_engram", {"claim": "x" * 501, "at": at}, "CLAIM_TOO_LONG", "claim"),
            ("less_put_engram", {"claim": "x", "at": ["repo:src/parser.py#L1"]}, "POINTER_NOT_PINNED", None),
            ("less_query_engrams", {"k": "3"}, "FIELD_TYPE", "k"),
            ("less_query_engrams", {"k": 3, "as": "nobody"}, "AGENT_NOT_FOUND", "as"),
            ("less_query_engrams", {"as": 7}, "FIELD_TYPE", "as"),
            ("less_deref_pointer", {"pointer": "repo:src/parser.py"}, "POINTER_NOT_PINNED", None),
            ("less_no_such_tool", {}, "TOOL_NOT_FOUND", "name"),
            ("forget_engram", {"id": "x"}, "TOOL_NOT_FOUND", "name"),
        ]
        for name, arguments, code, field in cases:
            problem = problem_of(await client.call_tool(name, arguments))
            assert problem["code"] == code, (name, arguments, problem)
            if field is not None:
                assert problem["field"] == field
            assert "Traceback" not in json.dumps(problem)
        assert journal.read_bytes() == stored

    talk_over(transport, repository, settings, mode, talk)


@pytest.mark.parametrize(("transport", "mode"), KNOWN)
def test_an_error_names_the_accepted_values(
    repository: Repository, settings: Settings, transport: str, mode: str
) -> None:
    cases: list[tuple[str, dict[str, Any], str, str, str]] = [
        ("less_query_engrams", {"query": "x"}, "FIELD_UNKNOWN", "query", "q, keys, k, "),
        ("less_query_engrams", {"kind": "gossip"}, "FIELD_VALUE", "kind", "constraint, decision, diff, fact"),
        (
            "less_put_engram",
            {"claim": "x", "kind": "gossip"},
            "FIELD_VALUE",
            "kind",
            "constraint, decision, diff, fact",
        ),
        (
            "less_put_engram",
            {"claim": "x", "pointers": [{"path": "x"}]},
            "FIELD_UNKNOWN",
            "pointers[0].path",
            "type, ref",
        ),
    ]

    async def talk(client: Client) -> None:
        for name, arguments, code, field, limit in cases:
            problem = problem_of(await client.call_tool(name, arguments))
            assert problem["code"] == code, problem
            assert problem["field"].startswith(field), problem
            assert limit in problem["limit"], problem
        no_evidence = problem_of(await client.call_tool("less_put_engram", {"claim": "It is so."}))
        assert "`at` takes src/parser.py:10-20" in no_evidence["hint"]
        for locations, field in ((["absent.py:1"], "at[0]"), (["src/parser.py:1", "src/parser.py:900"], "at[1]")):
            problem = problem_of(await client.call_tool("less_put_engram", {"claim": "x", "at": locations}))
            assert problem["field"] == field, problem
            assert "snapshot" in problem["hint"], problem

    talk_over(transport, repository, settings, mode, talk)


@pytest.mark.parametrize(("transport", "mode"), KNOWN)
def test_concurrent_calls_are_all_answered(
    repository: Repository, settings: Settings, transport: str, mode: str
) -> None:
    async def talk(client: Client) -> None:
        put: dict[int, str] = {}

        async def put_claim(number: int) -> None:
            claim = f"Rule number {number} of {number * 7} holds."
            arguments = {"claim": claim, "at": [f"src/parser.py:{number + 1}"]}
            answer = await call_full(client, "less_put_engram", arguments)
            assert answer["claim"] == claim
            put[number] = answer["id"]

        async with anyio.create_task_group() as group:
            for number in range(25):
                group.start_soon(put_claim, number)
        query = await call_full(client, "less_query_engrams", {"k": 50})
        assert {engram["id"] for engram in query["engrams"]} == set(put.values())
        assert len(put) == 25

    talk_over(transport, repository, settings, mode, talk)
