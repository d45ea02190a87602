"""State that came with a repository: journals, receipts, indexes and copies that this machine did not write."""

from __future__ import annotations

import gzip
import json
import re
import shutil
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from engrambus.backends.sqlite import SqliteStore
from engrambus.core import SystemClock
from tests.attacks.foreign_state import (
    CLAIM,
    HONEST,
    Machine,
    attacker,
    call_tool,
    clone,
    continue_without_key,
    facts_of,
    make_machine,
    make_victim,
    plant,
    state_of_episodes,
)
from tests.harness.old_journals import make_unmarked
from tests.projects import make_repository
from tests.space.terminal import WORK


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


READ_MEMORY = (
    *("memory", "read", "--query", "deploys parser", "--store", ".catalog/sam/episodes.jsonl"),
    *("--max-excerpt-tokens", "400"),
)
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


def test_an_index_planted_beside_the_victims_journal_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pull brings `.catalog/index.db`: an index of the victim's very journal, in which a constraint is unpinned."""
    victim = make_victim(tmp_path, monkeypatch)
    assert f"[pinned constraint] {HONEST}" in victim.ok("brief").out
    (index,) = victim.catalog.rglob("index.db")
    planted = victim.catalog / "index.db"
    if index != planted:
        shutil.copy(index, planted)
    with closing(apsw.Connection(str(planted))) as connection:
        connection.execute("DELETE FROM pins")
    for _ in range(2):
        assert f"[pinned constraint] {HONEST}" in victim.ok("brief").out
        victim.delete_derived()
    assert victim.ok("verify").out.startswith("sound")


@pytest.mark.parametrize("remembered", [True, False], ids=["with memories", "without memories"])
def test_a_planted_copy_of_the_teams_memory_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, remembered: bool
) -> None:
    """The repository carries `.catalog/sam/episodes.jsonl`, and the state file that says it is up to date."""
    hostile = make_machine(tmp_path / "hostile", monkeypatch)
    hostile.ok("memory", "keep", CLAIM, "--kind", "decision")
    hostile.ok(*READ_MEMORY)
    victim = make_victim(tmp_path, monkeypatch)
    if remembered:
        victim.ok("memory", "keep", HONEST, "--kind", "decision")
    shutil.rmtree(victim.catalog / "sam", ignore_errors=True)
    shutil.copytree(hostile.catalog / "sam", victim.catalog / "sam")
    store = victim.catalog / "sam" / "episodes.jsonl"
    (victim.catalog / "sam" / ".written").write_text(state_of_episodes(store))
    read = victim.run(*READ_MEMORY)
    assert CLAIM not in read.out
    assert CLAIM not in store.read_text("utf-8") if store.exists() else True


def test_the_tasks_of_a_cloned_journal_are_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The repository carries `.catalog/tuples.jsonl` with a task; the victim starts a worker that could run it."""
    hostile = make_machine(tmp_path / "hostile", monkeypatch)
    hostile.build_catalog()
    called = tmp_path / "called"
    hostile.ok("out", "--lane", "build", "--yool", "agent.count.calls", "--arg", f"path={called}")
    victim = clone(hostile, tmp_path, forced=("tuples.jsonl",))
    victim.ok("init")
    assert "JOURNAL_FOREIGN" in victim.start(*WORK, code=1)
    assert not called.exists()
    victim.pin(HONEST)
    assert HONEST in victim.ok("brief").out, "knowledge goes on working"
    for command in (("board",), ("out", "--lane", "notes"), ("verify",), ("resume",)):
        assert "JOURNAL_FOREIGN" in victim.run(*command).err


def test_receipts_that_came_with_a_clone_are_no_cache_hits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The repository carries receipts, bodies and an index of work of a step that the victim runs as well."""
    hostile = make_machine(tmp_path / "hostile", monkeypatch)
    hostile.build_catalog()
    step = ("out", "--lane", "build", "--yool", "agent.sum.numbers", "--arg", "a=1", "--arg", "b=2")
    hostile.ok(*step)
    assert "MISS" in hostile.start(*WORK)
    shutil.copy(next(hostile.catalog.glob("derived-*/work.db")), hostile.catalog / "work.db")
    victim = clone(hostile, tmp_path, forced=("receipts", "cas", "work.db"))
    victim.ok("init")
    planted = [*(victim.catalog / "receipts").rglob("*.json")]
    for receipt in planted:
        receipt_id = f"sha256:{receipt.parent.name}{receipt.stem}"
        for command in ("get", "verify"):
            assert "RECEIPT_NOT_FOUND" in victim.run("receipt", command, receipt_id).err
        assert receipt.name in victim.run("verify").out, "verify names a receipt that the journal does not have"
    victim.ok(*step)
    assert "MISS" in victim.start(*WORK)
    assert len(planted) == 2
    assert not any(receipt.exists() for receipt in planted), "a worker removes what the journal does not have"
    assert len([*(victim.catalog / "receipts").rglob("*.json")]) == 2
    assert victim.ok("verify").out.startswith("sound")


