"""`kill -9` among real workers: what they cached, printed, spent and wrote down agrees. # YT-06 # YT-08 # YT-09

`make torture` kills two hundred times; the suite a few.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

from engrambus.backends.facts import decode_work_facts
from engrambus.evidence.receipts import Receipt, ReceiptFolder, bodies_of, receipt_id
from engrambus.space.tuples import StepCost, StepDone, TupleDone
from tests.crash.pool_process import SETTINGS
from tests.space.worker_harness import WorkerHarness, open_worker_harness, step

LONG = int(os.environ.get("ENGRAMBUS_CRASH_ROUNDS", "10")) > 10
KILLS = int(os.environ.get("ENGRAMBUS_POOL_KILLS", "200" if LONG else "3"))
WORKERS = 2
TUPLES_PER_KILL = 4
"""Tuples that are put for every kill."""


class WorkerProcess:
    """A worker as a process, and its log."""

    def __init__(self, folder: Path, log: Path) -> None:
        self.log = log
        command = [sys.executable, "-m", "tests.crash.pool_process", str(folder), str(log)]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, cwd=Path(__file__).parents[2])

    def diary_lines(self) -> list[list[str]]:
        """Return the lines of its log."""
        return [line.split() for line in self.log.read_text().splitlines()] if self.log.exists() else []

    def end(self) -> str:
        """Wait for its end; return its standard error."""
        return self.process.communicate()[1].decode()[-3000:]


def _put(harness: WorkerHarness, numbers: range, calls: Path) -> list[str]:
    """Put tuples that print, leave a file and spend; some steps are equal, so that there are cache hits."""
    return [
        harness.put(
            step("agent.sum.numbers", a=number % 5, b=1),
            step("agent.leave.report", text=f"report {number}"),
            step("agent.spend.each", amounts=[0.001, 0.002], notes=str(calls / f"spent-{number}")),
            step("agent.count.calls", path=str(calls / str(number))),
        )
        for number in numbers
    ]


@pytest.mark.timeout(120 + KILLS * 10)
def test_journal_index_files_and_bodies_agree_after_workers_were_killed(tmp_path: Path) -> None:
    randomness = random.Random(os.environ.get("ENGRAMBUS_CRASH_SEED", time.time_ns()))
    folder, calls = tmp_path / "project", tmp_path / "calls"
    calls.mkdir()
    processes: list[WorkerProcess] = []

    def start() -> WorkerProcess:
        processes.append(WorkerProcess(folder, tmp_path / f"log-{len(processes)}"))
        return processes[-1]

    with open_worker_harness(folder, SETTINGS) as harness:
        ids = _put(harness, range(TUPLES_PER_KILL), calls)
        workers = [start() for _ in range(WORKERS)]
        killed = 0
        try:
            while killed < KILLS:
                ids += _put(harness, range(len(ids), len(ids) + TUPLES_PER_KILL), calls)
                victim = workers[randomness.randrange(WORKERS)]
                enough = randomness.randrange(1, TUPLES_PER_KILL * 2)
                while victim.process.poll() is None and len(victim.diary_lines()) < enough:
                    time.sleep(0.005)
                time.sleep(randomness.random() * 0.02)
                victim.process.send_signal(signal.SIGKILL)
                stderr = victim.end()
                assert victim.process.returncode in (-signal.SIGKILL, 0), stderr
                killed += victim.process.returncode != 0
                workers[workers.index(victim)] = start()
            for worker in workers:
                stderr = worker.end()
                assert worker.process.returncode == 0, stderr
        finally:
            for worker in workers:
                if worker.process.poll() is None:
                    worker.process.kill()
                    worker.end()
        harness.work()
        _check(harness, ids, [words for process in processes for words in process.diary_lines()])
        for number, tuple_id in enumerate(ids):
            notes = [line.split() for line in (calls / f"spent-{number}").read_text().splitlines()]
            most, least = (
                sum(round(float(usd) * 1_000_000) for word, usd in notes if word == kind)
                for kind in ("about", "reported")
            )
            assert least <= harness.space.get(tuple_id).spent_micros <= most, "spending is lost or counted twice"
    assert all((calls / str(number)).read_text().startswith("called\n") for number in range(len(ids)))


def _check(harness: WorkerHarness, ids: list[str], diary_lines: list[list[str]]) -> None:
    """Compare journal, index, receipt files, bodies and logs."""
    spent: Counter[str] = Counter()
    ends: dict[str, list[Receipt]] = {}
    receipts: dict[str, Receipt] = {}
    for line in harness.space.store.lines_after(0, 10_000_000):
        for fact in decode_work_facts(line.facts):
            if isinstance(fact, StepCost | StepDone):
                spent[fact.id] += fact.micros
            if isinstance(fact, StepDone | TupleDone):
                receipts[fact.receipt.id] = fact.receipt
            if isinstance(fact, TupleDone):
                ends.setdefault(fact.id, []).append(fact.receipt)
    assert sorted(ends) == sorted(ids), "a tuple is lost"
    assert {len(finals) for finals in ends.values()} == {1}, "a tuple has more than one last receipt"
    assert {ends[tuple_id][0].exit for tuple_id in ids} == {0}
    ended = [(tuple_id, receipt) for kind, tuple_id, receipt in diary_lines if kind == "done"]
    assert ended
    assert all(ends[tuple_id][0].id == receipt for tuple_id, receipt in ended), "a reported end is lost"
    records = [harness.space.get(tuple_id) for tuple_id in ids]
    assert all(
        (record.state, record.spent_micros, record.reserved_micros) == ("done", spent[record.id], 0)
        for record in records
    )
    assert all(ends[tuple_id][0].cost.usd_micros == spent[tuple_id] >= 3000 for tuple_id in ids), (
        "a step's cost is lost or counted twice"
    )
    bodies = {sha for receipt in receipts.values() for sha in bodies_of(receipt)}
    assert len(bodies) >= len(ids)
    assert all(harness.deps.bodies.is_intact(sha) for sha in bodies), "a receipt names a damaged body"
    assert all(receipt_id(receipt) == receipt.id for receipt in receipts.values())
    _check_files(harness, receipts)
    assert harness.space.store.verify() == [], "index and journal differ"


def _check_files(harness: WorkerHarness, receipts: dict[str, Receipt]) -> None:
    """Check that every receipt, and nothing else, is a complete file."""
    place = harness.deps.root / ".catalog" / "receipts"
    files: dict[str, Any] = {}
    for path in place.glob("*/[!.]*.json"):
        receipt = msgspec.json.decode(path.read_bytes(), type=Receipt)
        assert ReceiptFolder(place, place / "written").path(receipt.id) == path
        files[receipt.id] = receipt
    assert files == receipts
