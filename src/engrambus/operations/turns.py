"""Turns that a hook closes, and the budget of the whole team."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct, structs

import engrambus.policy as policy
from engrambus.gateway.context import Context
from engrambus.gateway.declare import PARENTS, Command, Route, operation
from engrambus.gateway.ports import View
from engrambus.knowledge.messages import inline_budget, turn_budget
from engrambus.policy import Agent, InlineBudget, TurnClosed

Boundary = Literal["prompt", "stop", "subagent_stop"]


class CloseTurn(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An agent whose turn ended."""

    name: Annotated[str, Meta(description="The agent: one of your descendants")]
    why: Annotated[Boundary, Meta(description="What ended the turn, as the coding agent reported it")] = "stop"


class TurnAnswer(Struct, frozen=True, kw_only=True):
    agent_id: str
    turn: int
    """Number of the turn that is open now."""


@operation(
    "turn.close",
    roles=PARENTS,
    writes=True,
    route=Route("POST", "/agent/{name}/turn"),
    command=Command(
        "agent turn",
        section="team",
        example="engrambus agent turn coder-1 --why prompt",
        renderer="team:turn",
        rank=28,
        arguments=("name",),
    ),
    absent_from={"mcp": "a hook reports it; an agent that could would refill its own turn"},
    agent_fields=("name",),
)
def close_turn(context: Context, request: CloseTurn) -> TurnAnswer:
    """Close an agent's turn; a turn in which nothing was read or put stays open.

    What an agent may read and put is counted by turn. The hooks of coding agents close a turn with each prompt; an
    agent's own turn closes when it reports.
    """

    def decide(view: View) -> tuple[list[TurnClosed], TurnAnswer]:
        facts, number = policy.close_turn(view, caller=context.caller, name=request.name, why=request.why)
        return facts, TurnAnswer(agent_id=request.name, turn=number)

    return context.commit(decide, TurnAnswer)


class TurnUsed(Struct, frozen=True, kw_only=True):
    """An agent's dereferences in its present turn and in the run, and the engrams it put in the turn."""

    number: int
    repo: int
    artifact: int
    sam: int
    tokens: int
    run_tokens: int
    put_tokens: int


class AgentLimits(Struct, frozen=True, kw_only=True):
    """An agent's limits for a turn, a run and a message."""

    repo: int
    artifact: int
    sam: int
    tokens: int
    run_tokens: int
    put_tokens: int
    session_turns: int
    """Turns' worth of budget in each of its turns."""
    inline_tokens: int
    engrams: int


def turn_used(context: Context, name: str) -> TurnUsed:
    """Return what an agent, or the admin, has used in its present turn and in the run."""
    turn = policy.turn_of(context.view, context.caller.run.run_id, name)
    return TurnUsed(**{field: getattr(turn, field) for field in TurnUsed.__struct_fields__})


def agent_limits(context: Context, agent: Agent) -> AgentLimits:
    """Return an agent's limits, as its parents lowered them."""
    caller = structs.replace(context.caller, name=agent.name, role=agent.role)
    budget = turn_budget(context.view, context.policy, agent)
    inline = inline_budget(context.view, context.policy, caller)
    return AgentLimits(
        repo=budget.repo,
        artifact=budget.artifact,
        sam=budget.sam,
        tokens=budget.tokens,
        run_tokens=budget.run_tokens,
        put_tokens=budget.put_tokens,
        session_turns=agent.session_turns,
        inline_tokens=inline.max_inline_tokens,
        engrams=inline.max_engrams,
    )


class ReadTeamBudget(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class TeamBudget(Struct, frozen=True, kw_only=True):
    run_id: str
    agents: int
    used: int
    """Tokens of content that all agents of the run have read so far; a person's reads are not counted."""
    limit: int
    """Tokens that they may read together; then no agent of the run reads more, and none can be added."""
    left: int
    inline: InlineBudget
    """Limits of the caller's messages."""
    turn: TurnUsed | None
    """What the caller has used of its own budgets; None for a person, who has no turn."""
    limits: AgentLimits | None


@operation(
    "team.budget",
    route=Route("GET", "/team/budget"),
    command=Command(
        "agent budget",
        section="team",
        example="engrambus agent budget",
        renderer="team:team_budget",
        rank=26,
    ),
    absent_from={"mcp": "hooks ask for it; the brief tells an agent its own"},
)
def team_budget(context: Context, request: ReadTeamBudget) -> TeamBudget:
    """Show what the run's agents have read together, and what they may still read; of an agent, also its own turn."""
    run_id, view = context.caller.run.run_id, context.view
    agent = view.agent(run_id, context.caller.name)
    used, limit = view.team_tokens(run_id), context.policy.turn_budget().team_tokens
    return TeamBudget(
        run_id=run_id,
        agents=len(view.agents(run_id)),
        used=used,
        limit=limit,
        left=max(0, limit - used),
        inline=inline_budget(view, context.policy, context.caller),
        turn=turn_used(context, agent.name) if agent is not None else None,
        limits=agent_limits(context, agent) if agent is not None else None,
    )
