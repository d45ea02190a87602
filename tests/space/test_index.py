"""The work index, deleted, damaged or out of date: the journal is the truth. # YT-10"""

from __future__ import annotations

import os
import random
import resource
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from engrambus.backends.sql.work import projection, view
from engrambus.backends.sql.work.projection import MAX_PENDING_FIGURES, MERGED_IDS
from engrambus.backends.sqlite.store import over_journals
from engrambus.backends.sqlite.work import WORK_INDEX, WORK_JOURNAL, SqliteWork
from engrambus.backends.sqlite.work.index import COMPARED
from engrambus.core import SECOND_US, print_time
from engrambus.core.journal import set_damage_aside
from engrambus.core.journal.format import stated_mark
from engrambus.errors import JournalDamaged, StaleFence
from engrambus.evidence.receipts import ReceiptFolder
from engrambus.space.tuples import (
    BatchSpace,
    BodyPurged,
    Claim,
    Completion,
    Price,
    SpaceSettings,
    TaskChanged,
    TupleRecord,
)
from engrambus.testing.harness import KEY
from engrambus.testing.work import PERSON, RUN, completion, draft, failure, put, receipt, schedules
from engrambus.testing.work.batches import spawn
from tests.harness.stores import SqliteWorkHarness


def busy(folder: Path) -> SqliteWorkHarness:
    """Return a space in which tuples were claimed, released, claimed again, failed and completed."""
    harness = SqliteWorkHarness(folder)
    put(harness, draft(), draft(priority=2), draft("other"))
    (first, second) = harness.space.claim({"lane": "build"}, worker="w", limit=2)
    harness.space.release_dead([(second.id, second.fence)], reason="gone")
    (reclaimed,) = harness.space.claim({"lane": "build"}, worker="w")
    harness.space.complete([completion(harness, reclaimed), failure(harness, first)])
    harness.clock.advance(seconds=5)
    harness.space.claim({"lane": "build"}, worker="w")
    return harness


def test_a_rebuild_equals_the_index(tmp_path: Path) -> None:
    """It applies many commits in one transaction, some of them to the same tuple."""
    harness = busy(tmp_path / "catalog")
    expected = harness.space.rd_all({})
    assert harness.space.store.verify() == []
    harness.delete_index()
    assert harness.space.rd_all({}) == expected
    assert harness.space.store.verify() == []
    harness.close()


def test_the_last_change_of_a_tuple_wins_in_a_rebuild(tmp_path: Path) -> None:
    """It writes many changes of one kind together."""
    harness = SqliteWorkHarness(tmp_path / "catalog")
    put(harness)
    (claim,) = harness.space.claim({}, worker="w")
    for _ in range(8):
        harness.clock.advance(seconds=5)
        assert harness.space.renew([(claim.id, claim.fence)]) == []
    until = harness.space.get(claim.id).lease_until_us
    harness.delete_index()
    assert harness.space.get(claim.id).lease_until_us == until
    harness.close()


def test_a_damaged_index_is_rebuilt(tmp_path: Path) -> None:
    harness = busy(tmp_path / "catalog")
    expected = harness.space.rd_all({})
    harness.close()
    index = tmp_path / "catalog" / KEY.derived_folder / WORK_INDEX
    for part in (index, index.with_name(index.name + "-wal")):
        if part.exists():
            part.write_bytes(b"not a database" * 1000)
    reopened = SqliteWorkHarness(tmp_path / "catalog", harness.clock)
    assert reopened.space.rd_all({}) == expected
    reopened.close()


def test_an_index_ahead_of_the_journal_is_rebuilt(tmp_path: Path) -> None:
    """The journal lost its last line."""
    harness = busy(tmp_path / "catalog")
    harness.close()
    journal = tmp_path / "catalog" / WORK_JOURNAL
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:-1]))
    reopened = SqliteWorkHarness(tmp_path / "catalog", harness.clock)
    assert reopened.space.store.last_line() == len(lines) - 2
    assert reopened.space.store.verify() == []
    reopened.close()


