"""Warm processes: every step finds its process as the first did, and dead ones are replaced. # YT-06 # YT-09"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from engrambus.space.work.warm_pool import MIN_PROCESSES
from tests.space.worker_harness import (
    SAME_NAMESPACE,
    WorkerHarness,
    open_worker_harness,
    step,
    wait_until,
    with_environment,
)


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[WorkerHarness]:
    """Without PID namespaces, in which every process has the same id."""
    with open_worker_harness(tmp_path / "project", containment=SAME_NAMESPACE) as harness:
        yield harness


def run(harness: WorkerHarness, name: str, **args: Any) -> Any:
    """Execute a step without the cache; return its result."""
    tuple_id = harness.put(step(name, **args), flags={"no_cache": True})
    assert harness.work() == ["miss", "done"], harness.progress
    return json.loads(harness.printed(tuple_id).splitlines()[-1])


def test_changes_a_step_makes_to_its_process_are_undone(harness: WorkerHarness, tmp_path: Path) -> None:
    original = run(harness, "agent.tell.place")
    assert original[1] == str(tmp_path / "project")
    pid = run(harness, "agent.mess.up", folder=str(tmp_path))
    after = run(harness, "agent.tell.place")
    assert pid == original[0]
    assert after == original


def is_running(pid: int) -> bool:
    """True if a process has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_process_that_died_while_idle_costs_no_attempt(harness: WorkerHarness) -> None:
    first = run(harness, "agent.tell.place")[0]
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: not is_running(first))
    second = run(harness, "agent.tell.place")[0]
    assert second != first
    assert run(harness, "agent.tell.place")[0] == second


def test_a_process_that_reads_no_more_steps_costs_no_attempt(harness: WorkerHarness) -> None:
    """It runs, but has closed its pipe."""
    first = run(harness, "agent.tell.place")[0]
    run(harness, "agent.go.deaf")
    second = run(harness, "agent.tell.place")[0]
    assert second != first


def test_only_a_few_idle_processes_are_kept(harness: WorkerHarness) -> None:
    """Each environment has its own processes; those that were idle longest are ended."""
    pids = [
        run(with_environment(harness, COLOUR=str(number)), "agent.tell.place")[0] for number in range(MIN_PROCESSES + 3)
    ]
    assert [is_running(pid) for pid in pids] == [False] * 3 + [True] * MIN_PROCESSES
    assert run(with_environment(harness, COLOUR=str(MIN_PROCESSES)), "agent.tell.place")[0] == pids[MIN_PROCESSES]


def test_no_step_gets_the_environment_or_folder_of_another(harness: WorkerHarness, tmp_path: Path) -> None:
    """Idle processes are used only for steps with the same environment and folder."""
    (tmp_path / "other").mkdir()
    elsewhere = WorkerHarness(msgspec.structs.replace(harness.deps, root=tmp_path / "other"), harness.progress)
    harnesses = {"plain": harness, "coloured": with_environment(harness, COLOUR="red"), "elsewhere": elsewhere}
    for _ in range(2):
        results = {name: run(variant, "agent.tell.place") for name, variant in harnesses.items()}
        assert {name: result[1] for name, result in results.items()} == {
            "plain": str(tmp_path / "project"),
            "coloured": str(tmp_path / "project"),
            "elsewhere": str(tmp_path / "other"),
        }
        assert [name for name, result in results.items() if "COLOUR" in result[2]] == ["coloured"]
        assert len({result[0] for result in results.values()}) == 3
