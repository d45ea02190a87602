"""Lost lines: what is gone is noticed, and `recover` keeps every line that still checks. # BX-03, YT-10"""

from __future__ import annotations

import random
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engrambus.backends.memory import MemoryJournal, MemoryStore
from engrambus.backends.memory.work import MemoryWork
from engrambus.backends.sqlite import check_remains
from engrambus.backends.sqlite.recovery import recover_journals
from engrambus.core.journal import Journal, JournalKey, find_damage
from engrambus.core.project_clock import ClockCorrected
from engrambus.evidence.receipts import ReceiptFolder
from engrambus.gateway import Credential
from engrambus.space.tuples import BodyPurged, TupleSpace
from engrambus.testing import GatewayClient, expect_refusal
from engrambus.testing.clock import ManualClock
from engrambus.testing.conformance.grants import exhaust, granted
from engrambus.testing.conformance.messages import Team
from engrambus.testing.fakes import repo_ref
from engrambus.testing.harness import KEY, PROJECT
from tests.cli.runner import Shell
from tests.guardrails.test_segments import open_work, put, store
from tests.harness.stores import SqliteHarness
from tests.projects import Repository

LATER = 1 << 62
NOW_US = 1_800_000_000_000_000


@pytest.fixture
def shell(repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    shell = Shell(repository, tmp_path / "home", monkeypatch)
    shell.ok("init")
    return shell


# W6, defect 4: it said "No run has any work yet", and `verify` said "sound".
def test_a_deleted_journal_beside_what_was_made_with_it_is_refused(shell: Shell) -> None:
    assert shell.run("out", "-", stdin='{"lane": "notes"}').code == 0
    catalog = shell.path / ".catalog"
    (catalog / "tuples.jsonl").unlink()
    for words in (("verify",), ("runs",), ("out", "-")):
        refused = shell.run(*words, "--json", stdin='{"lane": "notes"}')
        assert refused.problem["code"] == "JOURNAL_MISSING", words
        assert "engrambus recover" in refused.problem["hint"]
    assert not (catalog / "tuples.jsonl").exists()
    asked = shell.run("recover")  # nobody answers the question
    assert asked.code != 0
    assert "tuples.jsonl is gone" in asked.err
    assert not (catalog / "tuples.jsonl").exists()
    answer = shell.ok("recover", "--yes", "--json").json
    assert list(Path(answer["begun_anew"]).iterdir())
    assert shell.run("out", "-", stdin='{"lane": "notes"}').code == 0
    assert shell.ok("verify").code == 0


def test_receipts_alone_show_that_their_journal_is_gone(tmp_path: Path) -> None:
    """Also where everything that may be deleted was deleted; receipts that somebody else wrote show nothing."""
    space = open_work(tmp_path)
    space.cancel(put(space, 1))
    space.write_receipts(ReceiptFolder(tmp_path / "receipts", tmp_path / KEY.derived_folder / "receipts.written"))
    space.close()
    (tmp_path / "tuples.jsonl").unlink()
    shutil.rmtree(tmp_path / KEY.derived_folder)
    with expect_refusal("JOURNAL_MISSING"):
        check_remains(tmp_path, "tuples.jsonl", KEY)
    check_remains(tmp_path, "tuples.jsonl", JournalKey(b"somebody else's"))
    check_remains(tmp_path, "tuples.jsonl", None)


def test_a_deleted_journal_of_knowledge_is_not_created_anew(shell: Shell) -> None:
    shell.ok("put", "Alpha is known.", "--at", "src/parser.py:1")
    (shell.path / ".catalog" / "memory.jsonl").unlink()
    for words in (("query", "alpha"), ("verify",), ("init",)):
        assert shell.run(*words, "--json").problem["code"] == "JOURNAL_MISSING", words
    assert not (shell.path / ".catalog" / "memory.jsonl").exists()


# defect 4: 222 finished tuples ran again though their receipts were there
def test_nothing_with_a_final_receipt_runs_again(tmp_path: Path) -> None:
    space = open_work(tmp_path)
    ids = [put(space, number) for number in range(6)]
    for tuple_id in ids[:3]:
        space.cancel(tuple_id)
    space.write_receipts(ReceiptFolder(tmp_path / "receipts", tmp_path / "written"))
    put(space, 6)
    space.close()
    content = (tmp_path / "tuples.jsonl").read_bytes()
    lines = content.splitlines(keepends=True)
    lines[8] = lines[8].replace(b"cancelled", b"canCelled")  # the end of the second tuple
    (tmp_path / "tuples.jsonl").write_bytes(b"".join(lines))
    (damage,) = recover_journals(tmp_path, KEY, NOW_US)
    assert (damage.commits, damage.lost) == (7, 1)
    space = open_work(tmp_path)
    assert [space.get(tuple_id).state for tuple_id in ids] == ["cancelled"] * 3 + ["waiting"] * 3
    assert store(space).verify() == []
    space.close()
    assert recover_journals(tmp_path, KEY, NOW_US) == []


def test_tokens_issued_before_a_gap_are_revoked(tmp_path: Path) -> None:
    harness = SqliteHarness(tmp_path)
    client = GatewayClient(harness)
    for number in range(4):
        client.put(f"Matter {number}")
    harness.close()
    lines = (tmp_path / "memory.jsonl").read_bytes().splitlines(keepends=True)
    lines[3] = b"x" * (len(lines[3]) - 1) + b"\n"
    (tmp_path / "memory.jsonl").write_bytes(b"".join(lines))
    (damage,) = recover_journals(tmp_path, KEY, NOW_US)
    # The line behind the damaged one cannot be checked: the checksum it follows is gone.
    assert (damage.commits, damage.lost, damage.kept) == (2, 2, 1)
    content = (tmp_path / "memory.jsonl").read_bytes()
    assert b'"fact":"journal.gap","first":3,"last":4' in content
    assert b'"fact":"token.revoked"' in content
    harness._open()
    assert sorted(client.query_claims("matter")) == ["Matter 0", "Matter 3"]
    assert harness.gateway.store.verify() == []
    harness.close()
    _rebuild_in_memory(content)


def spoil_line(journal: Path, number: int) -> None:
    """Change a byte of a line, its header counted as 0."""
    lines = journal.read_bytes().splitlines(keepends=True)
    lines[number] = lines[number].replace(b'"facts"', b'"fActs"')
    journal.write_bytes(b"".join(lines))


def test_grants_and_tokens_alive_at_a_gap_are_of_no_use(tmp_path: Path) -> None:
    """One of the lost lines may have revoked them."""
    harness = SqliteHarness(tmp_path)
    team = Team(harness)
    grant = granted(team)
    team.client.put("Matter 0")
    last = harness.gateway.store.last_line()
    team.client.put("Matter 1")
    harness.close()
    spoil_line(tmp_path / "memory.jsonl", last)
    (damage,) = recover_journals(tmp_path, KEY, harness.clock.now())
    assert (damage.lost, damage.kept) == (1, 1)
    harness._open()
    assert team.client.query_claims("matter") == ["Matter 1"]
    for caller in (team.lead, team.mia, team.paul):
        with expect_refusal("TOKEN_REVOKED"):
            team.client.query("matter", caller)
    paul = Credential(token=team.client.call("agent_token", name="paul").token)
    exhaust(team, paul)
    with expect_refusal("GRANT_REVOKED", "budget_token"):
        team.client.deref(paul, repo_ref("src/a.py"), budget_token=grant.budget_token)
    harness.close()


# decision 91: the line that corrects the time is one like any other for `recover`
@pytest.mark.parametrize("spoiled", [1, -1])
def test_a_corrected_time_stays_corrected_after_recover(tmp_path: Path, spoiled: int) -> None:
    harness = SqliteHarness(tmp_path)
    client = GatewayClient(harness)
    client.put("Matter 0", ttl="P7D")
    harness.clock.restart()
    harness.clock.set(harness.clock.now() + 300 * 86_400_000_000)
    client.put("Matter 1", ttl="P7D")
    harness.clock.set(harness.clock.now() - 300 * 86_400_000_000)
    stored = harness.gateway.store
    stored.set_time(ClockCorrected(was_us=stored.clock_state().last_us))
    corrected = stored.last_line()
    client.put("Matter 2", ttl="P7D")
    client.put("Matter 3", ttl="P7D")
    harness.close()
    spoil_line(tmp_path / "memory.jsonl", corrected + spoiled)
    recover_journals(tmp_path, KEY, harness.clock.now())
    harness._open()
    lost = {1: "Matter 2", -1: "Matter 1"}[spoiled]
    assert set(client.query_claims("matter")) == {f"Matter {number}" for number in range(4)} - {lost}
    assert harness.gateway.store.verify() == []
    harness.close()


# What is erased stays erased: the line that forgot it may be one of those that are lost.
@pytest.mark.parametrize("lost", ["the line that forgets", "the line before it"])
def test_what_was_forgotten_is_forgotten_after_recover(tmp_path: Path, lost: str) -> None:
    harness = SqliteHarness(tmp_path)
    client = GatewayClient(harness)
    engrams = [client.put(f"Matter {number}") for number in range(3)]
    client.call("forget_engram", id=engrams[0].id)
    last = harness.gateway.store.last_line()
    client.put("Matter 3")
    harness.close()
    spoil_line(tmp_path / "memory.jsonl", last if lost == "the line that forgets" else last - 1)
    recover_journals(tmp_path, KEY, harness.clock.now())
    harness._open()
    there = {"Matter 1", "Matter 2", "Matter 3"} - ({"Matter 2"} if lost == "the line before it" else set())
    assert set(client.query_claims("matter")) == there
    assert client.try_call("get_engram", id=engrams[0].id)[0] == "ENGRAM_NOT_FOUND"
    assert harness.gateway.store.verify() == []
    harness.close()


def test_bodies_whose_deletion_was_lost_are_known_to_be_deleted(tmp_path: Path) -> None:
    space = open_work(tmp_path)
    put(space, 0)
    shas = [f"sha256:{number:064x}" for number in (1, 2)]
    for sha in shas:
        purge = BodyPurged(sha=sha, size_bytes=1, reason="room")
        store(space).commit(partial(_just, purge))
    put(space, 1)
    space.close()
    spoil_line(tmp_path / "tuples.jsonl", 2)
    recover_journals(tmp_path, KEY, NOW_US)
    space = open_work(tmp_path)
    with store(space).read() as view:
        assert all(view.purged_at_us(sha) for sha in shas)
    assert store(space).verify() == []
    space.close()


def _just(fact: BodyPurged, view: object) -> tuple[list[BodyPurged], None]:
    """Decide on one fact, whatever the view."""
    return [fact], None


def test_a_tuple_that_ended_in_a_lost_line_does_not_run_again_even_without_its_file(tmp_path: Path) -> None:
    """Files of receipts are written after the commit; the index had the receipt already."""
    space = open_work(tmp_path)
    ids = [put(space, number) for number in range(3)]
    space.cancel(ids[0])
    last = store(space).last_line()
    put(space, 3)
    space.close()
    spoil_line(tmp_path / "tuples.jsonl", last)
    recover_journals(tmp_path, KEY, NOW_US)
    space = open_work(tmp_path)
    assert [space.get(tuple_id).state for tuple_id in ids] == ["cancelled", "waiting", "waiting"]
    assert space.claim({}, worker="w", limit=9)
    assert space.get(ids[0]).state == "cancelled"
    assert store(space).verify() == []
    space.close()


def test_ids_that_later_lines_mention_and_nobody_made_are_reported(tmp_path: Path) -> None:
    space = open_work(tmp_path)
    lost = put(space, 0)
    space.cancel(lost)
    kept = put(space, 1)
    space.close()
    shutil.rmtree(tmp_path / KEY.derived_folder)
    spoil_line(tmp_path / "tuples.jsonl", 1)
    (damage,) = recover_journals(tmp_path, KEY, NOW_US)
    assert damage.unmade == (lost,)
    assert damage.left_out >= 1
    space = open_work(tmp_path)
    assert [record.id for record in space.rd_all({})] == [kept]
    space.close()


# W6: it was dropped silently, and `verify` said "sound".
@pytest.mark.parametrize("index", ["with its index", "without an index"])
@pytest.mark.parametrize("harm", ["flip", "flip in its end", "cut", "cut through two lines", "its newline"])
def test_a_damaged_last_line_is_reported(tmp_path: Path, harm: str, index: str) -> None:
    harness = SqliteHarness(tmp_path)
    client = GatewayClient(harness)
    for number in range(3):
        client.put(f"Matter {number}")
    harness.close()
    journal = tmp_path / "memory.jsonl"
    content = journal.read_bytes()
    last = content.rindex(b"\n", 0, -1) + 1
    length = {"cut": last + 40, "cut through two lines": last - 20, "its newline": len(content) - 1}.get(harm)
    place = {"flip": last + 40, "flip in its end": len(content) - 10}.get(harm, 0)
    harmed = bytearray(content)
    harmed[place] ^= 1 if place else 0
    journal.write_bytes(harmed[:length])
    if index == "without an index":
        shutil.rmtree(tmp_path / KEY.derived_folder)
    for _ in range(2):
        with expect_refusal("JOURNAL_DAMAGED"):
            harness._open()
            harness.gateway.store.verify()
        if harm == "flip" and index == "with its index":
            harness.close()
    (damage,) = recover_journals(tmp_path, KEY, NOW_US)
    lost = 2 if harm == "cut through two lines" else 1
    assert (damage.lost, damage.kept) == (lost, 0)
    assert recover_journals(tmp_path, KEY, NOW_US) == []
    harness._open()
    assert sorted(client.query_claims("matter")) == [f"Matter {number}" for number in range(3 - lost)]
    client.put("Matter 3")
    assert harness.gateway.store.verify() == []
    harness.close()


@pytest.mark.parametrize("index", ["with its index", "without an index"])
@pytest.mark.parametrize(
    "tail", [b'{"at":"2026', b"\0" * 700, b'{"at":"2026-01-01T00:00:00.000000Z","facts":[],"mark":1}\n']
)
def test_a_torn_tail_behind_what_was_synced_is_no_damage(tmp_path: Path, tail: bytes, index: str) -> None:
    """Whatever a power cut leaves of a line that was never acknowledged."""
    harness = SqliteHarness(tmp_path)
    client = GatewayClient(harness)
    client.put("Matter 0")
    harness.close()
    journal = tmp_path / "memory.jsonl"
    content = journal.read_bytes()
    journal.write_bytes(content + tail)
    if index == "without an index":
        shutil.rmtree(tmp_path / KEY.derived_folder)
    harness._open()
    assert client.query_claims("matter") == ["Matter 0"]
    client.put("Matter 1")
    assert journal.read_bytes().startswith(content + b'{"at"')
    assert harness.gateway.store.verify() == []
    harness.close()


def test_a_journal_cut_between_two_lines_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It may be an older copy that a person has put back: reading goes on, and nobody is asked."""
    harness = SqliteHarness(tmp_path)
    client = GatewayClient(harness)
    content = harness.journal_bytes()
    client.put("Matter 0")
    harness.close()
    (tmp_path / "memory.jsonl").write_bytes(content)
    shutil.rmtree(tmp_path / KEY.derived_folder)
    harness._open()
    assert "ends with line 2, but 3 lines had been saved" in caplog.text
    caplog.clear()
    assert client.query_claims("matter") == []
    harness.reopen()
    assert caplog.text == ""
    assert harness.gateway.store.verify() == []
    harness.close()


@pytest.mark.parametrize("line", [2, 4])
def test_a_changed_byte_is_noticed_by_who_reads_past_it(tmp_path: Path, line: int) -> None:
    """A reader of events stopped there without a word, for ever."""
    harness = SqliteHarness(tmp_path)
    client = GatewayClient(harness)
    for number in range(6):
        client.put(f"Matter {number}")
    harness.close()
    spoil_line(tmp_path / "memory.jsonl", line)
    harness._open()
    assert len(client.query_claims("matter")) == 6
    store = harness.gateway.store
    assert len(store.lines_after(0, line - 1)) == line - 1
    for seq in (0, line - 1, line, 5):
        with expect_refusal("JOURNAL_DAMAGED"):
            store.lines_after(seq, 100)
    with expect_refusal("JOURNAL_DAMAGED"):
        store.verify()
    harness.close()


def _rebuild_in_memory(content: bytes, kind: str = "memory") -> None:
    """Read a journal with the reference back end."""
    journal = MemoryJournal(KEY, project=PROJECT, now_us=0, kind=kind)
    journal.lines = content.splitlines(keepends=True)
    if kind == "memory":
        MemoryStore(journal, ManualClock()).close()
    else:
        TupleSpace(MemoryWork(journal, ManualClock())).close()


HARMS = ("flip", "cut out", "truncate", "delete a segment")


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 1 << 30), harm=st.sampled_from(HARMS))
def test_recover_keeps_what_checks_whatever_the_damage(tmp_path_factory: Any, seed: int, harm: str) -> None:
    dice = random.Random(seed)
    folder = tmp_path_factory.mktemp("work")
    space = open_work(folder)
    ids: list[str] = []
    for number in range(dice.randrange(8, 20)):
        ids.append(put(space, number))
        if dice.random() < 0.4:
            space.cancel(
                dice.choice([i for i in ids if space.get(i).state == "waiting"] or [put(space, 1000 + number)])
            )
        if number in (4, 9) and dice.random() < 0.6:
            store(space).rotate(least_bytes=1, before_us=LATER)
    space.write_receipts(ReceiptFolder(folder / "receipts", folder / "written"))
    ended = {i for i in ids if space.get(i).state != "waiting"}
    commits = store(space).last_line()
    space.close()
    _harm(folder, harm, dice)
    (folder / KEY.derived_folder / "work.db").unlink()
    recovered = recover_journals(folder, KEY, NOW_US)
    assert recover_journals(folder, KEY, NOW_US) == []
    journal = Journal(folder / "tuples.jsonl", KEY, "tuples")
    assert find_damage(journal) is None
    seqs = [line.seq for line, _ in journal.read(journal.start)]
    journal.close()
    assert seqs == list(range(1, len(seqs) + 1))
    for damage in recovered:
        assert damage.commits + damage.kept + damage.lost <= commits + 1
        if harm == "flip":
            assert damage.lost <= 2
    space = open_work(folder)
    assert store(space).verify() == []
    for tuple_id in ids:
        record = space.rd({"id": tuple_id}) if tuple_id in ended else None
        assert record is None or record.state != "waiting" or tuple_id not in ended
    assert put(space, 5000)
    space.close()


def _harm(folder: Path, harm: str, dice: random.Random) -> None:
    files = sorted(folder.glob("tuples.*jsonl*"))
    segments = [file for file in files if file.suffix == ".gz" and ".000000000000000." not in file.name]
    if harm == "delete a segment" and segments:
        dice.choice(segments).unlink()
        return
    journal = folder / "tuples.jsonl"
    content = journal.read_bytes()
    header = content.index(b"\n") + 1
    if len(content) <= header + 1:
        return
    first = dice.randrange(header, len(content) - 1)
    last = min(len(content), first + dice.randrange(1, 600))
    if harm == "flip":
        journal.write_bytes(content[:first] + bytes([content[first] ^ 4]) + content[first + 1 :])
    elif harm == "cut out":
        journal.write_bytes(content[:first] + content[last:])
    else:  # inside a line: a journal that ends with a whole line may be an older copy that was put back
        journal.write_bytes(content[:first].rstrip(b"\n"))
