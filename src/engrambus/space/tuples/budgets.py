"""Budgets: estimating a step's cost, refusing what a tuple cannot afford, counting costs, and budget alarms."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple, Protocol

import msgspec

from engrambus.core import print_micros
from engrambus.errors import BudgetExceeded, BudgetReserved, DeadlinePast, EngramBusError, StaleFence, TupleNotFound
from engrambus.space.tuples.facts import AlarmRaised, Fact, StepCost, TuplePut
from engrambus.space.tuples.ports import CostHistory, RunningStep, WorkView
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


class _Account(NamedTuple):
    """One budget of a tuple, in money or in tokens."""

    name: Literal["micros", "tokens"]
    budget: int
    spent: int
    reserved: int
    is_own: bool
    """True if it is of the tuple itself, not of a parent."""

    @property
    def free(self) -> int:
        """Amount that is neither spent nor reserved; below zero if a step has overspent."""
        return self.budget - self.spent - self.reserved

    def refusal(self, needed: int, error: type[BudgetExceeded | BudgetReserved] = BudgetExceeded) -> EngramBusError:
        """Return why a step that needs this amount is not started."""
        if self.spent > self.budget:
            reason = f"has spent {self._amount(self.spent)} of {self._figure(self.budget)}."
        elif self.spent + self.reserved > self.budget:
            reason = (
                f"has spent {self._amount(self.spent)} of {self._figure(self.budget)}, and "
                f"{self._figure(self.reserved)} are reserved for running steps."
            )
        else:
            reason = f"has {self._amount(self.free)} left; the step is estimated to cost {self._figure(needed)}."
        return error(
            f"{'The tuple' if self.is_own else 'A parent tuple'} {reason}",
            field="agent_terms.budget_usd" if self.name == "micros" else "agent_terms.budget_tokens",
            limit=self._figure(self.budget),
            used=self._figure(self.spent + self.reserved + needed),
        )

    def _figure(self, amount: int) -> int | str:
        return print_micros(amount) if self.name == "micros" else amount

    def _amount(self, amount: int) -> str:
        return print_micros(amount) if self.name == "micros" else f"{amount} tokens"


def _accounts(member: TupleRecord, record: TupleRecord) -> Iterator[_Account]:
    is_own = member is record
    if member.budget_micros is not None:
        yield _Account("micros", member.budget_micros, member.spent_micros, member.reserved_micros, is_own)
    if member.budget_tokens is not None:
        yield _Account("tokens", member.budget_tokens, member.spent_tokens, member.reserved_tokens, is_own)


def check_affordable(view: TupleLookup, record: TupleRecord, price: Price, now_us: int) -> None:
    """Refuse a step that would exceed the deadline or budget of its tuple or of a parent."""
    for member in lineage(view, record):
        _check_deadline(member, now_us)
        for account in _accounts(member, record):
            needed: int = getattr(price, account.name)
            if needed > account.free:
                raise account.refusal(needed)


def check_unbroken(view: TupleLookup, record: TupleRecord) -> None:
    """Refuse to go on with a running step if its tuple or a parent has spent more than its budget."""
    for member in lineage(view, record):
        for account in _accounts(member, record):
            if account.spent > account.budget:
                raise account.refusal(0)


def _check_deadline(member: TupleRecord, now_us: int) -> None:
    if member.deadline_us is not None and member.deadline_us <= now_us:
        raise DeadlinePast(field="agent_terms.deadline_iso", used=member.id)


def reserve_step(view: WorkView, record: TupleRecord, step: int, price: Price, yool: str) -> tuple[Price, bool]:
    """Return what to reserve for a step, and whether it runs under a budget.

    Refuse one that cannot be afforded, and raise BudgetReserved for one that must wait.

    A step may cost more than it announced, but only one at a time may do so unforeseen. With others running it starts
    only if the most that its yool ever cost is free, and with no more of them than the yool kept to its price before.
    Alone it starts if its estimate is free: it is then the one that may break the budget. Without a `yool` the price
    is sure.
    """
    # decision 75: why an estimate alone does not hold a budget
    members = list(lineage(view, record))
    for member in members:
        _check_deadline(member, view.as_of)
    accounts = [(member, account) for member in members for account in _accounts(member, record)]
    if not accounts:
        return price, False
    history = view.cost_history(yool) if yool else None
    most = price if history is None else price.maximum(history.most)
    amounts = {"micros": most.micros, "tokens": most.tokens}
    concurrent = _Concurrent(view, members, step)
    waits: EngramBusError | None = None
    for member, account in accounts:
        needed: int = getattr(price, account.name)
        kept = sys.maxsize if history is None else getattr(history, f"kept_{account.name}")
        if concurrent.is_harmless(account.name, kept) and amounts[account.name] <= account.free:
            continue
        others = concurrent.under(member)
        if needed > account.free + sum(max(0, getattr(other, account.name)) for other in others):
            raise account.refusal(needed)
        if others and needed > account.free:
            waits = waits or account.refusal(needed, BudgetReserved)
        elif others and (len(others) > kept or _any_overspent(others, account.name)):
            waits = waits or BudgetReserved(used=len(others), limit=kept)
        elif others and amounts[account.name] > account.free:
            waits = waits or account.refusal(amounts[account.name], BudgetReserved)
        else:
            amounts[account.name] = max(needed, min(amounts[account.name], account.free))
    if waits is not None:
        raise waits
    return Price(micros=amounts["micros"], tokens=amounts["tokens"]), True


class _Concurrent:
    """The running steps that share budgets with one that is about to start."""

    def __init__(self, view: WorkView, members: Sequence[TupleRecord], step: int) -> None:
        self._view = view
        # A step of a parent waits for the children it has put: they must not wait for it.
        parents = {member.id for member in members[1:]}
        self._running = [
            other
            for other in view.running_steps()
            if other.tuple_id not in parents and (other.tuple_id, other.step) != (members[0].id, step)
        ]
        self._lineages: list[frozenset[str]] | None = None

    def is_harmless(self, name: str, kept: int) -> bool:
        """True if so few steps run in the whole project that it does not matter under which tuples."""
        return len(self._running) <= kept and not _any_overspent(self._running, name)

    def under(self, member: TupleRecord) -> list[RunningStep]:
        """Return the steps that spend the budget of a tuple."""
        if self._lineages is None:
            found: dict[str, frozenset[str]] = {}
            for other in self._running:
                record = None if other.tuple_id in found else self._view.find(other.tuple_id)
                if record is not None:
                    found[record.id] = frozenset(item.id for item in lineage(self._view, record))
            self._lineages = [found.get(other.tuple_id, frozenset()) for other in self._running]
        return [other for other, ids in zip(self._running, self._lineages, strict=True) if member.id in ids]


def _any_overspent(steps: Sequence[RunningStep], name: str) -> bool:
    return any(getattr(step, name) < 0 for step in steps)


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
