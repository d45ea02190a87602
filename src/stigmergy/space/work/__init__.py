"""Workers: from a tuple that waits to the receipt of what was done."""

from stigmergy.space.work.cache import damaged_body, step_key
from stigmergy.space.work.identity import is_dead, worker_name
from stigmergy.space.work.ports import Progress, StepOutcome, StepRequest, StepRunner, Told
from stigmergy.space.work.runner import ProcessRunner
from stigmergy.space.work.worker import LaneWorkerPool, TupleRun, Workshop, eval_

__all__ = [
    "LaneWorkerPool",
    "ProcessRunner",
    "Progress",
    "StepOutcome",
    "StepRequest",
    "StepRunner",
    "Told",
    "TupleRun",
    "Workshop",
    "damaged_body",
    "eval_",
    "is_dead",
    "step_key",
    "worker_name",
]
