"""Limits and budgets of a step, as its runner receives them. # YT-11 # YT-12 # YT-14"""

from __future__ import annotations

import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from engrambus.app import init_project, open_project, open_worker_dependencies
from engrambus.core import SECOND_US, SystemClock, print_time
from engrambus.evidence.receipts import EMPTY_DIGEST
from engrambus.gateway import LOCAL_ADMIN, to_request
from engrambus.operations import OPERATIONS
from engrambus.policy.guardrails import MB, Ceiling, StepLimits
from engrambus.settings import Settings
from engrambus.space.catalog import Catalog, Registry
from engrambus.space.tuples import CostHistory, Price, estimate_price, read_pattern
from engrambus.space.work import LaneWorkerPool, ProcessRunner, StepOutcome, StepRequest, WorkerDependencies
from engrambus.space.work.ports import ReportSpending
from engrambus.space.work.step_folder import StepFolder
from engrambus.testing.work import PERSON, RUN
from tests.projects import Repository
from tests.space.worker_harness import MODULE, WorkerHarness, running_pools, step, wait_until

YOOLS = Registry()
YOOLS.yool("agent.take.any", lane="build", cached=False)(["true"])
YOOLS.yool(
    "agent.take.little",
    lane="build",
    cached=False,
    terms={"cpu_quota_pct": 30, "memory_mb": 300, "disk_quota_mb": 30, "budget_tokens": 300, "budget_usd": 0.3},
)(["true"])
YOOLS.yool("agent.cost.much", lane="build", cached=False, cost_usd=0.02, cost_tokens=200)(["true"])
ALL = {"cpu_quota_pct": 50, "memory_mb": 500, "disk_quota_mb": 50, "budget_tokens": 500, "budget_usd": 0.5}


class RecordingRunner:
    """A runner that runs nothing and records the requests."""

    def __init__(self) -> None:
        self.requests: list[StepRequest] = []

    def run(self, request: StepRequest, report_spending: ReportSpending, stop: threading.Event) -> StepOutcome:
        self.requests.append(request)
        return StepOutcome(exit=0, stdout_sha=EMPTY_DIGEST, stderr_sha=EMPTY_DIGEST)

    def describe_limits(self) -> str:
        return "none"

    def holds_effects(self) -> bool:
        return True

    def sweep(self, count_spending: Any) -> None: ...

    def close(self) -> None: ...


def with_runner(deps: WorkerDependencies, runner: RecordingRunner) -> WorkerDependencies:
    """Return the same dependencies with another runner and the yools of this module."""
    deps.runner.close()
    catalog = Catalog(yool.entry for yool in YOOLS)
    return msgspec.structs.replace(deps, registry=YOOLS, catalog=lambda: catalog, runner=runner)


def run_once(
    repository: Repository,
    tmp_path: Path,
    variables: dict[str, str],
    project: dict[str, int],
    terms: dict[str, Any],
    steps: list[dict[str, Any]],
) -> list[StepRequest]:
    """Run a tuple with these steps in a project with these guardrails; return what its runner was given."""
    settings = Settings.from_environment({"HOME": str(tmp_path / "home"), **variables})
    init_project(repository.path, settings)
    with closing(open_project(repository.path, settings)) as gateway:
        applied = OPERATIONS["apply_policy"]
        gateway.call(applied, to_request({"policy": {"guardrails": project}}, applied.request), LOCAL_ADMIN)
        runner = RecordingRunner()
        deps = with_runner(open_worker_dependencies(gateway, settings), runner)
        draft = {"lane": "build", "payload": steps, "agent_terms": terms}
        deps.space.out(draft, authority=PERSON, run=RUN, trusted=True)
        LaneWorkerPool(deps, read_pattern({"lane": "build"})).run(until_empty=True)
        return runner.requests


