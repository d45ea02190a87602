"""The index of work, taken away, damaged or left behind: the journal is the truth. # YT-10"""

from __future__ import annotations

from pathlib import Path

from stigmergy.backends.sqlite.work import WORK_INDEX, WORK_JOURNAL
from stigmergy.backends.sqlite.work.projection import SORTED_AT_ONCE
from stigmergy.testing.work import SqliteWorkHarness, draft, failed, finished, put


def busy(folder: Path) -> SqliteWorkHarness:
    """A space in which tuples were claimed, given back, claimed again, failed and done."""
    harness = SqliteWorkHarness(folder)
    put(harness, draft(), draft(priority=2), draft("other"))
    (first, second) = harness.space.claim({"lane": "build"}, worker="w", limit=2)
    harness.space.let_go([second.id], reason="gone")
    (again,) = harness.space.claim({"lane": "build"}, worker="w")
    harness.space.settle([finished(harness, again), failed(harness, first)])
    harness.clock.turn(seconds=5)
    harness.space.claim({"lane": "build"}, worker="w")
    return harness


def test_a_rebuild_says_what_the_index_said(tmp_path: Path) -> None:
    """Many commits are applied at once then, some of them to the same tuple."""
    harness = busy(tmp_path / "catalog")
    before = harness.space.rd_all({})
    assert harness.space.store.verify() == []
    harness.delete_index()
    assert harness.space.rd_all({}) == before
    assert harness.space.store.verify() == []
    harness.close()


def test_a_damaged_index_is_built_again(tmp_path: Path) -> None:
    harness = busy(tmp_path / "catalog")
    before = harness.space.rd_all({})
    harness.close()
    index = tmp_path / "catalog" / WORK_INDEX
    for part in (index, index.with_name(index.name + "-wal")):
        if part.exists():
            part.write_bytes(b"not a database" * 1000)
    again = SqliteWorkHarness(tmp_path / "catalog", harness.clock)
    assert again.space.rd_all({}) == before
    again.close()


def test_an_index_ahead_of_the_journal_is_built_again(tmp_path: Path) -> None:
    """The journal lost its last line, and with it what the line said."""
    harness = busy(tmp_path / "catalog")
    harness.close()
    journal = tmp_path / "catalog" / WORK_JOURNAL
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:-1]))
    again = SqliteWorkHarness(tmp_path / "catalog", harness.clock)
    assert again.space.store.last_line() == len(lines) - 2
    assert again.space.store.verify() == []
    again.close()


def test_a_torn_line_never_happened(tmp_path: Path) -> None:
    harness = busy(tmp_path / "catalog")
    before = harness.journal_bytes()
    harness.close()
    journal = tmp_path / "catalog" / WORK_JOURNAL
    journal.write_bytes(before + b'{"at":"2026-01-01T00:00:00.000000Z","facts":[{"fact"')
    again = SqliteWorkHarness(tmp_path / "catalog", harness.clock)
    put(again)
    assert again.journal_bytes().startswith(before)
    assert b'{"fact"\n' not in again.journal_bytes()
    assert again.space.store.verify() == []
    again.close()


def test_several_processes_may_use_one_space(tmp_path: Path) -> None:
    """Two stores over the same files see each other's work at once."""
    one = SqliteWorkHarness(tmp_path / "catalog")
    other = SqliteWorkHarness(tmp_path / "catalog", one.clock)
    ids = [put(one)[0], put(other)[0], put(one)[0]]
    assert [each.id for each in other.space.rd_all({})] == ids
    (claim,) = other.space.claim({}, worker="w2")
    assert one.space.get(claim.id).state == "claimed"
    assert [each.id for each in one.space.claim({}, worker="w1", limit=5)] == ids[1:]
    assert one.space.store.verify() == []
    one.close()
    other.close()


def test_ids_are_found_before_and_after_they_are_sorted_in(tmp_path: Path) -> None:
    """New ids gather apart, and are sorted in many at once; nobody who looks for one can tell."""
    harness = SqliteWorkHarness(tmp_path / "catalog")
    held = put(harness, *(draft("bulk", map_pos={"n": n}) for n in range(SORTED_AT_ONCE - 1)))
    receipts: list[str] = []
    for _ in range(3):  # the last that gathers apart, then the one that has all sorted in, then one apart again
        held += put(harness)
        (claim,) = harness.space.claim({"lane": "build"}, worker="w")
        done = finished(harness, claim)
        harness.space.settle([done])
        receipts += [each.id for each in (*done.receipts, done.last) if each is not None]
        assert [harness.space.get(each).id for each in (held[0], *held[-3:])] == [held[0], *held[-3:]]
        assert [harness.space.receipt(each).id for each in receipts] == receipts
        assert harness.space.store.verify() == []
    before = len(harness.journal_bytes())
    assert put(harness, harness.space.shown(held[0])) == held[:1]  # put again under its id, it is the one that is there
    assert len(harness.journal_bytes()) == before
    harness.close()
