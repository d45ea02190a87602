"""Limits over steps that run at once: those of one tuple, and all steps of a worker. # YT-20"""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from engrambus.core import SECOND_US
from engrambus.policy.guardrails import MB, Ceiling, Quotas, StepLimits, ceiling, step_limits
from engrambus.space.tuples import SpaceSettings
from engrambus.space.work import StepOutcome
from engrambus.space.work.guard import Containment, find_containment
from engrambus.space.work.guard.process_tree import ProcessUsage
from engrambus.space.work.guard.shared_ceiling import ExceededQuota, SharedCeiling
from tests.guardrails.test_containment import LEVELS
from tests.guardrails.test_steps import Steps
from tests.space.worker_harness import open_worker_harness, step, wait_until

linux = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
RETRIES = SpaceSettings(max_retries=3, backoff_us=3 * SECOND_US)


def step_using(ram_bytes: int = 0, processes: int = 1, cpu_seconds: float = 0.0) -> Any:
    """Return a step as a ceiling sees it."""

    class Step:
        usage = ProcessUsage(cpu_seconds, ram_bytes, 0, processes)
        exceeded: ExceededQuota | None = None

    return Step()


def shared(**limits: Any) -> SharedCeiling:
    return SharedCeiling(Ceiling(scope="worker", key="", **limits), 0.0, 2, by_kernel=False)


def test_the_step_that_uses_most_is_stopped() -> None:
    """Of equals, the one that began last; one that is being stopped is counted no more."""
    together = shared(ram_bytes=100)
    for pid, ram_bytes in ((1, 40), (2, 50), (3, 50)):
        together.add(pid, step_using(ram_bytes))
    assert together.find_exceeding() == (3, ExceededQuota("MEMORY_QUOTA", 140, 100, "worker"))
    stopped = step_using(50)
    stopped.exceeded = ExceededQuota("MEMORY_QUOTA", 140, 100, "worker")
    together.add(3, stopped)
    assert together.find_exceeding() is None
    together.add(4, step_using(60, processes=9))
    assert together.find_exceeding() == (4, ExceededQuota("MEMORY_QUOTA", 150, 100, "worker"))


def test_processes_of_all_steps_count_together() -> None:
    together = shared(processes=10)
    together.add(1, step_using(processes=7, ram_bytes=1))
    together.add(2, step_using(processes=3, ram_bytes=99))
    assert together.find_exceeding() is None
    together.add(3, step_using(processes=1))
    assert together.find_exceeding() == (1, ExceededQuota("PROCESS_QUOTA", 11, 10, "worker"))


def test_the_cpu_time_of_ended_steps_stays_charged() -> None:
    together = shared(cores=0.5)
    together.add(1, step_using(cpu_seconds=1.0))
    together.account(1.0)
    assert not together.runs
    together.remove(1)
    together.add(2, step_using())
    together.account(1.5)
    assert not together.runs
    together.account(3.0)
    assert together.runs


def test_idle_processes_make_room_before_a_step_is_stopped() -> None:
    together = shared(ram_bytes=100)
    together.add(1, step_using(60))
    assert together.has_room_for(40)
    assert not together.has_room_for(41)
    assert together.find_exceeding() is None


def test_a_step_alone_may_not_use_more_than_its_worker() -> None:
    limits = step_limits(Quotas(cpu_quota_pct=95), Quotas(cpu_quota_pct=400, memory_mb=100, max_processes=5))
    assert (limits.cores, limits.ram_bytes, limits.processes) == (0.95, 100 * MB, 5)


def test_without_limits_there_is_no_ceiling() -> None:
    assert ceiling("tuple", "id", Quotas(disk_quota_mb=5, budget_tokens=7)) is None
    assert ceiling("worker", "", Quotas(cpu_quota_pct=250)) == Ceiling(scope="worker", key="", cores=2.5)


BURN = "import time\nends = time.monotonic() + 2\nwhile time.monotonic() < ends: pass\nprint(time.process_time())"
HOLD = (
    "import os, time\nheld = b'x' * {0}_000_000\nopen({1!r} + str(os.getpid()) + str(id(held)), 'w').close()\n"
    "ends = time.monotonic() + 30\n"
    "while time.monotonic() < ends and not os.path.exists({2!r}): time.sleep(0.01)"
)


