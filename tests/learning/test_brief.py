"""What is learned in a brief: few lines, of several kinds and files, after what people and agents said (BX-09)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from engrambus.core import estimate_tokens
from engrambus.gateway import LOCAL_ADMIN, Gateway, to_request
from engrambus.knowledge.brief import contents
from engrambus.operations import OPERATIONS
from tests.integrations.test_hook import BOTH, Hook
from tests.learning.repositories import FILES, claims, learn, make, open_project
from tests.projects import make_settings

RULES = "\n".join(f"- Step {number} must never be left out, because the next one needs it." for number in range(50))


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    """A project in a repository with a file that has many more rules than a brief has lines."""
    opened = open_project(make(tmp_path / "repository", {**FILES, "CLAUDE.md": RULES}), tmp_path / "home")
    yield opened
    opened.close()


def brief_lines(gateway: Gateway, role: str = "programmer") -> list[str]:
    """Return the lines of a role's brief."""
    brief = OPERATIONS["brief"]
    return list(gateway.call(brief, to_request({"role": role}, brief.request), LOCAL_ADMIN).lines)


def put(gateway: Gateway, claim: str, kind: str = "policy") -> None:
    """Put an engram as a person."""
    declared = OPERATIONS["put_engram"]
    fields = {"claim": claim, "kind": kind, "at": ["CONTRIBUTING.md:1-1"]}
    gateway.call(declared, to_request(fields, declared.request), LOCAL_ADMIN)


def test_a_brief_has_few_lines_of_what_was_learned_and_counts_the_others(gateway: Gateway) -> None:  # BX-09
    learn(gateway)
    lines = brief_lines(gateway)
    shown = [line for line in lines if line.startswith("[learned ")]
    (counted,) = (line for line in lines if line.startswith("+"))
    assert len(shown) + 1 == contents.MAX_LEARNED_LINES
    assert len(lines) == 1 + contents.MAX_LEARNED_LINES  # the goal, and nothing else
    policies = sum(kind == "policy" for kind, _, _ in claims(gateway).values())
    assert policies > 50
    hidden = policies - sum(line.startswith("[learned policy]") for line in shown)
    assert f"{hidden} more learned policies" in counted
    counts = sum(map(int, re.findall(r"(\d+) more", counted)))
    assert counts + len(shown) == len(claims(gateway))


def test_the_lines_are_of_several_kinds_and_files(gateway: Gateway) -> None:  # BX-09
    learn(gateway)
    shown = [line for line in brief_lines(gateway) if line.startswith("[learned ")]
    kinds = {line.partition("]")[0] for line in shown}
    assert {"[learned policy", "[learned decision", "[learned todo"} <= kinds
    assert sum("(CLAUDE.md:" in line for line in shown) == 1


def test_what_was_said_keeps_its_lines(gateway: Gateway) -> None:  # BX-09
    learn(gateway)
    for number in range(12):
        put(gateway, f"Release {number} happens on day {number * 2} of the plan.", "decision")
    lines = brief_lines(gateway)
    stated = [at for at, line in enumerate(lines) if line.startswith("[decision]")]
    learned = [at for at, line in enumerate(lines) if "learned " in line]
    assert len(stated) == 12
    assert max(stated) < min(learned)
    assert len(learned) == contents.MAX_LEARNED_LINES


def test_fewer_lines_than_the_limit_are_all_shown(tmp_path: Path) -> None:  # BX-09
    files = {name: FILES[name] for name in ("CONTRIBUTING.md", "pyproject.toml")}
    gateway = open_project(make(tmp_path / "repository", files), tmp_path / "home")
    learn(gateway)
    lines = brief_lines(gateway)
    assert sum(line.startswith("[learned ") for line in lines) == len(claims(gateway))
    assert not any(line.startswith("+") for line in lines)
    gateway.close()


@BOTH
def test_a_session_starts_with_a_short_sentence_and_few_lines(gateway: Gateway, tmp_path: Path, client: str) -> None:
    learn(gateway)
    start = Hook(client, gateway.project_files.root, make_settings(tmp_path / "home")).context("SessionStart")
    first, *others = start.splitlines()
    assert first == "This project shares its memory on Engram Bus; your role there is architect."
    assert sum("learned " in line for line in others) == contents.MAX_LEARNED_LINES
    assert estimate_tokens(start) < 500
