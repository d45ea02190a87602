"""Garbage collection deletes bodies by age and for space, never receipts; on a full disk no work is begun."""

from __future__ import annotations

import errno
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engrambus import Bus, Pointer
from engrambus.app import open_worker_dependencies
from engrambus.core import SECOND_US, SystemClock, digest, print_time, short_id
from engrambus.core.process_names import process_name
from engrambus.errors import BodyNotFound, DiskPressure
from engrambus.evidence.receipts import (
    DAY_US,
    EMPTY_DIGEST,
    Artifact,
    BodyFile,
    PurgePlanner,
    Receipt,
    new_receipt,
    receipt_id,
)
from engrambus.evidence.receipts.folder import _checked
from engrambus.gateway import LOCAL_ADMIN, Gateway
from engrambus.operations import pinned_by_engrams
from engrambus.operations.gc import CollectGarbage
from engrambus.operations.receipts import RecordTests
from engrambus.policy.guardrails import MB, DiskBreaker, Retention
from engrambus.settings import Settings
from engrambus.space.tuples import GC_LANE, Completion, TupleSpace
from engrambus.space.work import GarbageCollector, GcReport, GcWorker, Progress
from engrambus.space.work.gc_worker import last_night
from engrambus.testing import ManualClock, expect_refusal
from engrambus.testing.work import PERSON, RUN
from tests.cli.runner import Shell
from tests.guardrails.test_segments import lines, store
from tests.projects import Repository, make_gateway, make_repository, make_settings
from tests.space.worker_harness import WorkerHarness, open_worker_harness, step

NOW = SystemClock().now()


def receipt(sha: str, days: float, *, artifact: bool = True, name: str = "a") -> Receipt:
    """Return a receipt from some days ago that names a body."""
    ended_at = print_time(NOW - round(days * DAY_US))
    artifacts = (Artifact(kind="file", path=name, sha=sha, size=1),) if artifact else ()
    return new_receipt(
        yool="agent.sum.numbers.v1",
        tuple_id="sha256:" + "1" * 64,
        started_at=ended_at,
        ended_at=ended_at,
        exit=0,
        stdout_sha=EMPTY_DIGEST if artifact else sha,
        artifacts=artifacts,
    )


def sha(number: int) -> str:
    return f"sha256:{number:064x}"


def plan(
    receipts: list[Receipt], sizes: dict[str, int], room: int = 0, pinned: frozenset[str] = frozenset()
) -> list[tuple[str, str]]:
    """Return the bodies to delete, each with the reason."""
    files = [BodyFile(digest, size, 0) for digest, size in sizes.items()]
    planner = PurgePlanner(files, pinned, fresh_us=NOW)
    for named in receipts:
        planner.add(named)
    purges = planner.plan(now_us=NOW, hot_days=30, warm_days=365, excess_bytes=room)
    return [(purge.body.sha, purge.why) for purge in purges]


# YT-13: the specification's own test.
def test_old_artifacts_are_deleted_and_young_ones_kept() -> None:
    young = [receipt(sha(number), 5, name=str(number)) for number in range(50)]
    old = [receipt(sha(100 + number), 40, name=str(number)) for number in range(50)]
    deleted = plan(young + old, {sha(number): 10 for number in range(200)})
    assert sorted(deleted) == [(sha(100 + number), "artifact") for number in range(50)]


# YT-13: three tiers.
def test_output_is_kept_longer_than_artifacts() -> None:
    printed = [receipt(sha(1), 40, artifact=False), receipt(sha(2), 400, artifact=False)]
    assert plan(printed, {sha(1): 10, sha(2): 10}) == [(sha(2), "printed")]


def test_the_age_of_a_body_is_that_of_its_last_execution() -> None:
    assert plan([receipt(sha(1), 400), receipt(sha(1), 1)], {sha(1): 10}) == []
    assert plan([receipt(sha(1), 100), receipt(sha(1), 90, artifact=False)], {sha(1): 10}) == []


def test_for_space_the_oldest_are_deleted_first_and_no_more_than_needed() -> None:
    receipts = [receipt(sha(number), number) for number in (1, 2, 3, 4)]
    sizes = {sha(number): 10 for number in range(5)}
    assert plan(receipts, sizes, room=11) == [(sha(4), "room"), (sha(3), "room")]
    assert plan([*receipts, receipt(sha(0), 99)], sizes, room=10) == [(sha(0), "artifact")]