# Sources of limits: the environment (CPU in percent), the project, the tuple, the yool. The lowest applies.
@pytest.mark.parametrize(
    ("environment", "project", "terms", "yool", "limits"),
    [
        (None, {}, {}, "any", StepLimits(cores=0.95)),
        (40, {}, {}, "any", StepLimits(cores=0.4)),
        (20, {"cpu_quota_pct": 60}, ALL, "little", StepLimits(
            cores=0.2, ram_bytes=300 * MB, disk_bytes=30 * MB, tokens=500, usd_micros=500_000)),
        (None, {"cpu_quota_pct": 10, "memory_mb": 100, "disk_quota_mb": 10}, ALL, "little", StepLimits(
            cores=0.1, ram_bytes=100 * MB, disk_bytes=10 * MB, tokens=500, usd_micros=500_000)),
        (None, {"cpu_quota_pct": 60, "memory_mb": 600}, ALL, "any", StepLimits(
            cores=0.5, ram_bytes=500 * MB, disk_bytes=50 * MB, tokens=500, usd_micros=500_000)),
        (None, {}, {}, "little", StepLimits(
            cores=0.3, ram_bytes=300 * MB, disk_bytes=30 * MB, tokens=300, usd_micros=300_000)),
        (None, {}, {"memory_mb": 20, "budget_tokens": 9}, "little", StepLimits(
            cores=0.3, ram_bytes=20 * MB, disk_bytes=30 * MB, tokens=9, usd_micros=300_000)),
    ],
)  # fmt: skip
def test_a_step_runs_with_the_lowest_limit_of_all_sources(
    repository: Repository,
    tmp_path: Path,
    environment: int | None,
    project: dict[str, int],
    terms: dict[str, Any],
    yool: str,
    limits: StepLimits,
) -> None:
    variables = {} if environment is None else {"YOOL_TUPLE_CPU_QUOTA_PCT": str(environment)}
    (request,) = run_once(repository, tmp_path, variables, project, terms, [step(f"agent.take.{yool}")])
    assert request.limits == msgspec.structs.replace(limits, processes=1000)


# YT-20: the environment has a limit for each step, and one for all steps of a worker.
@pytest.mark.parametrize(
    ("variables", "project", "terms", "processes"),
    [
        ({}, {}, {}, 1000),
        ({"YOOL_TUPLE_MAX_PROCESSES": "2000"}, {}, {}, 2000),
        ({"YOOL_TUPLE_WORKER_MAX_PROCESSES": "70"}, {}, {}, 70),
        ({}, {"max_processes": 60}, {"max_processes": 80}, 60),
        ({}, {"max_processes": 60}, {"max_processes": 50}, 50),
    ],
)
def test_the_lowest_number_of_processes_applies(
    repository: Repository,
    tmp_path: Path,
    variables: dict[str, str],
    project: dict[str, int],
    terms: dict[str, int],
    processes: int,
) -> None:
    (request,) = run_once(repository, tmp_path, variables, project, terms, [step("agent.take.any")])
    assert (request.limits.processes, request.ceiling) == (processes, None)


# YT-20
def test_the_terms_of_a_tuple_are_a_ceiling_if_its_steps_may_run_at_once(
    repository: Repository, tmp_path: Path
) -> None:
    steps = [{**step("agent.take.any"), "after": []}, {**step("agent.take.any"), "after": []}]
    terms = {"cpu_quota_pct": 50, "memory_mb": 500, "max_processes": 5, "disk_quota_mb": 50}
    requests = run_once(repository, tmp_path, {}, {"memory_mb": 100}, terms, steps)
    expected = Ceiling(scope="tuple", key=requests[0].tuple_id, cores=0.5, ram_bytes=500 * MB, processes=5)
    assert [request.ceiling for request in requests] == [expected, expected]
    assert [request.limits.ram_bytes for request in requests] == [100 * MB] * 2


