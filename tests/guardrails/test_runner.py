"""How a step's processes end and what is counted of them, down to the last child. # YT-06 # YT-12 # YT-13 # YT-14"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from engrambus.core import SECOND_US, SystemClock
from engrambus.policy.guardrails import MB, StepLimits
from engrambus.space.tuples import read_pattern
from engrambus.space.work import LaneWorkerPool, step_process
from engrambus.space.work.guard.process_tree import ProcessTree
from engrambus.space.work.guard.processes import ProcessInfo
from tests.guardrails.test_steps import Steps
from tests.space.shop import open_shop


@pytest.fixture
def steps(tmp_path: Path) -> Iterator[Steps]:
    made = Steps(tmp_path)
    yield made
    made.runner.close()


@pytest.mark.parametrize(("number", "exit"), [(9, 137), (15, 143), (6, 134)])
def test_a_command_that_a_signal_ended_says_which(steps: Steps, number: int, exit: int) -> None:
    outcome = steps.run("agent.run.shell", code=f"kill -{number} $$")
    assert (outcome.exit, outcome.error) == (exit, f"exit -{number}")


def test_a_command_that_does_not_end_when_asked_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not hear what it is asked; it has a little time for it, and no more."""
    monkeypatch.setattr(step_process, "TERMINATE_SECONDS", 0.1)
    deaf = ["sh", "-c", "trap '' TERM; echo deaf; while :; do sleep 0.05; done"]
    with subprocess.Popen(deaf, stdout=subprocess.PIPE, start_new_session=True) as started:
        try:
            assert started.stdout is not None
            started.stdout.readline()
            step_process.end_group(started)
            assert started.wait(10) == -signal.SIGKILL
        finally:
            started.kill()


@pytest.mark.parametrize("target", ["/etc", "."])
def test_a_linked_folder_among_what_a_step_leaves_is_refused(steps: Steps, target: str) -> None:
    code = f"mkdir $ENGRAMBUS_ARTIFACTS/real; ln -s {target} $ENGRAMBUS_ARTIFACTS/real/linked"
    outcome = steps.run("agent.run.shell", code=code)
    assert (outcome.exit, outcome.error, outcome.artifacts) == (1, "ARTIFACT_PATH", ())
    assert "'linked' is not a regular file" in steps.said(outcome)


def test_all_that_is_kept_of_a_step_counts(steps: Steps) -> None:
    """What it printed, on either side, and what it left, in folders too."""
    code = (
        "printf 12345; printf 123 >&2; mkdir $ENGRAMBUS_ARTIFACTS/in\n"
        "printf 1234567 > $ENGRAMBUS_ARTIFACTS/one; printf 12 > $ENGRAMBUS_ARTIFACTS/in/two"
    )
    outcome = steps.run("agent.run.shell", code=code)
    assert [(each.path, each.size) for each in outcome.artifacts] == [("in/two", 2), ("one", 7)]
    assert outcome.stored_bytes == 5 + 3 + 7 + 2


def test_no_worker_works_on_more_at_once_than_it_may(tmp_path: Path) -> None:
    with open_shop(tmp_path) as shop:
        most = shop.space.settings.max_lane_concurrency
        wanted = {0: 1, 1: 1, most: most, most + 1: most, 10_000: most}
        pattern = read_pattern({"lane": "build"})
        pools = {each: LaneWorkerPool(shop.shop, pattern, concurrency=each) for each in wanted}
        assert {each: pool.concurrency for each, pool in pools.items()} == wanted


# YT-12: a step stands back for others; it is waited for until it does.
@pytest.mark.skipif(sys.platform != "linux", reason="needs nice without arguments")
@pytest.mark.parametrize(("cores", "nice"), [(0.6, 7), (0.1, 15)])
def test_a_step_with_a_small_quota_stands_back(steps: Steps, cores: float, nice: int) -> None:
    if os.nice(0) > nice:
        pytest.skip("this very process stands back further")
    code = f"until [ $(nice) = {nice} ]; do sleep 0.01; done"
    deadline = SystemClock().now() + 30 * SECOND_US
    outcome = steps.run("agent.run.shell", StepLimits(cores=cores), code=code, deadline=deadline)
    assert outcome.exit == 0, steps.said(outcome)


# YT-14: each of them holds less than the step may.
def test_what_the_processes_of_a_step_hold_counts_together(steps: Steps) -> None:
    holding = "import time; held = b'x' * 60_000_000; time.sleep(60)"
    code = (
        "import subprocess, sys\n"
        f"started = [subprocess.Popen([sys.executable, '-S', '-c', {holding!r}]) for _ in range(4)]\n"
        "for each in started: each.wait()"
    )
    outcome = steps.run("agent.run.python", StepLimits(ram_bytes=150 * MB), code=code)
    assert (outcome.exit, outcome.error) == (143, "MEMORY_QUOTA")


class FakeProcessTable:
    """A process table with the given processes."""

    def __init__(self, *processes: ProcessInfo) -> None:
        self.set(*processes)

    def set(self, *processes: ProcessInfo) -> None:
        self._processes = {process.pid: process for process in processes}

    def refresh(self, *, force: bool = False) -> None: ...

    def pids(self) -> Iterator[int]:
        return iter(self._processes)

    def find(self, pid: int) -> ProcessInfo | None:
        return self._processes.get(pid)

    def children(self, pid: int) -> Iterable[int]:
        return [process.pid for process in self._processes.values() if process.parent == pid]

    def has_mark(self, pid: int, mark: bytes) -> bool:
        return False


def process(
    pid: int, parent: int, *, cpu: float = 0.0, reaped: float = 0.0, written: int = 0, memory: int = 0
) -> ProcessInfo:
    """A process of the step whose first one is 10."""
    return ProcessInfo(pid, parent, 10, 10, pid, cpu, reaped, memory, 5, written)


# YT-12: a loop that starts one burner after the other burns no less than one that burns itself.
@pytest.mark.parametrize("waited_for", [True, False])
def test_the_usage_of_ended_processes_still_counts(waited_for: bool) -> None:
    table = FakeProcessTable(process(10, 1))
    tree = ProcessTree(10, b"mark", table)
    tree.begin(warm=False)
    for number in range(1, 6):
        gone = number - 1 if waited_for else 0
        shell = process(10, 1, reaped=gone, written=gone * 100)
        table.set(shell, process(10 + number, 10, cpu=1.0, written=100))
        used = tree.measure(full_scan=False)
        assert (used.cpu_seconds, used.written_bytes) == (number, number * 100)
    table.set(process(10, 1, reaped=5.0, written=500) if waited_for else process(10, 1))
    used = tree.measure(full_scan=False)
    assert (used.cpu_seconds, used.written_bytes) == (5, 500)


# YT-14
def test_shared_ram_counts_once_and_private_ram_of_each_process() -> None:
    table = FakeProcessTable(process(10, 1, memory=100), process(11, 10, memory=200), process(12, 11, memory=300))
    tree = ProcessTree(10, b"mark", table)
    tree.begin(warm=False)
    assert tree.measure(full_scan=False).ram_bytes == 600 + 5