def test_a_torn_line_is_cut(tmp_path: Path) -> None:
    harness = busy(tmp_path / "catalog")
    intact = harness.journal_bytes()
    harness.close()
    journal = tmp_path / "catalog" / WORK_JOURNAL
    journal.write_bytes(intact + b'{"at":"2026-01-01T00:00:00.000000Z","facts":[{"fact"')
    reopened = SqliteWorkHarness(tmp_path / "catalog", harness.clock)
    put(reopened)
    assert reopened.journal_bytes().startswith(intact)
    assert b'{"fact"\n' not in reopened.journal_bytes()
    assert reopened.space.store.verify() == []
    reopened.close()


def test_several_processes_can_use_one_space(tmp_path: Path) -> None:
    """Two stores over the same files see each other's commits at once."""
    first = SqliteWorkHarness(tmp_path / "catalog")
    second = SqliteWorkHarness(tmp_path / "catalog", first.clock)
    ids = [put(first)[0], put(second)[0], put(first)[0]]
    assert [record.id for record in second.space.rd_all({})] == ids
    (claim,) = second.space.claim({}, worker="w2")
    assert first.space.get(claim.id).state == "claimed"
    assert [claim.id for claim in first.space.claim({}, worker="w1", limit=5)] == ids[1:]
    assert first.space.store.verify() == []
    first.close()
    second.close()


def test_ids_are_found_before_and_after_they_are_merged(tmp_path: Path) -> None:
    """New ids gather in a table of their own until many are merged together."""
    harness = SqliteWorkHarness(tmp_path / "catalog")
    ids = put(harness, *(draft("bulk", map_pos={"n": n}) for n in range(MERGED_IDS - 1)))
    receipts: list[str] = []
    for _ in range(3):  # the last that gathers apart, then the one that has all sorted in, then one apart again
        ids += put(harness)
        (claim,) = harness.space.claim({"lane": "build"}, worker="w")
        done = completion(harness, claim)
        harness.space.complete([done])
        receipts += [receipt.id for receipt in (*done.receipts, done.final_receipt) if receipt is not None]
        assert [harness.space.get(item).id for item in (ids[0], *ids[-3:])] == [ids[0], *ids[-3:]]
        assert [harness.space.receipt(receipt_id).id for receipt_id in receipts] == receipts
        assert harness.space.store.verify() == []
    size_bytes = len(harness.journal_bytes())
    assert (
        put(harness, harness.space.public_tuple(ids[0])) == ids[:1]
    )  # put again under its id, it is the one that is there
    assert len(harness.journal_bytes()) == size_bytes
    harness.close()


