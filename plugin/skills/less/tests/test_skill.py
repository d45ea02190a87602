"""The skill pack keeps its format's rules, teaches little and truly, and its runtime works.

The tests belong to the pack and need nothing but it, engrambus and pytest: `python -m pytest less/tests`.
"""  # EB-25, EB-38

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from engrambus import Bus, Hooks
from engrambus.app import init_project
from engrambus.core import estimate_tokens
from engrambus.edges.mcp.tools import tools
from engrambus.errors import BY_CODE
from engrambus.knowledge.engrams.schemas import schema_bytes, validator
from engrambus.operations import OPERATIONS
from engrambus.policy import DEFAULT_POLICY
from engrambus.settings import Settings

SKILL = Path(__file__).parents[1]
TEXT = (SKILL / "SKILL.md").read_text("utf-8")
_, FRONT, BODY = TEXT.split("---\n", 2)
MANIFEST: dict[str, Any] = json.loads((SKILL / "manifest.json").read_text("utf-8"))


def test_the_frontmatter_keeps_the_formats_rules() -> None:
    front = yaml.safe_load(FRONT)
    assert set(front) <= {"name", "description", "license", "compatibility", "metadata", "allowed-tools"}
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", front["name"])
    assert len(front["name"]) <= 64
    assert front["name"] == SKILL.name == MANIFEST["name"]
    assert 0 < len(front["description"]) <= 1024
    assert "Use when" in front["description"]
    assert len(front["compatibility"]) <= 500
    assert all(isinstance(value, str) for value in front["metadata"].values())
    assert len(BODY.splitlines()) < 500


def test_it_teaches_the_protocol_for_few_tokens() -> None:  # BX-12
    splintr = pytest.importorskip("splintr")
    assert len(splintr.Tokenizer.from_pretrained("o200k_base").encode_ordinary(TEXT)) < 500
    assert estimate_tokens(TEXT) < 575  # the estimate is above the tokenizer's count


def test_it_says_when_to_use_which_part_of_the_memory() -> None:  # BX-12
    uses = "less_put_engram", "memory keep", "contribute", "less_query_engrams", "less_brief", "reserve", "less_inbox"
    table = [line for line in BODY.splitlines() if line.startswith("| ")]
    for use in uses:
        assert any(use in line for line in table), use
    assert "others: true" in BODY


def test_it_names_only_tools_and_refusals_that_exist() -> None:
    named = set(re.findall(r"`(less_\w+)", BODY))
    assert named <= set(tools())
    published = "put_engram query_engrams request_deref deref_pointer issue_grant message brief anchor inbox"
    assert {f"less_{name}" for name in published.split()} <= named
    assert {"contribute", "inherit", "memory_read"} <= set(tools())
    for code in re.findall(r"`([A-Z]+(?:_[A-Z]+)+)`", BODY):
        assert code.removeprefix("LESS_") in BY_CODE


def test_its_numbers_are_the_default_budgets() -> None:
    inline, deref = DEFAULT_POLICY.inline, DEFAULT_POLICY.deref
    assert f"At most {inline.max_inline_tokens} tokens and {inline.max_engrams} engrams" in BODY
    turn = f"{deref.repo} repo, {deref.artifact} artifact, {deref.sam} sam reads, {deref.tokens:,} tokens"
    assert turn in BODY


def test_manifest_and_schemas_are_what_the_operations_say() -> None:
    for name in MANIFEST["schemas"]:
        assert (SKILL / name).read_bytes() == schema_bytes(name.replace("schemas/", "less/"))
    assert {tool["operation"] for tool in MANIFEST["tools"]} == {
        operation.name for operation in OPERATIONS.values() if operation.tool
    }
    for tool in MANIFEST["tools"]:
        assert OPERATIONS[tool["operation"]].tool_name == tool["tool"]
        assert tool["tool"] == tool["name"].replace(".", "_") or tool["action"]
    assert all(callable(getattr(Hooks, name)) for name in MANIFEST["hooks"])


