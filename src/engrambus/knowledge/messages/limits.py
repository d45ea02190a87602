"""The budgets in force for a caller: the project's, lowered by each of its ancestors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from engrambus.core import TimeReads
from engrambus.policy import (
    Agent,
    Caller,
    IdentityReads,
    InlineBudget,
    LimitChecks,
    Payers,
    Policy,
    TurnBudget,
    TurnReads,
    lineage_of_agent,
    payers_of,
)

if TYPE_CHECKING:
    from engrambus.knowledge.messages.values import ChildBudgets


class BudgetReads(Protocol):
    """Reads of the budgets that parents set for their children."""

    def budgets(self, run_id: str, agent: str) -> ChildBudgets | None:
        """Return the budgets that the agent's parent set last."""
        ...


class BudgetView(BudgetReads, IdentityReads, Protocol):
    """The store as the budgets of a caller are read from it."""


class ReadView(BudgetView, TurnReads, TimeReads, Protocol):
    """The store as the payers of a read are found in it."""


def inline_budget(view: BudgetView, policy: Policy, caller: Caller) -> InlineBudget:
    """Return the limits of the caller's messages."""
    return _inline_budget(view, policy, caller.run.run_id, caller.name)


def _inline_budget(view: BudgetView, policy: Policy, run_id: str, name: str) -> InlineBudget:
    budget = policy.inline
    for limits in _limits_of_ancestors(view, run_id, name):
        budget = budget.lowered_by(limits)
    return budget


def limits_in_force(view: BudgetView, policy: Policy, agents: Sequence[Agent]) -> dict[str, int]:
    """Return the limits that hold for all of some agents, named as in a message; those that differ are left out."""
    of_each = [
        {
            "max_engrams": inline.max_engrams,
            "max_repo_spans": turn.repo,
            "max_artifact_sections": turn.artifact,
            "max_sam_items": turn.sam,
            "max_inline_tokens": inline.max_inline_tokens,
            "max_deref_tokens": turn.tokens,
        }
        for agent in agents
        for inline, turn in [(_inline_budget(view, policy, agent.run, agent.name), turn_budget(view, policy, agent))]
    ]
    if not of_each:
        return {}
    return {name: limit for name, limit in of_each[0].items() if all(limits[name] == limit for limits in of_each)}


def turn_budget(view: BudgetView, policy: Policy, agent: Agent) -> TurnBudget:
    """Return what an agent may read and put in a turn, and the ceilings of its run."""
    budget = policy.turn_budget(agent.session_turns)
    for limits in _limits_of_ancestors(view, agent.run, agent.name):
        budget = budget.lowered_by(limits)
    return budget


def read_payers(view: ReadView, policy: Policy, caller: Caller, limits: LimitChecks) -> Payers:
    """Return who pays for what the caller reads."""
    return payers_of(
        view,
        caller,
        limits,
        lambda agent: turn_budget(view, policy, agent),
        team_tokens=view.team_tokens(caller.run.run_id),
    )


def _limits_of_ancestors(view: BudgetView, run_id: str, name: str) -> Iterator[ChildBudgets]:
    # Also the agent's own entry, which its parent set; no ancestor can raise what another lowered.
    for ancestor in lineage_of_agent(view, run_id, name):
        limits = view.budgets(run_id, ancestor)
        if limits is not None:
            yield limits