def test_new_ids_are_merged_regularly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ids of tuples and of receipts, and they are still found afterwards."""
    monkeypatch.setattr(projection, "MERGED_IDS", 8)
    harness = SqliteWorkHarness(tmp_path / "catalog")
    receipts: list[str] = []
    for _ in range(12):
        put(harness)
        (claim,) = harness.space.claim({}, worker="w")
        done = completion(harness, claim)
        harness.space.complete([done])
        receipts += [receipt.id for receipt in (*done.receipts, done.final_receipt) if receipt is not None]
    with closing(apsw.Connection(str(tmp_path / "catalog" / KEY.derived_folder / WORK_INDEX))) as index:
        for table, total in (("tuple_ids", 12), ("receipt_ids", 24)):
            ((gathered, together),) = index.execute(
                f"SELECT (SELECT count(*) FROM new_{table}), (SELECT count(*) FROM all_{table})"
            )
            assert (int(gathered) < 8, together) == (True, total)
    assert [harness.space.receipt(receipt_id).id for receipt_id in receipts] == receipts
    assert harness.space.store.verify() == []
    harness.close()


# YT-05
def test_processes_with_different_indexed_fields_share_one_index(tmp_path: Path) -> None:
    """It has the fields of all of them."""

    def opened(*indexed: str) -> SqliteWorkHarness:
        return SqliteWorkHarness(tmp_path / "catalog", first.clock, SpaceSettings(indexed_fields=indexed))

    def posted_by() -> list[str]:
        with closing(apsw.Connection(str(tmp_path / "catalog" / KEY.derived_folder / WORK_INDEX))) as index:
            return [str(path) for (path,) in index.execute("SELECT DISTINCT path FROM posted ORDER BY path")]

    first = SqliteWorkHarness(tmp_path / "catalog", settings=SpaceSettings(indexed_fields=("map_pos.n",)))
    (python_id,) = put(first, draft(map_pos={"n": 1, "stack": "python"}))
    assert posted_by() == ["map_pos.n"]
    second = opened("map_pos.stack")
    (dotnet_id,) = put(second, draft(map_pos={"n": 1, "stack": "dotnet"}))
    assert posted_by() == ["map_pos.n", "map_pos.stack"]
    third = opened()
    for harness in (first, second, third):
        assert [record.id for record in harness.space.rd_all({"map_pos.n": 1})] == [python_id, dotnet_id]
        assert [record.id for record in harness.space.rd_all({"map_pos.stack": "dotnet"})] == [dotnet_id]
        assert harness.space.store.verify() == []
    third.space.store.rebuild()
    assert posted_by() == ["map_pos.n", "map_pos.stack"]
    assert [claim.id for claim in first.space.claim({"map_pos.stack": "dotnet"}, worker="w")] == [dotnet_id]
    for harness in (first, second, third):
        harness.close()


def test_an_index_of_another_layout_is_rebuilt(tmp_path: Path) -> None:
    harness = busy(tmp_path / "catalog")
    expected = harness.space.rd_all({})
    harness.close()
    with closing(apsw.Connection(str(tmp_path / "catalog" / KEY.derived_folder / WORK_INDEX))) as index:
        index.execute("UPDATE applied SET layout = layout - 1; ALTER TABLE applied DROP COLUMN figures")
    reopened = SqliteWorkHarness(tmp_path / "catalog", harness.clock)
    assert reopened.space.rd_all({}) == expected
    assert reopened.space.store.verify() == []
    reopened.close()


def test_pending_counts_are_included_in_every_answer(tmp_path: Path) -> None:
    """Counts of lanes, runs and yools wait in the state row; no process sees a difference."""
    first = SqliteWorkHarness(tmp_path / "catalog")
    second = SqliteWorkHarness(tmp_path / "catalog", first.clock)
    claims: list[Claim] = []
    for n in range(MAX_PENDING_FIGURES + 3):
        first.space.out(draft(f"lane-{n:02}"), authority=PERSON, run=f"run-{n % 3}")
        if n % 2:
            claims += first.space.claim({"lane": f"lane-{n:02}"}, worker="w")
        for harness in (first, second):
            with harness.space.store.read() as view:
                lanes = {counts.lane: (counts.waiting, counts.claimed) for counts in view.lane_counts()}
                assert lanes == {f"lane-{number:02}": (0, 1) if number % 2 else (1, 0) for number in range(n + 1)}
                assert view.waiting_count(f"lane-{n:02}") == 1 - n % 2
                assert sum(totals.states.get("claimed", 0) for totals in view.run_totals()) == len(claims)
    first.space.complete([completion(first, claim, usd=0.25) for claim in claims])
    for harness in (first, second):
        with harness.space.store.read() as view:
            figures = view.cost_history(completion(first, claims[0]).receipts[0].yool)
            assert (figures.executions, figures.micros) == (len(claims), 250_000 * len(claims))
            assert sum(totals.states.get("done", 0) for totals in view.run_totals()) == len(claims)
    assert first.space.store.verify() == second.space.store.verify() == []
    first.close()
    second.close()


def test_a_cached_claim_is_dropped_when_something_happens_to_it(tmp_path: Path) -> None:
    """A process caches what it claimed first; after any change it decides on what the index says."""
    harness = SqliteWorkHarness(tmp_path / "catalog")
    (parent,) = put(harness, draft(agent_terms={"budget_usd": 1}))
    (child,) = put(harness, draft("low", parent_id=parent))
    (claim,) = harness.space.claim({"id": parent}, worker="w")
    (below,) = harness.space.claim({"id": child}, worker="w")

    def check_cached() -> None:
        records = harness.space.store.commit(lambda view: ([], view.find_all([parent, child])))
        with harness.space.store.read() as view:
            assert records == view.find_all([parent, child])

    check_cached()
    for happens in (
        lambda: harness.space.renew([(claim.id, claim.fence)]),
        lambda: harness.space.start_step(below, 0, Price(micros=700_000)),
        lambda: harness.space.record_cost(below.id, below.fence, 0, Price(micros=900_000)),
        lambda: harness.space.complete([completion(harness, below, usd=0.95)]),
        lambda: harness.space.release([(claim.id, claim.fence)]),
    ):
        happens()
        check_cached()
    harness.close()


def test_a_seeded_program_does_not_mix_up_its_projects(tmp_path: Path) -> None:
    """What is remembered of one index is never taken for another's, whatever numbers the program draws."""
    claimed = []
    for number, priorities in enumerate(((0, 5), (5, 0))):
        random.seed(0)
        with closing(SqliteWorkHarness(tmp_path / str(number))) as harness:
            for priority in priorities:
                put(harness, draft(priority=priority))
            claimed.append([claim.tuple.priority for _ in range(2) for claim in harness.space.claim({}, worker="w")])
            assert harness.space.store.verify() == []
    assert claimed == [[5, 0], [5, 0]]


