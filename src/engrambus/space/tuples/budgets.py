"""Budgets: estimating a step's cost, refusing what a tuple cannot afford, counting costs, and budget alarms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import msgspec

from engrambus.errors import BudgetExceeded, DeadlinePast, StaleFence, TupleNotFound
from engrambus.space.tuples.facts import AlarmRaised, Fact, StepCost, TuplePut
from engrambus.space.tuples.ports import CostHistory, WorkView
from engrambus.space.tuples.rules import read_tuple, with_free_id
from engrambus.space.tuples.values import Fence, Price, SpaceSettings, TupleRecord

MAX_GENERATIONS = 64
"""Maximum length of a chain of parents that shares spending, the tuple itself included."""


class TupleLookup(Protocol):
    """Anything that finds a tuple by its id."""

    def find(self, tuple_id: str) -> TupleRecord | None:
        """Return the tuple with that id."""
        ...


def estimate_price(history: CostHistory, declared: Price) -> Price:
    """Estimate the cost of a step: its average so far, rounded up, or the declared cost of a yool that never ran."""
    if history.executions == 0:
        return declared
    # Rounded up, so that a budget is never exceeded by rounding alone.
    return Price(
        micros=-(-history.micros // history.executions),
        tokens=-(-history.tokens // history.executions),
    )


def lineage(view: TupleLookup, record: TupleRecord) -> Iterator[TupleRecord]:
    """Yield a tuple and its chain of parents, the tuple first."""
    member: TupleRecord | None = record
    for _ in range(MAX_GENERATIONS):
        if member is None:
            return
        yield member
        member = view.find(member.parent_id) if member.parent_id else None


def check_affordable(view: TupleLookup, record: TupleRecord, price: Price, now_us: int) -> None:
    """Refuse a step that would exceed the deadline or budget of its tuple or of a parent."""
    for member in lineage(view, record):
        if member.deadline_us is not None and member.deadline_us <= now_us:
            raise DeadlinePast(field="agent_terms.deadline_iso", used=member.id)
        for name, unit, budget, spent, reserved, needed in (
            (
                "budget_usd",
                "micro-dollars",
                member.budget_micros,
                member.spent_micros,
                member.reserved_micros,
                price.micros,
            ),
            (
                "budget_tokens",
                "tokens",
                member.budget_tokens,
                member.spent_tokens,
                member.reserved_tokens,
                price.tokens,
            ),
        ):
            if budget is not None and spent + reserved + needed > budget:
                subject = "The tuple" if member is record else "A parent tuple"
                if spent > budget:
                    reason = f"has spent {spent} {unit} of {budget}."
                elif spent + reserved > budget:
                    reason = f"has spent {spent} {unit} of {budget}, and {reserved} are reserved for running steps."
                else:
                    reason = f"has {budget - spent - reserved} {unit} left; the step is estimated to cost {needed}."
                raise BudgetExceeded(
                    f"{subject} {reason}", field=f"agent_terms.{name}", limit=budget, used=spent + reserved + needed
                )


def record_cost(
    view: WorkView, tuple_id: str, fence: Fence, step: int, total: Price, *, settings: SpaceSettings, boot: str
) -> tuple[list[Fact], bool]:
    """Count the total a step reports to have spent; return also whether its claim is still valid.

    Only the part that was not counted before is added, so the same total may be reported any number of times.
    """
    record, epoch = view.find(tuple_id), view.current_epoch()
    if record is None:
        raise TupleNotFound(field="id", used=tuple_id)
    if fence > Fence(epoch.number, epoch.counter):
        raise StaleFence("There was no such claim.", field="fence", used=str(fence))
    current = record.fence == fence
    uncounted = total.minus(view.counted_cost(tuple_id, fence, step))
    facts: list[Fact] = []
    if uncounted:
        # decision 24: money that is spent counts for its tuple even if the claim expired or the tuple ended. Only a
        # valid claim frees what was reserved, hence `late`.
        facts.append(
            StepCost(
                id=tuple_id,
                step=step,
                micros=uncounted.micros,
                tokens=uncounted.tokens,
                epoch=fence.epoch,
                counter=fence.counter,
                late=not current,
            )
        )
        facts += raise_alarms(view, crossing_alarm(view, record, uncounted, settings.alarm_pct), uncounted, settings)
    valid = current and record.lease_until_us > view.as_of and fence.epoch == epoch.number and epoch.boot == boot
    return facts, valid


class PendingSpend:
    """Tuple lookup with this commit's pending changes applied, so that several results of one commit add up."""

    def __init__(self, view: WorkView) -> None:
        self._view = view
        self._changed: dict[str, TupleRecord] = {}
        self._counted: dict[tuple[str, Fence, int], Price] = {}

    def find(self, tuple_id: str) -> TupleRecord | None:
        """Return the tuple with that id, pending changes applied."""
        return self._changed.get(tuple_id) or self._view.find(tuple_id)

    def current(self, record: TupleRecord) -> TupleRecord:
        """Return a tuple that was read from the view, pending changes applied."""
        return self._changed.get(record.id, record)

    def add_spend(self, record: TupleRecord, amount: Price) -> None:
        """Charge an amount to a tuple and its parents."""
        for member in list(lineage(self, self.current(record))):
            own_spent = (amount if member.id == record.id else Price()) + member.own_spent
            self._changed[member.id] = msgspec.structs.replace(
                member,
                spent_micros=member.spent_micros + amount.micros,
                spent_tokens=member.spent_tokens + amount.tokens,
                own_micros=own_spent.micros,
                own_tokens=own_spent.tokens,
            )

    def counted_cost(self, tuple_id: str, fence: Fence, step: int) -> Price:
        """Return the cost counted so far for a step as executed under one claim."""
        return self._counted.get((tuple_id, fence, step)) or self._view.counted_cost(tuple_id, fence, step)

    def add_counted(self, tuple_id: str, fence: Fence, step: int, amount: Price) -> None:
        """Count a further amount for a step."""
        self._counted[tuple_id, fence, step] = self.counted_cost(tuple_id, fence, step) + amount

    def mark_alarmed(self, record: TupleRecord) -> None:
        """Record that an alarm was raised for a tuple."""
        self._changed[record.id] = msgspec.structs.replace(self.current(record), alarmed=True)