def _less(folder: Path, home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {"HOME": str(home), "PATH": os.environ["PATH"], "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    return subprocess.run(
        [sys.executable, str(SKILL / "runtime" / "less.py"), *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A project with a few files of 200 lines."""
    folder = tmp_path / "shop"
    folder.mkdir()
    for name in ("parser", "payments", "ledger", "gateway"):
        lines = (f"line {number} of the {name}\n" for number in range(1, 201))
        (folder / f"{name}.py").write_text("".join(lines), "utf-8")
    author = ["-c", "user.name=shop", "-c", "user.email=shop@example.invalid", "-c", "commit.gpgsign=false"]
    for words in (["init", "-q"], ["add", "."], [*author, "commit", "-qm", "first"]):
        subprocess.run(["git", *words], cwd=folder, check=True)
    init_project(folder, Settings.from_environment({"HOME": str(tmp_path)}))
    return folder


def test_the_runtime_puts_and_finds(shop: Path, tmp_path: Path) -> None:
    draft = {"claim": "The parser is linear.", "at": ["parser.py:1"], "embedding_ref": "emb:1"}
    put = _less(shop, tmp_path, "less.put_engram", json.dumps(draft))
    assert put.returncode == 0, put.stderr
    engram = json.loads(put.stdout)
    found = _less(shop, tmp_path, "less.query_engrams", '{"q": "parser linear", "k": 1}')
    (same,) = json.loads(found.stdout)["engrams"]
    assert same["id"] == engram["id"]
    for exported in (engram, same):
        validator("less/engram.v0.1.json").validate(exported)


def test_the_form_it_shows_is_taken(shop: Path, tmp_path: Path) -> None:
    form = BODY.partition("```yaml\n")[2].partition("```")[0]
    with Bus.open(shop, settings=Settings.from_environment({"HOME": str(tmp_path)})) as bus:
        bus.add_agent("ada", role="programmer")
    sent = _less(shop, tmp_path, "less.message", json.dumps({"text": form}), "--as", "ada")
    assert sent.returncode == 0, sent.stderr
    answer = json.loads(sent.stdout)
    assert len(answer["engrams"]) == 1


def test_the_runtime_tells_refusals_as_problems(shop: Path, tmp_path: Path) -> None:
    refused = _less(shop, tmp_path, "less.put_engram", '{"claim": "No evidence."}')
    assert (refused.returncode, json.loads(refused.stderr)["code"]) == (1, "NO_POINTER")
    stranger = _less(shop, tmp_path, "less.brief", "--as", "nobody")
    assert (stranger.returncode, json.loads(stranger.stderr)["code"]) == (1, "AGENT_NOT_FOUND")
    for words in (["less.nothing"], ["less.brief", "[]"], ["less.brief", "{"], ["less.brief", '{"x": 1}']):
        assert _less(shop, tmp_path, *words).returncode == 2


def test_the_runtime_tells_the_codes_of_less(shop: Path, tmp_path: Path) -> None:
    """A tool of LESS is refused with the specification's names, as over MCP."""
    pointer = json.dumps({"pointer": "parser.py:1-2"})
    with Bus.open(shop, settings=Settings.from_environment({"HOME": str(tmp_path)})) as bus:
        bus.add_agent("ada", role="programmer")
        bus.apply_policy({"deref": {"repo": 1}})
    assert _less(shop, tmp_path, "less.deref_pointer", pointer, "--as", "ada").returncode == 0
    denied = _less(shop, tmp_path, "less.deref_pointer", pointer, "--as", "ada")
    assert (denied.returncode, json.loads(denied.stderr)["code"]) == (1, "LESS_DEREF_DENIED")
    long = json.dumps({"text": "ROLE: programmer\nTASK_STATUS: done\nOUTPUT: " + "many words " * 900})
    refused = _less(shop, tmp_path, "less.message", long, "--as", "ada")
    assert (refused.returncode, json.loads(refused.stderr)["code"]) == (1, "LESS_BUDGET_EXCEEDED")


def test_the_runtime_lists_and_reads_mail(shop: Path, tmp_path: Path) -> None:
    with Bus.open(shop, settings=Settings.from_environment({"HOME": str(tmp_path)})) as bus:
        bus.add_agent("lead", role="architect")
        bus.add_agent("ada", role="programmer", parent="lead")
        sent = bus.speak_as("ada").send_message("ROLE: programmer\nTASK_STATUS: done\nOUTPUT: Two lines.\n")
    listed = _less(shop, tmp_path, "less.inbox", '{"unseen": true, "short": true}', "--as", "lead")
    assert "Two lines." in json.loads(listed.stdout)["lines"][0]
    read = _less(shop, tmp_path, "less.read_mail", json.dumps({"id": sent.message_id}), "--as", "lead")
    assert "Two lines." in json.loads(read.stdout)["text"]