def test_a_claim_ended_by_another_process_is_not_cached(tmp_path: Path) -> None:
    first = SqliteWorkHarness(tmp_path / "catalog")
    second = SqliteWorkHarness(tmp_path / "catalog", first.clock)
    put(first)
    (claim,) = first.space.claim({}, worker="w")
    second.space.cancel(claim.id)
    assert first.space.complete([completion(first, claim)])[0] == [StaleFence.code]
    first.close()
    second.close()


def test_a_receipt_recorded_before_a_release_is_recorded_once(tmp_path: Path) -> None:
    harness = SqliteWorkHarness(tmp_path / "catalog")
    put(harness, draft("build", 1, 2))
    (claim,) = harness.space.claim({}, worker="w")
    first = receipt(harness, claim, 0)
    harness.space.complete([Completion(id=claim.id, fence=claim.fence, receipts=(first,))])
    harness.space.release([(claim.id, claim.fence)])
    (reclaimed,) = harness.space.claim({}, worker="w")
    assert reclaimed.attempt == 1
    harness.space.complete(
        [Completion(id=reclaimed.id, fence=reclaimed.fence, receipts=(first, receipt(harness, reclaimed, 1)))]
    )
    assert harness.space.public_tuple(claim.id)["receipts"].count(first.id) == 1
    harness.close()


def four_wait(*harnesses: SqliteWorkHarness) -> None:
    """Check that all processes and a rebuild count four waiting tuples; then close them."""
    for harness in harnesses:
        with harness.space.store.read() as view:
            assert view.waiting_count("build") == 4
            assert [totals.states for totals in view.run_totals()] == [{"waiting": 4}]
        assert harness.space.store.verify() == []
    for harness in harnesses:
        harness.close()


# BX-03, YT-10
def test_counts_hold_when_another_process_verifies(tmp_path: Path) -> None:
    first = SqliteWorkHarness(tmp_path / "catalog")
    second = SqliteWorkHarness(tmp_path / "catalog", first.clock)
    put(first, draft(), draft(), draft())
    assert second.space.store.verify() == []
    put(first)
    four_wait(first, second)


# BX-03, YT-10: the torn line of a killed writer is cut by the next process, and the journal has its old length again.
def test_counts_hold_when_another_process_cuts_a_torn_line(tmp_path: Path) -> None:
    first = SqliteWorkHarness(tmp_path / "catalog")
    put(first, draft(), draft(), draft())
    with (tmp_path / "catalog" / WORK_JOURNAL).open("ab") as journal:
        journal.write(b'{"at":"2026-11-16T0')
    second = SqliteWorkHarness(tmp_path / "catalog", first.clock)
    with second.space.store.read() as view:
        assert view.waiting_count("build") == 3
    put(first)
    four_wait(first, second)


