"""How tuples end, and the receipts over all that was done for them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from engrambus.core import MICROS, print_time
from engrambus.evidence.receipts import Cost, Receipt, receipt_id, seal
from engrambus.space.tuples.facts import TupleDone
from engrambus.space.tuples.ports import WorkView
from engrambus.space.tuples.values import Kept, Price

ACCEPTED, WHOLE = "tuple.accept", "tuple.run"
"""What the receipts of taking a tuple in, and of all its steps together, say in the place of a yool."""
LOST, CANCELLED, REFUSED = 137, 130, 125
"""Exits of tuples that did not run to their end: the last worker was lost, somebody cancelled, a rule forbade it."""


def end(view: WorkView, one: Kept, state: str, *, exit: int, error: str, more: Sequence[Receipt] = ()) -> TupleDone:
    """The end of a tuple, with the receipt over all that was done."""
    known = view.receipts_of(one.id) if one.attempts or one.ready_at else []
    kept = [found for each in known if (found := view.receipt(each)) is not None and found.yool != ACCEPTED]
    own = [each for each in kept if each.tuple_id == one.id]
    receipt = whole(
        one.id,
        own=[*own, *more],
        receipts=[each.id for each in (*kept, *more)],
        exit=exit,
        error=error,
        at=print_time(view.as_of),
        attempt=one.attempts or None,
    )
    return TupleDone(id=one.id, run=one.run, state=state, receipt=with_all_spent(receipt, one.spent))


def whole(
    tuple_id: str,
    *,
    own: Sequence[Receipt],
    receipts: Sequence[str],
    exit: int,
    at: str,
    error: str | None = None,
    attempt: int | None = None,
    worker: str | None = None,
) -> Receipt:
    """The receipt of a whole tuple: what its own executions took together; hits took nothing."""
    return seal(
        yool=WHOLE,
        tuple_id=tuple_id,
        started_at=min([each.started_at for each in own], default=at),
        ended_at=max([each.ended_at for each in own], default=at),
        exit=exit,
        cost=_together(own),
        receipts=tuple(receipts),
        error=error,
        attempt=attempt,
        worker=worker,
    )


def with_all_spent(last: Receipt, spent: Price) -> Receipt:
    """The receipt of a whole tuple, telling all that was counted for it, which may be more than its executions tell:
    one that was cut short leaves no receipt, and yet what it said it spent. Of such tokens all count as read."""
    if (last.cost.micros, last.cost.tokens) == (spent.micros, spent.tokens):
        return last
    tokens_out = min(last.cost.tokens_out, spent.tokens)
    cost = msgspec.structs.replace(
        last.cost, usd=spent.micros / MICROS, tokens_in=spent.tokens - tokens_out, tokens_out=tokens_out
    )
    told = msgspec.structs.replace(last, cost=cost)
    return msgspec.structs.replace(told, id=receipt_id(told))


def _together(receipts: Sequence[Receipt]) -> Cost:
    """What executions used up, added."""
    micros = tokens_in = tokens_out = wall_ms = 0
    disk_mb = 0.0
    for receipt in receipts:
        cost = receipt.cost
        micros += cost.micros
        tokens_in += cost.tokens_in
        tokens_out += cost.tokens_out
        wall_ms += cost.wall_ms
        disk_mb += cost.disk_mb
    return Cost(
        usd=micros / MICROS,
        tokens_in=tokens_in,
        tokens_out=tokens_out,
        wall_ms=wall_ms,
        disk_mb=round(disk_mb, 6),
    )
