"""Figures about the team: for each agent, each role and all together, now and over time. They contain no text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from engrambus.core import print_time
from engrambus.errors import RoleForbidden
from engrambus.gateway.context import Context
from engrambus.gateway.declare import Command, Route, operation
from engrambus.gateway.ports import Counts
from engrambus.gateway.tallies import BUCKET_US, GrantsLeft, MessageTrend, Tally, message_trend, ratio, total
from engrambus.operations.turns import AgentLimits, TurnUsed, agent_limits, turn_used
from engrambus.policy import ADMIN, Agent, visible_spaces

MAX_BUCKETS = 168
"""A week of hours."""

Bucket = Literal["PT1M", "PT1H", "P1D"]
Reach = Literal["run", "project"]


class Stats(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A selection of figures."""

    over: Annotated[
        Reach, Meta(description="Count your run, or the whole project (only for admins and tools they added)")
    ] = "run"
    bucket: Annotated[Bucket, Meta(description="Length of each point of the history: PT1M is one minute")] = "PT1H"
    last: Annotated[int, Meta(ge=0, le=MAX_BUCKETS, description="Number of points, up to now")] = 24


class Figures(Tally, frozen=True, kw_only=True):
    """Counts, and the ratios computed from them."""

    inline_tokens_per_turn: float
    derefs_per_turn: float
    resend_rate: float
    """Resends per accepted report or broadcast."""
    contradiction_rate: float
    """Contradictions per put engram."""
    tokens_not_copied: int
    """`pointed_tokens`, which pasting would have copied, minus `pointed_read_tokens`; never negative."""
    grants_left: int
    grant_tokens_left: int
    kinds: dict[str, int]
    """Put engrams by kind, the most frequent first."""
    denial_codes: dict[str, int]
    """Denials by error code, the most frequent first."""


class AgentFigures(Struct, frozen=True, kw_only=True):
    agent_id: str
    role: str
    parent: str | None
    figures: Figures
    turn: TurnUsed
    limits: AgentLimits | None
    """None for the admin, who is not limited."""
    trend: MessageTrend | None
    """None until it has sent a few messages."""


class RoleFigures(Struct, frozen=True, kw_only=True):
    role: str
    figures: Figures


class HistoryPoint(Struct, frozen=True, kw_only=True):
    """The counts of one period."""

    start: str
    team: Tally
    roles: dict[str, Tally]
    """Roles without any activity are left out."""


class History(Struct, frozen=True, kw_only=True):
    bucket: Bucket
    points: list[HistoryPoint]
    """One for each period, oldest first, also for periods without activity; the last one is the present period."""


class LiveEngrams(Struct, frozen=True, kw_only=True):
    """The live engrams that the caller may see."""

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
    """In the order they were added; empty for the whole project."""
    history: History
    held: LiveEngrams
    reservations: int
    """Reservations of paths that the caller may see, in all runs."""
    counts: Counts | None
    """Size of the whole project, for admins."""


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
    if request.over == "project" and not _may_see_project(context):
        raise RoleForbidden(
            "Only an admin can see the figures of the whole project.",
            field="over",
            limit="run",
            hint="An admin creates a token for a scraper: engrambus agent add scraper --role tool.",
        )
    agents = _agent_figures(context) if request.over == "run" else []
    roles = _role_figures(agents) if request.over == "run" else _project_figures(context)
    live_kinds = view.live_kinds(visible_spaces(caller))
    return StatsAnswer(
        project=caller.project,
        run_id=caller.run.run_id,
        as_of=print_time(context.as_of),
        over=request.over,
        team=sum_figures([row.figures for row in roles]),
        roles=roles,
        agents=agents,
        history=_history(context, request),
        held=LiveEngrams(engrams=sum(live_kinds.values()), kinds=_most_frequent_first(live_kinds)),
        reservations=_count_reservations(context),
        counts=view.counts() if caller.role == ADMIN else None,
    )


def _count_reservations(context: Context) -> int:
    if not context.view.reservations():
        return 0
    from engrambus.operations.reservations import live_reservations
    from engrambus.policy.reservations import visible_reservations

    rule = context.policy.visible_to(context.caller.role)
    return len(visible_reservations(live_reservations(context.view), [rule]))


