"""Schedules: adding 10,000, listing what is due next, and passes over them with none and with 100 due."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from bench.measure import Row, at_most
from engrambus.backends.sqlite.work import SqliteWork, create_work
from engrambus.core import SECOND_US
from engrambus.space.schedules import MAX_SCHEDULES, Schedules
from engrambus.space.tuples import SpaceSettings, TupleSpace
from engrambus.testing import ManualClock
from engrambus.testing.harness import KEY

PROJECT = "01KDVP9R00STGMERGYBENCH000"
OWNER: dict[str, Any] = {"run": PROJECT, "added_by": "me", "authority": {"user": "me"}, "is_admin": True}
TEMPLATE = {"lane": "build", "payload": [{"yool": "agent.lint.ruff", "args": {"path": "src"}}]}
DUE = 100
ROUNDS = 5
FEW, MANY = 100, MAX_SCHEDULES - DUE * ROUNDS


class Times(NamedTuple):
    """Processor time in milliseconds, with a number of schedules."""

    adding: float
    listing: float
    idle_pass: float
    busy_pass: float


def schedule_rows(folder: Path) -> list[Row]:
    """Compare a project with few schedules with one that has as many as it may have."""
    few, many = measure_times(folder / "few", FEW), measure_times(folder / "many", MANY)
    subjects = ("adding one", "listing the next 50", "a pass with none due", f"a pass with {DUE} due")
    return [
        Row(
            "schedules",
            f"{subject}, {MAX_SCHEDULES:,} of them",
            f"{large:.3f} ms of processor time",
            f"with {FEW}: {small:.3f} ms",
            *at_most(large / small, 1.5),
        )
        for subject, small, large in zip(subjects, few, many, strict=True)
    ]


def measure_times(folder: Path, count: int) -> Times:
    """Measure with that many schedules besides those that become due."""
    clock = ManualClock()
    folder.mkdir(parents=True)
    create_work(folder, KEY, project=PROJECT, now_us=clock.now())
    settings = SpaceSettings(queue_maxsize=1_000_000)
    space = TupleSpace(SqliteWork(folder, KEY, clock), settings=settings, boot="bench")
    schedules = Schedules(space)
    for number in range(count):  # from two in the morning on: nothing of them is due during the measurement
        _add(schedules, f"s{number}", f"{number % 60} {2 + number // 60 % 22} * * *")
    adding = milliseconds(partial(_add_due, schedules, iter(range(DUE * ROUNDS))), DUE * ROUNDS)
    listing = milliseconds(partial(schedules.find_all, limit=50), 300)
    idle_pass = milliseconds(schedules.emit_due, 1000)
    busy: list[float] = []
    for _ in range(ROUNDS):
        clock.advance(microseconds=60 * SECOND_US)
        begun = time.process_time()
        emitted = schedules.emit_due().emissions
        busy.append((time.process_time() - begun) * 1000)
        assert len(emitted) == DUE
    space.close()
    return Times(adding, listing, idle_pass, sorted(busy)[ROUNDS // 2])


def milliseconds(call: Callable[[], Any], times: int) -> float:
    """Return the processor time of a call, in milliseconds."""
    begun = time.process_time()
    for _ in range(times):
        call()
    return (time.process_time() - begun) / times * 1000


def _add_due(schedules: Schedules, numbers: Iterator[int]) -> None:
    """Add the next of the schedules that become due, DUE in each of the first minutes."""
    number = next(numbers)
    _add(schedules, f"due-{number}", f"{number // DUE + 1} 0 * * *")


def _add(schedules: Schedules, name: str, cron: str) -> None:
    schedules.add(name=name, template=TEMPLATE, cron=cron, **OWNER)
