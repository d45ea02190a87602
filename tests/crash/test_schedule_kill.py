"""Several processes emit the same schedules, and are killed at any moment. # YT-16"""

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
from engrambus.backends.sqlite.work import create_work
from engrambus.core import SECOND_US
from engrambus.space.schedules import ScheduleEmitted, Schedules
from engrambus.space.tuples import TuplePut
from engrambus.testing.clock import NEW_YEAR
from engrambus.testing.harness import KEY
from engrambus.testing.work import PERSON, RUN, draft
from tests.crash.schedule_process import open_space

KILLS = 12
PROCESSES = 3
SCHEDULES = 4
INTERVAL_US = 10 * SECOND_US


@pytest.mark.timeout(300)
def test_each_time_has_its_tuple_exactly_once(tmp_path: Path) -> None:
    """None is lost and none is put twice, however many processes emit and whenever they are killed."""
    dice = random.Random(os.environ.get("ENGRAMBUS_CRASH_SEED", time.time_ns()))
    folder, start_ns = tmp_path / "catalog", time.monotonic_ns()
    folder.mkdir()
    create_work(folder, KEY, project="01KDVP9R00STGMERGYTEST0000", now_us=NEW_YEAR)
    space = open_space(folder, start_ns)
    schedules = Schedules(space)
    owner: dict[str, Any] = {"run": RUN, "added_by": "me", "authority": PERSON, "is_admin": True}
    for number in range(SCHEDULES):
        schedules.add(name=f"s{number}", template=draft(), every="PT10S", catch_up="all", **owner)

    def start() -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "tests.crash.schedule_process", str(folder), str(start_ns)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2])
        assert process.stdout is not None
        assert process.stdout.readline() == "emitting\n"
        return process

    processes = [start() for _ in range(PROCESSES)]
    try:
        for _ in range(KILLS):
            time.sleep(dice.random() * 0.2)
            victim = processes.pop(dice.randrange(len(processes)))
            victim.send_signal(signal.SIGKILL)
            victim.communicate()
            processes.append(start())
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    schedules.emit_due()  # what came due since the last of them
    puts: Counter[str] = Counter()
    times: dict[str, list[int]] = {f"s{number}": [] for number in range(SCHEDULES)}
    for line in space.store.lines_after(0, 1_000_000):
        facts = decode_work_facts(line.facts)
        put_here = {fact.id for fact in facts if isinstance(fact, TuplePut)}
        for fact in facts:
            if isinstance(fact, TuplePut):
                (pointer,) = msgspec.json.decode(fact.tuple)["src_ptr"]
                puts[pointer] += 1
            elif isinstance(fact, ScheduleEmitted):
                assert put_here >= set(fact.tuples), "the tuples and the next time are one commit"
                assert fact.due_us is not None
                assert fact.missed == 0
                first_us = fact.due_us - INTERVAL_US * (len(fact.tuples) - 1)
                times[fact.name] += range(first_us, fact.due_us + 1, INTERVAL_US)
    for name, due in times.items():
        start_us = schedules.get(name).timing.start_us
        assert due == [start_us + INTERVAL_US * (number + 1) for number in range(len(due))]
        assert puts[f"schedule:{name}"] == len(due) == schedules.get(name).state.emitted
        assert len(due) > KILLS
    assert space.store.verify() == []
    space.close()
