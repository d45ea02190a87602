"""What a caller may say and read: the project's budgets, lowered by each of its parents in turn."""

from __future__ import annotations

from collections.abc import Iterator

from engrambus.gateway.context import Context
from engrambus.gateway.ports import View
from engrambus.knowledge.messages import Budgets
from engrambus.policy import DerefBudget, InlineBudget, lineage_of

MAX_TEXT = 65_536
"""Characters of a message, or of an answer, that are read at all."""


def inline_budget(context: Context, view: View) -> InlineBudget:
    """What the caller's message may hold."""
    budget = context.policy.inline
    for given in _given(context, view):
        budget = budget.lowered_by(given)
    return budget


def deref_budget(context: Context, view: View) -> DerefBudget:
    """What the caller may dereference in a turn."""
    budget = context.policy.deref
    for given in _given(context, view):
        budget = budget.lowered_by(given)
    return budget


def _given(context: Context, view: View) -> Iterator[Budgets]:
    run = context.caller.run.run_id
    for name in lineage_of(view, context.caller):
        budgets = view.budgets(run, name)
        if budgets is not None:
            yield budgets