def run_all(steps: Steps, name: str, *codes: str, **request: Any) -> list[StepOutcome]:
    """Run these programs at once; return their outcomes in the same order."""
    with ThreadPoolExecutor(len(codes)) as threads:
        running = [threads.submit(steps.run, name, code=code, **request) for code in codes]
        return [future.result() for future in running]


@pytest.fixture(params=LEVELS)
def containment(request: pytest.FixtureRequest) -> Containment:
    if request.param == "pid namespace" and find_containment().level != request.param:
        pytest.skip(find_containment().describe())
    return Containment(level=request.param)


@linux
@pytest.mark.parametrize("scope", ["tuple", "worker"])
def test_parallel_steps_share_a_cpu_quota(tmp_path: Path, containment: Containment, scope: Any) -> None:
    shared = Ceiling(scope=scope, key="one", cores=0.5)
    of_worker, of_tuple = (shared, None) if scope == "worker" else (None, shared)
    steps = Steps(tmp_path, containment, of_worker)
    outcomes = run_all(steps, "agent.run.python", BURN, BURN, BURN, ceiling=of_tuple)
    used = sum(float(steps.bodies.get(outcome.stdout_sha)) for outcome in outcomes)
    assert used < 1.6, "two seconds and a little, on half a core"
    alone = steps.run("agent.run.python", code=BURN, ceiling=of_tuple)
    assert float(steps.bodies.get(alone.stdout_sha)) < 1.5
    steps.runner.close()


@linux
@pytest.mark.parametrize(("scope", "error"), [("tuple", "MEMORY_QUOTA"), ("worker", "WORKER_QUOTA")])
def test_of_steps_that_use_too_much_ram_together_the_largest_is_stopped(
    tmp_path: Path, containment: Containment, scope: Any, error: str
) -> None:
    shared = Ceiling(scope=scope, key="one", ram_bytes=150 * MB)
    of_worker, of_tuple = (shared, None) if scope == "worker" else (None, shared)
    steps = Steps(tmp_path, containment, of_worker)
    go = str(tmp_path / "go")
    with ThreadPoolExecutor(3) as threads:
        small = [
            threads.submit(
                steps.run,
                "agent.run.python",
                code=HOLD.format(40, str(tmp_path / f"small-{number}-"), go),
                ceiling=of_tuple,
            )
            for number in range(2)
        ]
        wait_until(lambda: len(list(tmp_path.glob("small-*"))) == 2)
        code = HOLD.format(90, str(tmp_path / "large-"), go)
        largest = steps.run("agent.run.python", code=code, ceiling=of_tuple)
        Path(go).touch()
        assert [future.result().exit for future in small] == [0, 0]
    assert (largest.exit, largest.error) == (143, error)
    assert f"stopped: {error}: The steps of the {scope} " in steps.stderr(largest)
    assert " of 150000000)" in steps.stderr(largest)
    steps.runner.close()


FORK_BOMB = (
    # At most 4,096 processes, for 20 seconds: a machine survives it even if nobody ends it.
    "import os, time\nends = time.monotonic() + 20\n"
    "for _ in range(12): os.fork()\n"
    "while time.monotonic() < ends: time.sleep(0.1)"
)


def processes_in(folder: Path) -> list[int]:
    """Return the processes whose working folder this is."""
    found = []
    for name in os.listdir("/proc"):
        with suppress(OSError):
            if name.isdigit() and os.readlink(f"/proc/{name}/cwd") == str(folder):
                found.append(int(name))
    return found


@linux
@pytest.mark.parametrize("name", ["agent.run.python", "agent.run.called"])
def test_a_fork_bomb_is_stopped_as_a_whole(tmp_path: Path, containment: Containment, name: str) -> None:
    steps = Steps(tmp_path, containment)
    outcome = steps.run(name, StepLimits(processes=40), code=FORK_BOMB)
    assert (outcome.exit, outcome.error) == (143, "PROCESS_QUOTA"), steps.stderr(outcome)
    assert "processes at once than its limit. (41 of 40)" in steps.stderr(outcome)
    steps.runner.close()
    wait_until(lambda: not processes_in(tmp_path))