def test_a_planted_body_is_served_under_its_own_hash_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The repository carries `.catalog/cas` with another text under the hash of a text the victim points at."""
    victim = make_victim(tmp_path, monkeypatch)
    (victim.path / "plan.md").write_text("An honest plan of five steps.\n")
    stored = victim.ok("artifact", "add", "plan.md", "--json").json
    (body,) = (victim.catalog / "cas").glob("*/*")
    body.write_text(CLAIM)
    read = victim.run("deref", stored["pointer"])
    assert "OBJECT_DAMAGED" in read.err
    assert CLAIM not in read.out + read.err


def test_a_segment_put_in_the_place_of_a_finished_one_is_refused(
    hostile: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The victim's journal has been rotated; the attacker's lines take the place of the finished segment."""
    victim = make_victim(tmp_path, monkeypatch)
    store = SqliteStore(victim.catalog, victim.journal_key, SystemClock())
    assert store.rotate(least_bytes=1, before_us=1 << 62)
    store.close()
    (segment,) = victim.catalog.glob("memory.*.jsonl.gz")
    whole = gzip.decompress(segment.read_bytes())
    header = whole.splitlines(keepends=True)[0]
    forged = continue_without_key(header, facts_of(hostile), marked=True)
    forged += b" " * (len(whole) - len(forged) - 1) + b"\n"
    segment.write_bytes(gzip.compress(forged))
    victim.delete_derived()
    for command in READING:
        printed = victim.run(*command)
        assert CLAIM not in printed.out + printed.err
        assert printed.code == 1
    assert segment.name in victim.run("brief").err, "the refusal names the segment"
    victim.ok("recover", "--yes")
    assert CLAIM not in victim.run("brief").out


def test_a_client_in_a_clone_shows_its_person_a_notice_and_its_model_nothing(hostile: Machine, tmp_path: Path) -> None:
    """The victim opens a coding agent, whose hooks and MCP server are installed, in the cloned repository."""
    victim = clone(hostile, tmp_path, forced=("memory.jsonl",))
    for event in ("SessionStart", "UserPromptSubmit", "Stop", "SubagentStart"):
        sent = {"hook_event_name": event, "session_id": "s1", "agent_id": "a1", "cwd": str(victim.path)}
        answer = victim.start("hook", stdin=json.dumps(sent).encode())
        assert CLAIM not in answer
        assert "JOURNAL_FOREIGN" in answer, "on stderr, for the person"
        assert ("engrambus doctor" in answer) == (event == "SessionStart")
        assert "additionalContext" not in answer
    answer = call_tool(victim, "less_brief")
    assert "JOURNAL_FOREIGN" in answer
    assert CLAIM not in answer
    assert "JOURNAL_FOREIGN" in victim.start("up", code=1)
