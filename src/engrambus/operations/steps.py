"""How the steps of a tuple stand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from engrambus.evidence.receipts import Receipt
    from engrambus.space.tuples import TupleRecord, WorkView


class StepState(Struct, frozen=True, kw_only=True, omit_defaults=True):
    yool: str
    receipt: str | None = None
    """The receipt that finished it, or else of its last execution, which failed."""
    hit: bool = False
    """Whether it had been executed before, for another tuple."""
    exit: int | None = None
    """0 when it is done."""


def steps_of(view: WorkView, one: TupleRecord) -> list[StepState]:
    """How each step of a tuple stands."""
    steps, finished = one.tuple.payload, view.finished_steps(one.id)
    last: dict[int, Receipt] = {}
    if len(finished) < len(steps):
        for each in view.receipt_ids(one.id):
            receipt = view.receipt(each)
            if receipt is not None and receipt.step is not None and receipt.tuple_id == one.id:
                last[receipt.step] = receipt
    kept = [view.receipt(finished[at]) if at in finished else last.get(at) for at in range(len(steps))]
    return [_step_state(step.yool, receipt, one.id) for step, receipt in zip(steps, kept, strict=True)]


def _step_state(yool: str, receipt: Receipt | None, tuple_id: str) -> StepState:
    if receipt is None:
        return StepState(yool=yool)
    return StepState(yool=yool, receipt=receipt.id, hit=receipt.tuple_id != tuple_id, exit=receipt.exit)
