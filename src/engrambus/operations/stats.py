"""How the team does, in figures: for each agent, for each role and for all, now and over time. Never what was said."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from engrambus.core import print_time
from engrambus.errors import RoleForbidden
from engrambus.gateway.budgets import deref_budget, inline_budget
from engrambus.gateway.context import Context
from engrambus.gateway.declare import Command, Route, operation
from engrambus.gateway.ports import Counts
from engrambus.gateway.tallies import SPANS, GrantsLeft, Tally, total
from engrambus.policy import ADMIN, Agent, present_turn, visible_spaces

MAX_BUCKETS = 168
"""A week of hours."""

Bucket = Literal["PT1M", "PT1H", "P1D"]
Reach = Literal["run", "project"]


class Stats(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which figures."""

    over: Annotated[
        Reach, Meta(description="Count your run, or the whole project (only for admins and tools they added)")
    ] = "run"
    bucket: Annotated[Bucket, Meta(description="Length of each point of the history: PT1M is one minute")] = "PT1H"
    last: Annotated[int, Meta(ge=0, le=MAX_BUCKETS, description="Number of points, up to now")] = 24


class Figures(Tally, frozen=True, kw_only=True):
    """What was counted, and what follows from it."""

    inline_tokens_per_turn: float
    derefs_per_turn: float
    resend_rate: float
    """Resends per report or broadcast accepted."""
    contradiction_rate: float
    """Contradictions per engram put."""
    tokens_not_copied: int
    """What pasting the pointed contents for each reader would have moved, less what readers pulled instead."""
    grants_left: int
    grant_tokens_left: int
    kinds: dict[str, int]
    """Engrams put by kind, the most frequent first."""


class TurnUsed(Struct, frozen=True, kw_only=True):
    """What an agent has dereferenced in its present turn, and in its run."""

    number: int
    repo: int
    artifact: int
    sam: int
    tokens: int
    run_tokens: int


class Limits(Struct, frozen=True, kw_only=True):
    """What a turn, a run and a message allow an agent."""

    repo: int
    artifact: int
    sam: int
    tokens: int
    run_tokens: int
    inline_tokens: int
    engrams: int


class AgentFigures(Struct, frozen=True, kw_only=True):
    agent_id: str
    role: str
    parent: str | None
    figures: Figures
    turn: TurnUsed
    limits: Limits | None
    """None for the admin, who has none."""


class RoleFigures(Struct, frozen=True, kw_only=True):
    role: str
    figures: Figures


class Point(Struct, frozen=True, kw_only=True):
    """What was counted in one stretch of time."""

    start: str
    team: Tally
    roles: dict[str, Tally]
    """Of those who did anything."""


class History(Struct, frozen=True, kw_only=True):
    bucket: Bucket
    points: list[Point]
    """One for each bucket, oldest first, also where nothing happened; the last is the one we are in."""


class Held(Struct, frozen=True, kw_only=True):
    """The live engrams the caller may see."""

    engrams: int
    kinds: dict[str, int]
    """The most frequent first."""


class StatsAnswer(Struct, frozen=True, kw_only=True):
    project: str
    run_id: str
    as_of: str
    over: Reach
    team: Figures
    roles: list[RoleFigures]
    agents: list[AgentFigures]
    """In the order they came; none over the whole project."""
    history: History
    held: Held
    counts: Counts | None
    """How much the whole project holds, for admins."""


@operation(
    "stats",
    route=Route("GET", "/stats"),
    command=Command(
        "stats",
        section="maintenance",
        example="engrambus stats --bucket PT1M --last 60",
        renderer="maintenance:stats",
        rank=20,
    ),
    absent_from={"mcp": "figures are for people"},
)
def stats(context: Context, request: Stats) -> StatsAnswer:
    """Show figures: tokens, dereferences, messages and engrams, now and over time."""
    caller, view = context.caller, context.view
    if request.over == "project" and not _looks_after_all(context):
        raise RoleForbidden(
            "The figures of the whole project are for admins.",
            field="over",
            limit="run",
            hint="An admin gives a scraper a token of its own: engrambus agent add scraper --role tool.",
        )
    agents = _agents(context) if request.over == "run" else []
    roles = _roles_of(agents) if request.over == "run" else _roles_of_the_project(context)
    held = view.live_kinds(visible_spaces(caller))
    return StatsAnswer(
        project=caller.project,
        run_id=caller.run.run_id,
        as_of=print_time(context.as_of),
        over=request.over,
        team=_all([row.figures for row in roles]),
        roles=roles,
        agents=agents,
        history=_history(context, request),
        held=Held(engrams=sum(held.values()), kinds=_most_first(held)),
        counts=view.counts() if caller.role == ADMIN else None,
    )