# A yool that has not run yet is estimated by its contract.
@pytest.mark.parametrize(
    ("terms", "begun"),
    [
        ({"budget_usd": 0.02, "budget_tokens": 200}, True),
        ({"budget_usd": 0.019_999}, False),
        ({"budget_tokens": 199}, False),
    ],
)
def test_a_step_that_is_estimated_over_the_budget_is_not_begun(
    harness: WorkerHarness, terms: dict[str, Any], begun: bool
) -> None:
    runner = RecordingRunner()
    recording = WorkerHarness(with_runner(harness.deps, runner), harness.progress)
    tuple_id = recording.put(step("agent.cost.much"), agent_terms=terms)
    assert recording.work() == (["miss", "done"] if begun else ["refused", "dead"])
    assert len(runner.requests) == int(begun)
    if not begun:
        assert (recording.receipts(tuple_id)[-1].error or "").startswith("BUDGET_EXCEEDED: ")


def test_the_estimated_cost_is_rounded_up() -> None:
    declared = Price(micros=7, tokens=8)
    assert estimate_price(CostHistory(executions=3, micros=10, tokens=11), declared) == Price(micros=4, tokens=4)
    assert estimate_price(CostHistory(executions=5, micros=10, tokens=0), declared) == Price(micros=2, tokens=0)
    assert estimate_price(CostHistory(), declared) == declared


def test_a_step_that_exceeds_the_budget_of_its_parent_tuple_is_stopped(harness: WorkerHarness) -> None:
    """Its own budget is large enough."""
    parent = harness.put(lane="elsewhere", agent_terms={"budget_usd": 0.01})
    tuple_id = harness.put(
        step("agent.spend.money", usd=0.004, times=40), parent_id=parent, agent_terms={"budget_usd": 1}
    )
    assert harness.work() == ["failed", "dead"]
    assert harness.receipts(tuple_id)[0].error == "BUDGET_EXCEEDED"
    spent = harness.space.get(tuple_id).spent_micros
    assert 10_000 < spent < 40 * 4_000
    assert harness.space.get(parent).spent_micros == spent


def test_an_incomplete_line_of_the_cost_file_is_read_later(tmp_path: Path) -> None:
    """The file may be read while the step writes."""
    spent: list[Price] = []
    with StepFolder(tmp_path) as folder:
        for written in ('{"usd":1}\n{"usd":0.', '5,"tokens_in":3', "0}\n"):
            with folder.cost.open("a") as file:
                file.write(written)
            folder.report_spending(spent.append)
        assert spent == [Price(micros=1_000_000), Price(micros=1_500_000, tokens=30)]
        folder.report_spending(spent.append, last=True)
        assert len(spent) == 2


class OffsetClock(SystemClock):
    """The system clock plus an offset."""

    def __init__(self) -> None:
        self.offset_us = 0

    def now(self) -> int:
        return super().now() + self.offset_us


# YT-06
def test_a_running_step_is_stopped_at_its_deadline(harness: WorkerHarness, tmp_path: Path) -> None:
    clock = OffsetClock()
    runner = ProcessRunner(harness.deps.bodies, tmp_path / "scratch", clock, [MODULE])
    with closing(runner):
        with_clock = WorkerHarness(msgspec.structs.replace(harness.deps, runner=runner), harness.progress)
        ends = print_time(clock.now() + 3600 * SECOND_US)
        started = tmp_path / "started"
        tuple_id = with_clock.put(
            step("agent.wait.long", started=str(started)),
            agent_terms={"deadline_iso": ends, "max_retries": 3},
        )
        with running_pools(with_clock.pool()):
            wait_until(started.exists)
            clock.offset_us = 3600 * SECOND_US
            wait_until(lambda: with_clock.space.get(tuple_id).state == "dead")
    executed, last = with_clock.receipts(tuple_id)
    assert (executed.exit, executed.error) == (143, "DEADLINE_PAST")
    assert (last.error, with_clock.space.get(tuple_id).attempts) == ("DEADLINE_PAST", 1)
