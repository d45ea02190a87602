"""Lost lines: what is gone is noticed, and `recover` keeps every line that still checks. # BX-03, YT-10"""

from __future__ import annotations

import random
import shutil
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
from engrambus.evidence.receipts import ReceiptFolder
from engrambus.space.tuples import TupleSpace
from engrambus.testing import GatewayClient, expect_refusal
from engrambus.testing.clock import ManualClock
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
