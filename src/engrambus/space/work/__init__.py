"""Workers: they claim waiting tuples, run their steps under limits and record receipts."""

from engrambus.space.work.cache import damaged_body, input_hash
from engrambus.space.work.garbage_collector import GarbageCollector, GcReport, RetentionOverrides
from engrambus.space.work.gc_worker import GcWorker
from engrambus.space.work.guard import can_hold_effects, describe_effects
from engrambus.space.work.ports import Progress, StepOutcome, StepRequest
from engrambus.space.work.runner import ProcessRunner
from engrambus.space.work.single_flight import SingleFlight
from engrambus.space.work.unclaimed_watch import watch_unclaimed
from engrambus.space.work.worker import LaneWorkerPool, eval_
from engrambus.space.work.worker_dependencies import WorkerDependencies

__all__ = [
    "GarbageCollector",
    "GcReport",
    "GcWorker",
    "LaneWorkerPool",
    "ProcessRunner",
    "Progress",
    "RetentionOverrides",
    "SingleFlight",
    "StepOutcome",
    "StepRequest",
    "WorkerDependencies",
    "can_hold_effects",
    "damaged_body",
    "describe_effects",
    "eval_",
    "input_hash",
    "watch_unclaimed",
]
