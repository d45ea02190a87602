"""Processes of a step: how they end, and what is counted of them. # YT-06 # YT-12 # YT-13 # YT-14"""

from __future__ import annotations

import ast
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
from engrambus.space.work import LaneWorkerPool
from engrambus.space.work.guard import ContainedProcess, Containment, contained_process, find_containment
from engrambus.space.work.guard.contained_process import ContainmentLevel
from engrambus.space.work.guard.process_tree import ProcessTree
from engrambus.space.work.guard.processes import ProcessInfo
from tests.guardrails.test_steps import Steps
from tests.space.worker_harness import SAME_NAMESPACE, open_worker_harness


@pytest.fixture
def steps(tmp_path: Path) -> Iterator[Steps]:
    steps = Steps(tmp_path)
    yield steps
    steps.runner.close()


@pytest.mark.parametrize(("number", "exit"), [(9, 137), (15, 143), (6, 134)])
def test_the_error_of_a_killed_command_names_the_signal(steps: Steps, number: int, exit: int) -> None:
    outcome = steps.run("agent.run.shell", code=f"kill -{number} $$")
    assert (outcome.exit, outcome.error) == (exit, f"exit -{number}")


def test_a_command_that_ignores_sigterm_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a grace period."""
    monkeypatch.setattr(contained_process, "TERMINATE_SECONDS", 0.1)
    command = ["sh", "-c", "trap '' TERM; echo deaf; while :; do sleep 0.05; done"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            contained_process.end_group(process)
            assert process.wait(10) == -signal.SIGKILL
        finally:
            process.kill()


@pytest.mark.parametrize("level", [find_containment().level, SAME_NAMESPACE.level])
def test_arguments_and_variables_arrive_as_they_are(tmp_path: Path, level: ContainmentLevel) -> None:
    """Empty ones, several lines, bytes that are no text, and more than fits into a pipe."""
    odd = ["", "", "a\nb", "=", "ü", os.fsdecode(b"\xff"), "x" * 100_000, ""]
    code = "import os, sys; print(ascii([sys.argv[1:], os.environ['ODD'], os.environ['NONE']]))"
    output = tmp_path / "output"
    with output.open("wb") as stdout:
        process = ContainedProcess(
            [sys.executable, "-S", "-c", code, *odd],
            {"ODD": "a=b\n\udcff", "NONE": ""},
            cwd=str(tmp_path),
            streams=(subprocess.DEVNULL, stdout, None),
            containment=Containment(level=level),
        )
        process.begin()
        assert process.has_ended(30)
    process.popen.wait()
    assert process.close() in (0, None)
    assert ast.literal_eval(output.read_text()) == [odd, "a=b\n\udcff", ""]


@pytest.mark.parametrize("target", ["/etc", "."])
def test_a_linked_folder_among_the_artifacts_is_refused(steps: Steps, target: str) -> None:
    code = f"mkdir $ENGRAMBUS_ARTIFACTS/real; ln -s {target} $ENGRAMBUS_ARTIFACTS/real/linked"
    outcome = steps.run("agent.run.shell", code=code)
    assert (outcome.exit, outcome.error, outcome.artifacts) == (1, "ARTIFACT_PATH", ())
    assert "'linked' is not a regular file" in steps.stderr(outcome)


def test_output_and_artifacts_are_counted_as_stored(steps: Steps) -> None:
    """Both streams, and artifacts in subfolders too."""
    code = (
        "printf 12345; printf 123 >&2; mkdir $ENGRAMBUS_ARTIFACTS/in\n"
        "printf 1234567 > $ENGRAMBUS_ARTIFACTS/one; printf 12 > $ENGRAMBUS_ARTIFACTS/in/two"
    )
    outcome = steps.run("agent.run.shell", code=code)
    assert [(artifact.path, artifact.size) for artifact in outcome.artifacts] == [("in/two", 2), ("one", 7)]
    assert outcome.stored_bytes == 5 + 3 + 7 + 2


def test_the_concurrency_of_a_worker_is_limited(tmp_path: Path) -> None:
    with open_worker_harness(tmp_path) as harness:
        limit = harness.space.settings.max_lane_concurrency
        expected = {0: 1, 1: 1, limit: limit, limit + 1: limit, 10_000: limit}
        pattern = read_pattern({"lane": "build"})
        pools = {requested: LaneWorkerPool(harness.deps, pattern, concurrency=requested) for requested in expected}
        assert {requested: pool.concurrency for requested, pool in pools.items()} == expected


# YT-12: the step waits until its niceness is set.
@pytest.mark.skipif(sys.platform != "linux", reason="needs nice without arguments")
@pytest.mark.parametrize(("cores", "nice"), [(0.6, 7), (0.1, 15)])
def test_a_step_with_a_small_cpu_quota_is_nice(steps: Steps, cores: float, nice: int) -> None:
    if os.nice(0) > nice:
        pytest.skip("this process is nicer already")
    code = f"until [ $(nice) = {nice} ]; do sleep 0.01; done"
    deadline = SystemClock().now() + 30 * SECOND_US
    outcome = steps.run("agent.run.shell", StepLimits(cores=cores), code=code, deadline=deadline)
    assert outcome.exit == 0, steps.stderr(outcome)


# YT-14: each process uses less than the quota.
def test_the_ram_of_all_processes_of_a_step_counts_together(steps: Steps) -> None:
    holding = "import time; held = b'x' * 60_000_000; time.sleep(60)"
    code = (
        "import subprocess, sys\n"
        f"started = [subprocess.Popen([sys.executable, '-S', '-c', {holding!r}]) for _ in range(4)]\n"
        "for process in started: process.wait()"
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
    """Return a process of the step whose first process is 10."""
    return ProcessInfo(pid, parent, 10, 10, pid, cpu, reaped, memory, 5, written)


# YT-12: a loop that starts one process after the other.
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
