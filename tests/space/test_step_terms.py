"""What a step may take and spend, as it reaches whatever runs it. # YT-11 # YT-12 # YT-14"""

from __future__ import annotations

import threading
from collections.abc import Iterator
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
from engrambus.policy.guardrails import MB, StepLimits
from engrambus.settings import Settings
from engrambus.space.catalog import Catalog, Registry
from engrambus.space.tuples import CostHistory, Price, estimate_price, read_pattern
from engrambus.space.work import LaneWorkerPool, ProcessRunner, StepOutcome, StepRequest, WorkerDependencies
from engrambus.space.work.ports import ReportSpending
from engrambus.space.work.step_folder import StepFolder
from engrambus.testing.work import PERSON, RUN
from tests.projects import Repository
from tests.space.shop import MODULE, Shop, at_work, open_shop, step, until

OWN = Registry()
OWN.yool("agent.take.any", lane="build", cached=False)(["true"])
OWN.yool(
    "agent.take.little",
    lane="build",
    cached=False,
    terms={"cpu_quota_pct": 30, "memory_mb": 300, "disk_quota_mb": 30, "budget_tokens": 300, "budget_usd": 0.3},
)(["true"])
OWN.yool("agent.cost.much", lane="build", cached=False, cost_usd=0.02, cost_tokens=200)(["true"])
ALL = {"cpu_quota_pct": 50, "memory_mb": 500, "disk_quota_mb": 50, "budget_tokens": 500, "budget_usd": 0.5}


class Recorded:
    """Runs nothing, and keeps what it was asked to run."""

    def __init__(self) -> None:
        self.asked: list[StepRequest] = []

    def run(self, request: StepRequest, told: ReportSpending, stop: threading.Event) -> StepOutcome:
        """As if it had said nothing."""
        self.asked.append(request)
        return StepOutcome(exit=0, stdout_sha=EMPTY_DIGEST, stderr_sha=EMPTY_DIGEST)

    def describe_limits(self) -> str:
        """How it holds steps to their quotas."""
        return "none"

    def sweep(self, spend: Any) -> None:
        """Nothing was left."""

    def close(self) -> None:
        """Nothing to let go of."""


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    """A shop of the test's own."""
    with open_shop(tmp_path / "project") as shop:
        yield shop


def with_own(shop: WorkerDependencies, runner: Recorded) -> WorkerDependencies:
    """The same shop, with the yools of this module, which are not run."""
    shop.runner.close()
    return msgspec.structs.replace(
        shop, registry=OWN, catalog=lambda: Catalog(each.entry for each in OWN), runner=runner
    )


# Who says what: the environment (cpu in percent), the project, the tuple, the yool; the least of all holds.
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
def test_a_step_is_run_within_the_least_that_anybody_says(
    repository: Repository,
    tmp_path: Path,
    environment: int | None,
    project: dict[str, int],
    terms: dict[str, Any],
    yool: str,
    limits: StepLimits,
) -> None:
    said = {} if environment is None else {"YOOL_TUPLE_CPU_QUOTA_PCT": str(environment)}
    settings = Settings.from_environment({"HOME": str(tmp_path / "home"), **said})
    init_project(repository.path, settings)
    with closing(open_project(repository.path, settings)) as gateway:
        applied = OPERATIONS["apply_policy"]
        gateway.call(applied, to_request({"policy": {"guardrails": project}}, applied.request), LOCAL_ADMIN)
        runner = Recorded()
        shop = with_own(open_worker_dependencies(gateway, settings), runner)
        draft = {"lane": "build", "payload": [step(f"agent.take.{yool}")], "agent_terms": terms}
        shop.space.out(draft, authority=PERSON, run=RUN, trusted=True)
        LaneWorkerPool(shop, read_pattern({"lane": "build"})).run(until_empty=True)
        assert [each.limits for each in runner.asked] == [limits]


# What nobody has run yet costs what its contract says.
@pytest.mark.parametrize(
    ("terms", "begun"),
    [
        ({"budget_usd": 0.02, "budget_tokens": 200}, True),
        ({"budget_usd": 0.019_999}, False),
        ({"budget_tokens": 199}, False),
    ],
)
def test_a_step_whose_contract_costs_more_than_is_left_is_not_begun(
    shop: Shop, terms: dict[str, Any], begun: bool
) -> None:
    runner = Recorded()
    ours = Shop(with_own(shop.shop, runner), shop.told)
    one = ours.put(step("agent.cost.much"), agent_terms=terms)
    assert ours.work() == (["miss", "done"] if begun else ["refused", "dead"])
    assert len(runner.asked) == int(begun)
    if not begun:
        assert (ours.receipts(one)[-1].error or "").startswith("BUDGET_EXCEEDED: ")


def test_what_a_step_will_probably_cost_is_never_rounded_down() -> None:
    said = Price(micros=7, tokens=8)
    assert estimate_price(CostHistory(executions=3, micros=10, tokens=11), said) == Price(micros=4, tokens=4)
    assert estimate_price(CostHistory(executions=5, micros=10, tokens=0), said) == Price(micros=2, tokens=0)
    assert estimate_price(CostHistory(), said) == said


def test_a_step_that_spends_what_the_whole_has_not_is_stopped(shop: Shop) -> None:
    """Its own budget is ample; that of the tuple it is a part of is not."""
    whole = shop.put(lane="elsewhere", agent_terms={"budget_usd": 0.01})
    one = shop.put(step("agent.spend.money", usd=0.004, times=40), parent_id=whole, agent_terms={"budget_usd": 1})
    assert shop.work() == ["failed", "dead"]
    assert shop.receipts(one)[0].error == "BUDGET_EXCEEDED"
    spent = shop.space.get(one).spent_micros
    assert 10_000 < spent < 40 * 4_000
    assert shop.space.get(whole).spent_micros == spent


def test_half_a_line_of_cost_is_read_when_it_is_whole(tmp_path: Path) -> None:
    """A step may be looked at while it writes."""
    spent: list[Price] = []
    with StepFolder(tmp_path) as folder:
        for written in ('{"usd":1}\n{"usd":0.', '5,"tokens_in":3', "0}\n"):
            with folder.cost.open("a") as file:
                file.write(written)
            folder.report_spending(spent.append)
        assert spent == [Price(micros=1_000_000), Price(micros=1_500_000, tokens=30)]
        folder.report_spending(spent.append, last=True)
        assert len(spent) == 2


class Ahead(SystemClock):
    """The machine's clock, and how far ahead of it this one is."""

    def __init__(self) -> None:
        self.by = 0

    def now(self) -> int:
        """The moment."""
        return super().now() + self.by


# YT-06
def test_a_running_step_is_stopped_when_its_deadline_comes(shop: Shop, tmp_path: Path) -> None:
    clock = Ahead()
    runner = ProcessRunner(shop.shop.bodies, tmp_path / "scratch", clock, [MODULE])
    with closing(runner):
        ours = Shop(msgspec.structs.replace(shop.shop, runner=runner), shop.told)
        ends = print_time(clock.now() + 3600 * SECOND_US)
        started = tmp_path / "started"
        one = ours.put(
            step("agent.wait.long", started=str(started)),
            agent_terms={"deadline_iso": ends, "max_retries": 3},
        )
        with at_work(ours.pool()):
            until(started.exists)
            clock.by = 3600 * SECOND_US
            until(lambda: ours.space.get(one).state == "dead")
    executed, last = ours.receipts(one)
    assert (executed.exit, executed.error) == (143, "DEADLINE_PAST")
    assert (last.error, ours.space.get(one).attempts) == ("DEADLINE_PAST", 1)
