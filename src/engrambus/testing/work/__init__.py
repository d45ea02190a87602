"""The conformance suite of the work plane. A subclass runs it on one back end:

    class TestMine(WorkConformance):
        @pytest.fixture
        def harness(self, tmp_path): ...

Each test takes a `harness` with a new, empty space; nothing here imports pytest.
"""

from engrambus.testing.work.batches import BatchConformance
from engrambus.testing.work.blocks import BlockConformance
from engrambus.testing.work.budgets import WorkBudgetConformance
from engrambus.testing.work.claims import ClaimConformance
from engrambus.testing.work.delays import DelayConformance
from engrambus.testing.work.figures import WorkFigureConformance
from engrambus.testing.work.harness import PERSON, RUN, WorkHarness, completion, draft, failure, put, receipt
from engrambus.testing.work.limits import LimitConformance
from engrambus.testing.work.schedules import ScheduleConformance
from engrambus.testing.work.spending import RestartConformance, SpendingConformance
from engrambus.testing.work.tuples import TupleConformance
from engrambus.testing.work.wakeups import WakeupConformance
from engrambus.testing.work.workers import WorkerConformance

__all__ = [
    "PERSON",
    "RUN",
    "BatchConformance",
    "BlockConformance",
    "ClaimConformance",
    "DelayConformance",
    "LimitConformance",
    "RestartConformance",
    "ScheduleConformance",
    "SpendingConformance",
    "TupleConformance",
    "WakeupConformance",
    "WorkBudgetConformance",
    "WorkConformance",
    "WorkFigureConformance",
    "WorkHarness",
    "WorkerConformance",
    "completion",
    "draft",
    "failure",
    "put",
    "receipt",
]


class WorkConformance(
    TupleConformance,
    WakeupConformance,
    ClaimConformance,
    BlockConformance,
    LimitConformance,
    DelayConformance,
    ScheduleConformance,
    WorkerConformance,
    SpendingConformance,
    WorkBudgetConformance,
    WorkFigureConformance,
    RestartConformance,
    BatchConformance,
):
    """Everything a work store must do."""
