"""Turns that a hook closes, and what the whole team has read."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from engrambus.gateway.budgets import inline_budget
from engrambus.gateway.context import Context
from engrambus.gateway.declare import PARENTS, Command, Route, operation
from engrambus.gateway.ports import View
from engrambus.policy import ADMIN, InlineBudget, TurnClosed, check_descends, present_turn

Boundary = Literal["prompt", "stop", "subagent_stop"]


class CloseTurn(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whose turn is over, and why."""

    name: Annotated[str, Meta(description="The agent: you, or one of your descendants")]
    why: Annotated[Boundary, Meta(description="What ended the turn, as the coding agent reported it")] = "stop"


class TurnAnswer(Struct, frozen=True, kw_only=True):
    agent_id: str
    turn: int
    """The turn that is open now."""


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
)
def close_turn(context: Context, request: CloseTurn) -> TurnAnswer:
    """Close an agent's turn; a turn in which nothing was read stays open.

    What an agent may read is counted by turn. The hooks of coding agents close a turn with each prompt.
    """

    def decide(view: View) -> tuple[list[TurnClosed], TurnAnswer]:
        agent = check_descends(view, context.caller, request.name, "name")
        facts, number = closing(view, agent.run, agent.name, request.why)
        return facts, TurnAnswer(agent_id=agent.name, turn=number)

    return context.commit(decide, TurnAnswer)


def closing(view: View, run: str, agent: str, why: str) -> tuple[list[TurnClosed], int]:
    """What closes an agent's turn, and the turn that is open then; nothing does where nothing was read."""
    turn = present_turn(view.turn(run, agent), view.as_of)
    if not (turn.repo or turn.artifact or turn.sam or turn.tokens):
        return [], turn.number
    return [TurnClosed(run=run, agent=agent, turn=turn.number, why=why)], turn.number + 1


class ReadTeamBudget(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class TeamBudget(Struct, frozen=True, kw_only=True):
    run_id: str
    agents: int
    used: int
    """Tokens of content all agents of the run have read so far."""
    limit: int
    """What they may read together before the run takes no new agents on."""
    left: int
    inline: InlineBudget
    """What a message of the caller may hold."""


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
    """Show what the run's agents have read together, and what is left before no agent can be added."""
    run, view = context.caller.run.run_id, context.view
    agents = view.agents(run)
    turns = (view.turn(run, name) for name in (ADMIN, *(agent.name for agent in agents)))
    used = sum(turn.run_tokens for turn in turns if turn is not None)
    limit, inline = context.policy.deref.team_tokens, inline_budget(context, view)
    return TeamBudget(run_id=run, agents=len(agents), used=used, limit=limit, left=max(0, limit - used), inline=inline)
