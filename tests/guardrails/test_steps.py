"""Commands and callables, with everything they start, are kept within their limits."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engrambus.core import SECOND_US, SystemClock
from engrambus.evidence.receipts import BodyFolder
from engrambus.policy.guardrails import MB, Ceiling, StepLimits
from engrambus.space.tuples import Price
from engrambus.space.work import ProcessRunner, StepOutcome, StepRequest
from engrambus.space.work.guard import Containment
from engrambus.space.work.step_folder import StepFolder, sweep
from tests.space.worker_harness import registry_of_module

MODULE = "tests.guardrails.yools"
YOOLS = registry_of_module(MODULE)
PATH = {"PATH": os.defpath}


class Steps:
    """Runs single steps in a folder."""

    def __init__(
        self, folder: Path, containment: Containment | None = None, worker_ceiling: Ceiling | None = None
    ) -> None:
        """Without `containment` its runner uses the strongest level of this machine."""
        self.folder = folder
        self.bodies = BodyFolder(folder / "cas")
        self.runner = ProcessRunner(
            self.bodies,
            folder / "scratch",
            SystemClock(),
            [MODULE],
            containment=containment,
            ceiling=worker_ceiling,
        )
        self.spent: list[Price] = []

    def run(self, name: str, limits: StepLimits | None = None, **args: Any) -> StepOutcome:
        """Run one step; `deadline`, `stop` and `ceiling` are not passed to it."""
        deadline, stop = args.pop("deadline", None), args.pop("stop", threading.Event())
        ceiling = args.pop("ceiling", None)
        request = StepRequest(
            yool=YOOLS.lookup(name),
            args=args,
            tuple_id="sha256:" + "0" * 64,
            step=0,
            root=self.folder,
            env=PATH,
            limits=limits or StepLimits(),
            ceiling=ceiling,
            deadline_us=deadline,
        )
        return self.runner.run(request, self.spent.append, stop)

    def stderr(self, outcome: StepOutcome) -> str:
        """Return the standard error of a step."""
        return self.bodies.get(outcome.stderr_sha).decode()

    def result(self, outcome: StepOutcome) -> Any:
        """Return the value that a callable returned."""
        assert outcome.exit == 0, self.stderr(outcome)
        return json.loads(self.bodies.get(outcome.stdout_sha))


@pytest.fixture
def steps(tmp_path: Path) -> Iterator[Steps]:
    steps = Steps(tmp_path)
    yield steps
    steps.runner.close()


def cpu_of_children() -> float:
    """Return CPU seconds of ended descendants; the limit enforcer still runs and is not counted."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def ends_soon(pid: int) -> bool:
    """True if a process ends within ten seconds."""
    for _ in range(200):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False


# YT-12
@pytest.mark.parametrize("name", ["agent.burn.alone", "agent.burn.family"])
def test_a_command_with_half_a_core_uses_less_than_1_5_cpu_seconds_in_2_seconds(steps: Steps, name: str) -> None:
    start = cpu_of_children()
    outcome = steps.run(name, StepLimits(cores=0.5))
    assert outcome.exit == 0
    assert cpu_of_children() - start < 1.5


# YT-12
@pytest.mark.parametrize("children", [0, 4])
def test_a_callable_with_half_a_core_uses_less_than_1_5_cpu_seconds_in_2_seconds(steps: Steps, children: int) -> None:
    outcome = steps.run("agent.burn.called", StepLimits(cores=0.5), children=children)
    assert steps.result(outcome)["cpu"] < 1.5


# YT-12: niceness alone would let it end after one second on an idle machine.
def test_one_cpu_second_on_a_fifth_of_a_core_takes_over_three_seconds(steps: Steps) -> None:
    begun = time.monotonic()
    assert steps.run("agent.burn.fixed", StepLimits(cores=0.2)).exit == 0
    assert time.monotonic() - begun > 3.5


# YT-12
def test_a_warm_process_can_be_reused_after_a_step_with_a_quota(steps: Steps) -> None:
    limits = StepLimits(cores=0.1, ram_bytes=300 * MB, disk_bytes=MB)
    for _ in range(2):
        assert steps.result(steps.run("agent.echo.later", limits, value=1)) == {"echoed": 1}
    assert steps.result(steps.run("agent.echo.later", StepLimits(cores=0.1), value="ü")) == {"echoed": "ü"}


# YT-14
@pytest.mark.parametrize("name", ["agent.hold.memory", "agent.hold.called"])
def test_a_step_over_its_ram_quota_is_stopped(steps: Steps, name: str) -> None:
    outcome = steps.run(name, StepLimits(ram_bytes=150 * MB))
    assert (outcome.exit, outcome.error) == (143, "MEMORY_QUOTA")
    assert "stopped: MEMORY_QUOTA" in steps.stderr(outcome)
    assert f"of {150 * MB})" in steps.stderr(outcome)


# YT-13
@pytest.mark.parametrize(("name", "args"), [("agent.write.much", {}), ("agent.write.called", {"megabytes": 300})])
def test_a_step_over_its_disk_quota_is_stopped(steps: Steps, name: str, args: dict[str, int]) -> None:
    outcome = steps.run(name, StepLimits(disk_bytes=8 * MB), **args)
    assert outcome.exit != 0
    assert outcome.error == "DISK_QUOTA"
    assert sum(file.stat().st_size for file in steps.folder.glob("grown.bin")) < 64 * MB


