"""What a step said it spent counts once, whatever becomes of its worker, its claim or its tuple. # YT-06 # YT-11"""

from __future__ import annotations

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
def _worker(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A worker in a process of its own; its number stands in a file."""
    command = [sys.executable, "-m", "tests.crash.pool_process", str(tmp_path / "project"), str(tmp_path / "diary")]
    process = subprocess.Popen(command, cwd=Path(__file__).parents[2])
    (tmp_path / "pid").write_text(str(process.pid))
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _work_until_killed(tmp_path: Path) -> None:
    with _worker(tmp_path) as worker:
        assert worker.wait(60) == -signal.SIGKILL


def _put(harness: WorkerHarness, tmp_path: Path, number: int, **terms: int) -> tuple[str, str]:
    """A tuple with a step that sends its worker a signal, and the tuple it is a part of."""
    above = harness.put(lane="plan")
    said = step("agent.spend.signal", worker=str(tmp_path / "pid"), number=int(number), mark=str(tmp_path / "mark"))
    return harness.put(said, parent_id=above, agent_terms=terms), above


def _check(harness: WorkerHarness, one: str, above: str, micros: int, tokens: int) -> None:
    """Tuple, parent, run, journal and a rebuild tell the same."""
    told = [fact for line in harness.space.store.lines_after(0, 10_000) for fact in decode_work_facts(line.facts)]
    spent = [fact for fact in told if isinstance(fact, StepCost | StepDone)]
    assert (sum(each.micros for each in spent), sum(each.tokens for each in spent)) == (micros, tokens)
    for each in (one, above):
        kept = harness.space.get(each)
        assert (kept.spent_micros, kept.spent_tokens, kept.reserved_micros) == (micros, tokens, 0)
    with harness.space.store.read() as view:
        (figures,) = view.run_totals()
    assert (figures.micros, figures.tokens) == (micros, tokens)
    assert harness.space.store.verify() == []
    harness.space.store.rebuild()
    assert harness.space.get(one).spent_micros == micros
    assert list((harness.deps.root / ".catalog/scratch").iterdir()) == []


def test_what_was_spent_when_its_worker_was_killed_counts_before_the_next_begins(tmp_path: Path) -> None:
    with open_worker_harness(tmp_path / "project", SETTINGS) as harness:
        one, above = _put(harness, tmp_path, signal.SIGKILL)
        _work_until_killed(tmp_path)
        assert harness.space.get(one).spent_micros == 0, "nobody could have read it"
        assert harness.work() == ["miss", "done"]
        last = harness.receipts(one)[-1]
        assert (last.attempt, last.cost.usd_micros, last.cost.tokens) == (2, 100_000, 14)
        assert last.id == harness.progress[-1].receipt
        _check(harness, one, above, 100_000, 14)


def test_a_budget_that_a_killed_worker_spent_is_spent(tmp_path: Path) -> None:
    with open_worker_harness(tmp_path / "project", SETTINGS) as harness:
        one, above = _put(harness, tmp_path, signal.SIGKILL, budget_tokens=6)
        _work_until_killed(tmp_path)
        assert harness.work() == ["refused", "dead"]
        _check(harness, one, above, 50_000, 7)


def test_what_was_spent_in_a_last_attempt_that_was_killed_is_on_the_last_receipt(tmp_path: Path) -> None:
    with open_worker_harness(tmp_path / "project", SETTINGS) as harness:
        one, above = _put(harness, tmp_path, signal.SIGKILL, max_retries=0)
        _work_until_killed(tmp_path)
        assert harness.work() == ["dead"]
        (last,) = harness.receipts(one)
        assert (last.error, last.cost.usd_micros, last.cost.tokens) == ("the worker was lost", 50_000, 7)
        _check(harness, one, above, 50_000, 7)


def test_what_a_worker_reads_that_slept_past_its_lease_counts(tmp_path: Path) -> None:
    with open_worker_harness(tmp_path / "project", SETTINGS) as harness:
        one, above = _put(harness, tmp_path, signal.SIGSTOP)
        with _worker(tmp_path) as worker:
            wait_until((tmp_path / "mark").exists)
            assert harness.work() == ["miss", "done"]
            last = harness.receipts(one)[-1]
            assert (last.attempt, last.cost.usd_micros, last.cost.tokens) == (2, 50_000, 7)
            assert harness.space.get(one).spent_micros == 50_000, "its folder is not another's to sweep while it lives"
            worker.send_signal(signal.SIGCONT)
            assert worker.wait(60) == 0
        assert harness.receipts(one)[-1] == last, "a receipt does not change"
        spent = harness.space.get(one)
        said = 50_000 + 50_000 + 10_000 * (spent.spent_tokens - 14)
        assert 0 <= spent.spent_tokens - 14 <= 3, "what it said before it was stopped"
        _check(harness, one, above, said, spent.spent_tokens)


def test_what_a_cancelled_step_says_to_its_end_counts(tmp_path: Path) -> None:
    with open_worker_harness(tmp_path / "project", SETTINGS) as harness:
        above, started = harness.put(lane="plan"), tmp_path / "started"
        one = harness.put(step("agent.spend.last", started=str(started)), parent_id=above)
        with running_pools(harness.pool()):
            wait_until(started.exists)
            wait_until(lambda: harness.space.get(one).spent_micros == 20_000)
            last = harness.space.cancel(one)
            wait_until(lambda: harness.space.get(one).spent_micros > 20_000)
        assert (last.cost.usd_micros, harness.receipts(one)) == (20_000, [last])
        _check(harness, one, above, 60_000, 0)
