"""The index of work, taken away, damaged or left behind: the journal is the truth. # YT-10"""

from __future__ import annotations

import os
import resource
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from engrambus.backends.sqlite.store import over_journals
from engrambus.backends.sqlite.work import WORK_INDEX, WORK_JOURNAL, SqliteWork, projection, view
from engrambus.backends.sqlite.work.index import COMPARED
from engrambus.backends.sqlite.work.projection import MAX_PENDING_FIGURES, MERGED_IDS
from engrambus.core import SECOND_US, print_time
from engrambus.core.journal import set_damage_aside
from engrambus.core.journal.format import stated_mark
from engrambus.errors import JournalDamaged, StaleFence
from engrambus.evidence.receipts import ReceiptFolder
from engrambus.space.tuples import BodyPurged, Claim, Completion, Price, SpaceSettings, TupleRecord
from engrambus.testing.work import PERSON, RUN, completion, draft, failure, put, receipt
from tests.harness.stores import SqliteWorkHarness


def busy(folder: Path) -> SqliteWorkHarness:
    """A space in which tuples were claimed, given back, claimed again, failed and done."""
    harness = SqliteWorkHarness(folder)
    put(harness, draft(), draft(priority=2), draft("other"))
    (first, second) = harness.space.claim({"lane": "build"}, worker="w", limit=2)
    harness.space.release_dead([(second.id, second.fence)], reason="gone")
    (again,) = harness.space.claim({"lane": "build"}, worker="w")
    harness.space.complete([completion(harness, again), failure(harness, first)])
    harness.clock.advance(seconds=5)
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


def test_a_rebuild_ends_with_what_was_said_last(tmp_path: Path) -> None:
    """Many changes of one kind are written at once then; of those to one tuple the last holds."""
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
    held = put(harness, *(draft("bulk", map_pos={"n": n}) for n in range(MERGED_IDS - 1)))
    receipts: list[str] = []
    for _ in range(3):  # the last that gathers apart, then the one that has all sorted in, then one apart again
        held += put(harness)
        (claim,) = harness.space.claim({"lane": "build"}, worker="w")
        done = completion(harness, claim)
        harness.space.complete([done])
        receipts += [each.id for each in (*done.receipts, done.final_receipt) if each is not None]
        assert [harness.space.get(each).id for each in (held[0], *held[-3:])] == [held[0], *held[-3:]]
        assert [harness.space.receipt(each).id for each in receipts] == receipts
        assert harness.space.store.verify() == []
    before = len(harness.journal_bytes())
    assert (
        put(harness, harness.space.public_tuple(held[0])) == held[:1]
    )  # put again under its id, it is the one that is there
    assert len(harness.journal_bytes()) == before
    harness.close()


