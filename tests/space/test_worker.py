"""Workers: steps, receipts, the cache, budgets, stopping. # YT-06 # YT-07 # YT-08 # YT-09 # YT-10 # YT-11"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest

from engrambus.backends.sqlite.work import WORK_JOURNAL
from engrambus.core import SECOND_US, digest_of, print_time
from engrambus.core.process_names import is_dead, process_name
from engrambus.errors import DiskPressure, EngramBusError, StoreBusy
from engrambus.evidence.receipts import (
    EMPTY_DIGEST,
    Receipt,
    ReceiptFolder,
    ReceiptLookup,
    in_toto_statement,
    new_receipt,
    receipt_id,
)
from engrambus.space.tuples import Completion, Price, SpaceSettings, read_pattern
from engrambus.space.work import LaneWorkerPool, Progress, SingleFlight, eval_, input_hash, tuple_run, worker
from engrambus.space.work.single_flight import StepLock
from engrambus.testing.work import PERSON, RUN
from tests.space.worker_harness import (
    SAME_NAMESPACE,
    SETTINGS,
    WorkerHarness,
    open_worker_harness,
    running_pools,
    step,
    wait_until,
    with_environment,
)


def test_steps_run_in_order_and_every_step_and_the_tuple_get_a_receipt(harness: WorkerHarness) -> None:
    tuple_id = harness.put(step("agent.sum.numbers", a=1, b=2), step("agent.leave.report", text="<testsuite/>"))
    assert harness.work() == ["miss", "miss", "done"]
    first, second, last = harness.receipts(tuple_id)
    assert [receipt.yool for receipt in (first, second, last)] == [
        "agent.sum.numbers.v1",
        "agent.leave.report.v1",
        "tuple.run",
    ]
    assert last.receipts == (first.id, second.id)
    assert harness.printed(tuple_id) == "adding\n3\n"
    (artifact,) = second.artifacts
    assert (artifact.kind, artifact.path) == ("junit", "junit.xml")
    assert harness.deps.bodies.get(artifact.sha) == b"<testsuite/>"
    assert all(receipt_id(receipt) == receipt.id for receipt in (first, second, last))
    assert harness.space.get(tuple_id).state == "done"


def test_receipts_are_written_as_files_and_restored(harness: WorkerHarness, tmp_path: Path) -> None:  # CP2
    tuple_id = harness.put(step("agent.sum.numbers", a=1, b=2))
    harness.work()
    receipt = harness.receipts(tuple_id)[0]
    digits = receipt.id.removeprefix("sha256:")
    file = tmp_path / "project/.catalog/receipts" / digits[:2] / f"{digits[2:]}.json"
    assert json.loads(file.read_text())["id"] == receipt.id
    shutil.rmtree(file.parent.parent)
    harness.space.write_receipts(harness.deps.receipts)
    assert json.loads(file.read_text())["yool"] == "agent.sum.numbers.v1"


def test_several_threads_may_write_receipts_at_once(harness: WorkerHarness, tmp_path: Path) -> None:  # YT-08
    harness.put(step("agent.sum.numbers", a=1, b=2))
    harness.work()
    with harness.space.store.read() as view:
        ((_, receipt), *_) = view.list_receipts(None, limit=9)

    def read_receipts(after: int, limit: int) -> list[tuple[int, Receipt]]:
        return [(after + 1, receipt)] if after < 200 else []

    receipts = ReceiptLookup(lambda digits: [receipt.id], lambda ids: [receipt], read_receipts)
    with ThreadPoolExecutor(4) as threads:
        futures = [
            threads.submit(ReceiptFolder(tmp_path / "copies", tmp_path / "written").catch_up, receipts)
            for _ in range(4)
        ]
        assert max(future.result() for future in futures) == 200
    names = sorted(path.name for path in (tmp_path / "copies").glob("*/*") if path.is_file())
    assert names == [f"{receipt.id[9:]}.json"]


def test_an_in_toto_statement_names_the_artifacts(harness: WorkerHarness) -> None:
    tuple_id = harness.put(step("agent.leave.report", text="<ok/>"))
    harness.work()
    statement = in_toto_statement(harness.receipts(tuple_id)[0])
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    shas = {subject["name"]: subject["digest"]["sha256"] for subject in statement["subject"]}
    assert "sha256:" + shas["junit.xml"] == harness.receipts(tuple_id)[0].artifacts[0].sha


def test_the_same_input_is_not_computed_twice(harness: WorkerHarness) -> None:
    first = harness.put(step("agent.sum.numbers", a=1, b=2))
    harness.work()
    second = harness.put(step("agent.sum.numbers", a=1, b=2))
    assert harness.work() == ["hit", "done"]
    assert harness.receipts(second)[0] == harness.receipts(first)[0]
    assert harness.receipts(second)[1].cost.usd == 0
    harness.put(step("agent.sum.numbers", a=1, b=3))
    assert harness.work() == ["miss", "done"]
    harness.put(step("agent.sum.numbers", a=1, b=2), flags={"no_cache": True})
    assert harness.work() == ["miss", "done"]


@pytest.mark.parametrize("workers", [1, 2])
def test_equal_steps_put_at_once_are_executed_once(
    harness: WorkerHarness, tmp_path: Path, workers: int
) -> None:  # YT-09
    calls, go = tmp_path / "calls", tmp_path / "go"
    ids = [harness.put(step("agent.think.once", calls=str(calls), go=str(go))) for _ in range(4)]
    pools = [harness.pool(concurrency=4 // workers) for _ in range(workers)]
    threads = [threading.Thread(target=pool.run) for pool in pools]
    for thread in threads:
        thread.start()
    wait_until(lambda: calls.exists() and len(harness.space.rd_all({"state": "claimed"})) == 4)
    go.touch()
    wait_until(lambda: all(harness.space.get(tuple_id).state == "done" for tuple_id in ids))
    for pool, thread in zip(pools, threads, strict=True):
        pool.stop()
        thread.join(30)
    assert calls.read_text() == "called\n"
    assert sorted(progress.kind for progress in harness.progress) == ["done"] * 4 + ["hit"] * 3 + ["miss"]
    assert list((tmp_path / "project/.catalog/flights").iterdir()) == []


def test_a_step_that_waited_for_a_failed_equal_step_runs_itself(harness: WorkerHarness, tmp_path: Path) -> None:
    calls, go = tmp_path / "calls", tmp_path / "go"
    go.touch()
    for _ in range(3):
        harness.put(step("agent.think.once", calls=str(calls), go=str(go), fails=True))
    assert sorted(harness.work()) == ["dead"] * 3 + ["failed"] * 3
    assert calls.read_text() == "called\n" * 3


def test_the_lock_of_a_dead_process_is_free(tmp_path: Path) -> None:
    code = (
        "import sys, threading; from pathlib import Path; from engrambus.space.work import SingleFlight\n"
        f"SingleFlight(Path({str(tmp_path)!r})).acquire('key', lambda: False, threading.Event())\n"
        "print('held', flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert holder.stdout is not None
    holder.stdout.readline()
    stop = threading.Event()
    locks: list[StepLock] = []
    thread = threading.Thread(target=lambda: locks.append(SingleFlight(tmp_path).acquire("key", lambda: False, stop)))
    thread.start()
    holder.kill()
    holder.communicate()
    thread.join(30)
    assert locks
    locks[0].release()
    late = SingleFlight(tmp_path).acquire("key", lambda: True, stop)
    assert not late.waited
    late.release()


def test_a_failure_is_not_cached(harness: WorkerHarness) -> None:
    for _ in range(2):
        tuple_id = harness.put(step("agent.fail.always"))
        assert harness.work() == ["failed", "dead"]
        receipt, last = harness.receipts(tuple_id)
        assert (receipt.exit, receipt.key, last.exit) == (1, None, 1)
        assert b"this is why" in harness.deps.bodies.get(receipt.stderr_sha)


def test_a_changed_file_is_another_input(harness: WorkerHarness, tmp_path: Path) -> None:
    file = tmp_path / "project" / "a.txt"
    file.write_text("one")
    harness.put(step("agent.show.file", path="a.txt"))
    harness.work()
    file.write_text("two")
    changed = harness.put(step("agent.show.file", path="a.txt"))
    assert harness.work() == ["miss", "done"]
    assert harness.printed(changed) == "two"
    file.write_text("one")
    harness.put(step("agent.show.file", path="a.txt"))
    assert harness.work() == ["hit", "done"]


def test_a_result_is_not_cached_if_its_input_changed_while_it_ran(
    harness: WorkerHarness, tmp_path: Path
) -> None:  # YT-09
    file = tmp_path / "project" / "a.txt"
    file.write_text("one")
    tuple_id = harness.put(step("agent.count.slowly", path="a.txt", addition="and more"))
    assert harness.work() == ["miss", "done"]
    assert harness.receipts(tuple_id)[0].key is None
    file.write_text("one")
    harness.put(step("agent.count.slowly", path="a.txt", addition="and more"))
    assert harness.work() == ["miss", "done"]


def test_a_step_succeeds_even_if_its_input_cannot_be_read_afterwards(
    harness: WorkerHarness, tmp_path: Path
) -> None:  # YT-08
    (tmp_path / "project/src").mkdir()
    tuple_id = harness.put(step("agent.lead.out", path="src"))
    assert harness.work() == ["miss", "done"]
    executed, _ = harness.receipts(tuple_id)
    assert (executed.exit, executed.key) == (0, None)


def test_a_step_sees_only_declared_variables_and_they_are_part_of_its_key(harness: WorkerHarness) -> None:
    red = with_environment(harness, COLOUR="red", SECRET="x")
    tuple_id = red.put(step("agent.show.env"))
    red.work()
    assert "COLOUR=red" in red.printed(tuple_id)
    assert "SECRET" not in red.printed(tuple_id)
    red.put(step("agent.show.env"))
    assert red.work() == ["hit", "done"]
    blue = with_environment(harness, COLOUR="blue")
    blue.put(step("agent.show.env"))
    assert blue.work() == ["miss", "done"]


@pytest.mark.parametrize("name", ["agent.tell.tuple", "agent.show.tuple"])
def test_a_step_knows_the_tuple_it_belongs_to(harness: WorkerHarness, name: str) -> None:  # YT-11
    """So it can put tuples that spend the same budget."""
    ids = [harness.put(step(name)) for _ in range(2)]
    assert harness.work().count("done") == 2
    assert [harness.printed(tuple_id).strip().strip('"') for tuple_id in ids] == ids


def test_a_damaged_body_is_a_miss_and_is_reported(harness: WorkerHarness, tmp_path: Path) -> None:
    tuple_id = harness.put(step("agent.sum.numbers", a=1, b=2))
    harness.work()
    sha = harness.receipts(tuple_id)[0].stdout_sha.removeprefix("sha256:")
    body = tmp_path / "project/.catalog/cas" / sha[:2] / sha[2:]
    body.write_bytes(b"adding\n4\n")
    second = harness.put(step("agent.sum.numbers", a=1, b=2))
    assert harness.work() == ["damaged", "miss", "done"]
    assert harness.printed(second) == "adding\n3\n"
    harness.put(step("agent.sum.numbers", a=1, b=2))
    assert harness.work() == ["hit", "done"]


def test_the_cache_key_follows_the_published_formula(harness: WorkerHarness, tmp_path: Path) -> None:  # YT-09
    (tmp_path / "project/a").write_text("text")
    tuple_ids = [harness.put(step("agent.sum.numbers", a=1, b=2)), harness.put(step("agent.show.file", path="a"))]
    harness.work()
    text_sha = hashlib.sha256(b"text").hexdigest()
    for tuple_id, name, args, stands_for_files in (
        # decision 104: what is declared stands for the files of a step that reads none
        (tuple_ids[0], "agent.sum.numbers.v1", '{"a": 1, "b": 2}', '["inputs",[]]'),
        (tuple_ids[1], "agent.show.file.v1", '{"path": "a"}', f'["a","{text_sha}"]'),
    ):
        file_sha = "sha256:" + hashlib.sha256(stands_for_files.encode()).hexdigest()
        expected = hashlib.sha256((name + args + file_sha).encode()).hexdigest()
        assert harness.receipts(tuple_id)[0].key == f"{name}@{expected}"


def test_steps_that_wait_for_nothing_run_at_the_same_time(harness: WorkerHarness, tmp_path: Path) -> None:  # YT-07
    marks = [tmp_path / name for name in "ab"]
    waiting = [step("agent.wait.long", started=str(mark)) | {"after": []} for mark in marks]
    tuple_id = harness.put(*waiting, step("agent.sum.numbers", a=1, b=2) | {"after": [0, 1]})
    pool = harness.pool(concurrency=4)
    thread = threading.Thread(target=pool.run)
    thread.start()
    wait_until(lambda: all(mark.exists() for mark in marks))  # both run, although neither ends
    assert harness.space.public_tuple(tuple_id)["receipts"] == []
    pool.stop(at_once=True)
    thread.join(30)
    assert harness.space.get(tuple_id).state == "waiting"
    assert harness.space.get(tuple_id).attempts == 0


def test_a_tuple_is_released_after_its_step_has_ended(harness: WorkerHarness, tmp_path: Path) -> None:  # YT-06
    """The next worker begins when nothing of it runs any more."""
    tuple_id = harness.put(step("agent.end.slowly", started=str(tmp_path / "started"), ended=str(tmp_path / "ended")))
    pool = harness.pool()
    thread = threading.Thread(target=pool.run)
    thread.start()
    wait_until((tmp_path / "started").exists)
    pool.stop(at_once=True)
    (claim,) = harness.space.claim({"lane": "build"}, worker="next", timeout=30)
    assert (tmp_path / "ended").exists()
    assert (claim.id, claim.attempt) == (tuple_id, 1)
    thread.join(30)


def test_a_worker_can_be_run_again(harness: WorkerHarness) -> None:  # YT-06
    pool = harness.pool()
    for a in (1, 2):
        harness.put(step("agent.sum.numbers", a=a, b=2))
        pool.run(until_empty=True)
    assert [progress.kind for progress in harness.progress] == ["miss", "done"] * 2


@pytest.mark.parametrize("trouble", [DiskPressure, StoreBusy])
def test_a_worker_waits_until_its_results_can_be_recorded(
    harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch, trouble: type[EngramBusError]
) -> None:
    """Neither results nor the worker are lost when the disk is full or the store is locked for a moment. # YT-13"""
    real_commit, failing_commits = harness.space.commit_ending, ["claim", "complete"]

    def commit(decide: Any, **options: Any) -> Any:
        if failing_commits and ("complete" in decide.__qualname__) == (failing_commits[0] == "complete"):
            failing_commits.pop(0)
            raise trouble
        return real_commit(decide, **options)

    tuple_id = harness.put(step("agent.sum.numbers", a=1, b=2))
    monkeypatch.setattr(harness.space, "commit_ending", commit)
    monkeypatch.setattr(worker, "PRESSURE_RETRY_SECONDS", 0.01)
    monkeypatch.setattr(tuple_run, "PRESSURE_RETRY_SECONDS", 0.01)
    pool = harness.pool()
    thread = threading.Thread(target=pool.run)
    thread.start()
    wait_until(lambda: harness.space.get(tuple_id).state == "done")
    pool.stop()
    thread.join(30)
    assert not failing_commits
    assert [progress.kind for progress in harness.progress] == ["pressure", "miss", "done"]


