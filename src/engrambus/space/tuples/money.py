"""Budgets: what a step will probably cost, whether that is left, and when somebody should be told."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import msgspec

from engrambus.errors import BudgetExceeded, DeadlinePast
from engrambus.space.tuples.ports import Averages, WorkView
from engrambus.space.tuples.values import Fence, Kept, Price

MAX_GENERATIONS = 64
"""So many tuples that are parts of each other count what the last of them spends, itself among them."""


class Family(Protocol):
    """Whoever can find a tuple by its id."""

    def find(self, tuple_id: str) -> Kept | None:
        """The tuple of that id."""
        ...


def projected(past: Averages, said: Price) -> Price:
    """What a step will probably cost: what it did on average, rounded up, or else what its contract says."""
    if past.runs == 0:
        return said
    return Price(micros=-(-past.micros // past.runs), tokens=-(-past.tokens // past.runs))


def lineage(view: Family, one: Kept) -> Iterator[Kept]:
    """A tuple and the tuples it is a part of, itself first."""
    found: Kept | None = one
    for _ in range(MAX_GENERATIONS):
        if found is None:
            return
        yield found
        found = view.find(found.parent) if found.parent else None


def check_affordable(view: Family, one: Kept, price: Price, now: int) -> None:
    """Refuse a step that would probably cost more than is left to its tuple or to one it is a part of."""
    for each in lineage(view, one):
        if each.deadline is not None and each.deadline <= now:
            raise DeadlinePast(field="agent_terms.deadline_iso", used=each.id)
        for name, unit, budget, spent, held, wanted in (
            ("budget_usd", "micro-dollars", each.budget_micros, each.micros, each.held_micros, price.micros),
            ("budget_tokens", "tokens", each.budget_tokens, each.tokens, each.held_tokens, price.tokens),
        ):
            if budget is not None and spent + held + wanted > budget:
                whose = "The tuple" if each is one else "A tuple it is a part of"
                if spent > budget:
                    why = f"has spent {spent} {unit} of {budget}."
                elif spent + held > budget:
                    why = f"has spent {spent} {unit} of {budget}, and {held} are set aside."
                else:
                    why = f"has {budget - spent - held} {unit} left; the step will probably take {wanted}."
                raise BudgetExceeded(
                    f"{whose} {why}", field=f"agent_terms.{name}", limit=budget, used=spent + held + wanted
                )


class Meanwhile:
    """A family to which what was just decided has happened already."""

    def __init__(self, view: WorkView) -> None:
        self._view = view
        self._changed: dict[str, Kept] = {}
        self._counted: dict[tuple[str, Fence, int], Price] = {}

    def find(self, tuple_id: str) -> Kept | None:
        """The tuple of that id."""
        return self._changed.get(tuple_id) or self._view.find(tuple_id)

    def now(self, one: Kept) -> Kept:
        """A tuple as it is after all that was decided."""
        return self._changed.get(one.id, one)

    def spend(self, one: Kept, more: Price) -> None:
        """Let a tuple have spent something."""
        for each in list(lineage(self, self.now(one))):
            own = (more if each.id == one.id else Price()) + each.spent
            self._changed[each.id] = msgspec.structs.replace(
                each,
                micros=each.micros + more.micros,
                tokens=each.tokens + more.tokens,
                own_micros=own.micros,
                own_tokens=own.tokens,
            )

    def counted(self, tuple_id: str, fence: Fence, step: int) -> Price:
        """What is counted of a step as it was executed under a claim."""
        return self._counted.get((tuple_id, fence, step)) or self._view.counted(tuple_id, fence, step)

    def count(self, tuple_id: str, fence: Fence, step: int, more: Price) -> None:
        """Let so much more of it have been counted."""
        self._counted[tuple_id, fence, step] = self.counted(tuple_id, fence, step) + more

    def alarm(self, one: Kept) -> None:
        """Let somebody have been told of a tuple's spending."""
        self._changed[one.id] = msgspec.structs.replace(self.now(one), alarmed=True)


def alarming(view: Family, one: Kept, more: Price, percent: int) -> list[Kept]:
    """The tuples, of this one and those it is a part of, whose spending now passes the threshold."""
    if not percent or not more:
        return []
    return [
        each
        for each in lineage(view, one)
        if not each.alarmed
        and (
            _past(each.budget_micros, each.micros + more.micros, percent)
            or _past(each.budget_tokens, each.tokens + more.tokens, percent)
        )
    ]


def _past(budget: int | None, spent: int, percent: int) -> bool:
    return budget is not None and spent * 100 >= budget * percent and spent > 0