@linux
def test_a_step_may_have_as_many_processes_as_its_limit(tmp_path: Path) -> None:
    steps = Steps(tmp_path)
    code = "import os, time\nfor _ in range(4):\n  if os.fork() == 0: time.sleep(1); os._exit(0)\ntime.sleep(1)"
    assert steps.run("agent.run.python", StepLimits(processes=5), code=code).exit == 0
    assert steps.run("agent.run.python", StepLimits(processes=4), code=code).error == "PROCESS_QUOTA"
    steps.runner.close()


@linux
@pytest.mark.parametrize(("scope", "error"), [("tuple", "PROCESS_QUOTA"), ("worker", "WORKER_QUOTA")])
def test_processes_of_parallel_steps_are_limited_together(tmp_path: Path, scope: Any, error: str) -> None:
    shared = Ceiling(scope=scope, key="one", processes=8)
    of_worker, of_tuple = (shared, None) if scope == "worker" else (None, shared)
    steps = Steps(tmp_path, None, of_worker)
    code = "import os, time\nfor _ in range({0}):\n  if os.fork() == 0: time.sleep(3); os._exit(0)\ntime.sleep(3)"
    outcomes = run_all(steps, "agent.run.python", code.format(2), code.format(6), ceiling=of_tuple)
    assert [outcome.error for outcome in outcomes] == [None, error]
    steps.runner.close()


@linux
def test_idle_processes_are_ended_when_a_worker_needs_their_ram(tmp_path: Path) -> None:
    steps = Steps(tmp_path, None, Ceiling(scope="worker", key="", ram_bytes=150 * MB))
    hold = "import builtins; builtins.held = b'x' * 80_000_000"
    has = "import builtins; print(hasattr(builtins, 'held'))"
    assert steps.run("agent.run.called", code=hold).error is None
    assert steps.bodies.get(steps.run("agent.run.called", code=has).stdout_sha) == b"True\n"
    outcome = steps.run("agent.run.python", code="import time; held = b'x' * 80_000_000; time.sleep(1)")
    assert outcome.error is None, steps.stderr(outcome)
    assert steps.bodies.get(steps.run("agent.run.called", code=has).stdout_sha) == b"False\n"
    steps.runner.close()


def _hold(tmp_path: Path, megabytes: int) -> dict[str, Any]:
    return {**step("agent.hold.memory", megabytes=megabytes, folder=str(tmp_path)), "after": []}


@linux
def test_the_terms_of_a_tuple_hold_for_its_parallel_steps_together(tmp_path: Path) -> None:
    """Each step alone is within them; another attempt would meet the same."""
    with open_worker_harness(tmp_path / "project", RETRIES) as harness:
        tuple_id = harness.put(_hold(tmp_path, 20), _hold(tmp_path, 110), agent_terms={"memory_mb": 160})
        assert sorted(harness.work()) == ["dead", "failed", "miss"]
        assert [(id.step, id.error) for id in harness.receipts(tuple_id) if id.exit] == [
            (1, "MEMORY_QUOTA"),
            (None, "MEMORY_QUOTA"),
        ]


@linux
def test_a_step_that_was_too_much_for_its_worker_is_tried_again(tmp_path: Path) -> None:
    of_worker = Ceiling(scope="worker", key="", ram_bytes=160 * MB)
    with open_worker_harness(tmp_path / "project", RETRIES, ceiling=of_worker) as harness:
        small, large = (harness.put(_hold(tmp_path, megabytes)) for megabytes in (20, 110))
        assert sorted(harness.work()) == ["again", "done", "done", "failed", "miss", "miss"]
        assert [(id.step, id.error) for id in harness.receipts(large)] == [(0, "WORKER_QUOTA"), (0, None), (None, None)]
        assert [id.error for id in harness.receipts(small)] == [None, None]
