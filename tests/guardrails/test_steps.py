"""Steps are held to what they may take: commands and callables alike, with everything they start."""

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
from engrambus.evidence.receipts import BodyStore
from engrambus.policy.guardrails import MB, StepLimits
from engrambus.space.tuples import Price
from engrambus.space.work import ProcessRunner, StepOutcome, StepRequest
from engrambus.space.work.step_folder import StepFolder, sweep
from tests.space.shop import own_registry

MODULE = "tests.guardrails.yools"
OWN = own_registry(MODULE)
PATH = {"PATH": os.defpath}


class Steps:
    """Runs steps in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bodies = BodyStore(folder / "cas")
        self.runner = ProcessRunner(self.bodies, folder / "scratch", SystemClock(), [MODULE])
        self.spent: list[Price] = []

    def run(self, name: str, limits: StepLimits | None = None, **more: Any) -> StepOutcome:
        """Run one step to its end."""
        deadline, stop = more.pop("deadline", None), more.pop("stop", threading.Event())
        request = StepRequest(
            yool=OWN.lookup(name),
            args=more,
            tuple_id="sha256:" + "0" * 64,
            step=0,
            root=self.folder,
            env=PATH,
            limits=limits or StepLimits(),
            deadline_us=deadline,
        )
        return self.runner.run(request, self.spent.append, stop)

    def said(self, outcome: StepOutcome) -> str:
        """What it said on its standard error."""
        return self.bodies.get(outcome.stderr_sha).decode()

    def answered(self, outcome: StepOutcome) -> Any:
        """What a callable gave back."""
        assert outcome.exit == 0, self.said(outcome)
        return json.loads(self.bodies.get(outcome.stdout_sha))


@pytest.fixture
def steps(tmp_path: Path) -> Iterator[Steps]:
    made = Steps(tmp_path)
    yield made
    made.runner.close()


def cpu_of_children() -> float:
    """Return CPU seconds of ended descendants; the limit enforcer still runs and is not counted."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def gone(pid: int) -> bool:
    """Whether a process has ended, waited for a little."""
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
def test_a_command_with_half_a_core_burns_less_than_a_second_and_a_half_in_two(steps: Steps, name: str) -> None:
    before = cpu_of_children()
    outcome = steps.run(name, StepLimits(cores=0.5))
    assert outcome.exit == 0
    assert cpu_of_children() - before < 1.5


# YT-12
@pytest.mark.parametrize("children", [0, 4])
def test_a_callable_with_half_a_core_burns_less_than_a_second_and_a_half_in_two(steps: Steps, children: int) -> None:
    outcome = steps.run("agent.burn.called", StepLimits(cores=0.5), children=children)
    assert steps.answered(outcome)["cpu"] < 1.5


# YT-12: niceness alone would let it end after one second on an idle machine.
def test_a_second_of_work_with_a_fifth_of_a_core_takes_many(steps: Steps) -> None:
    begun = time.monotonic()
    assert steps.run("agent.burn.fixed", StepLimits(cores=0.2)).exit == 0
    assert time.monotonic() - begun > 3.5


# YT-12
def test_a_warm_process_is_free_again_after_a_step_with_a_quota(steps: Steps) -> None:
    limits = StepLimits(cores=0.1, ram_bytes=300 * MB, disk_bytes=MB)
    for _ in range(2):
        assert steps.answered(steps.run("agent.echo.later", limits, value=1)) == {"said": 1}
    assert steps.answered(steps.run("agent.echo.later", StepLimits(cores=0.1), value="ü")) == {"said": "ü"}


# YT-14
@pytest.mark.parametrize("name", ["agent.hold.memory", "agent.hold.called"])
def test_a_step_that_holds_too_much_memory_is_stopped(steps: Steps, name: str) -> None:
    outcome = steps.run(name, StepLimits(ram_bytes=150 * MB))
    assert (outcome.exit, outcome.error) == (143, "MEMORY_QUOTA")
    assert "stopped: MEMORY_QUOTA" in steps.said(outcome)
    assert f"of {150 * MB})" in steps.said(outcome)


# YT-13
@pytest.mark.parametrize(("name", "args"), [("agent.write.much", {}), ("agent.write.called", {"megabytes": 300})])
def test_a_step_that_writes_too_much_is_stopped(steps: Steps, name: str, args: dict[str, int]) -> None:
    outcome = steps.run(name, StepLimits(disk_bytes=8 * MB), **args)
    assert outcome.exit != 0
    assert outcome.error == "DISK_QUOTA"
    assert sum(each.stat().st_size for each in steps.folder.glob("grown.bin")) < 64 * MB