def test_bodies_that_engrams_point_at_are_kept() -> None:
    named = receipt(sha(2), 400)
    pinned = frozenset({sha(1), named.id})
    assert plan([receipt(sha(1), 400), named, receipt(sha(3), 400)], {sha(n): 9 for n in (1, 2, 3)}, 99, pinned) == [
        (sha(3), "artifact")
    ]


@given(st.lists(st.tuples(st.integers(0, 20), st.floats(0, 800), st.booleans()), max_size=30), st.integers(0, 100))
def test_nothing_is_deleted_without_a_reason(executions: list[tuple[int, float, bool]], room: int) -> None:
    receipts = [receipt(sha(number), days, artifact=artifact) for number, days, artifact in executions]
    sizes = {sha(number): 10 for number in range(21)}
    deleted = plan(receipts, sizes, room)
    assert len(deleted) == len(set(deleted)) <= len({number for number, _, _ in executions})
    for_room = sum(why == "room" for _, why in deleted)
    assert for_room * 10 < room + 10


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[WorkerHarness]:
    with open_worker_harness(tmp_path) as harness:
        yield harness


def collector(
    harness: WorkerHarness,
    free: int | Callable[[Path], int] = 10**12,
    grace: float = 0.0,
    pinned: tuple[str, ...] = (),
    **retention: int,
) -> GarbageCollector:
    """Return a collector for the project."""
    return GarbageCollector(
        harness.space,
        harness.deps.bodies,
        harness.deps.receipts,
        harness.deps.root / ".catalog",
        harness.deps.clock,
        retention=lambda: Retention(**retention),
        pinned=lambda: pinned,
        free=free if callable(free) else lambda folder: free,
        grace_seconds=grace,
    )


def run_steps(harness: WorkerHarness) -> list[Receipt]:
    """Run steps that leave a file; return their receipts."""
    ids = [harness.put(step("agent.leave.report", text=f"report {number}")) for number in range(3)]
    harness.work()
    return [receipt for tuple_id in ids for receipt in harness.receipts(tuple_id)]


# YT-13
def test_a_dry_run_reports_the_same_and_changes_nothing(harness: WorkerHarness) -> None:
    run_steps(harness)
    previous_lines = lines(harness.space)
    planned = collector(harness, hot_days=0, warm_days=0).collect(dry_run=True)
    assert sum(row.bodies for row in planned.freed) > 0
    assert lines(harness.space) == previous_lines
    done = collector(harness, hot_days=0, warm_days=0).collect()
    assert done.freed == planned.freed
    assert planned.after_bytes < planned.total_bytes


# YT-13, YT-08
def test_receipts_are_kept_and_deleted_bodies_are_journalled(harness: WorkerHarness) -> None:
    receipts = run_steps(harness)
    shas = {artifact.sha for receipt in receipts for artifact in receipt.artifacts}
    assert shas
    collector(harness, hot_days=0, warm_days=400).collect()
    assert not any(harness.deps.bodies.exists(sha) for sha in shas)
    with harness.space.store.read() as view:
        assert all(view.receipt(receipt.id) == receipt for receipt in receipts)
        assert all(view.purged_at_us(sha) is not None for sha in shas)
    assert len(list((harness.deps.root / ".catalog/receipts").glob("*/*.json"))) == len(receipts)
    assert store(harness.space).verify() == []
    store(harness.space).rebuild()
    with harness.space.store.read() as view:
        assert all(view.purged_at_us(sha) is not None for sha in shas)


