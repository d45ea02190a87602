"""Workers: from a tuple that waits to the receipt of what was done."""

from engrambus.space.work.cache import damaged_body, step_key
from engrambus.space.work.caretaker import Caretaker
from engrambus.space.work.collect import Collected, Collector, Freed
from engrambus.space.work.flight import Flights
from engrambus.space.work.identity import is_dead, worker_name
from engrambus.space.work.ports import Progress, StepOutcome, StepRequest, StepRunner, Told
from engrambus.space.work.runner import ProcessRunner
from engrambus.space.work.tuple_run import TupleRun
from engrambus.space.work.worker import LaneWorkerPool, eval_
from engrambus.space.work.workshop import Workshop

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
