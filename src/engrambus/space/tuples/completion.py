"""Completion: recording what workers did for claimed tuples, and cancelling tuples."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from engrambus.errors import ReceiptForeign, StaleFence, TupleEnded, TupleNotFound
from engrambus.evidence.receipts import Receipt
from engrambus.space.tuples.batch_ends import cancel_agent
from engrambus.space.tuples.blocks import unblock_dependents
from engrambus.space.tuples.budgets import PendingSpend, crossing_alarm, raise_alarms
from engrambus.space.tuples.claims import check_fence
from engrambus.space.tuples.dead_letters import retry_or_give_up
from engrambus.space.tuples.facts import Fact, StepDone, StepHit, TupleDone
from engrambus.space.tuples.final_receipts import EXIT_CANCELLED, end_tuple, with_total_cost
from engrambus.space.tuples.ports import WorkView
from engrambus.space.tuples.values import ENDED, OPEN, Fence, Price, SpaceSettings, TupleRecord


class Completion(msgspec.Struct, frozen=True, kw_only=True):
    """A worker's report about a tuple it claimed: steps it finished, and perhaps the end of the tuple."""

    id: str
    """Id of the tuple."""
    fence: Fence
    receipts: tuple[Receipt, ...] = ()
    """Receipts of the steps just executed, in order."""
    hits: tuple[tuple[int, str], ...] = ()
    """Steps answered from the cache: position and id of the original receipt."""
    final_receipt: Receipt | None = None
    """Final receipt, if the tuple is finished; its cost is set to what was counted."""
    failure: str | None = None
    """Error code, perhaps followed by a colon and details, if the attempt failed."""


def complete(
    view: WorkView, completions: Sequence[Completion], *, settings: SpaceSettings, boot: str
) -> tuple[list[Fact], list[str | None]]:
    """Record what workers did; return for each completion the code of the error if it came too late."""
    facts: list[Fact] = []
    answers: list[str | None] = []
    records = view.find_all([completion.id for completion in completions])
    recorded = view.recorded_receipts(receipt for completion in completions for receipt in completion.receipts)
    ended: set[str] = set()
    pending = PendingSpend(view)
    for completion in completions:
        try:
            if completion.id in ended:  # by an earlier completion of the same commit
                raise StaleFence(field="fence", used=str(completion.fence))
            record = check_fence(view, records.get(completion.id), completion.id, completion.fence, boot)
            facts += _complete_one(view, completion, record, recorded, pending, settings)
            recorded.update(receipt.id for receipt in completion.receipts)
            if completion.final_receipt is not None or completion.failure is not None:
                ended.add(completion.id)
        except (StaleFence, TupleNotFound, ReceiptForeign) as refusal:
            answers.append(refusal.code)
        else:
            answers.append(None)
    return facts, answers


def _complete_one(
    view: WorkView,
    completion: Completion,
    record: TupleRecord,
    recorded: set[str],
    pending: PendingSpend,
    settings: SpaceSettings,
) -> list[Fact]:
    final = completion.final_receipt
    if final is not None and final.tuple_id != record.id:
        raise ReceiptForeign(field="receipt", used=final.id)
    facts: list[Fact] = []
    alarms: list[Fact] = []
    spent = Price()
    for receipt in {receipt.id: receipt for receipt in completion.receipts}.values():
        if receipt.tuple_id != record.id or receipt.step is None:
            raise ReceiptForeign(field="receipt", used=receipt.id)
        if receipt.id in recorded:
            continue
        uncounted = Price(micros=receipt.cost.usd_micros, tokens=receipt.cost.tokens)
        if uncounted:
            uncounted = uncounted.minus(pending.counted_cost(record.id, completion.fence, receipt.step))
        facts.append(
            StepDone(
                id=record.id,
                step=receipt.step,
                run=record.run,
                receipt=receipt,
                micros=uncounted.micros,
                tokens=uncounted.tokens,
                epoch=completion.fence.epoch if uncounted else 0,
                counter=completion.fence.counter if uncounted else 0,
            )
        )
        if uncounted:
            spent += uncounted
            pending.add_counted(record.id, completion.fence, receipt.step, uncounted)
    facts += [StepHit(id=record.id, step=step, receipt=original) for step, original in completion.hits]
    if spent:
        crossing = crossing_alarm(pending, pending.current(record), spent, settings.alarm_pct)
        alarms = raise_alarms(view, crossing, spent, settings)
        pending.add_spend(record, spent)
        for member in crossing:
            pending.mark_alarmed(member)
    if final is not None:
        # decision 24: the cost is set under the lock, since a worker cannot know what was counted elsewhere.
        final = with_total_cost(final, pending.current(record).own_spent)
        facts.append(TupleDone(id=record.id, run=record.run, state="done", receipt=final))
        facts += unblock_dependents(view, record.id)
    elif completion.failure is not None:
        current = pending.current(record)
        facts.append(retry_or_give_up(view, current, completion.failure, completion.receipts, settings))
    return facts + alarms


def cancel(view: WorkView, tuple_id: str) -> tuple[list[Fact], Receipt]:
    """End a tuple that waits or is claimed; a claim on it becomes stale. A batch ends with all its agents."""
    record = view.find(tuple_id)
    if record is None or record.state == "taken":
        raise TupleNotFound(field="id", used=tuple_id)
    if record.state in ENDED:
        raise TupleEnded(f"The tuple is {record.state}.", field="id", used=tuple_id)
    if record.state == OPEN:
        agent = view.agents([tuple_id])[tuple_id]
        batch = view.batch(agent.position.batch)
        if batch is not None:
            return cancel_agent(view, batch, agent.position.level, agent.position.number)
    end = end_tuple(view, record, "cancelled", exit=EXIT_CANCELLED, error="cancelled")
    return [end], end.receipt
