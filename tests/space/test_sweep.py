"""Spending that steps of killed workers reported is counted once, then their folders are deleted. # YT-11 # YT-13"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from engrambus.core import SystemClock
from engrambus.core.process_names import process_name
from engrambus.errors import DiskPressure, EngramBusError
from engrambus.policy.guardrails import Retention
from engrambus.space.tuples import Claim, Price
from engrambus.space.work import GarbageCollector
from engrambus.space.work.step_folder import EXECUTION_FILE, Execution, StepFolder, sweep
from tests.space.worker_harness import WorkerHarness, step

LINES = '{"usd":0.01,"tokens_in":2}\n{"usd":0.02,"tokens_out":1}\n'
SPENT = Price(micros=30_000, tokens=3)


def _claim(harness: WorkerHarness) -> Claim:
    harness.put(step("agent.sum.numbers", a=1, b=2))
    (claim,) = harness.space.claim({"lane": "build"}, worker="w")
    return claim


def _scratch(harness: WorkerHarness) -> Path:
    return harness.deps.root / ".catalog/scratch"


def _leave(harness: WorkerHarness, claim: Claim, text: str = LINES, step: int = 0) -> Path:
    """Create the folder of a step as a killed worker leaves it."""
    folder = StepFolder(_scratch(harness), Execution(id=claim.id, fence=claim.fence, step=step))
    folder.cost.write_text(text)
    host = process_name().rpartition("/")[0]
    return folder.path.rename(_scratch(harness) / f"{host}@{os.getpid()}.1@{folder.path.name[-8:]}")


def _folders(harness: WorkerHarness) -> list[Path]:
    return list(_scratch(harness).iterdir())


@pytest.mark.parametrize(
    ("text", "spent"),
    [
        (LINES, SPENT),
        (LINES.strip(), SPENT),  # killed before the end of its line
        (LINES + '{"usd":0.', SPENT),
        ('nothing\n{"usd":-1}\n' + LINES, SPENT),
        ('{"usd":0.0000004}\n' * 5, Price(micros=2)),
        ("", Price()),
    ],
)
def test_spending_of_a_killed_worker_is_counted_and_its_folder_deleted(
    harness: WorkerHarness, text: str, spent: Price
) -> None:
    claim = _claim(harness)
    _leave(harness, claim, text)
    harness.deps.sweep()
    assert harness.space.get(claim.id).own_spent == spent
    assert _folders(harness) == []


def test_spending_counted_before_the_kill_is_not_counted_again(harness: WorkerHarness) -> None:
    claim = _claim(harness)
    harness.space.record_cost(claim.id, claim.fence, 0, Price(micros=10_000, tokens=2))
    _leave(harness, claim)
    _leave(harness, claim, '{"usd":0.5}\n', step=1)
    harness.deps.sweep()
    assert harness.space.get(claim.id).own_spent == SPENT + Price(micros=500_000)


def test_a_sweep_that_dies_after_counting_is_completed_by_the_next(harness: WorkerHarness) -> None:
    claim = _claim(harness)
    _leave(harness, claim)

    def count_and_die(*cost: Any) -> None:
        harness.space.record_cost(*cost)
        raise KeyboardInterrupt

    for _ in range(2):
        with suppress(KeyboardInterrupt):
            sweep(_scratch(harness), count_and_die)
        assert len(_folders(harness)) == 1
    harness.deps.sweep()
    assert harness.space.get(claim.id).own_spent == SPENT
    assert _folders(harness) == []


def test_spending_that_cannot_be_journalled_stays_for_the_next_sweep(harness: WorkerHarness) -> None:
    claim = _claim(harness)
    _leave(harness, claim)

    def refuse(*cost: Any) -> None:
        raise DiskPressure

    for _ in range(2):
        sweep(_scratch(harness), refuse)
    harness.deps.sweep()
    assert (harness.space.get(claim.id).own_spent, _folders(harness)) == (SPENT, [])


def test_several_sweeps_may_run_at_once(harness: WorkerHarness) -> None:
    claim = _claim(harness)
    for number in range(20):
        _leave(harness, claim, step=number)
    sweepers = [threading.Thread(target=harness.deps.sweep) for _ in range(4)]
    for sweeper in sweepers:
        sweeper.start()
    for sweeper in sweepers:
        sweeper.join(60)
    assert harness.space.get(claim.id).own_spent == Price(micros=20 * SPENT.micros, tokens=20 * SPENT.tokens)
    assert _folders(harness) == []


@pytest.mark.parametrize("flaw", ["missing", "half", "another journal", "no such claim", "pipe", "link", "folder"])
def test_a_folder_without_a_valid_execution_is_deleted_uncounted(
    harness: WorkerHarness, tmp_path: Path, flaw: str
) -> None:
    claim = _claim(harness)
    path = _leave(harness, claim)
    execution, cost = path / EXECUTION_FILE, path / "cost.jsonl"
    match flaw:
        case "missing":
            execution.unlink()
        case "half":
            execution.write_bytes(execution.read_bytes()[:-3])
        case "another journal":
            execution.write_text(execution.read_text().replace(claim.id, "sha256:" + "0" * 64))
        case "no such claim":
            execution.write_text(execution.read_text().replace('"counter":1', '"counter":2'))
        case _:
            cost.unlink()
            (tmp_path / "elsewhere").write_text(LINES)
            create = {
                "pipe": os.mkfifo,
                "link": lambda path: path.symlink_to(tmp_path / "elsewhere"),
                "folder": Path.mkdir,
            }
            create[flaw](cost)
    last_line = harness.space.store.last_line()
    harness.deps.sweep()
    assert (harness.space.store.last_line(), _folders(harness)) == (last_line, [])


def test_folders_of_living_workers_are_kept(harness: WorkerHarness) -> None:
    claim = _claim(harness)
    with StepFolder(_scratch(harness), Execution(id=claim.id, fence=claim.fence, step=0)) as folder:
        folder.cost.write_text(LINES)
        harness.deps.sweep()
        assert _folders(harness) == [folder.path]
        folder.report_spending(lambda spent: None)
    assert _folders(harness) == []


def test_garbage_collection_counts_before_it_deletes(harness: WorkerHarness) -> None:
    claim = _claim(harness)
    _leave(harness, claim)
    catalog = harness.deps.root / ".catalog"
    collector = GarbageCollector(
        harness.space,
        harness.deps.bodies,
        harness.deps.receipts,
        catalog,
        SystemClock(),
        retention=Retention,
        pinned=tuple,
        free=lambda path: 2**40,
    )
    assert collector.collect(dry_run=True).freed[-1].bodies == 1
    assert (harness.space.get(claim.id).own_spent, len(_folders(harness))) == (Price(), 1)
    assert collector.collect().freed[-1].bodies == 1
    assert (harness.space.get(claim.id).own_spent, _folders(harness)) == (SPENT, [])


def test_a_folder_with_uncounted_spending_is_kept(harness: WorkerHarness) -> None:
    claim = _claim(harness)
    reported: list[Price] = []

    def count(spent: Price) -> EngramBusError | None:
        reported.append(spent)
        if len(reported) < 3:
            raise DiskPressure
        return None

    for fails in (True, False):
        with StepFolder(_scratch(harness), Execution(id=claim.id, fence=claim.fence, step=0)) as folder:
            folder.cost.write_text(LINES)
            for last in (False, True):
                with suppress(DiskPressure):
                    folder.report_spending(count, last=last)
        assert reported[-1] == SPENT, "reported again, as a total"
        names = sorted(path.name for path in folder.path.iterdir()) if folder.path.exists() else None
        assert names == (["cost.jsonl", EXECUTION_FILE] if fails else None)


def test_a_folder_with_unread_spending_is_kept(harness: WorkerHarness) -> None:
    claim = _claim(harness)
    with suppress(OSError), StepFolder(_scratch(harness), Execution(id=claim.id, fence=claim.fence, step=0)) as folder:
        folder.cost.write_text(LINES)
        raise OSError
    assert _folders(harness) == [folder.path]


def test_a_folder_is_renamed_before_its_spending_is_counted(harness: WorkerHarness) -> None:
    """A process of the step that is still alive then fails to report more, and notices it."""
    claim = _claim(harness)
    path = _leave(harness, claim)
    existed: list[bool] = []
    sweep(_scratch(harness), lambda *cost: existed.append(path.exists()))
    assert existed == [False]
