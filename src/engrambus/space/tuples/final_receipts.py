"""Final receipts: the one receipt that ends a tuple, over everything that was executed for it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from engrambus.core import MICROS_PER_DOLLAR, print_time
from engrambus.evidence.receipts import Cost, EvidenceRef, Receipt, new_receipt, receipt_id
from engrambus.space.tuples.facts import TupleDone
from engrambus.space.tuples.ports import WorkView
from engrambus.space.tuples.values import Price, TupleRecord

ACCEPT_YOOL, TUPLE_YOOL = "tuple.accept", "tuple.run"
"""Values of `yool` in acceptance receipts and in final receipts."""
EXIT_LOST, EXIT_CANCELLED, EXIT_REFUSED = 137, 130, 125
"""Exit codes of tuples that did not finish: the last worker was lost, it was cancelled, or a rule forbade it."""


def end_tuple(
    view: WorkView, record: TupleRecord, state: str, *, exit: int, error: str, unrecorded: Sequence[Receipt] = ()
) -> TupleDone:
    """Return the fact that ends a tuple, with its final receipt.

    `unrecorded` are receipts of the same commit, which the view does not have yet.
    """
    # A tuple that was never claimed has no receipt but the acceptance, so the view need not be asked.
    ids = view.receipt_ids(record.id) if record.attempts or record.ready_us else []
    receipts = [receipt for id in ids if (receipt := view.receipt(id)) is not None and receipt.yool != ACCEPT_YOOL]
    executed = [receipt for receipt in receipts if receipt.tuple_id == record.id]
    final = tuple_receipt(
        record.id,
        executed=[*executed, *unrecorded],
        receipts=[receipt.id for receipt in (*receipts, *unrecorded)],
        exit=exit,
        error=error,
        now=print_time(view.as_of),
        attempt=record.attempts or None,
    )
    return TupleDone(id=record.id, run=record.run, state=state, receipt=with_total_cost(final, record.own_spent))


def tuple_receipt(
    tuple_id: str,
    *,
    executed: Sequence[Receipt],
    receipts: Sequence[str],
    exit: int,
    now: str,
    error: str | None = None,
    attempt: int | None = None,
    worker: str | None = None,
    evidence: tuple[EvidenceRef, ...] = (),
) -> Receipt:
    """Seal the final receipt of a tuple. Its cost is that of the `executed` receipts; cache hits cost nothing."""
    return new_receipt(
        yool=TUPLE_YOOL,
        tuple_id=tuple_id,
        started_at=min([receipt.started_at for receipt in executed], default=now),
        ended_at=max([receipt.ended_at for receipt in executed], default=now),
        exit=exit,
        cost=_total_cost(executed),
        receipts=tuple(receipts),
        error=error,
        attempt=attempt,
        worker=worker,
        evidence=evidence,
    )


def with_total_cost(final: Receipt, spent: Price) -> Receipt:
    """Return the final receipt with the cost that was counted for the tuple, sealed again if it differs."""
    # decision 24: an execution that was cut short leaves no receipt, but its reported cost counts. Its tokens count as
    # read (`tokens_in`), because they were reported without a direction.
    if (final.cost.usd_micros, final.cost.tokens) == (spent.micros, spent.tokens):
        return final
    tokens_out = min(final.cost.tokens_out, spent.tokens)
    cost = msgspec.structs.replace(
        final.cost, usd=spent.micros / MICROS_PER_DOLLAR, tokens_in=spent.tokens - tokens_out, tokens_out=tokens_out
    )
    counted = msgspec.structs.replace(final, cost=cost)
    return msgspec.structs.replace(counted, id=receipt_id(counted))


def _total_cost(receipts: Sequence[Receipt]) -> Cost:
    micros = tokens_in = tokens_out = wall_ms = 0
    disk_mb = 0.0
    for receipt in receipts:
        cost = receipt.cost
        micros += cost.usd_micros
        tokens_in += cost.tokens_in
        tokens_out += cost.tokens_out
        wall_ms += cost.wall_ms
        disk_mb += cost.disk_mb
    return Cost(
        usd=micros / MICROS_PER_DOLLAR,
        tokens_in=tokens_in,
        tokens_out=tokens_out,
        wall_ms=wall_ms,
        disk_mb=round(disk_mb, 6),
    )