def test_cancelling_a_tuple_ends_its_step_and_all_its_processes(tmp_path: Path) -> None:
    settings = msgspec.structs.replace(
        SETTINGS, lease_us=3600 * SECOND_US
    )  # longer than the test, so renewal does not notice it
    with open_worker_harness(tmp_path / "project", settings, containment=SAME_NAMESPACE) as harness:
        tuple_id = harness.put(step("agent.run.children", path="child.pid"))
        file = tmp_path / "project" / "child.pid"
        pool = harness.pool()
        thread = threading.Thread(target=pool.run)
        thread.start()
        wait_until(lambda: file.exists() and file.read_text().strip() != "")
        child = int(file.read_text())
        harness.space.cancel(tuple_id)
        wait_until(lambda: not _runs(child))
        pool.stop()
        thread.join(30)
        assert harness.space.get(tuple_id).state == "cancelled"
        assert [receipt.yool for receipt in harness.receipts(tuple_id)] == ["tuple.run"]
        assert [progress.kind for progress in harness.progress] == ["lost"]


def test_a_stopped_worker_releases_tuples_without_a_begun_step(
    harness: WorkerHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # YT-06
    monkeypatch.setattr(tuple_run, "SLOT_SECONDS", 600.0)  # released by the stop, not for want of a slot
    calls, go = tmp_path / "calls", tmp_path / "go"
    ids = [harness.put(step("agent.think.once", calls=str(calls), go=str(go), n=n)) for n in range(2)]
    pool = harness.pool(concurrency=1)
    with running_pools(pool):
        wait_until(lambda: calls.exists() and len(harness.space.rd_all({"state": "claimed"})) == 2)
        pool.stop()
        wait_until(lambda: len(harness.space.rd_all({"state": "waiting"})) == 1)
        go.touch()
        wait_until(lambda: len(harness.space.rd_all({"state": "done"})) == 1)
    (waiting,) = (record for record in map(harness.space.get, ids) if record.state == "waiting")
    assert waiting.attempts == 0
    assert calls.read_text() == "called\n"


def test_a_worker_releases_tuples_it_cannot_begin(
    harness: WorkerHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # YT-06
    """The first worker has one slot and claimed both tuples; the second worker is idle and gets one of them."""
    monkeypatch.setattr(tuple_run, "SLOT_SECONDS", 0.1)
    calls, go = tmp_path / "calls", tmp_path / "go"
    ids = [harness.put(step("agent.think.once", calls=str(calls), go=str(go), n=n)) for n in range(2)]
    with running_pools(harness.pool(concurrency=1)):
        journal = tmp_path / "project/.catalog" / WORK_JOURNAL
        wait_until(lambda: calls.exists() and b"no slot was free" in journal.read_bytes())
        # It may be claimed again at once, and is released again.
        wait_until(lambda: [harness.space.get(tuple_id).state for tuple_id in ids].count("waiting") == 1)
        with running_pools(harness.pool(concurrency=1)):
            wait_until(lambda: calls.read_text() == "called\n" * 2)
            go.touch()
            wait_until(lambda: all(harness.space.get(tuple_id).state == "done" for tuple_id in ids))
    assert [harness.space.get(tuple_id).attempts for tuple_id in ids] == [1, 1]


def test_a_step_that_could_not_be_started_is_retried(tmp_path: Path) -> None:
    settings = msgspec.structs.replace(SETTINGS, max_retries=1)
    with open_worker_harness(tmp_path / "project", settings) as harness:
        tuple_id = harness.put(step("agent.sum.numbers", a=1, b=2))
        scratch = tmp_path / "project/.catalog/scratch"
        scratch.touch()  # so that no folder can be created there
        pool = LaneWorkerPool(
            harness.deps, read_pattern({"lane": "build"}), on_progress=_free_after_refusal(harness, scratch)
        )
        pool.run(until_empty=True)
        assert [progress.kind for progress in harness.progress] == ["refused", "again", "miss", "done"]
        assert "NotADirectoryError" in (harness.progress[0].error or "")
        assert harness.space.get(tuple_id).attempts == 2


# YT-06
def test_a_call_that_does_not_fit_the_function_is_not_retried(harness: WorkerHarness) -> None:
    """Also where the terms ask for retries: the next attempt would be called in the same way."""
    tuple_id = harness.put(step("agent.sum.numbers", a=1, c=2), agent_terms={"max_retries": 3})
    assert harness.work() == ["failed", "dead"]
    failed, _ = harness.receipts(tuple_id)
    assert failed.error == "YOOL_ARGUMENTS"
    why = harness.deps.bodies.get(failed.stderr_sha).decode()
    assert "missing a required argument: 'b'" in why
    assert "(args, limit a, b)" in why


# YT-06
def test_what_a_step_returns_is_its_result(tmp_path: Path) -> None:
    """A linter's exit 1 is not retried by itself; a step that exits with EX_TEMPFAIL asks for it."""
    with open_worker_harness(tmp_path / "project", msgspec.structs.replace(SETTINGS, max_retries=2)) as harness:
        result = harness.put(step("agent.fail.always"))
        assert harness.work() == ["failed", "dead"]
        transient = harness.put(
            step("agent.think.once", calls=str(tmp_path / "calls"), go=str(tmp_path), fails=True, status=75)
        )
        assert harness.work() == ["failed", "again", "failed", "again", "failed", "dead"]
        assert [harness.space.get(tuple_id).attempts for tuple_id in (result, transient)] == [1, 3]


def test_a_worker_runs_a_retry_that_is_due_at_once(tmp_path: Path) -> None:
    settings = msgspec.structs.replace(SETTINGS, backoff_us=1)  # due before the next claim
    with open_worker_harness(tmp_path / "project", settings) as harness:
        ids = [harness.put(step("agent.fail.always"), agent_terms={"max_retries": 8}) for _ in range(4)]
        harness.work()
        assert [harness.space.get(tuple_id).attempts for tuple_id in ids] == [9] * 4


def _free_after_refusal(harness: WorkerHarness, scratch: Path) -> Callable[[Progress], None]:
    """Let the next attempt succeed once the first was refused."""

    def on_progress(progress: Progress) -> None:
        harness.progress.append(progress)
        if progress.kind == "refused":
            scratch.unlink()

    return on_progress


def test_leases_are_renewed_even_if_receipts_cannot_be_written(tmp_path: Path) -> None:  # YT-06
    settings = msgspec.structs.replace(SETTINGS, lease_us=SECOND_US // 2)
    with open_worker_harness(tmp_path / "project", settings) as harness:
        calls, go = tmp_path / "calls", tmp_path / "go"
        tuple_id = harness.put(step("agent.think.once", calls=str(calls), go=str(go)))
        receipts = tmp_path / "project/.catalog/receipts"
        receipts.touch()  # so that no folder can be created there
        failed = harness.put(lane="elsewhere")
        (claim,) = harness.space.claim({"lane": "elsewhere"}, worker="another")
        harness.space.complete([Completion(id=failed, fence=claim.fence, failure="so that there is a receipt")])
        pool = harness.pool()
        thread = threading.Thread(target=pool.run)
        thread.start()
        wait_until(calls.exists)
        first_lease_us = harness.space.get(tuple_id).lease_until_us
        wait_until(lambda: harness.space.get(tuple_id).lease_until_us > first_lease_us + 2 * settings.lease_us)
        receipts.unlink()
        go.touch()
        wait_until(lambda: harness.space.get(tuple_id).state == "done")
        pool.stop()
        thread.join(30)
        assert harness.space.get(tuple_id).attempts == 1


def _runs(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_finished_step_is_not_executed_again(harness: WorkerHarness, tmp_path: Path) -> None:  # YT-10
    """The worker is lost in the second step, and the next worker begins there."""
    calls, started = tmp_path / "calls", tmp_path / "started"
    tuple_id = harness.put(
        step("agent.count.calls", path=str(calls)),
        step("agent.wait.long", started=str(started)),
        agent_terms={"max_retries": 5},
    )
    pool = harness.pool()
    thread = threading.Thread(target=pool.run)
    thread.start()
    wait_until(started.exists)
    record = harness.space.get(tuple_id)
    assert record.fence is not None
    harness.space.release_dead([(tuple_id, record.fence)], reason="as if it were gone")
    pool.stop(at_once=True)
    thread.join(30)
    (claim,) = harness.space.claim({"lane": "build"}, worker="next")
    assert list(claim.finished_steps) == [0]
    assert calls.read_text() == "called\n"
    assert len(harness.receipts(tuple_id)) == 1


def test_a_step_over_its_budget_is_stopped(harness: WorkerHarness) -> None:  # YT-11
    tuple_id = harness.put(step("agent.spend.money", usd=0.004, times=40), agent_terms={"budget_usd": 0.01})
    assert harness.work() == ["failed", "dead"]
    record = harness.space.get(tuple_id)
    receipt, _ = harness.receipts(tuple_id)
    assert receipt.error == "BUDGET_EXCEEDED"
    why = harness.deps.bodies.get(receipt.stderr_sha).decode()
    assert re.search(r"The tuple has spent \$0\.01[26] of \$0\.01\.", why)
    assert receipt.cost.usd_micros == record.spent_micros
    assert 10_000 < record.spent_micros < 40 * 4_000
    assert len(harness.space.rd_all({"lane": "alarm"})) == 1


def test_the_last_receipt_has_the_cost_of_all_attempts(tmp_path: Path) -> None:  # YT-11
    with open_worker_harness(tmp_path / "project") as harness:
        tuple_id = harness.put(
            step("agent.sum.numbers", a=1, b=2),
            step("agent.spend.again", mark=str(tmp_path / "mark")),
            agent_terms={"max_retries": 1},
        )
        assert harness.work() == ["miss", "failed", "again", "miss", "done"]
        last, record = harness.receipts(tuple_id)[-1], harness.space.get(tuple_id)
        assert (last.cost.usd_micros, last.cost.tokens) == (record.spent_micros, record.spent_tokens) == (40_000, 14)
        assert len(last.receipts) == 2


def test_the_last_receipt_has_the_cost_of_an_interrupted_attempt(tmp_path: Path) -> None:  # YT-11
    with open_worker_harness(tmp_path, msgspec.structs.replace(SETTINGS, max_retries=3)) as harness:
        tuple_id = harness.put(step("agent.spend.money", usd=0.02, times=2))
        (claim,) = harness.space.claim({"lane": "build"}, worker="killed")
        harness.space.start_step(claim, 0, Price())
        harness.space.record_cost(claim.id, claim.fence, 0, Price(micros=1_500_000, tokens=7))
        harness.space.release_dead([(claim.id, claim.fence)], reason="its worker is gone")
        assert harness.work()[-1] == "done"
        executed, last = harness.receipts(tuple_id)
        assert (executed.cost.usd_micros, last.cost.usd_micros) == (40_000, 1_540_000)
        assert (last.cost.tokens_in, last.cost.tokens_out) == (27, 2)
        record = harness.space.get(tuple_id)
        assert (record.spent_micros, record.spent_tokens) == (last.cost.usd_micros, last.cost.tokens)


@pytest.mark.parametrize(
    ("amounts", "micros"),
    [([0.1 + 0.2], 300_000), ([0.000_037_5] * 4, 150), ([0.000_000_4], 1), ([0.000_000_4] * 5, 2), ([], 0)],
)
def test_prices_finer_than_a_micro_dollar_are_added_before_they_are_rounded_up(
    harness: WorkerHarness, amounts: list[float], micros: int
) -> None:  # YT-11
    tuple_id = harness.put(step("agent.spend.each", amounts=amounts))
    assert harness.work() == ["miss", "done"]
    assert harness.receipts(tuple_id)[0].cost.usd_micros == harness.space.get(tuple_id).spent_micros == micros


@pytest.mark.parametrize("amount", [-0.01, 1e300])
def test_a_step_that_reports_an_impossible_amount_fails(harness: WorkerHarness, amount: float) -> None:
    tuple_id = harness.put(step("agent.spend.each", amounts=[amount]))
    assert harness.work() == ["failed", "dead"]
    assert harness.receipts(tuple_id)[0].error == "FIELD_VALUE"


def test_the_estimated_cost_is_the_average_of_earlier_executions(harness: WorkerHarness) -> None:
    harness.put(step("agent.spend.money", usd=0.02, times=1))
    harness.work()
    tuple_id = harness.put(step("agent.spend.money", usd=0.02, times=1), agent_terms={"budget_usd": 0.019})
    assert harness.work() == ["refused", "dead"]
    assert "left; the step is estimated to cost $0.02" in (harness.progress[0].error or "")
    # YT-06: the step has no receipt, so the tuple's has the reason.
    assert harness.receipts(tuple_id)[-1].error == (
        "BUDGET_EXCEEDED: The tuple has $0.019 left; the step is estimated to cost $0.02. "
        "(agent_terms.budget_usd, $0.02 of $0.019)"
    )
    assert harness.space.get(tuple_id).spent_micros == 0


# YT-06
@pytest.mark.parametrize(
    ("refused", "terms"),
    [
        (step("agent.leave.link"), {}),
        (step("agent.spend.each", amounts=[-1]), {}),
        (step("agent.run.children"), {}),
        (step("agent.give.back", kind="path"), {}),
        (step("agent.show.file", path="/etc/passwd"), {}),
        (step("agent.spend.money", usd=1, times=1), {"budget_usd": 0.5}),
    ],
)
def test_a_refusal_that_a_retry_would_meet_again_is_not_retried(
    tmp_path: Path, refused: dict[str, object], terms: dict[str, object]
) -> None:
    with open_worker_harness(tmp_path / "project", msgspec.structs.replace(SETTINGS, max_retries=3)) as harness:
        tuple_id = harness.put(refused, agent_terms=terms)
        assert harness.work()[1:] == ["dead"]
        assert harness.space.get(tuple_id).attempts == 1


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("path", "PosixPath is not JSON serializable"),
        ("set", "set is not JSON serializable"),
        ("key", "keys must be"),
        ("circle", "Circular"),
        ("text", "surrogates not allowed"),
    ],
)
def test_a_return_value_that_is_not_json_fails_the_step(harness: WorkerHarness, kind: str, why: str) -> None:  # YT-08
    tuple_id = harness.put(step("agent.give.back", kind=kind))
    assert harness.work() == ["failed", "dead"]
    receipt = harness.receipts(tuple_id)[0]
    assert (receipt.exit, receipt.error, receipt.stdout_sha) == (1, "FIELD_VALUE", EMPTY_DIGEST)
    (line,) = harness.deps.bodies.get(receipt.stderr_sha).decode().splitlines()
    assert line.startswith("refused: FIELD_VALUE: The step's return value is not JSON")
    assert why in line


# YT-06
def test_a_step_is_stopped_at_the_deadline_of_its_parent_tuple(harness: WorkerHarness, tmp_path: Path) -> None:
    ends = print_time(harness.deps.clock.now() + SECOND_US)
    parent = harness.put(lane="elsewhere", agent_terms={"deadline_iso": ends})
    tuple_id = harness.put(step("agent.wait.long", started=str(tmp_path / "started")), parent_id=parent)
    assert harness.work()[-1] == "dead"
    assert (harness.receipts(tuple_id)[-1].error or "").startswith("DEADLINE_PAST")
    assert harness.space.get(tuple_id).attempts == 1


def test_an_artifact_that_links_to_a_file_outside_fails_the_step(harness: WorkerHarness) -> None:
    tuple_id = harness.put(step("agent.leave.link"))
    assert harness.work() == ["failed", "dead"]
    assert harness.receipts(tuple_id)[0].error == "ARTIFACT_PATH"
    assert harness.receipts(tuple_id)[0].artifacts == ()


@pytest.mark.parametrize(
    ("action", "exit", "error"),
    [
        ("name", 1, "ARTIFACT_PATH"),
        ("exit", 1, "exit 1"),
        ("wrapped", 1, "exit 1"),
        ("says", 1, "exit 1"),
        ("removes", 0, None),
    ],
)
def test_a_step_that_misbehaves_leaves_a_receipt(
    harness: WorkerHarness, action: str, exit: int, error: str | None
) -> None:  # YT-08
    tuple_id = harness.put(step("agent.do.oddly", action=action))
    harness.work()
    receipt, last = harness.receipts(tuple_id)
    assert (receipt.yool, receipt.exit, receipt.error) == ("agent.do.oddly.v1", exit, error)
    assert last.exit == exit
    stderr = harness.deps.bodies.get(receipt.stderr_sha) if receipt.stderr_sha != EMPTY_DIGEST else b""
    bad_name = b"refused: ARTIFACT_PATH: The name of an artifact is not UTF-8. (artifacts, '\\udcff')\n"
    assert stderr == {"says": b"this is why\n", "name": bad_name}.get(action, b"")


# decision 100
def test_a_tuple_with_an_unknown_yool_is_left_waiting(harness: WorkerHarness) -> None:  # YT-22
    tuple_id = harness.put(step("agent.nobody.knows"))
    assert harness.work() == []
    record = harness.space.get(tuple_id)
    assert (record.state, record.attempts, harness.receipts(tuple_id)) == ("waiting", 0, [])


def test_the_worker_checks_the_authority_again(harness: WorkerHarness) -> None:  # YT-04
    agent = {"user": None, "agent": "run/coder", "ci": False}
    draft = {"lane": "build", "payload": [step("agent.deploy.prod")]}
    tuple_id = harness.space.out(draft, authority=agent, run=RUN)[0].id
    assert harness.work() == ["refused", "dead"]
    assert (harness.receipts(tuple_id)[-1].error or "").startswith("YOOL_FORBIDDEN: ")


def test_an_active_tuple_computes_itself(harness: WorkerHarness) -> None:  # YT-05
    draft = {"lane": "own", "payload": [step("agent.sum.numbers", a=20, b=22)]}
    thread = eval_(harness.deps, draft, authority=PERSON, run=RUN)
    thread.join(60)
    record = harness.space.rd({"lane": "own", "state": "done"})
    assert record is not None
    assert record.id == thread.name
    assert harness.printed(record.id) == "adding\n42\n"


def test_an_active_tuple_ends_while_other_tuples_are_claimed(tmp_path: Path) -> None:
    settings = msgspec.structs.replace(SETTINGS, lease_us=3600 * SECOND_US)
    with open_worker_harness(tmp_path / "project", settings) as harness:
        harness.put(step("agent.sum.numbers", a=1, b=2))
        assert harness.space.claim({"lane": "build"}, worker="another")
        draft = {"lane": "own", "payload": [step("agent.sum.numbers", a=20, b=22)]}
        thread = eval_(harness.deps, draft, authority=PERSON, run=RUN)
        thread.join(60)
        assert not thread.is_alive()


def test_an_active_tuple_computes_itself_even_if_others_wait_in_its_lane(harness: WorkerHarness) -> None:  # YT-05
    finished = threading.Event()
    stolen: list[str] = []

    def wait_for_work() -> None:
        while not finished.is_set():
            claims = harness.space.claim({"lane": "own"}, worker="another", timeout=5)
            stolen.extend(claim.id for claim in claims)

    thread = threading.Thread(target=wait_for_work, daemon=True)
    thread.start()
    try:
        ids = []
        for number in range(20):
            draft = {"lane": "own", "payload": [step("agent.sum.numbers", a=number, b=1)]}
            active = eval_(harness.deps, draft, authority=PERSON, run=RUN)
            ids.append(active.name)
            wait_until(lambda active=active: bool(stolen) or not active.is_alive())  # type: ignore[misc]
    finally:
        finished.set()
        harness.put(lane="own")
        thread.join(30)
    assert not set(stolen) & set(ids)
    for tuple_id in ids:
        executed, last = harness.receipts(tuple_id)
        assert (executed.exit, last.exit, last.worker) == (0, 0, process_name())


def test_an_active_tuple_that_was_put_before_runs_once(harness: WorkerHarness) -> None:  # YT-05
    tuple_id = harness.put(step("agent.sum.numbers", a=1, b=2))
    draft = harness.space.public_tuple(tuple_id)
    for _ in range(2):
        active = eval_(harness.deps, draft, authority=PERSON, run=RUN)
        active.join(60)
        assert active.name == tuple_id
    assert [receipt.yool for receipt in harness.receipts(tuple_id)] == ["agent.sum.numbers.v1", "tuple.run"]


def test_a_tuple_without_steps_is_done_immediately(harness: WorkerHarness) -> None:
    tuple_id = harness.put()
    assert harness.work() == ["done"]
    assert [receipt.yool for receipt in harness.receipts(tuple_id)] == ["tuple.run"]


def test_a_dead_worker_is_recognised(harness: WorkerHarness) -> None:
    assert not is_dead(process_name())
    host = process_name().rpartition("/")[0]
    assert is_dead(f"{host}/{os.getpid()}.1")
    assert not is_dead("another-host/1.1")


def test_settings_have_the_published_defaults() -> None:
    settings = SpaceSettings()
    assert (settings.lane_concurrency, settings.max_lane_concurrency, settings.cpu_quota_pct) == (32, 64, 95)
    assert (settings.queue_maxsize, settings.compression_threshold) == (8192, 1024)


def receipt_under(harness: WorkerHarness, key: str) -> None:
    """Record a successful execution under a cache key, as an earlier version did."""
    yool = key.partition("@")[0]
    harness.put(step(yool))
    [claim] = harness.space.claim(read_pattern({"lane": "build"}), worker="w", limit=1, timeout=0.0)
    now = print_time(harness.deps.clock.now())
    common: dict[str, Any] = {"tuple_id": claim.id, "started_at": now, "ended_at": now, "exit": 0, "attempt": 1}
    executed = new_receipt(yool=yool, step=0, key=key, **common)
    final = new_receipt(yool="tuple.run", receipts=(executed.id,), **common)
    completion = Completion(id=claim.id, fence=claim.fence, receipts=(executed,), final_receipt=final)
    assert harness.space.complete([completion])[0] == [None]


def test_a_receipt_of_the_time_when_nothing_had_to_be_declared_answers_no_step(
    harness: WorkerHarness, tmp_path: Path
) -> None:  # YT-09
    """Decision 104: it may depend on any file. One whose key names files depends on those, and answers."""
    name, args = "agent.sum.numbers.v1", {"a": 1, "b": 2}
    receipt_under(harness, f"{name}@{input_hash(name, args)}")
    harness.put(step("agent.sum.numbers", **args))
    assert harness.work() == ["miss", "done"]

    name = "agent.show.file.v1"
    receipt_under(harness, f"{name}@{input_hash(name, {'path': 'a'})}")
    harness.put(step("agent.show.file", path="a"))
    assert harness.work() == ["failed", "dead"], "there is no such file"

    (tmp_path / "project/a").write_text("text")
    file_sha = digest_of(["a", hashlib.sha256(b"text").hexdigest()])
    receipt_under(harness, f"{name}@{input_hash(name, {'path': 'a'}, [file_sha])}")
    harness.put(step("agent.show.file", path="a"))
    assert harness.work() == ["hit", "done"]
