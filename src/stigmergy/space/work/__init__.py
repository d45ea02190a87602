"""Workers: from a tuple that waits to the receipt of what was done."""

from stigmergy.space.work.cache import damaged_body, step_key
from stigmergy.space.work.caretaker import Caretaker
from stigmergy.space.work.collect import Collected, Collector, Freed
from stigmergy.space.work.flight import Flights
from stigmergy.space.work.identity import is_dead, worker_name
from stigmergy.space.work.ports import Progress, StepOutcome, StepRequest, StepRunner, Told
from stigmergy.space.work.runner import ProcessRunner
from stigmergy.space.work.tuple_run import TupleRun
from stigmergy.space.work.worker import LaneWorkerPool, eval_
from stigmergy.space.work.workshop import Workshop

__all__ = [
    "Caretaker",
    "Collected",
    "Collector",
    "Flights",
    "Freed",
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