# BX-03: damage was set aside, after which the journal has the length this process remembers.
@pytest.mark.parametrize("then", ["reads", "writes"])
@pytest.mark.parametrize("done", ["put", "taken"])
def test_a_process_goes_on_when_the_damage_behind_what_it_knew_was_set_aside(
    tmp_path: Path, done: str, then: str
) -> None:
    folder = tmp_path / "catalog"
    first = SqliteWorkHarness(folder)
    ids = put(first, draft(), draft(), draft())
    length = (folder / WORK_JOURNAL).stat().st_size
    second = SqliteWorkHarness(folder, first.clock)
    if done == "put":
        put(second, draft())
    else:
        assert second.space.in_({"lane": "build"}, by="w") is not None
    second.close()
    spoil(folder / WORK_JOURNAL, length)
    over_journals(folder, KEY, lambda journal: set_damage_aside(journal, first.clock.now()))
    assert (folder / WORK_JOURNAL).read_bytes()[length:].count(b"journal.gap") == 1
    if then == "writes":
        ids += put(first, draft())
    assert [record.id for record in first.space.rd_all({"state": "waiting"})] == ids
    assert first.space.store.verify() == []
    assert [claim.id for claim in first.space.claim({}, worker="w", limit=9)] == ids
    first.close()


def spoil(journal: Path, offset: int) -> None:
    """Flip a bit in the line behind an offset."""
    data = bytearray(journal.read_bytes())
    data[offset + 30] ^= 1
    journal.write_bytes(data)


CHANGES = (
    ("applied", "UPDATE applied SET at = at + 1"),
    ("applied", "UPDATE applied SET counter = counter + 1"),
    ("bodies", "UPDATE bodies SET body = x'7B7D' WHERE ordinal = 1"),
    ("tuples", "UPDATE tuples SET rank = 7 WHERE ordinal = 1"),
    ("tuple ids", "DELETE FROM new_tuple_ids WHERE ordinal = 1"),
    ("tuple ids", "INSERT INTO tuple_ids VALUES (1, 1)"),
    ("receipt ids", "DELETE FROM new_receipt_ids WHERE number = 1"),
    ("receipt ids", "INSERT INTO receipt_ids VALUES (1, 1)"),
    ("posted", "DELETE FROM posted WHERE ordinal = 1"),
    ("posted", "UPDATE posted SET live = 1 - live WHERE ordinal = 1"),
    ("receipts", "UPDATE receipts SET body = x'7B7D' WHERE number = 1"),
    ("links", "DELETE FROM links WHERE number = 1"),
    ("hits", "UPDATE hits SET step = step + 1"),
    ("results", "DELETE FROM results"),
    ("purged", "UPDATE purged SET at = at + 1"),
    ("asked", "UPDATE asked SET request = 'another'"),
    ("running", "UPDATE running SET micros = micros + 1"),
    ("counted", "UPDATE counted SET micros = micros + 1"),
    ("blocks", "UPDATE blocks SET by = 'another'"),
    ("task_changes", "UPDATE task_changes SET text = 'another'"),
    ("tuples", "UPDATE tuples SET needs = 7 WHERE ordinal = 1"),
    ("needs", "UPDATE needs SET yools = '[\"agent.lint.none\"]' WHERE number = 1"),
    ("tuples", "UPDATE tuples SET grp = grp + 1 WHERE ordinal = 1"),
    ("lane_runs", "UPDATE lane_runs SET authority = 'ci' WHERE number = 1"),
    ("siblings", "UPDATE siblings SET parent = 7 WHERE number = 1"),
    ("groups", "UPDATE groups SET key = 'k' WHERE number = 1"),
    ("rules", "INSERT INTO rules VALUES ('lane', x'7B7D')"),
    ("slots", "INSERT INTO slots VALUES ('lane', 1)"),
    ("starts", "INSERT INTO starts VALUES ('lane', 1, 1)"),
    ("turns", "UPDATE applied SET figures = x'7B7D'"),
    ("run numbers", "UPDATE runs SET run = 'another'"),
    ("runs", "UPDATE runs SET done = done + 1"),
    ("runs", "UPDATE applied SET figures = x'7B7D'"),
    ("lanes", "INSERT INTO lanes VALUES ('build', 1, 0, 0)"),
    ("batches", "UPDATE batches SET folded = folded + 1"),
    ("folded_leaves", "UPDATE folded_leaves SET stop = stop + 1"),
    ("folded_ends", "UPDATE folded_ends SET agents = agents + 1"),
    ("agents", "UPDATE agents SET children_left = children_left + 1 WHERE level = 0"),
    ("schedules", "UPDATE schedules SET look = look + 1"),
    ("yools", "INSERT INTO yools VALUES ('agent.lint.other.v1', 1, 0, 0, 0, 0, 1, 1)"),
)


