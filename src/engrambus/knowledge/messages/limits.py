"""The budgets in force for a caller: the project's, lowered by each of its ancestors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

from engrambus.policy import Caller, DerefBudget, IdentityReads, InlineBudget, Policy, lineage_of

if TYPE_CHECKING:
    from engrambus.knowledge.messages.values import ChildBudgets


class BudgetReads(Protocol):
    """Reads of the budgets that parents set for their children."""

    def budgets(self, run_id: str, agent: str) -> ChildBudgets | None:
        """Return the budgets that the agent's parent set last."""
        ...


class BudgetView(BudgetReads, IdentityReads, Protocol):
    """The store as the budgets of a caller are read from it."""


def inline_budget(view: BudgetView, policy: Policy, caller: Caller) -> InlineBudget:
    """Return the limits of the caller's messages."""
    budget = policy.inline
    for limits in _limits_of_ancestors(view, caller):
        budget = budget.lowered_by(limits)
    return budget


def deref_budget(view: BudgetView, policy: Policy, caller: Caller) -> DerefBudget:
    """Return what the caller may dereference in a turn and in the run."""
    budget = policy.deref
    for limits in _limits_of_ancestors(view, caller):
        budget = budget.lowered_by(limits)
    return budget


def _limits_of_ancestors(view: BudgetView, caller: Caller) -> Iterator[ChildBudgets]:
    # Also the caller's own entry, which its parent set; no ancestor can raise what another lowered.
    for name in lineage_of(view, caller):
        limits = view.budgets(caller.run.run_id, name)
        if limits is not None:
            yield limits