# YT-13
def test_output_counts_towards_the_disk_quota(steps: Steps) -> None:
    outcome = steps.run("agent.print.much", StepLimits(disk_bytes=8 * MB))
    assert (outcome.exit, outcome.error) == (143, "DISK_QUOTA")
    assert outcome.stored_bytes < 8 * MB + 1000


# YT-14
def test_a_step_over_its_token_budget_is_stopped_while_it_runs(steps: Steps) -> None:
    outcome = steps.run("agent.spend.called", StepLimits(tokens=1000), tokens=30, times=500)
    assert (outcome.exit, outcome.error) == (143, "BUDGET_EXCEEDED")
    assert outcome.tokens_in > 1000
    assert steps.spent[-1].tokens == outcome.tokens_in
    assert len(steps.spent) > 1


def test_a_step_past_its_deadline_is_stopped_even_while_it_is_suspended(steps: Steps) -> None:
    outcome = steps.run("agent.burn.ever", StepLimits(cores=0.05), deadline=SystemClock().now() + SECOND_US)
    assert (outcome.exit, outcome.error) == (143, "DEADLINE_PAST")


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_a_daemon_started_by_a_command_is_ended_with_it(steps: Steps) -> None:
    place = steps.folder / "pid"
    assert steps.run("agent.leave.daemon", file=str(place)).exit == 0
    assert all(ends_soon(pid) for pid in pids_with_argument(str(place)))


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_a_child_started_by_a_callable_is_ended_and_the_warm_process_stays(steps: Steps) -> None:
    assert steps.result(steps.run("agent.leave.child", mark=str(steps.folder)))
    assert all(ends_soon(pid) for pid in pids_with_argument(str(steps.folder)))
    assert steps.result(steps.run("agent.echo.later", value=2)) == {"echoed": 2}


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_a_killed_worker_leaves_no_process_running_or_suspended(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from tests.guardrails.test_steps import *\n"
        "steps = Steps(Path(sys.argv[1])); print(steps.runner.describe_limits(), flush=True)\n"
        "steps.run('agent.burn.ever', StepLimits(cores=0.05))"
    )
    worker = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE)
    assert worker.stdout is not None
    worker.stdout.readline()
    mark = str(tmp_path / "scratch").encode()
    while not (burning := _pids_with_mark(mark)):
        time.sleep(0.05)
    worker.send_signal(signal.SIGKILL)
    worker.wait()
    worker.stdout.close()
    assert all(ends_soon(pid) for pid in burning)
    # YT-13: its folder is deleted too; the folders of living workers are not.
    scratch = tmp_path / "scratch"
    (abandoned,) = scratch.iterdir()
    with StepFolder(scratch) as folder:
        sweep(scratch, lambda *spent: None)
        assert list(scratch.iterdir()) == [folder.path] != [abandoned]


def pids_with_argument(argument: str) -> list[int]:
    """Return the processes started with an argument, by their ids in this PID namespace."""
    return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if argument in _arguments(pid)]


def _arguments(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    except OSError:
        return []


def _pids_with_mark(mark: bytes) -> list[int]:
    pids = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                if mark in (process / "environ").read_bytes():
                    pids.append(int(process.name))
            except OSError:
                continue
    return pids


# YT-12: what a step did while it was not watched, nobody knows.
def test_a_step_whose_limit_enforcer_was_killed_is_stopped_and_the_enforcer_replaced(steps: Steps) -> None:
    steps.runner.describe_limits()
    enforcer = steps.runner._enforcer._process
    assert enforcer is not None
    threading.Timer(0.5, enforcer.kill).start()
    outcome = steps.run("agent.burn.ever", StepLimits(cores=0.5))
    assert (outcome.exit, outcome.error) == (143, "LIMIT_ENFORCER_LOST")
    assert "stopped: LIMIT_ENFORCER_LOST: " in steps.stderr(outcome)
    assert steps.runner._enforcer._process is not enforcer
    assert steps.run("agent.hold.memory", StepLimits(ram_bytes=150 * MB)).error == "MEMORY_QUOTA"


def test_the_runner_says_how_limits_are_enforced(steps: Steps) -> None:
    assert steps.runner.describe_limits() == "cgroup v2" or steps.runner.describe_limits().startswith("duty cycle; ")


# YT-14: large output goes to the disk, never through RAM.
def test_a_large_output_is_stored_without_reading_it_into_ram(tmp_path: Path) -> None:
    code = (
        "import resource, sys; from pathlib import Path; from tests.guardrails.test_steps import *\n"
        "steps = Steps(Path(sys.argv[1])); steps.run('agent.echo.later', value=1)\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "outcome = steps.run('agent.print.some'); steps.runner.close()\n"
        "print(outcome.stored_bytes, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    stored_bytes, grown_kib = map(int, done.stdout.split())
    assert stored_bytes == 128 * MB
    assert grown_kib < 32_000