def crossing_alarm(view: TupleLookup, record: TupleRecord, amount: Price, alarm_pct: int) -> list[TupleRecord]:
    """Return those of a tuple and its parents whose spending passes the alarm threshold with this amount."""
    if not alarm_pct or not amount:
        return []
    return [
        member
        for member in lineage(view, record)
        if not member.alarmed
        and (
            _reaches(member.budget_micros, member.spent_micros + amount.micros, alarm_pct)
            or _reaches(member.budget_tokens, member.spent_tokens + amount.tokens, alarm_pct)
        )
    ]


def _reaches(budget: int | None, spent: int, alarm_pct: int) -> bool:
    return budget is not None and spent * 100 >= budget * alarm_pct and spent > 0


def raise_alarms(view: WorkView, records: Sequence[TupleRecord], amount: Price, settings: SpaceSettings) -> list[Fact]:
    """Put one alarm tuple for each tuple that passes its threshold by spending this amount."""
    facts: list[Fact] = []
    for record in records:
        args = {
            "tuple": record.id,
            "spent_micros": record.spent_micros + amount.micros,
            "budget_micros": record.budget_micros,
            "spent_tokens": record.spent_tokens + amount.tokens,
            "budget_tokens": record.budget_tokens,
        }
        fields = {
            "lane": settings.alarm_lane,
            "payload": [{"yool": "op.budget.alarm", "args": args}],
            "src_ptr": [f"tuple://{record.id}"],
            "priority": 100,
        }
        draft = with_free_id(
            read_tuple(fields, record.tuple.authority, view.as_of), lambda id: view.find(id) is not None
        )
        facts.append(TuplePut(id=draft.id, run=record.run, tuple=msgspec.Raw(draft.body)))
        facts.append(AlarmRaised(id=record.id, alarm=draft.id))
    return facts