def test_new_ids_do_not_gather_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of tuples as of receipts: when they are many they are sorted in with the others, and still found."""
    monkeypatch.setattr(projection, "MERGED_IDS", 8)
    harness = SqliteWorkHarness(tmp_path / "catalog")
    receipts: list[str] = []
    for _ in range(12):
        put(harness)
        (claim,) = harness.space.claim({}, worker="w")
        done = completion(harness, claim)
        harness.space.complete([done])
        receipts += [each.id for each in (*done.receipts, done.final_receipt) if each is not None]
    with closing(apsw.Connection(str(tmp_path / "catalog" / WORK_INDEX))) as index:
        for what, every in (("tuple_ids", 12), ("receipt_ids", 24)):
            ((gathered, together),) = index.execute(
                f"SELECT (SELECT count(*) FROM new_{what}), (SELECT count(*) FROM all_{what})"
            )
            assert (int(gathered) < 8, together) == (True, every)
    assert [harness.space.receipt(each).id for each in receipts] == receipts
    assert harness.space.store.verify() == []
    harness.close()


# YT-05
def test_processes_that_post_by_other_fields_share_one_index(tmp_path: Path) -> None:
    """It has the fields of all of them; who asked for fewer keeps those of the others."""

    def opened(*indexed: str) -> SqliteWorkHarness:
        return SqliteWorkHarness(tmp_path / "catalog", first.clock, SpaceSettings(indexed_fields=indexed))

    def posted_by() -> list[str]:
        with closing(apsw.Connection(str(tmp_path / "catalog" / WORK_INDEX))) as index:
            return [str(path) for (path,) in index.execute("SELECT DISTINCT path FROM posted ORDER BY path")]

    first = SqliteWorkHarness(tmp_path / "catalog", settings=SpaceSettings(indexed_fields=("map_pos.n",)))
    (one,) = put(first, draft(map_pos={"n": 1, "stack": "python"}))
    assert posted_by() == ["map_pos.n"]
    second = opened("map_pos.stack")
    (other,) = put(second, draft(map_pos={"n": 1, "stack": "dotnet"}))
    assert posted_by() == ["map_pos.n", "map_pos.stack"]
    third = opened()
    for harness in (first, second, third):
        assert [each.id for each in harness.space.rd_all({"map_pos.n": 1})] == [one, other]
        assert [each.id for each in harness.space.rd_all({"map_pos.stack": "dotnet"})] == [other]
        assert harness.space.store.verify() == []
    third.space.store.rebuild()
    assert posted_by() == ["map_pos.n", "map_pos.stack"]
    assert [claim.id for claim in first.space.claim({"map_pos.stack": "dotnet"}, worker="w")] == [other]
    for harness in (first, second, third):
        harness.close()


def test_an_index_of_another_layout_is_built_again(tmp_path: Path) -> None:
    harness = busy(tmp_path / "catalog")
    before = harness.space.rd_all({})
    harness.close()
    with closing(apsw.Connection(str(tmp_path / "catalog" / WORK_INDEX))) as index:
        index.execute("UPDATE applied SET layout = layout - 1; ALTER TABLE applied DROP COLUMN figures")
    again = SqliteWorkHarness(tmp_path / "catalog", harness.clock)
    assert again.space.rd_all({}) == before
    assert again.space.store.verify() == []
    again.close()


def test_counts_hold_beside_their_tables_and_in_them(tmp_path: Path) -> None:
    """What lanes, runs and yools count gathers beside their tables; nobody who asks can tell, here or elsewhere."""
    one = SqliteWorkHarness(tmp_path / "catalog")
    other = SqliteWorkHarness(tmp_path / "catalog", one.clock)
    held: list[Claim] = []
    for n in range(MAX_PENDING_FIGURES + 3):
        one.space.out(draft(f"lane-{n:02}"), authority=PERSON, run=f"run-{n % 3}")
        if n % 2:
            held += one.space.claim({"lane": f"lane-{n:02}"}, worker="w")
        for harness in (one, other):
            with harness.space.store.read() as view:
                lanes = {each.lane: (each.waiting, each.claimed) for each in view.lane_counts()}
                assert lanes == {f"lane-{at:02}": (0, 1) if at % 2 else (1, 0) for at in range(n + 1)}
                assert view.waiting_count(f"lane-{n:02}") == 1 - n % 2
                assert sum(each.states.get("claimed", 0) for each in view.run_totals()) == len(held)
    one.space.complete([completion(one, claim, usd=0.25) for claim in held])
    for harness in (one, other):
        with harness.space.store.read() as view:
            figures = view.cost_history(completion(one, held[0]).receipts[0].yool)
            assert (figures.executions, figures.micros) == (len(held), 250_000 * len(held))
            assert sum(each.states.get("done", 0) for each in view.run_totals()) == len(held)
    assert one.space.store.verify() == other.space.store.verify() == []
    one.close()
    other.close()


def test_what_is_held_is_known_as_it_is(tmp_path: Path) -> None:
    """A process remembers what it claimed; whatever happens to it, it decides on what the index says."""
    harness = SqliteWorkHarness(tmp_path / "catalog")
    (parent,) = put(harness, draft(agent_terms={"budget_usd": 1}))
    (child,) = put(harness, draft("low", parent_id=parent))
    (claim,) = harness.space.claim({"id": parent}, worker="w")
    (below,) = harness.space.claim({"id": child}, worker="w")

    def told() -> None:
        known = harness.space.store.commit(lambda view: ([], view.find_all([parent, child])))
        with harness.space.store.read() as view:
            assert known == view.find_all([parent, child])

    told()
    for happens in (
        lambda: harness.space.renew([(claim.id, claim.fence)]),
        lambda: harness.space.start_step(below, 0, Price(micros=700_000)),
        lambda: harness.space.record_cost(below.id, below.fence, 0, Price(micros=900_000)),
        lambda: harness.space.complete([completion(harness, below, usd=0.95)]),
        lambda: harness.space.release([(claim.id, claim.fence)]),
    ):
        happens()
        told()
    harness.close()


def test_what_another_process_ended_is_not_held(tmp_path: Path) -> None:
    one = SqliteWorkHarness(tmp_path / "catalog")
    other = SqliteWorkHarness(tmp_path / "catalog", one.clock)
    put(one)
    (claim,) = one.space.claim({}, worker="w")
    other.space.cancel(claim.id)
    assert one.space.complete([completion(one, claim)])[0] == [StaleFence.code]
    one.close()
    other.close()


def test_a_receipt_told_before_a_tuple_was_given_back_is_told_once(tmp_path: Path) -> None:
    harness = SqliteWorkHarness(tmp_path / "catalog")
    put(harness, draft("build", 1, 2))
    (claim,) = harness.space.claim({}, worker="w")
    first = receipt(harness, claim, 0)
    harness.space.complete([Completion(id=claim.id, fence=claim.fence, receipts=(first,))])
    harness.space.release([(claim.id, claim.fence)])
    (again,) = harness.space.claim({}, worker="w")
    assert again.attempt == 1
    harness.space.complete([Completion(id=again.id, fence=again.fence, receipts=(first, receipt(harness, again, 1)))])
    assert harness.space.public_tuple(claim.id)["receipts"].count(first.id) == 1
    harness.close()


def four_wait(*harnesses: SqliteWorkHarness) -> None:
    """All of them count four that wait, and an index built anew does; then they are closed."""
    for harness in harnesses:
        with harness.space.store.read() as view:
            assert view.waiting_count("build") == 4
            assert [each.states for each in view.run_totals()] == [{"waiting": 4}]
        assert harness.space.store.verify() == []
    for harness in harnesses:
        harness.close()


# BX-03, YT-10
def test_counts_hold_when_another_process_verifies(tmp_path: Path) -> None:
    one = SqliteWorkHarness(tmp_path / "catalog")
    other = SqliteWorkHarness(tmp_path / "catalog", one.clock)
    put(one, draft(), draft(), draft())
    assert other.space.store.verify() == []
    put(one)
    four_wait(one, other)


# BX-03, YT-10: what a writer that was killed left is cut off by whoever comes, and the journal is as long as before.
def test_counts_hold_when_another_process_cuts_a_torn_line(tmp_path: Path) -> None:
    one = SqliteWorkHarness(tmp_path / "catalog")
    put(one, draft(), draft(), draft())
    with (tmp_path / "catalog" / WORK_JOURNAL).open("ab") as journal:
        journal.write(b'{"at":"2026-11-16T0')
    other = SqliteWorkHarness(tmp_path / "catalog", one.clock)
    with other.space.store.read() as view:
        assert view.waiting_count("build") == 3
    put(one)
    four_wait(one, other)


# BX-03: damage was set aside, which left the journal as long as this process had it before.
@pytest.mark.parametrize("first", ["reads", "writes"])
@pytest.mark.parametrize("done", ["put", "taken"])
def test_a_process_goes_on_when_the_damage_behind_what_it_knew_was_set_aside(
    tmp_path: Path, done: str, first: str
) -> None:
    folder = tmp_path / "catalog"
    one = SqliteWorkHarness(folder)
    ids = put(one, draft(), draft(), draft())
    length = (folder / WORK_JOURNAL).stat().st_size
    other = SqliteWorkHarness(folder, one.clock)
    if done == "put":
        put(other, draft())
    else:
        assert other.space.in_({"lane": "build"}, by="w") is not None
    other.close()
    spoil(folder / WORK_JOURNAL, length)
    over_journals(folder, lambda journal: set_damage_aside(journal, one.clock.now()))
    assert (folder / WORK_JOURNAL).stat().st_size == length
    if first == "writes":
        ids += put(one, draft())
    assert [each.id for each in one.space.rd_all({"state": "waiting"})] == ids
    assert one.space.store.verify() == []
    assert [each.id for each in one.space.claim({}, worker="w", limit=9)] == ids
    one.close()


def spoil(journal: Path, at: int) -> None:
    """Flip a bit of the line behind a place."""
    data = bytearray(journal.read_bytes())
    data[at + 30] ^= 1
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
    ("results", "DELETE FROM results"),
    ("purged", "UPDATE purged SET at = at + 1"),
    ("asked", "UPDATE asked SET request = 'another'"),
    ("running", "UPDATE running SET micros = micros + 1"),
    ("counted", "UPDATE counted SET micros = micros + 1"),
    ("run numbers", "UPDATE runs SET run = 'another'"),
    ("runs", "UPDATE runs SET done = done + 1"),
    ("runs", "UPDATE applied SET figures = x'7B7D'"),
    ("lanes", "INSERT INTO lanes VALUES ('build', 1, 0)"),
    ("yools", "INSERT INTO yools VALUES ('agent.lint.ruff.v1', 1, 0, 0)"),
)


def full(folder: Path) -> SqliteWorkHarness:
    """A space of which every table of the index has something to say."""
    harness = SqliteWorkHarness(folder, settings=SpaceSettings(indexed_fields=("map_pos.n",)))
    put(harness, draft(map_pos={"n": 1}), draft("build", 1, 2))
    harness.space.out(draft("asked"), authority=PERSON, run=RUN, accept=True, idempotency=("me k", "r1"))
    (first, second) = harness.space.claim({"lane": "build"}, worker="w", limit=2)
    done = completion(harness, first, key="k")
    harness.space.complete([done])
    harness.space.start_step(second, 0, Price(micros=5))
    harness.space.record_cost(second.id, second.fence, 0, Price(micros=2))
    gone = BodyPurged(sha=done.receipts[0].stdout_sha, size_bytes=1, reason="room")
    harness.space.store.commit(lambda view: ([gone], None))
    return harness


# BX-03
@pytest.mark.parametrize(("table", "statement"), CHANGES)
def test_verify_finds_what_was_changed_behind_our_back(tmp_path: Path, table: str, statement: str) -> None:
    harness = full(tmp_path / "catalog")
    assert harness.space.store.verify() == []
    with closing(apsw.Connection(str(tmp_path / "catalog" / WORK_INDEX))) as index:
        index.execute(statement)
        assert index.changes() > 0
    assert f"work table {table}" in [each.where for each in harness.space.store.verify()]
    harness.space.store.rebuild()
    assert harness.space.store.verify() == []
    harness.close()


def test_verify_is_shown_to_find_changes_of_every_table(tmp_path: Path) -> None:  # BX-03
    """Of each table of the index, so that none is left out when one comes."""
    full(tmp_path / "catalog").close()
    with closing(apsw.Connection(str(tmp_path / "catalog" / WORK_INDEX))) as index:
        tables = {name for (name,) in index.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    words = {word for _, statement in CHANGES for word in statement.split()}
    assert tables <= words
    assert {table for table, _ in CHANGES} >= set(COMPARED)


# BX-03, YT-06
def test_nobody_waits_for_a_verify(tmp_path: Path) -> None:
    """A worker keeps its claim, and the journal goes on in a new file, while everything is read and built again."""
    harness = busy(tmp_path / "catalog")
    (held,) = put(harness, draft("held"))
    (claim,) = harness.space.claim({"id": held}, worker="w")
    done: list[object] = []

    def meanwhile(at: int, size: int) -> None:
        if done:
            return
        work = (
            lambda: harness.space.renew([(claim.id, claim.fence)]),
            lambda: store.rotate(least_bytes=1, before_us=1 << 62),
            lambda: len(put(harness)),
            lambda: store.rotate(least_bytes=1, before_us=1 << 62),
        )
        done.append("begun")
        done.extend(pool.submit(each).result(timeout=30) for each in work)

    with ThreadPoolExecutor(1) as pool, closing(SqliteWork(tmp_path / "catalog", harness.clock)) as store:
        store.index._on_progress = meanwhile
        assert store.verify() == []
        assert done == ["begun", [], True, 1, True]
        assert store.verify() == []
    assert harness.space.store.verify() == []
    left = {each.name for each in (tmp_path / "catalog").glob(f"{WORK_INDEX}*")}
    assert left <= {f"{WORK_INDEX}{end}" for end in ("", "-wal", "-shm")}
    harness.close()


# YT-10, BX-03
def test_damage_to_what_was_acknowledged_is_told_after_the_machine_was_started_anew(tmp_path: Path) -> None:
    """Only what was never synced may be gone then, as if it had never happened."""
    harness = SqliteWorkHarness(tmp_path / "catalog")
    put(harness, draft(), draft())
    harness.space.claim({}, worker="w")  # is not synced
    harness.close()
    with closing(apsw.Connection(str(tmp_path / "catalog" / WORK_INDEX))) as index:
        index.execute("UPDATE applied SET machine = 'another start'")
    journal = tmp_path / "catalog" / WORK_JOURNAL
    *kept, acknowledged, claimed = journal.read_bytes().splitlines(keepends=True)
    damaged = b"".join(kept) + acknowledged[:-20]
    journal.write_bytes(damaged)
    with pytest.raises(JournalDamaged), closing(SqliteWork(tmp_path / "catalog", harness.clock)) as store:
        store.last_line()
    assert journal.read_bytes() == damaged
    journal.write_bytes(b"".join(kept) + acknowledged + claimed[:-20])
    again = SqliteWorkHarness(tmp_path / "catalog", harness.clock)
    assert [each.state for each in again.space.rd_all({})] == ["waiting", "waiting"]
    again.close()


def test_the_end_of_a_tuple_is_on_the_disk_whoever_came_across_it(tmp_path: Path) -> None:  # YT-10
    """A claim alone is not synced. The last receipt of a tuple that came too late for it is."""
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
def test_an_interrupt_while_the_index_is_committed_holds_up_nobody(tmp_path: Path) -> None:
    """Ctrl-C may come at any moment. What the journal has by then has happened, and writing goes on."""
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
def test_what_was_put_is_answered_though_nobody_can_be_woken(tmp_path: Path) -> None:
    """The folder of bells is gone, or no file can be opened: the tuple is there, and who waits looks by itself."""
    harness = SqliteWorkHarness(tmp_path / "catalog")
    store = harness.space.store
    with store.wait_on("work"):
        shutil.rmtree(tmp_path / "catalog" / "bells")
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
def test_receipts_lie_as_files_though_the_journal_lost_its_end(tmp_path: Path) -> None:
    """It was put back from a copy: other receipts have the numbers of those that were written before."""
    harness = SqliteWorkHarness(tmp_path / "catalog")
    folder = ReceiptFolder(tmp_path / "receipts")
    put(harness, draft("build", 1, 2, 3, 4, 5))
    (claim,) = harness.space.claim({}, worker="w")
    made = [receipt(harness, claim, step) for step in range(5)]

    def settle(*steps: int) -> None:
        done = tuple(made[step] for step in steps)
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
    assert all(folder.path(each.id).exists() for each in made)
    harness.close()


# YT-06
@pytest.mark.parametrize("late", ["failed", "lost", "outlived"])
def test_a_claim_reads_what_it_takes_however_many_are_late(
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
    real = view.record_from_row

    def noted(row: object) -> TupleRecord:
        read.append(real(row))
        return read[-1]

    monkeypatch.setattr(view, "record_from_row", noted)
    for claim in claims[:3]:
        assert [each.id for each in harness.space.claim({"lane": "build"}, worker="w")] == [claim.id]
    assert len(read) <= 2 * 3  # once to see that there is something, and once to take it
    harness.close()