# YT-13: a clock that is years ahead makes every body look old
def test_nothing_is_deleted_under_a_clock_that_is_ahead(
    harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    receipts = run_steps(harness)
    shas = {artifact.sha for receipt in receipts for artifact in receipt.artifacts}
    now = SystemClock().now
    monkeypatch.setattr(SystemClock, "now", lambda clock: now() + 5000 * DAY_US)
    with expect_refusal("CLOCK_AHEAD"):
        collector(harness).collect()
    assert shas
    assert all(harness.deps.bodies.exists(sha) for sha in shas)


# YT-08, YT-13: a test is pointed at through the receipt of its step or of its tuple.
def test_a_pinned_tuple_receipt_keeps_the_bodies_of_its_steps(harness: WorkerHarness) -> None:
    executed = run_steps(harness)
    hit = harness.put(step("agent.leave.report", text="report 1"))
    harness.work()
    tuple_receipt = harness.receipts(hit)[-1]
    (cached,) = [receipt for receipt in executed if receipt.id in tuple_receipt.receipts]
    done = collector(harness, hot_days=0, warm_days=0, pinned=(tuple_receipt.id,)).collect()
    artifacts = {artifact.sha for receipt in executed for artifact in receipt.artifacts}
    kept_shas = {artifact for artifact in artifacts if harness.deps.bodies.exists(artifact)}
    assert kept_shas == {artifact.sha for artifact in cached.artifacts} != set()
    assert done.pinned == len(kept_shas)


# YT-09: a deleted body is neither a hit nor damage.
def test_a_step_whose_body_was_deleted_is_executed_again(harness: WorkerHarness) -> None:
    run_steps(harness)
    collector(harness, hot_days=0, warm_days=0).collect()
    harness.put(step("agent.leave.report", text="report 1"))
    assert harness.work() == ["miss", "done"]
    harness.put(step("agent.leave.report", text="report 1"))
    assert harness.work() == ["hit", "done"]


# YT-13: the size limit holds in the first hour too.
def test_what_finished_steps_left_just_now_is_deleted_for_space(harness: WorkerHarness) -> None:
    receipts = run_steps(harness)
    shas = {artifact.sha for receipt in receipts for artifact in receipt.artifacts}
    done = collector(harness, grace=3600.0, max_total_mb=0).collect()
    assert {row.why: row.bodies for row in done.freed if row.bodies}["room"] >= len(shas)
    assert not any(harness.deps.bodies.exists(sha) for sha in shas)
    assert [(row.why, row.bytes) for row in done.kept if row.bytes] == []


# YT-13
def test_a_body_that_was_read_in_the_last_hour_is_kept(harness: WorkerHarness) -> None:
    read, stored_again, *others = [artifact.sha for receipt in run_steps(harness) for artifact in receipt.artifacts]
    body = harness.deps.bodies.get(read)
    harness.deps.bodies.put(harness.deps.bodies.get(stored_again))
    done = collector(harness, grace=3600.0, max_total_mb=0).collect()
    assert {row.why: row.bodies for row in done.kept if row.bodies} == {"fresh": 2}
    assert harness.deps.bodies.get(read) == body
    assert harness.deps.bodies.exists(stored_again)
    assert others
    assert not any(map(harness.deps.bodies.exists, others))


# YT-13: neither what steps of an unfinished tuple left or were answered with, nor what it points at
def test_bodies_of_unfinished_tuples_are_kept(harness: WorkerHarness) -> None:
    named, hit, left, free = (
        receipt.artifacts[0].sha
        for text in ("named", "hit", "left", "free")
        for receipt in harness.receipts(_run(harness, text))
        if receipt.artifacts
    )
    harness.put(step("agent.sum.numbers", a=1, b=2), lane="later", src_ptr=[f"artifact:{named}", "jira://EVT/7"])
    unfinished = harness.put(step("agent.leave.report", text="hit"), step("agent.fail.always"), lane="failing")
    (claim,) = harness.space.claim({"id": unfinished}, worker="w")
    with harness.space.store.read() as view:
        (cached,) = (
            receipt
            for _, receipt in view.list_receipts(None, limit=99)
            if any(artifact.sha == hit for artifact in receipt.artifacts)
        )
    harness.space.complete([Completion(id=unfinished, fence=claim.fence, hits=((0, cached.id),))])
    again = harness.put(step("agent.leave.report", text="left"), step("agent.sum.numbers", a=1, b=2), lane="again")
    (claim,) = harness.space.claim({"id": again}, worker="w")
    executed = msgspec.structs.replace(receipt(left, 0), step=0, tuple_id=again, worker="w", id="")
    executed = msgspec.structs.replace(executed, id=receipt_id(executed))
    harness.space.complete([Completion(id=again, fence=claim.fence, receipts=(executed,))])
    harness.space.release([(again, claim.fence)])
    done = collector(harness, grace=3600.0, max_total_mb=0).collect()
    assert {row.why: row.bodies for row in done.kept if row.bodies} == {"running": 3}
    assert [harness.deps.bodies.exists(sha) for sha in (named, hit, left, free)] == [True, True, True, False]
    harness.space.cancel(again)
    collector(harness, grace=3600.0, max_total_mb=0).collect()
    assert not harness.deps.bodies.exists(left)


# YT-13, YT-10: a tuple that is not due yet, or waits for a worker again, is unfinished too
def test_bodies_of_tuples_that_wait_to_be_claimed_again_are_kept(harness: WorkerHarness) -> None:
    named, hit, free = (
        receipt.artifacts[0].sha
        for text in ("named", "hit", "free")
        for receipt in harness.receipts(_run(harness, text))
        if receipt.artifacts
    )
    later = harness.put(step("agent.sum.numbers", a=1, b=2), lane="later", src_ptr=[f"artifact:{named}"])
    half = harness.put(step("agent.leave.report", text="hit"), step("agent.fail.always"), lane="half")
    (delayed,), (halved,) = (harness.space.claim({"id": tuple_id}, worker="w") for tuple_id in (later, half))
    with harness.space.store.read() as view:
        (cached,) = (
            receipt
            for _, receipt in view.list_receipts(None, limit=99)
            if any(artifact.sha == hit for artifact in receipt.artifacts)
        )
    harness.space.complete([Completion(id=half, fence=halved.fence, hits=((0, cached.id),))])
    harness.space.release([(later, delayed.fence)], delay_us=DAY_US)
    harness.space.release([(half, halved.fence)])
    done = collector(harness, grace=3600.0, max_total_mb=0).collect()
    assert {row.why: row.bodies for row in done.kept if row.bodies} == {"running": 2}
    assert [harness.deps.bodies.exists(sha) for sha in (named, hit, free)] == [True, True, False]


def _run(harness: WorkerHarness, text: str) -> str:
    """Run a step that leaves a file; return its tuple's id."""
    tuple_id = harness.put(step("agent.leave.report", text=text))
    harness.work()
    return tuple_id


def receipt_files(harness: WorkerHarness) -> dict[Path, bytes]:
    """Return the files of receipts, with what is in them."""
    return {path: path.read_bytes() for path in (harness.deps.root / ".catalog/receipts").glob("*/*.json")}


def opened_receipts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that gets the name of every receipt's file that is opened from now on."""
    real, names = os.open, []

    def note_and_open(path: Any, *arguments: Any, **options: Any) -> int:
        if str(path).endswith(".json"):
            names.append(str(path))
        return real(path, *arguments, **options)

    monkeypatch.setattr(os, "open", note_and_open)
    return names


def age_files(harness: WorkerHarness) -> None:
    """Let the files of receipts be older than what the clock of a file system may be behind."""
    note = harness.deps.root / ".catalog/receipts.compared"
    latest_ns = max(path.stat().st_ctime_ns for path in receipt_files(harness)) + 1
    note.write_bytes(_checked(str(latest_ns)))


# YT-13, YT-08: a collection over a million receipts does not read a million files.
def test_only_files_that_were_changed_are_compared_again(
    harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_steps(harness)
    contents = receipt_files(harness)
    opened = opened_receipts(monkeypatch)
    assert collector(harness).collect().rewritten == 0
    assert sorted(opened) == sorted(path.name for path in contents)
    age_files(harness)
    opened.clear()
    assert collector(harness).collect().rewritten == 0
    assert opened == []
    age_files(harness)
    edited, renamed, deleted, *untouched = contents
    status = edited.stat()
    edited.write_bytes(contents[edited].replace(b'"exit": 0', b'"exit": 1'))
    os.utime(edited, ns=(status.st_atime_ns, status.st_mtime_ns))
    renamed.rename(renamed.with_name("0" * 62 + ".json"))
    deleted.unlink()
    age = collector(harness).collect(dry_run=True)
    assert age.rewritten == 4, "edited, missing under its name, strange under another, deleted"
    assert collector(harness).collect().rewritten == 4
    assert receipt_files(harness) == contents
    assert not {path.name for path in untouched} & set(opened)


@pytest.mark.parametrize("note", [b"", b"9" * 30, b"1 0123456789abcdef", b"\xff\xff"])
def test_a_damaged_note_or_a_clock_that_was_set_back_means_that_all_are_compared(
    harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch, note: bytes
) -> None:
    run_steps(harness)
    age_files(harness)
    ahead = _checked(str(time.time_ns() + 10**12))
    for content in (note, ahead):
        (harness.deps.root / ".catalog/receipts.compared").write_bytes(content)
        opened = opened_receipts(monkeypatch)
        assert collector(harness).collect().rewritten == 0
        assert len(opened) == len(receipt_files(harness)) > 0


# YT-13: it is there to free space, so a full disk must not stop it.
def test_a_collection_goes_on_where_there_is_no_room_for_a_receipts_file(
    harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_steps(harness)
    contents = receipt_files(harness)
    missing = next(iter(contents))
    missing.unlink()
    real = os.rename

    def rename(source: str, target: str, **folders: int) -> None:
        if str(target).endswith(".json"):
            raise OSError(errno.ENOSPC, "no room")
        real(source, target, **folders)

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", rename)
        full = collector(harness, hot_days=0, warm_days=0).collect()
    assert (full.rewritten, sum(row.bodies for row in full.freed) > 0) == (1, True)
    assert not missing.exists()
    assert collector(harness).collect().rewritten == 1
    assert receipt_files(harness) == contents


# YT-13: stored, and not named by a receipt yet
def test_a_body_that_no_receipt_names_is_kept(harness: WorkerHarness) -> None:
    sha = harness.deps.bodies.put(b"a report")
    done = collector(harness, hot_days=0, warm_days=0, max_total_mb=0).collect()
    assert [(row.why, row.bodies, row.bytes) for row in done.kept if row.bodies] == [("unnamed", 1, 8)]
    assert not done.enough
    assert done.other_bytes == done.after_bytes - 8
    assert harness.deps.bodies.exists(sha)


def test_a_body_that_is_put_again_during_its_removal_is_kept(harness: WorkerHarness) -> None:
    bodies = harness.deps.bodies
    sha = bodies.put(b"once more")
    later = time.time() + 1
    assert bodies.remove(sha, untouched_since=later - 3600) == 0
    assert bodies.get(sha) == b"once more"
    os.utime(harness.deps.root / ".catalog/cas" / sha[7:9] / sha[9:], (0, 0))
    assert bodies.put(b"once more") == sha
    assert bodies.remove(sha, untouched_since=later - 3600) == 0
    assert bodies.remove(sha, untouched_since=later + 3600) == 9
    assert not bodies.exists(sha)


# YT-13: the size limit and the floor of free space.
def test_above_the_size_limit_and_below_the_floor_the_oldest_are_deleted(harness: WorkerHarness) -> None:
    run_steps(harness)
    assert sum(row.bodies for row in collector(harness).collect(dry_run=True).freed) == 0
    too_large = collector(harness, max_total_mb=0).collect(dry_run=True)
    assert [row.bodies > 0 for row in too_large.freed] == [False, False, True, False]
    assert not too_large.enough
    too_full = collector(harness, free=10 * MB, free_mb_floor=20).collect(dry_run=True)
    assert too_full.freed == too_large.freed


def leave_remains(harness: WorkerHarness) -> int:
    """Create what killed workers leave: a step's folder and partial bodies; return its size in bytes."""
    catalog = harness.deps.root / ".catalog"
    folder = catalog / "scratch" / f"{process_name().partition('/')[0]}@999999999.1@x"
    (folder / "tmp").mkdir(parents=True)
    (folder / "tmp/written").write_bytes(b"x" * 3_000_000)
    (catalog / "cas/ab").mkdir(parents=True, exist_ok=True)
    (catalog / "cas" / ".0123456789abcdef.new").write_bytes(b"x" * 2_000_000)
    (catalog / "cas/ab" / ".0123456789abcdef.old").write_bytes(b"x" * 1_000_000)
    return 6_000_000


# YT-13: a dry run reports the same.
def test_remains_of_killed_workers_are_deleted_before_any_result(harness: WorkerHarness) -> None:
    executed = run_steps(harness)
    shas = {artifact.sha for receipt in executed for artifact in receipt.artifacts}
    remains_bytes = leave_remains(harness)
    planned = collector(harness, max_total_mb=5).collect(dry_run=True)
    done = collector(harness, max_total_mb=5).collect()
    assert done.freed == planned.freed
    assert [(row.why, row.bodies, row.bytes) for row in done.freed if row.bodies] == [("left", 3, remains_bytes)]
    assert all(harness.deps.bodies.exists(sha) for sha in shas)
    assert planned.enough
    assert done.enough
    assert planned.total_bytes - planned.after_bytes == remains_bytes
    assert done.after_bytes < 5 * MB < done.total_bytes
    assert [each.name for each in (harness.deps.root / ".catalog/cas").iterdir() if each.name.startswith(".")] == []
    assert list((harness.deps.root / ".catalog/scratch").iterdir()) == []


# YT-13
def test_free_space_is_measured_after_remains_are_deleted(harness: WorkerHarness) -> None:
    run_steps(harness)
    leave_remains(harness)
    catalog = harness.deps.root / ".catalog"

    def free(folder: Path) -> int:
        return 20 * MB - sum(path.stat().st_size for path in folder.rglob("*") if path.stat().st_size >= MB)

    def collect(dry_run: bool) -> GcReport:
        return msgspec.structs.replace(
            collector(harness, free=free, free_mb_floor=15).collect(dry_run=dry_run),
            dry_run=False,
            after_bytes=0,
            other_bytes=0,
        )

    planned = collect(dry_run=True)
    assert free(catalog) < 15 * MB
    assert collect(dry_run=False) == planned
    assert [row.why for row in planned.freed if row.bodies] == ["left"]


def test_a_body_that_is_being_written_is_not_deleted(harness: WorkerHarness) -> None:
    leave_remains(harness)
    done = collector(harness, grace=3600.0).collect()
    assert [(row.why, row.bodies) for row in done.freed if row.bodies] == [("left", 1)]
    assert (harness.deps.root / ".catalog/cas/.0123456789abcdef.new").exists()


# YT-13
def test_a_dry_run_reports_whether_the_journal_would_be_rotated(tmp_path: Path) -> None:
    with open_worker_harness(tmp_path) as harness:
        for number in range(20):
            harness.put(step("agent.leave.report", text=str(number) * 60_000))
        tomorrow = ManualClock(harness.deps.clock.now() + DAY_US)
        later = WorkerHarness(msgspec.structs.replace(harness.deps, clock=tomorrow), harness.progress)
        assert not collector(harness).collect(dry_run=True).rotated
        assert [collector(later).collect(dry_run=dry).rotated for dry in (True, True, False, True)] == [
            *(True, True, True),
            False,
        ]


def with_free_space(space: TupleSpace, free: list[int], tmp_path: Path) -> TupleSpace:
    """Return the same space on a disk with this many bytes free."""
    clock = iter(range(10**9))
    breaker = DiskBreaker(tmp_path, lambda: 1000, lambda folder: free[0], lambda: float(next(clock)))
    return TupleSpace(space.store, settings=space.settings, breaker=breaker.check)


# YT-13
def test_below_the_floor_work_is_refused_and_one_collection_is_requested(
    harness: WorkerHarness, tmp_path: Path
) -> None:
    free = [999 * MB]
    space = with_free_space(harness.space, free, tmp_path)
    for _ in range(3):
        with pytest.raises(DiskPressure) as expect_refusal:
            space.out({"lane": "build"}, authority=PERSON, run=RUN)
        assert (expect_refusal.value.limit, expect_refusal.value.used) == (1000, 999)
    requests = space.rd_all({"lane": GC_LANE})
    assert [record.tuple.payload[0].yool for record in requests] == ["fs.gc.run"]
    free[0] = 2000 * MB
    assert space.out({"lane": "build"}, authority=PERSON, run=RUN)[0].new


# YT-13: a caller that tries in a loop does not fill the journal.
def test_no_further_collection_is_requested_soon_after_the_last_one(harness: WorkerHarness, tmp_path: Path) -> None:
    space = with_free_space(harness.space, [0], tmp_path)

    def count_requests() -> int:
        for _ in range(3):
            with pytest.raises(DiskPressure):
                space.out({"lane": "build"}, authority=PERSON, run=RUN)
        return len(space.rd_all({"lane": GC_LANE}))

    assert count_requests() == 1
    (claim,) = space.claim({"lane": GC_LANE}, worker="w")
    assert count_requests() == 1
    space.cancel(claim.id)
    last_line = store(space).last_line()
    assert count_requests() == 1
    assert store(space).last_line() == last_line


# YT-13
def test_below_the_floor_nothing_is_retried_or_recorded(harness: WorkerHarness, tmp_path: Path) -> None:
    dead = harness.put(step("agent.fail.always"), agent_terms={"max_retries": 0})
    (claim,) = harness.space.claim({"lane": "build"}, worker="w")
    harness.space.complete([Completion(id=dead, fence=claim.fence, failure="exit 1")])
    space = with_free_space(harness.space, [0], tmp_path)
    previous = [record.id for record in space.rd_all({"lane": {"ne": GC_LANE}})]
    with pytest.raises(DiskPressure):
        space.put_again(dead, authority=PERSON)
    with pytest.raises(DiskPressure):
        space.record_finished({"lane": "tests"}, lambda tuple_id, now_us: receipt(sha(1), 0), authority=PERSON, run=RUN)
    assert [record.id for record in space.rd_all({"lane": {"ne": GC_LANE}})] == previous
    assert len(space.rd_all({"lane": GC_LANE})) == 1


def test_a_worker_begins_nothing_on_a_full_disk_and_continues_when_there_is_space(
    harness: WorkerHarness, tmp_path: Path
) -> None:
    tuple_id = harness.put(step("agent.leave.report", text="x"))
    free = [1 * MB]
    full_disk = WorkerHarness(
        msgspec.structs.replace(harness.deps, space=with_free_space(harness.space, free, tmp_path)), harness.progress
    )
    with pytest.raises(DiskPressure):
        full_disk.work()
    assert harness.space.get(tuple_id).attempts == 0
    assert len(harness.space.rd_all({"lane": GC_LANE})) == 1
    free[0] = 5000 * MB
    assert full_disk.work()[-1] == "done"


def test_of_many_workers_one_puts_the_nightly_tuple(harness: WorkerHarness) -> None:
    first, second = (GcWorker(harness.deps, hour=3) for _ in range(2))
    assert first.put_nightly()
    assert not second.put_nightly()
    assert not first.put_nightly()
    assert [record.lane for record in harness.space.rd_all({"lane": GC_LANE})] == [GC_LANE]


@pytest.mark.parametrize("hour", [0, 3, 23])
def test_the_last_night_is_the_latest_time_at_that_hour(hour: int) -> None:
    night = last_night(NOW, hour)
    assert night.hour == hour
    assert 0 <= NOW / SECOND_US - night.timestamp() <= 25 * 3600


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    make_repository(tmp_path / "repo")
    gateway = make_gateway(tmp_path / "repo", make_settings(tmp_path / "home"))
    yield gateway
    gateway.close()


def test_bodies_and_receipts_that_engrams_point_at_are_pinned(gateway: Gateway) -> None:
    body = gateway.tuple_space.bodies.put(b"a log of old")
    bus = Bus(gateway, LOCAL_ADMIN)
    bus.put_engram("The log shows it.", pointers=[Pointer(type="artifact", ref=f"artifact:{body}")], kind="risk")
    receipt = bus.record_tests(REPORT).receipt_id
    bus.put_engram(
        "It failed once.",
        pointers=[Pointer(type="test", ref=f"test:t.py::one@{receipt}")],
        kind="test",
        scope="project",
    )
    assert pinned_by_engrams(gateway.store) == {body, receipt}
    answer = gateway.call(find_operation("collect_garbage"), CollectGarbage(dry_run=True), LOCAL_ADMIN)
    assert answer.receipts == 2, "of the report, and of its tuple"


REPORT = '<testsuite><testcase classname="t" name="one"><failure message="no"/></testcase></testsuite>'


@pytest.fixture
def pointers(gateway: Gateway) -> dict[str, Pointer]:
    """Return pointers to an old test report: to its body, and to a test through its receipt."""
    recorded = gateway.call(find_operation("record_tests"), RecordTests(report=REPORT), LOCAL_ADMIN)
    sha = digest(REPORT.encode())
    _age(gateway, sha)
    return {
        "body": Pointer(type="artifact", ref=f"artifact:{sha}"),
        "test": Pointer(type="test", ref=recorded.first_failed[0].ref),
    }


def _age(gateway: Gateway, sha: str) -> None:
    os.utime(gateway.project_files.state_path("cas") / sha[7:9] / sha[9:], (0, 0))


def _collect(gateway: Gateway, after_pinning: Callable[[], object] = lambda: None) -> None:
    """Delete all that may be deleted; call `after_pinning` once the pinned bodies are known."""

    def on_progress(done: int, total: int) -> None:
        if (done, total) == (0, 0):
            after_pinning()

    GarbageCollector(
        gateway.tuple_space.space,
        gateway.tuple_space.bodies,
        gateway.project_files.receipts,
        gateway.project_files.state_path("cas").parent,
        SystemClock(),
        retention=lambda: Retention(hot_days=0, warm_days=0),
        pinned=lambda: pinned_by_engrams(gateway.store),
    ).collect(on_progress=on_progress)


# BX-03, YT-13: whether or not this process has read the body before.
@pytest.mark.parametrize("was_read", [False, True])
@pytest.mark.parametrize("kind", ["body", "test"])
def test_a_body_that_is_pointed_at_during_a_collection_is_kept(
    gateway: Gateway, pointers: dict[str, Pointer], kind: str, was_read: bool
) -> None:
    bus = Bus(gateway, LOCAL_ADMIN)
    if was_read:
        bus.deref_pointer(pointers[kind])
        _age(gateway, digest(REPORT.encode()))
    _collect(gateway, lambda: bus.put_engram("It failed once.", pointers=[pointers[kind]], kind="risk"))
    assert gateway.tuple_space.bodies.get(digest(REPORT.encode())) == REPORT.encode()


# BX-03: even if this process has read it before.
@pytest.mark.parametrize("kind", ["body", "test"])
def test_a_deleted_body_cannot_be_pointed_at(gateway: Gateway, pointers: dict[str, Pointer], kind: str) -> None:
    bus = Bus(gateway, LOCAL_ADMIN)
    bus.put_engram("It failed once.", pointers=[pointers[kind]], kind="risk")
    _age(gateway, digest(REPORT.encode()))
    gateway.tuple_space.bodies.remove(digest(REPORT.encode()), untouched_since=time.time())
    with expect_refusal("BODY_NOT_FOUND"):
        bus.put_engram("It failed twice.", pointers=[pointers[kind]], kind="risk")


def _collect_all(gateway: Gateway) -> str:
    """Delete all that may be deleted; return when the report was deleted."""
    _collect(gateway)
    with gateway.tuple_space.space.store.read() as view:
        purged_us = view.purged_at_us(digest(REPORT.encode()))
    assert purged_us is not None
    return print_time(purged_us)


# YT-08, YT-13: a body that is there again is checked, although the journal says it was deleted.
def test_receipt_and_readers_say_that_a_body_was_deleted_and_when(
    gateway: Gateway, pointers: dict[str, Pointer]
) -> None:
    bus, sha = Bus(gateway, LOCAL_ADMIN), digest(REPORT.encode())
    receipt_id = pointers["test"].ref.rpartition("@")[2]
    assert bus.receipt_get(receipt_id).gone == {}
    since = _collect_all(gateway)
    assert bus.receipt_get(receipt_id).gone == {sha: since}
    verified = bus.receipt_verify(receipt_id)
    assert verified.sound
    assert [(body.intact, body.gone_at) for body in verified.bodies if body.sha == sha] == [(False, since)]
    for pointer in pointers.values():
        with pytest.raises(BodyNotFound, match=since):
            bus.deref_pointer(pointer)
    gateway.tuple_space.bodies.put(REPORT.encode())
    assert bus.receipt_get(receipt_id).gone == {}
    assert all(body.intact and body.gone_at is None for body in bus.receipt_verify(receipt_id).bodies)
    (gateway.project_files.state_path("cas") / sha[7:9] / sha[9:]).write_bytes(b"something else")
    assert not bus.receipt_verify(receipt_id).sound
    assert bus.receipt_get(receipt_id).gone == {}


def test_the_command_line_says_what_was_deleted_and_offers_no_command_to_read_it(
    gateway: Gateway, pointers: dict[str, Pointer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    receipt_id = pointers["test"].ref.rpartition("@")[2]
    shell = Shell(Repository(gateway.project_files.root, ""), tmp_path / "home", monkeypatch)
    assert "engrambus deref artifact:" in shell.ok("receipt", "get", receipt_id).out
    since = _collect_all(gateway)
    output = shell.ok("receipt", "get", receipt_id).out
    assert f"junit.xml  deleted at {since} to free space" in output
    assert "engrambus deref" not in output
    verified = shell.ok("receipt", "verify", receipt_id).out
    assert verified.startswith(f"{short_id(receipt_id)} is sound\n")
    assert f"  deleted  junit.xml  {digest(REPORT.encode())}  at {since}\n" in verified
    assert "DAMAGED" not in verified
    read = shell.run("deref", pointers["body"].ref)
    assert read.code == 1
    assert f"The stored body was deleted to free disk space, at {since}." in read.err


def find_operation(name: str) -> Any:
    """Return the operation of that name."""
    from engrambus.operations import OPERATIONS

    return next(operation for operation in OPERATIONS.values() if operation.name == name)


# YT-13: as a step like any other, and no part of what users ran.
def test_a_gc_worker_runs_the_collection(gateway: Gateway, tmp_path: Path) -> None:
    bus = Bus(gateway, LOCAL_ADMIN)
    bus.record_tests(REPORT)
    runs, board = bus.list_work(), bus.work_board()
    environment = {"PYTHONPATH": os.pathsep.join(sys.path), "PATH": os.environ["PATH"], "HOME": str(tmp_path / "home")}
    deps = open_worker_dependencies(gateway, Settings.from_environment(environment))
    progress: list[Progress] = []
    with closing(deps.runner), GcWorker(deps, hour=3, on_progress=progress.append):
        for _ in range(600):
            if progress and progress[-1].kind in ("done", "dead", "again"):
                break
            time.sleep(0.05)
    (record,) = deps.space.rd_all({"lane": GC_LANE})
    receipts = [deps.space.receipt(receipt_id) for receipt_id in deps.space.public_tuple(record.id)["receipts"]]
    output = deps.bodies.get(receipts[0].stdout_sha).decode() + deps.bodies.get(receipts[0].stderr_sha).decode()
    assert record.state == "done", output
    assert "There is nothing to delete." in output
    assert bus.list_work() == runs
    after = bus.work_board()
    assert (after.totals, after.ended, after.running, after.dead) == (board.totals, board.ended, [], [])
    assert [row.states for row in runs.runs] == [{"done": 1}]
    assert bus.tuple_observe(record.id).state == "done", "its own status can be read"
