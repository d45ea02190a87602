"""State that came with a repository: journals, receipts, indexes and copies that this machine did not write."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.attacks.foreign_state import (
    CLAIM,
    HONEST,
    Machine,
    attacker,
    clone,
    continue_without_key,
    facts_of,
    make_victim,
    plant,
)
from tests.harness.old_journals import make_unmarked
from tests.projects import make_repository


@pytest.fixture
def hostile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """The attacker's machine."""
    return attacker(tmp_path, monkeypatch)


def assert_refused(victim: Machine) -> str:
    """Check that no command shows the attacker's claim, and return how the brief is refused."""
    for command in READING:
        printed = victim.run(*command)
        assert CLAIM not in printed.out + printed.err
        assert "JOURNAL_FOREIGN" in printed.out + printed.err, (command, printed)
        assert printed.code == 1
    return victim.run("brief").err


READING = (("brief",), ("query", "deploys"), ("feed",), ("verify",), ("doctor",), ("init",))


@pytest.mark.parametrize("command", READING, ids=lambda words: words[0])
def test_a_pinned_constraint_of_a_cloned_journal_reaches_no_agent(
    hostile: Machine, tmp_path: Path, command: tuple[str, ...]
) -> None:
    """The repository carries `.catalog/memory.jsonl` with a pinned constraint, forced past `.gitignore`."""
    victim = clone(hostile, tmp_path, forced=("memory.jsonl",))
    printed = victim.run(*command)
    assert CLAIM not in printed.out + printed.err
    assert "JOURNAL_FOREIGN" in printed.out + printed.err
    assert printed.code == 1


def test_a_cloned_journal_of_the_victims_own_project_is_foreign(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The repository carries the id of the victim's project in its journal: the id is public, the key is not."""
    victim = Machine(make_repository(tmp_path / "victim"), tmp_path / "home", monkeypatch)
    victim.ok("init")
    hostile = Machine(make_repository(tmp_path / "hostile"), tmp_path / "hostile-home", monkeypatch)
    hostile.catalog.mkdir()
    (hostile.catalog / "project.yaml").write_bytes((victim.catalog / "project.yaml").read_bytes())
    hostile.ok("init")
    hostile.pin(CLAIM)
    plant(hostile, victim, "memory.jsonl")
    assert_refused(victim)


@pytest.mark.parametrize("marked", [True, False], ids=["with a MAC of another key", "without MACs"])
def test_lines_behind_the_victims_own_header_are_refused(
    hostile: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, marked: bool
) -> None:
    """A checkout overwrites the journal by one with the victim's own first lines and the attacker's behind them."""
    victim = make_victim(tmp_path, monkeypatch)
    content = (victim.catalog / "memory.jsonl").read_bytes()
    (victim.catalog / "memory.jsonl").write_bytes(continue_without_key(content, facts_of(hostile), marked=marked))
    assert_refused(victim)
    victim.delete_derived()
    assert_refused(victim)
    assert "set aside" in victim.ok("recover", "--yes").out
    assert HONEST in victim.ok("brief").out
    assert CLAIM not in victim.ok("brief").out


@pytest.mark.parametrize("kept_lines", [1, 2, 3])
def test_a_journal_cut_short_and_continued_is_refused(
    hostile: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept_lines: int
) -> None:
    """The attacker drops the victim's last lines and goes on from there; no index is left to contradict it."""
    victim = make_victim(tmp_path, monkeypatch)
    lines = (victim.catalog / "memory.jsonl").read_bytes().splitlines(keepends=True)
    assert len(lines) > kept_lines
    forged = continue_without_key(b"".join(lines[:kept_lines]), facts_of(hostile), marked=True)
    (victim.catalog / "memory.jsonl").write_bytes(forged)
    victim.delete_derived()
    assert_refused(victim)


@pytest.mark.parametrize("source", ["memory.jsonl", "tuples.jsonl"])
def test_a_mac_copied_from_another_line_is_worth_nothing(
    hostile: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    """The attacker's line carries a MAC that the victim made for an earlier line, or for the other journal."""
    victim = make_victim(tmp_path, monkeypatch)
    victim.ok("out", "--lane", "notes")
    content = (victim.catalog / "memory.jsonl").read_bytes()
    mac = re.findall(rb'"mac":"([0-9a-f]{32})"', (victim.catalog / source).read_bytes())[1]
    forged = continue_without_key(content, facts_of(hostile), mac=mac)
    (victim.catalog / "memory.jsonl").write_bytes(forged)
    assert_refused(victim)


def test_the_other_journal_under_this_name_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The victim's own journal of work is put in the place of its journal of knowledge."""
    victim = make_victim(tmp_path, monkeypatch)
    victim.ok("out", "--lane", "notes")
    shutil.copy(victim.catalog / "tuples.jsonl", victim.catalog / "memory.jsonl")
    assert victim.run("brief").code == 1


def test_a_planted_journal_without_macs_is_not_taken_for_one_of_an_older_version(
    hostile: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the victim's checkout, a pull overwrites the journal by one in the format that older versions wrote."""
    victim = make_victim(tmp_path, monkeypatch)
    plant(hostile, victim, "memory.jsonl")
    make_unmarked(victim.catalog / "memory.jsonl")
    refusal = assert_refused(victim)
    assert "engrambus adopt --own" in refusal
    asked = victim.run("adopt", "--own")  # nobody answers the question
    assert asked.code != 0
    assert CLAIM in asked.err, "a person sees what they would vouch for"
    assert_refused(victim)