def _may_see_project(context: Context) -> bool:
    """True for the admin and for a tool that the admin added, such as a metrics scraper."""
    # decision 20: so a scraper needs no admin's token
    caller = context.caller
    if caller.role == ADMIN:
        return True
    agent = context.view.agent(caller.run.run_id, caller.name)
    return agent is not None and agent.role == "tool" and agent.parent is None


def _agent_figures(context: Context) -> list[AgentFigures]:
    view, run_id = context.view, context.caller.run.run_id
    tallies, kinds, grants_left = view.tallies(run_id), view.kinds_put(run_id), view.grants_left(run_id)
    codes, outcomes = view.denials_by_code(run_id), view.outcomes(run_id)
    agents = view.agents(run_id)
    if ADMIN in tallies:
        agents = [Agent(run=run_id, name=ADMIN, role=ADMIN), *agents]
    rows = []
    for agent in agents:
        name = agent.name
        rows.append(
            AgentFigures(
                agent_id=name,
                role=agent.role,
                parent=agent.parent,
                figures=_figures(
                    tallies.get(name, Tally()),
                    kinds.get(name, {}),
                    codes.get(name, {}),
                    grants_left.get(name, GrantsLeft()),
                ),
                turn=turn_used(context, name),
                limits=agent_limits(context, agent) if agent.role != ADMIN else None,
                trend=message_trend(outcomes.get(name, "")),
            )
        )
    return rows


def _role_figures(agents: Sequence[AgentFigures]) -> list[RoleFigures]:
    """Return the agents' figures added up by role, in the order in which the roles appear."""
    by_role: dict[str, list[Figures]] = {}
    for row in agents:
        by_role.setdefault(row.role, []).append(row.figures)
    return [RoleFigures(role=role, figures=sum_figures(figures)) for role, figures in by_role.items()]


def _project_figures(context: Context) -> list[RoleFigures]:
    tallies, kinds = context.view.tallies(None), context.view.kinds_put(None)
    codes = context.view.denials_by_code(None)
    return [
        RoleFigures(role=role, figures=_figures(tally, kinds.get(role, {}), codes.get(role, {}), GrantsLeft()))
        for role, tally in sorted(tallies.items())
    ]


def sum_figures(rows: Sequence[Figures]) -> Figures:
    """Return the figures of some agents or roles added up."""
    kinds = _sum_counts(row.kinds for row in rows)
    codes = _sum_counts(row.denial_codes for row in rows)
    grants_left = GrantsLeft(
        grants=sum(row.grants_left for row in rows), tokens=sum(row.grant_tokens_left for row in rows)
    )
    return _figures(total(rows), kinds, codes, grants_left)


def _sum_counts(rows: Iterable[dict[str, int]]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for row in rows:
        for name, count in row.items():
            counts[name] = counts.get(name, 0) + count
    return counts


def _figures(tally: Tally, kinds: dict[str, int], codes: dict[str, int], grants_left: GrantsLeft) -> Figures:
    return Figures(
        **msgspec.structs.asdict(tally),
        inline_tokens_per_turn=ratio(tally.inline_tokens, tally.turns),
        derefs_per_turn=ratio(tally.derefs, tally.turns),
        resend_rate=ratio(tally.resends, tally.messages + tally.broadcasts),
        contradiction_rate=ratio(tally.contradictions, tally.engrams),
        tokens_not_copied=tally.pointed_tokens - tally.pointed_read_tokens,
        grants_left=grants_left.grants,
        grant_tokens_left=grants_left.tokens,
        kinds=_most_frequent_first(kinds),
        denial_codes=_most_frequent_first(codes),
    )


def _history(context: Context, request: Stats) -> History:
    length_us, now_us = BUCKET_US[request.bucket], context.as_of
    starts = [now_us - now_us % length_us - length_us * back for back in reversed(range(request.last))]
    run_id = context.caller.run.run_id if request.over == "run" else None
    by_start: dict[int, dict[str, Tally]] = {start: {} for start in starts}
    for start, role, tally in context.view.history(run_id, request.bucket, starts[0]) if starts else ():
        by_start[start][role] = tally
    points = [
        HistoryPoint(start=print_time(start), team=total([*roles.values()]), roles=roles)
        for start, roles in by_start.items()
    ]
    return History(bucket=request.bucket, points=points)


def _most_frequent_first(kinds: dict[str, int]) -> dict[str, int]:
    ranked: Iterable[tuple[str, int]] = sorted(kinds.items(), key=lambda row: (-row[1], row[0]))
    return dict(ranked)