def full(folder: Path) -> SqliteWorkHarness:
    """Return a space with rows in every table of the index."""
    harness = SqliteWorkHarness(folder, settings=SpaceSettings(indexed_fields=("map_pos.n",)))
    put(harness, draft(map_pos={"n": 1}), draft("build", 1, 2))
    harness.space.out(draft("asked"), authority=PERSON, run=RUN, accept=True, idempotency=("me k", "r1"))
    (first, second) = harness.space.claim({"lane": "build"}, worker="w", limit=2)
    done = completion(harness, first, key="k")
    harness.space.complete([done])
    harness.space.start_step(second, 0, Price(micros=5))
    harness.space.record_cost(second.id, second.fence, 0, Price(micros=2))
    hit = (1, done.receipts[0].id)
    harness.space.complete([Completion(id=second.id, fence=second.fence, hits=(hit,))])
    (blocked,) = put(harness, draft("blocked"))
    harness.space.block(blocked, reason="why", by="me")
    note = TaskChanged(id=blocked, what="blocked", by="me", text="why")
    harness.space.store.commit(lambda view: ([note], None))
    batch = spawn(harness, 2, 9, lane="tree")
    harness.space.claim({"lane": "tree"}, worker="w")
    BatchSpace(harness.space).cancel(batch, "0.7")
    schedules.add(harness)
    gone = BodyPurged(sha=done.receipts[0].stdout_sha, size_bytes=1, reason="room")
    harness.space.store.commit(lambda view: ([gone], None))
    return harness


# BX-03
@pytest.mark.parametrize(("table", "statement"), CHANGES)
def test_verify_finds_what_was_changed_behind_our_back(tmp_path: Path, table: str, statement: str) -> None:
    harness = full(tmp_path / "catalog")
    assert harness.space.store.verify() == []
    with closing(apsw.Connection(str(tmp_path / "catalog" / KEY.derived_folder / WORK_INDEX))) as index:
        index.execute(statement)
        assert index.changes() > 0
    assert f"work.db, table {table}" in [item.where for item in harness.space.store.verify()]
    harness.space.store.rebuild()
    assert harness.space.store.verify() == []
    harness.close()


