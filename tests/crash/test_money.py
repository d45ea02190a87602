"""Spending that a step reported is counted once, also if its worker, claim or tuple is lost. # YT-06 # YT-11"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from engrambus.backends.facts import decode_work_facts
from engrambus.space.tuples import StepCost, StepDone
from tests.crash.pool_process import SETTINGS
from tests.space.worker_harness import WorkerHarness, open_worker_harness, running_pools, step, wait_until


@contextmanager
def _stopped_worker(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a worker as a process; stop it before its step spends, so that it cannot have read that."""
    command = [sys.executable, "-m", "tests.crash.pool_process", str(tmp_path / "project"), str(tmp_path / "log")]
    process = subprocess.Popen(command, cwd=Path(__file__).parents[2])
    try:
        wait_until((tmp_path / "started").exists)
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED)
        (tmp_path / "go").touch()
        wait_until((tmp_path / "spent").exists)
        yield process
    finally:
        process.kill()
        process.wait()


def _work_until_killed(tmp_path: Path) -> None:
    with _stopped_worker(tmp_path) as worker:
        worker.kill()
        assert worker.wait(60) == -signal.SIGKILL


def _put(harness: WorkerHarness, tmp_path: Path, **terms: int) -> tuple[str, str]:
    """Put a tuple whose step spends while its worker is stopped; return its id and its parent's."""
    parent_id = harness.put(lane="plan")
    spending_step = step("agent.spend.unread", folder=str(tmp_path))
    return harness.put(spending_step, parent_id=parent_id, agent_terms=terms), parent_id


def _check(harness: WorkerHarness, tuple_id: str, parent_id: str, micros: int, tokens: int) -> None:
    """Check that tuple, parent, run, journal and a rebuilt index agree."""
    facts = [fact for line in harness.space.store.lines_after(0, 10_000) for fact in decode_work_facts(line.facts)]
    spent = [fact for fact in facts if isinstance(fact, StepCost | StepDone)]
    assert (sum(id.micros for id in spent), sum(id.tokens for id in spent)) == (micros, tokens)
    for id in (tuple_id, parent_id):
        record = harness.space.get(id)
        assert (record.spent_micros, record.spent_tokens, record.reserved_micros) == (micros, tokens, 0)
    with harness.space.store.read() as view:
        (figures,) = view.run_totals()
    assert (figures.micros, figures.tokens) == (micros, tokens)
    assert harness.space.store.verify() == []
    harness.space.store.rebuild()
    assert harness.space.get(tuple_id).spent_micros == micros
    assert list((harness.deps.root / ".catalog/scratch").iterdir()) == []


def test_spending_of_a_killed_worker_counts_before_the_next_attempt(tmp_path: Path) -> None:
    with open_worker_harness(tmp_path / "project", SETTINGS) as harness:
        tuple_id, parent_id = _put(harness, tmp_path)
        _work_until_killed(tmp_path)
        assert harness.space.get(tuple_id).spent_micros == 0, "no worker can have read it"
        assert harness.work() == ["miss", "done"]
        last = harness.receipts(tuple_id)[-1]
        assert (last.attempt, last.cost.usd_micros, last.cost.tokens) == (2, 100_000, 14)
        assert last.id == harness.progress[-1].receipt
        _check(harness, tuple_id, parent_id, 100_000, 14)


def test_spending_of_a_killed_worker_counts_towards_the_budget(tmp_path: Path) -> None:
    with open_worker_harness(tmp_path / "project", SETTINGS) as harness:
        tuple_id, parent_id = _put(harness, tmp_path, budget_tokens=6)
        _work_until_killed(tmp_path)
        assert harness.work() == ["refused", "dead"]
        _check(harness, tuple_id, parent_id, 50_000, 7)


def test_the_last_receipt_has_the_cost_of_a_killed_last_attempt(tmp_path: Path) -> None:
    with open_worker_harness(tmp_path / "project", SETTINGS) as harness:
        tuple_id, parent_id = _put(harness, tmp_path, max_retries=0)
        _work_until_killed(tmp_path)
        assert harness.work() == ["dead"]
        (last,) = harness.receipts(tuple_id)
        assert (last.error, last.cost.usd_micros, last.cost.tokens) == ("the worker was lost", 50_000, 7)
        _check(harness, tuple_id, parent_id, 50_000, 7)


def test_spending_that_a_worker_reads_after_its_lease_counts(tmp_path: Path) -> None:
    with open_worker_harness(tmp_path / "project", SETTINGS) as harness:
        tuple_id, parent_id = _put(harness, tmp_path)
        with _stopped_worker(tmp_path) as worker:
            assert harness.work() == ["miss", "done"]
            last = harness.receipts(tuple_id)[-1]
            assert (last.attempt, last.cost.usd_micros, last.cost.tokens) == (2, 50_000, 7)
            assert harness.space.get(tuple_id).spent_micros == 50_000, "the folder of a living worker is not swept"
            worker.send_signal(signal.SIGCONT)
            assert worker.wait(60) == 0
        assert harness.receipts(tuple_id)[-1] == last, "a receipt does not change"
        record = harness.space.get(tuple_id)
        reported_micros = 50_000 + 50_000 + 10_000 * (record.spent_tokens - 14)
        assert 0 <= record.spent_tokens - 14 <= 3, "what it reported before it was stopped"
        _check(harness, tuple_id, parent_id, reported_micros, record.spent_tokens)


def test_spending_of_a_cancelled_step_counts_to_its_end(tmp_path: Path) -> None:
    with open_worker_harness(tmp_path / "project", SETTINGS) as harness:
        parent_id, started = harness.put(lane="plan"), tmp_path / "started"
        tuple_id = harness.put(step("agent.spend.last", started=str(started)), parent_id=parent_id)
        with running_pools(harness.pool()):
            wait_until(started.exists)
            wait_until(lambda: harness.space.get(tuple_id).spent_micros == 20_000)
            last = harness.space.cancel(tuple_id)
            wait_until(lambda: harness.space.get(tuple_id).spent_micros > 20_000)
        assert (last.cost.usd_micros, harness.receipts(tuple_id)) == (20_000, [last])
        _check(harness, tuple_id, parent_id, 60_000, 0)