def _looks_after_all(context: Context) -> bool:
    """Whether the caller is the admin, or a tool the admin added: something that watches the project from outside."""
    caller = context.caller
    if caller.role == ADMIN:
        return True
    agent = context.view.agent(caller.run.run_id, caller.name)
    return agent is not None and agent.role == "tool" and agent.parent is None


def _agents(context: Context) -> list[AgentFigures]:
    view, run = context.view, context.caller.run.run_id
    tallies, kinds, left = view.tallies(run), view.kinds_put(run), view.grants_left(run)
    rows = []
    everyone = view.agents(run)
    if ADMIN in tallies:
        everyone = [Agent(run=run, name=ADMIN, role=ADMIN), *everyone]
    for agent in everyone:
        name = agent.name
        figures = _figures(tallies.get(name, Tally()), kinds.get(name, {}), left.get(name, GrantsLeft()))
        turn = present_turn(view.turn(run, name), view.as_of)
        used = {field: getattr(turn, field) for field in TurnUsed.__struct_fields__}
        rows.append(
            AgentFigures(
                agent_id=name,
                role=agent.role,
                parent=agent.parent,
                figures=figures,
                turn=TurnUsed(**used),
                limits=_limits(context, agent) if agent.role != ADMIN else None,
            )
        )
    return rows


def _limits(context: Context, agent: Agent) -> Limits:
    """What an agent may spend, as it would be told itself."""
    theirs = msgspec.structs.replace(
        context, caller=msgspec.structs.replace(context.caller, name=agent.name, role=agent.role)
    )
    reading, saying = deref_budget(theirs, context.view), inline_budget(theirs, context.view)
    return Limits(
        repo=reading.repo,
        artifact=reading.artifact,
        sam=reading.sam,
        tokens=reading.tokens,
        run_tokens=reading.run_tokens,
        inline_tokens=saying.max_inline_tokens,
        engrams=saying.max_engrams,
    )


def _roles_of(agents: Sequence[AgentFigures]) -> list[RoleFigures]:
    """The agents' figures by role, in the order the roles came."""
    by_role: dict[str, list[Figures]] = {}
    for row in agents:
        by_role.setdefault(row.role, []).append(row.figures)
    return [RoleFigures(role=role, figures=_all(figures)) for role, figures in by_role.items()]


def _roles_of_the_project(context: Context) -> list[RoleFigures]:
    tallies, kinds = context.view.tallies(None), context.view.kinds_put(None)
    return [
        RoleFigures(role=role, figures=_figures(tally, kinds.get(role, {}), GrantsLeft()))
        for role, tally in sorted(tallies.items())
    ]


def _all(figures: Sequence[Figures]) -> Figures:
    kinds: dict[str, int] = {}
    for each in figures:
        for kind, count in each.kinds.items():
            kinds[kind] = kinds.get(kind, 0) + count
    left = GrantsLeft(
        grants=sum(each.grants_left for each in figures), tokens=sum(each.grant_tokens_left for each in figures)
    )
    return _figures(total(figures), kinds, left)


def _figures(tally: Tally, kinds: dict[str, int], left: GrantsLeft) -> Figures:
    return Figures(
        **msgspec.structs.asdict(tally),
        inline_tokens_per_turn=_ratio(tally.inline_tokens, tally.turns),
        derefs_per_turn=_ratio(tally.derefs, tally.turns),
        resend_rate=_ratio(tally.resends, tally.messages + tally.broadcasts),
        contradiction_rate=_ratio(tally.contradictions, tally.engrams),
        tokens_not_copied=tally.pointed_tokens - tally.deref_tokens,
        grants_left=left.grants,
        grant_tokens_left=left.tokens,
        kinds=_most_first(kinds),
    )


def _history(context: Context, request: Stats) -> History:
    length, now = SPANS[request.bucket], context.as_of
    starts = [now - now % length - length * back for back in reversed(range(request.last))]
    run = context.caller.run.run_id if request.over == "run" else None
    by_start: dict[int, dict[str, Tally]] = {start: {} for start in starts}
    for start, role, tally in context.view.history(run, request.bucket, starts[0]) if starts else ():
        by_start[start][role] = tally
    points = [
        Point(start=print_time(start), team=total([*roles.values()]), roles=roles) for start, roles in by_start.items()
    ]
    return History(bucket=request.bucket, points=points)


def _most_first(kinds: dict[str, int]) -> dict[str, int]:
    ranked: Iterable[tuple[str, int]] = sorted(kinds.items(), key=lambda row: (-row[1], row[0]))
    return dict(ranked)


def _ratio(part: int, whole: int) -> float:
    """One through the other, to four places; nothing of nothing is 0."""
    return round(part / whole, 4) if whole else 0.0
