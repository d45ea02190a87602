"""`kill -9` among real workers: what they cached, printed, spent and wrote down agrees. # YT-06 # YT-08 # YT-09

`make crash` kills two hundred times; the suite a few.
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
EACH = 4
"""Tuples that are put for every kill."""


class Started:
    """A worker in a process of its own, and its diary."""

    def __init__(self, folder: Path, diary: Path) -> None:
        self.diary = diary
        command = [sys.executable, "-m", "tests.crash.pool_process", str(folder), str(diary)]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, cwd=Path(__file__).parents[2])

    def told(self) -> list[list[str]]:
        """What it has told."""
        return [line.split() for line in self.diary.read_text().splitlines()] if self.diary.exists() else []

    def end(self) -> str:
        """Wait for its end; what it said."""
        return self.process.communicate()[1].decode()[-3000:]


def _put(harness: WorkerHarness, numbers: range, calls: Path) -> list[str]:
    """Tuples that print, leave a file, spend and are counted; some steps are equal, so that there are hits."""
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
def test_killed_workers_leave_nothing_that_does_not_agree(tmp_path: Path) -> None:
    dice = random.Random(os.environ.get("ENGRAMBUS_CRASH_SEED", time.time_ns()))
    folder, calls = tmp_path / "project", tmp_path / "calls"
    calls.mkdir()
    every: list[Started] = []

    def start() -> Started:
        every.append(Started(folder, tmp_path / f"diary-{len(every)}"))
        return every[-1]

    with open_worker_harness(folder, SETTINGS) as harness:
        put = _put(harness, range(EACH), calls)
        workers = [start() for _ in range(WORKERS)]
        killed = 0
        try:
            while killed < KILLS:
                put += _put(harness, range(len(put), len(put) + EACH), calls)
                victim = workers[dice.randrange(WORKERS)]
                enough = dice.randrange(1, EACH * 2)
                while victim.process.poll() is None and len(victim.told()) < enough:
                    time.sleep(0.005)
                time.sleep(dice.random() * 0.02)
                victim.process.send_signal(signal.SIGKILL)
                said = victim.end()
                assert victim.process.returncode in (-signal.SIGKILL, 0), said
                killed += victim.process.returncode != 0
                workers[workers.index(victim)] = start()
            for worker in workers:
                said = worker.end()
                assert worker.process.returncode == 0, said
        finally:
            for worker in workers:
                if worker.process.poll() is None:
                    worker.process.kill()
                    worker.end()
        harness.work()
        _check(harness, put, [words for each in every for words in each.told()])
        for number, one in enumerate(put):
            notes = [line.split() for line in (calls / f"spent-{number}").read_text().splitlines()]
            most, least = (
                sum(round(float(usd) * 1_000_000) for word, usd in notes if word == what)
                for what in ("about", "reported")
            )
            assert least <= harness.space.get(one).spent_micros <= most, (
                "what was said is not counted, or counted twice"
            )
    assert all((calls / str(number)).read_text().startswith("called\n") for number in range(len(put)))


def _check(harness: WorkerHarness, put: list[str], told: list[list[str]]) -> None:
    """Hold the journal, the index, the files of receipts, the bodies and what was told against each other."""
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
    assert sorted(ends) == sorted(put), "a tuple is lost"
    assert {len(each) for each in ends.values()} == {1}, "a tuple has more than one last receipt"
    assert {ends[each][0].exit for each in put} == {0}
    ended = [(one, receipt) for what, one, receipt in told if what == "done"]
    assert ended
    assert all(ends[one][0].id == receipt for one, receipt in ended), "an end that was told is lost"
    kept = {each: harness.space.get(each) for each in put}
    assert all(
        (one.state, one.spent_micros, one.reserved_micros) == ("done", spent[one.id], 0) for one in kept.values()
    )
    assert all(ends[one][0].cost.usd_micros == spent[one] >= 3000 for one in put), (
        "a step's cost is lost, or told twice"
    )
    bodies = {sha for each in receipts.values() for sha in bodies_of(each)}
    assert len(bodies) >= len(put)
    assert all(harness.deps.bodies.is_intact(each) for each in bodies), "a receipt names a body that is not whole"
    assert all(receipt_id(each) == each.id for each in receipts.values())
    _check_files(harness, receipts)
    assert harness.space.store.verify() == [], "the index is not what the journal says"


def _check_files(harness: WorkerHarness, receipts: dict[str, Receipt]) -> None:
    """Every receipt lies there as a file, whole, and nothing else."""
    place = harness.deps.root / ".catalog" / "receipts"
    files: dict[str, Any] = {}
    for path in place.glob("*/[!.]*.json"):
        receipt = msgspec.json.decode(path.read_bytes(), type=Receipt)
        assert ReceiptFolder(place).path(receipt.id) == path
        files[receipt.id] = receipt
    assert files == receipts
