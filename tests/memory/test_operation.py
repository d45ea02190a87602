"""`memory.read` as an operation: the same package at the command line and in Python, its receipt and its price."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engrambus import Bus
from engrambus.errors import DerefDenied, MemoryStoreOutside
from engrambus.knowledge.memory import Budget
from engrambus.settings import Settings
from tests.cli.runner import Shell
from tests.memory.conftest import VECTORS

CASES = sorted(VECTORS.glob("case-*.json"))
OPTIONS = ("--query", "gateway budget", "--store", "a.jsonl", "--store", "b.jsonl", "--max-excerpt-tokens", "400")


def facts(shell: Shell) -> list[dict[str, Any]]:
    lines = (shell.path / ".catalog" / "memory.jsonl").read_text("utf-8").splitlines()
    return [fact for line in lines[1:] for fact in json.loads(line).get("facts", [])]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_the_command_prints_every_published_package(shell: Shell, case: Path) -> None:  # MC-08
    vector = json.loads(case.read_bytes())
    (shell.path / "input.json").write_text(json.dumps(vector["input"]), "utf-8")
    assert shell.ok("memory", "read", "--input", "input.json", "--json").json == vector["package"]


def test_options_mean_the_same_as_the_fields_of_an_input_file(shell: Shell) -> None:  # MC-08
    for name, options in {
        "case-items": ("--max-items", "2"),
        "case-plain": (),
        "case-tight": ("--per-item-max-excerpt-tokens", "9"),
        "case-trust": ("--trust-snapshot", "trust.json"),
        "case-recency": ("--recency", "--now-utc", "2026-03-31T00:00:00Z"),
        "case-unicode": ("--no-tags",),
    }.items():
        vector = json.loads((VECTORS / f"{name}.json").read_bytes())
        stores = [word for path in vector["input"]["store_paths"] for word in ("--store", path)]
        tokens = str(vector["input"]["budget"]["max_excerpt_tokens"])
        words = ("--query", vector["input"]["query"], *stores, "--max-excerpt-tokens", tokens, *options)
        assert shell.ok("memory", "read", *words, "--json").json == vector["package"], name


def test_input_and_snapshot_may_begin_with_a_byte_order_mark(shell: Shell) -> None:
    vector = json.loads((VECTORS / "case-trust.json").read_bytes())
    trust = shell.path / "trust.json"
    for path, content in (
        (trust, trust.read_bytes()),
        (shell.path / "input.json", json.dumps(vector["input"]).encode()),
    ):
        path.write_bytes(b"\xef\xbb\xbf" + content)
    assert shell.ok("memory", "read", "--input", "input.json", "--json").json == vector["package"]


def test_a_budget_of_zero_is_refused(shell: Shell) -> None:  # MC-01
    answer = shell.run("memory", "read", "--query", "x", "--store", "a.jsonl", "--max-excerpt-tokens", "0", "--json")
    assert (answer.problem["code"], answer.problem["field"]) == ("FIELD_VALUE", "budget.max_excerpt_tokens")


def test_only_the_query_must_be_given(shell: Shell) -> None:  # MC-01, BX-12
    refused = shell.run("memory", "read", "--store", "a.jsonl", "--max-excerpt-tokens", "9", "--json")
    assert (refused.problem["code"], refused.problem["field"]) == ("FIELD_MISSING", "query")
    shell.ok("memory", "keep", "The lexer stays small.")
    package = shell.ok("memory", "read", "--query", "lexer", "--json").json
    assert package["budget"]["max_excerpt_tokens"] == 400
    assert [item["excerpt"] for item in package["selection"]["selected"]] == ["The lexer stays small."]


def test_the_words_may_stand_behind_the_command(shell: Shell) -> None:  # MC-08, BX-12
    by_option = shell.ok("memory", "read", *OPTIONS, "--json").json
    assert shell.ok("memory", "read", "gateway", "budget", *OPTIONS[2:], "--json").json == by_option
    assert "either behind the command or with --query" in shell.run("memory", "read", "budget", *OPTIONS).err


def test_an_empty_memory_says_so(shell: Shell) -> None:  # BX-12
    assert "Nothing is in there yet." in shell.ok("memory", "read", "anything").out


def test_the_command_prints_excerpts_and_counts_dropped_records(shell: Shell) -> None:
    out = shell.ok("memory", "read", *OPTIONS, "--max-items", "2").out
    assert "Gateway reserves the budget before the vendor call" in out
    assert "2 selected, 26 of 400 tokens; dropped: 4 invalid record schema, 7 max items reached" in out


def test_a_receipt_has_four_fields_and_only_success_writes_one(shell: Shell) -> None:  # MC-08
    package = shell.ok("memory", "read", *OPTIONS, "--json").json
    receipts = [fact for fact in facts(shell) if fact["fact"] == "memory.read"]
    assert receipts == [
        {
            "fact": "memory.read",
            "data": {
                "query_hash": package["query"]["query_hash"],
                "store_paths": ["a.jsonl", "b.jsonl"],
                "selected_count": len(package["selection"]["selected"]),
                "package_hash": package["package_hash"],
            },
        }
    ]
    assert shell.run("memory", "read", "--query", "x", "--store", "none", "--max-excerpt-tokens", "9").code == 1
    assert [fact for fact in facts(shell) if fact["fact"] == "memory.read"] == receipts
    assert "Gateway reserves" not in (shell.path / ".catalog" / "memory.jsonl").read_text("utf-8")


@pytest.mark.parametrize(
    ("fields", "code", "field"),
    [
        ({}, "FIELD_MISSING", "query"),
        ({"query": "x", "store_paths": ["a.jsonl"]}, "FIELD_MISSING", "budget"),
        ({"query": "x", "store_paths": ["a.jsonl"], "budget": {}}, "FIELD_MISSING", "budget.max_excerpt_tokens"),
        (
            {"query": "x", "store_paths": ["a.jsonl"], "budget": {"max_excerpt_tokens": 0}},
            "FIELD_VALUE",
            "budget.max_excerpt_tokens",
        ),
        (
            {"query": "x", "store_paths": ["a.jsonl"], "budget": {"max_excerpt_tokens": "9"}},
            "FIELD_TYPE",
            "budget.max_excerpt_tokens",
        ),
        (
            {"query": "x", "store_paths": ["a.jsonl"], "budget": {"max_excerpt_tokens": 9, "max_items": 0}},
            "FIELD_VALUE",
            "budget.max_items",
        ),
        ({"query": "x", "store_paths": "a.jsonl", "budget": {"max_excerpt_tokens": 9}}, "FIELD_TYPE", "store_paths"),
        (
            {"query": "x", "store_paths": ["a.jsonl"], "budget": {"max_excerpt_tokens": 9}, "extra": 1},
            "FIELD_UNKNOWN",
            "extra",
        ),
    ],
)
def test_a_bad_field_is_refused_by_name(shell: Shell, fields: dict[str, Any], code: str, field: str) -> None:  # MC-01
    first = shell.run("memory", "read", "--input", "-", "--json", stdin=json.dumps(fields))
    assert (first.problem["code"], first.problem["field"]) == (code, field)
    assert shell.run("memory", "read", "--input", "-", "--json", stdin=json.dumps(fields)) == first


def test_an_agent_reads_only_in_the_project_and_its_turn_pays(shell: Shell, tmp_path: Path) -> None:
    token = shell.ok("agent", "add", "coder", "--role", "programmer", "--json").json["token"]
    elsewhere = tmp_path / "elsewhere.jsonl"
    elsewhere.write_bytes(b'{"memory_id":"m","text":"gateway"}')
    settings = Settings.from_environment({"HOME": str(shell.home)})
    budget = Budget(max_excerpt_tokens=1000)
    with Bus.open(shell.path, settings=settings) as admin:
        assert admin.memory_read("gateway", [str(elsewhere)], budget).selection.selected
    with Bus.open(shell.path, token=token, settings=settings) as agent:
        with pytest.raises(MemoryStoreOutside):
            agent.memory_read("gateway", [str(elsewhere)], budget)
        package = agent.memory_read("gateway", ["a.jsonl"], budget, dropped="counts")
        used = package.budget.used_excerpt_tokens
        assert package.selection.dropped_counts == {"invalid_record_schema": 4}
        remaining = agent.validate_deref(f"repo:src/parser.py@{shell.repository.sha}").tokens_left
        assert remaining == 1200 - used
        (shell.path / "long.jsonl").write_text(json.dumps({"memory_id": "m", "text": "gateway " * 600}), "utf-8")
        with pytest.raises(DerefDenied) as denied:
            agent.memory_read("gateway", ["long.jsonl"], Budget(max_excerpt_tokens=1200))
        assert denied.value.field == "turn.tokens"
        assert agent.validate_deref(f"repo:src/parser.py@{shell.repository.sha}").tokens_left == remaining
    shell.ok("policy", "apply")
    (shell.path / ".catalog" / "policy.yaml").write_text(f"memory_folders: [{tmp_path}]\n", "utf-8")
    shell.ok("policy", "apply")
    with Bus.open(shell.path, token=token, settings=settings) as agent:
        assert agent.memory_read("gateway", [str(elsewhere)], budget).selection.selected
