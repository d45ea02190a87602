"""The skill pack keeps its format's rules, teaches little and truly, and its runtime works."""  # EB-25

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
from integration_files import skill_files_made
from tests.projects import Repository, make_repository

from engrambus.app import init_project
from engrambus.core import estimate_tokens, parse_duration
from engrambus.edges.mcp.tools import tools
from engrambus.errors import BY_CODE
from engrambus.knowledge.engrams.schemas import validator
from engrambus.knowledge.messages import check_budget, parse_message
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


def test_it_teaches_the_protocol_for_few_tokens() -> None:
    assert estimate_tokens(TEXT) < 1300


def test_it_names_only_tools_and_refusals_that_exist() -> None:
    named = set(re.findall(r"`(less_\w+)", BODY))
    assert named <= set(tools())
    published = "put_engram query_engrams request_deref deref_pointer issue_grant message brief anchor"
    assert {f"less_{name}" for name in published.split()} <= named
    for code in re.findall(r"`([A-Z]+(?:_[A-Z]+)+)`", BODY):
        assert code.removeprefix("LESS_") in BY_CODE


def test_its_numbers_are_the_default_budgets() -> None:
    inline, deref = DEFAULT_POLICY.inline, DEFAULT_POLICY.deref
    assert f"At most {inline.max_inline_tokens} tokens and {inline.max_engrams} engrams" in BODY
    turn = f"{deref.repo} repo, {deref.artifact} artifact and\n   {deref.sam} sam dereferences, {deref.tokens:,} tokens"
    assert turn in BODY


def test_the_form_it_shows_is_taken() -> None:
    form = BODY.partition("```yaml\n")[2].partition("```")[0]
    parsed = parse_message(form, "child", max_ttl_us=parse_duration("P365D"))
    usage, problems = check_budget(parsed, DEFAULT_POLICY.inline, DEFAULT_POLICY.checks("programmer"))
    assert problems == ()
    assert usage.engrams == 1


def test_manifest_and_schemas_are_what_the_operations_say() -> None:
    for name, content in skill_files_made().items():
        assert (SKILL / name).read_bytes() == content, f"{name}: run tools/generate.py"
    for tool in MANIFEST["tools"]:
        assert OPERATIONS[tool["operation"]].tool_name == tool["tool"]
        assert tool["tool"] == tool["name"].replace(".", "_") or tool["action"]


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
def shop(tmp_path: Path) -> Repository:
    repository = make_repository(tmp_path / "shop")
    init_project(repository.path, Settings.from_environment({"HOME": str(tmp_path)}))
    return repository


def test_the_runtime_puts_and_finds(shop: Repository, tmp_path: Path) -> None:
    draft = {"claim": "The parser is linear.", "at": ["src/parser.py:1"], "embedding_ref": "emb:1"}
    put = _less(shop.path, tmp_path, "less.put_engram", json.dumps(draft))
    assert put.returncode == 0, put.stderr
    engram = json.loads(put.stdout)
    found = _less(shop.path, tmp_path, "less.query_engrams", '{"q": "parser linear", "k": 1}')
    (same,) = json.loads(found.stdout)["engrams"]
    assert same["id"] == engram["id"]
    for exported in (engram, same):
        validator("less/engram.v0.1.json").validate(exported)


def test_the_runtime_tells_refusals_as_problems(shop: Repository, tmp_path: Path) -> None:
    refused = _less(shop.path, tmp_path, "less.put_engram", '{"claim": "No evidence."}')
    assert (refused.returncode, json.loads(refused.stderr)["code"]) == (1, "NO_POINTER")
    stranger = _less(shop.path, tmp_path, "less.brief", "--as", "nobody")
    assert (stranger.returncode, json.loads(stranger.stderr)["code"]) == (1, "AGENT_NOT_FOUND")
    for words in (["less.nothing"], ["less.brief", "[]"], ["less.brief", "{"], ["less.brief", '{"x": 1}']):
        assert _less(shop.path, tmp_path, *words).returncode == 2
