"""Status of tuples as callers see it: the tuple itself, the state of each step, the last receipt."""

from __future__ import annotations

from typing import Any

import msgspec

from engrambus.evidence.receipts import Receipt
from engrambus.space.tuples.ports import WorkView
from engrambus.space.tuples.values import TupleRecord


class StepState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """State of one step; without a receipt it has not been executed."""

    yool: str
    receipt: str | None = None
    """Id of the receipt that finished it, or else of its last execution, which failed."""
    hit: bool = False
    """True if the result was taken from the cache."""
    exit: int | None = None
    """0 if the step succeeded."""


def public_tuple(record: TupleRecord, receipts: list[str]) -> dict[str, Any]:
    """Return a tuple as callers see it: as it was created, with its id and its receipts so far."""
    return {"id": record.id, **msgspec.json.decode(record.body), "receipts": receipts}


def step_states(view: WorkView, record: TupleRecord) -> list[StepState]:
    """Return the state of each step of a tuple."""
    steps, finished = record.tuple.payload, view.finished_steps(record.id)
    failed: dict[int, Receipt] = {}
    if len(finished) < len(steps):
        for receipt_id in view.receipt_ids(record.id):
            receipt = view.receipt(receipt_id)
            if receipt is not None and receipt.step is not None and receipt.tuple_id == record.id:
                failed[receipt.step] = receipt
    return [
        _step_state(
            step.yool,
            view.receipt(finished[position]) if position in finished else failed.get(position),
            record.id,
        )
        for position, step in enumerate(steps)
    ]


def _step_state(yool: str, receipt: Receipt | None, tuple_id: str) -> StepState:
    if receipt is None:
        return StepState(yool=yool)
    # The receipt of a cache hit names the tuple that executed the step first.
    return StepState(yool=yool, receipt=receipt.id, hit=receipt.tuple_id != tuple_id, exit=receipt.exit)


def last_receipt(view: WorkView, record: TupleRecord) -> Receipt | None:
    """Return the newest receipt of a tuple; once it has ended, that is the final one."""
    receipt_ids = view.receipt_ids(record.id)
    return view.receipt(receipt_ids[-1]) if receipt_ids else None