def test_verify_is_tested_with_every_table(tmp_path: Path) -> None:  # BX-03
    """A new table must be added to the test above."""
    full(tmp_path / "catalog").close()
    with closing(apsw.Connection(str(tmp_path / "catalog" / KEY.derived_folder / WORK_INDEX))) as index:
        tables = {name for (name,) in index.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    words = {word for _, statement in CHANGES for word in statement.split()}
    # What claims have closed is no content: every claim comes to the same with all of it open (decision 110).
    assert tables - {"closed", "held"} <= words
    assert {table for table, _ in CHANGES} >= set(COMPARED)


# BX-03, YT-06
def test_verify_blocks_no_caller(tmp_path: Path) -> None:
    """A worker renews its claim and the journal is rotated while `verify` runs."""
    harness = busy(tmp_path / "catalog")
    (claimed,) = put(harness, draft("held"))
    (claim,) = harness.space.claim({"id": claimed}, worker="w")
    done: list[object] = []

    def on_progress(done_bytes: int, total_bytes: int) -> None:
        if done:
            return
        work = (
            lambda: harness.space.renew([(claim.id, claim.fence)]),
            lambda: store.rotate(least_bytes=1, before_us=1 << 62),
            lambda: len(put(harness)),
            lambda: store.rotate(least_bytes=1, before_us=1 << 62),
        )
        done.append("begun")
        done.extend(pool.submit(item).result(timeout=30) for item in work)

    with ThreadPoolExecutor(1) as pool, closing(SqliteWork(tmp_path / "catalog", KEY, harness.clock)) as store:
        store.index._on_progress = on_progress
        assert store.verify() == []
        assert done == ["begun", [], True, 1, True]
        assert store.verify() == []
    assert harness.space.store.verify() == []
    remaining = {path.name for path in (tmp_path / "catalog" / KEY.derived_folder).glob(f"{WORK_INDEX}*")}
    assert remaining <= {f"{WORK_INDEX}{end}" for end in ("", "-wal", "-shm")}
    harness.close()


# YT-10, BX-03
def test_damage_to_an_acknowledged_line_is_reported_after_a_reboot(tmp_path: Path) -> None:
    """Only lines that were never synced may be missing then."""
    harness = SqliteWorkHarness(tmp_path / "catalog")
    put(harness, draft(), draft())
    harness.space.claim({}, worker="w")  # is not synced
    harness.close()
    with closing(apsw.Connection(str(tmp_path / "catalog" / KEY.derived_folder / WORK_INDEX))) as index:
        index.execute("UPDATE applied SET machine = 'another start'")
    journal = tmp_path / "catalog" / WORK_JOURNAL
    *earlier, acknowledged, claimed = journal.read_bytes().splitlines(keepends=True)
    damaged = b"".join(earlier) + acknowledged[:-20]
    journal.write_bytes(damaged)
    with pytest.raises(JournalDamaged), closing(SqliteWork(tmp_path / "catalog", KEY, harness.clock)) as store:
        store.last_line()
    assert journal.read_bytes() == damaged
    journal.write_bytes(b"".join(earlier) + acknowledged + claimed[:-20])
    reopened = SqliteWorkHarness(tmp_path / "catalog", harness.clock)
    assert [record.state for record in reopened.space.rd_all({})] == ["waiting", "waiting"]
    reopened.close()


def test_the_end_of_a_tuple_is_synced_in_any_commit(tmp_path: Path) -> None:  # YT-10
    """A claim is not synced, but one that ends an expired tuple is."""
    harness = SqliteWorkHarness(tmp_path / "catalog")
    put(harness, draft(agent_terms={"deadline_iso": print_time(harness.clock.now() + SECOND_US)}))
    harness.clock.advance(seconds=2)
    assert harness.space.claim({}, worker="w") == []
    put(harness, draft())
    (_, *_, ended, _) = lines = (tmp_path / "catalog" / WORK_JOURNAL).read_bytes().splitlines(keepends=True)
    assert b"tuple.done" in ended
    assert stated_mark(lines[-1]) == sum(map(len, lines[:-1]))
    harness.close()


# YT-10
def test_an_interrupt_during_the_commit_of_the_index_blocks_no_writer(tmp_path: Path) -> None:
    """Ctrl-C may come at any moment; lines that are in the journal stay, and writing continues."""
    harness = SqliteWorkHarness(tmp_path / "catalog")
    put(harness)
    store = harness.space.store
    assert isinstance(store, SqliteWork)
    assert store.index.writer is not None

    def interrupted(cursor: object, statement: str, values: object) -> bool:
        if statement == "COMMIT":
            raise KeyboardInterrupt
        return True

    store.index.writer.exec_trace = interrupted
    with pytest.raises(KeyboardInterrupt):
        put(harness)
    store.index.writer.exec_trace = None
    put(harness)
    assert len(harness.space.rd_all({})) == 3
    assert store.verify() == []
    harness.close()


# YT-05
def test_a_put_succeeds_even_if_no_waiter_can_be_woken(tmp_path: Path) -> None:
    """The FIFO folder is gone, or no file can be opened; waiters poll after a while."""
    harness = SqliteWorkHarness(tmp_path / "catalog")
    store = harness.space.store
    with store.wait_on("work"):
        shutil.rmtree(tmp_path / "catalog" / "wakeups")
        put(harness)
    with store.wait_on("work"):  # there is another folder for who waits from now on
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        highest = os.open(os.devnull, os.O_RDONLY)
        os.close(highest)
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest, hard))
        try:
            with pytest.raises(OSError, match="Too many open files"):
                os.open(os.devnull, os.O_RDONLY)
            put(harness)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    with store.wait_on("work") as bell:
        put(harness)
        bell.wait(60)
    assert len(harness.space.rd_all({})) == 3
    harness.close()