# YT-13
def test_what_a_step_prints_counts_as_written(steps: Steps) -> None:
    outcome = steps.run("agent.print.much", StepLimits(disk_bytes=8 * MB))
    assert (outcome.exit, outcome.error) == (143, "DISK_QUOTA")
    assert outcome.stored_bytes < 8 * MB + 1000


# YT-14
def test_a_step_that_spends_more_tokens_than_it_may_is_stopped_while_it_runs(steps: Steps) -> None:
    outcome = steps.run("agent.spend.called", StepLimits(tokens=1000), each=30, times=500)
    assert (outcome.exit, outcome.error) == (143, "BUDGET_EXCEEDED")
    assert outcome.tokens_in > 1000
    assert steps.spent[-1].tokens == outcome.tokens_in
    assert len(steps.spent) > 1


def test_a_step_past_its_deadline_is_stopped_though_it_stands_still(steps: Steps) -> None:
    outcome = steps.run("agent.burn.ever", StepLimits(cores=0.05), deadline=SystemClock().now() + SECOND_US)
    assert (outcome.exit, outcome.error) == (143, "DEADLINE_PAST")


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_what_a_command_started_and_sent_away_goes_with_it(steps: Steps) -> None:
    place = steps.folder / "pid"
    assert steps.run("agent.leave.daemon", file=str(place)).exit == 0
    assert gone(int(place.read_text()))


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_what_a_callable_started_goes_with_it_and_its_process_stays(steps: Steps) -> None:
    left = steps.answered(steps.run("agent.leave.child"))
    assert gone(left)
    assert steps.answered(steps.run("agent.echo.later", value=2)) == {"said": 2}


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_a_killed_worker_leaves_nothing_running_and_nothing_standing_still(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from tests.guardrails.test_steps import *\n"
        "made = Steps(Path(sys.argv[1])); print(made.runner.describe_limits(), flush=True)\n"
        "made.run('agent.burn.ever', StepLimits(cores=0.05))"
    )
    worker = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE)
    assert worker.stdout is not None
    worker.stdout.readline()
    mark = str(tmp_path / "scratch").encode()
    while not (burning := _bearing(mark)):
        time.sleep(0.05)
    worker.send_signal(signal.SIGKILL)
    worker.wait()
    worker.stdout.close()
    assert all(gone(pid) for pid in burning)
    # YT-13: nor does what it had written stay on the disk; what those alive are writing does.
    scratch = tmp_path / "scratch"
    (left,) = scratch.iterdir()
    with StepFolder(scratch) as own:
        sweep(scratch, lambda *spent: None)
        assert list(scratch.iterdir()) == [own.path] != [left]


def _bearing(mark: bytes) -> list[int]:
    found = []
    for each in Path("/proc").iterdir():
        if each.name.isdigit():
            try:
                if mark in (each / "environ").read_bytes():
                    found.append(int(each.name))
            except OSError:
                continue
    return found


def test_a_limit_enforcer_that_was_killed_is_replaced(steps: Steps) -> None:
    steps.runner.describe_limits()
    enforcer = steps.runner._enforcer._process
    assert enforcer is not None
    threading.Timer(0.5, enforcer.kill).start()
    before = cpu_of_children()
    assert steps.run("agent.burn.family", StepLimits(cores=0.5)).exit == 0
    assert cpu_of_children() - before < 3.0
    assert steps.runner._enforcer._process is not enforcer


# "cgroup not writable"
def test_it_is_told_how_quotas_are_held(steps: Steps) -> None:
    assert steps.runner.describe_limits() == "cgroup v2" or steps.runner.describe_limits().startswith("duty cycle; ")


# YT-14: large output goes to the disk, never through memory.
def test_a_large_output_is_kept_without_being_held(tmp_path: Path) -> None:
    code = (
        "import resource, sys; from pathlib import Path; from tests.guardrails.test_steps import *\n"
        "made = Steps(Path(sys.argv[1])); made.run('agent.echo.later', value=1)\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "outcome = made.run('agent.print.some'); made.runner.close()\n"
        "print(outcome.stored_bytes, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    kept, grown = map(int, done.stdout.split())
    assert kept == 128 * MB
    assert grown < 32_000  # kilobytes