# YT-08
def test_receipt_files_are_complete_after_the_journal_lost_its_end(tmp_path: Path) -> None:
    """Restored from a copy, it gives later receipts the numbers of lost ones."""
    harness = SqliteWorkHarness(tmp_path / "catalog")
    folder = ReceiptFolder(tmp_path / "receipts", tmp_path / "written")
    put(harness, draft("build", 1, 2, 3, 4, 5))
    (claim,) = harness.space.claim({}, worker="w")
    receipts = [receipt(harness, claim, step) for step in range(5)]

    def settle(*steps: int) -> None:
        done = tuple(receipts[step] for step in steps)
        harness.space.complete([Completion(id=claim.id, fence=claim.fence, receipts=done)])

    copy = harness.journal_bytes()
    settle(0, 1)
    assert harness.space.write_receipts(folder) == 2
    (tmp_path / "catalog" / WORK_JOURNAL).write_bytes(copy)
    harness.reopen()
    settle(2, 3)
    assert harness.space.write_receipts(folder) == 2
    settle(4)
    assert harness.space.write_receipts(folder) == 1
    assert harness.space.write_receipts(folder) == 0
    assert all(folder.path(item.id).exists() for item in receipts)
    harness.close()


# decision 100
def test_a_claim_reads_nothing_that_its_worker_cannot_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # YT-22
    """However many wait, new or to be tried again, and of however many yools."""
    harness = SqliteWorkHarness(tmp_path / "catalog")
    others = [draft(payload=[{"yool": f"agent.other.n{n % 5}"}], priority=5) for n in range(200)]
    put(harness, *others)
    failed = harness.space.claim({}, worker="w", limit=100)
    harness.space.complete([failure(harness, claim) for claim in failed])
    harness.clock.advance(seconds=10)
    ours = put(harness, *[draft()] * 3)
    read: list[TupleRecord] = []
    real = projection.record_from_row

    def noted(row: object) -> TupleRecord:
        read.append(real(row))
        return read[-1]

    monkeypatch.setattr(view, "record_from_row", noted)
    for tuple_id in ours:
        (claim,) = harness.space.claim({"lane": "build"}, worker="w", can_run=lambda name: name == "agent.lint.ruff")
        assert claim.id == tuple_id
    assert harness.space.claim({"lane": "build"}, worker="w", can_run=lambda name: name == "agent.lint.ruff") == []
    assert {record.id for record in read} == set(ours)
    harness.close()


# YT-06
@pytest.mark.parametrize("late", ["failed", "lost", "outlived"])
def test_a_claim_reads_only_what_it_claims_however_many_are_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, late: str
) -> None:
    harness = SqliteWorkHarness(tmp_path / "catalog")
    put(harness, *(draft(map_pos={"n": n}) for n in range(200)))
    claims = harness.space.claim({}, worker="w", limit=200)
    if late == "failed":
        harness.space.complete([failure(harness, claim) for claim in claims])
    if late == "outlived":
        harness.reboot("second")
    else:
        harness.clock.advance(seconds=30)
    read: list[TupleRecord] = []
    real = projection.record_from_row

    def noted(row: object) -> TupleRecord:
        read.append(real(row))
        return read[-1]

    monkeypatch.setattr(view, "record_from_row", noted)
    for claim in claims[:3]:
        assert [claim.id for claim in harness.space.claim({"lane": "build"}, worker="w")] == [claim.id]
    assert len(read) <= 2 * 3  # once to see that there is something, and once to take it
    harness.close()
