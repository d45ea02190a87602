"""Limits and pauses of work: how many tasks run or start, and what is paused (decision 110)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from engrambus.core import print_time
from engrambus.gateway.context import Context
from engrambus.gateway.declare import ADMINS, PEOPLE, Command, Route, operation
from engrambus.space.tuples import (
    LimitMatch,
    LimitRule,
    LimitUse,
    WorkView,
    pause,
    read_match,
    remove_limit,
    set_limit,
    unpause,
)

_FOR_PEOPLE = {"mcp": "people set limits; the list of tools has no room for it"}

Lane = Annotated[str, Meta(max_length=200, description="Tasks of this lane (queue)")]
Run = Annotated[str, Meta(max_length=200, description="Tasks of this run")]
Authority = Annotated[Literal["user", "agent", "ci"], Meta(description="Tasks on this authority: user, agent or ci")]
Key = Annotated[
    str, Meta(max_length=200, description="Tasks with this concurrency key; `customer-*` is each key that begins so")
]


class Match(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The tasks that a limit or a pause is about: those that fit in everything named."""

    lane: Lane | None = None
    key: Key | None = None
    authority: Authority | None = None
    run: Run | None = None


class LimitRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A limit or pause, with its use."""

    name: str
    """The tasks it is about, in words."""
    lane: str | None = None
    run: str | None = None
    authority: str | None = None
    key: str | None = None
    limit_running: int | None = None
    """How many may run at once; with a `key` that ends in `*`, of each key."""
    rate: str | None = None
    """How many may start within a time: `100/PT1M`."""
    paused: str | None = None
    """Why none may start; empty if no reason was given."""
    by: str = ""
    since: str = ""
    running: int = 0
    """Tasks that run now."""
    started: int = 0
    """Starts within the period of the rate."""
    waiting: int = 0
    """Waiting tasks that it keeps from starting."""
    full_keys: int = 0
    """Keys without room that tasks wait for, if each key is counted by itself."""
    summary: str = ""
    """What it does, in a few words."""


class Limits(Struct, frozen=True, kw_only=True):
    limits: list[LimitRow]


class SetLimit(Match, frozen=True, kw_only=True, forbid_unknown_fields=True):
    running: Annotated[int | None, Meta(description="How many may run at once, at least 1")] = None
    rate: Annotated[str, Meta(max_length=60, description="How many may start within a time: 100/PT1M")] | None = None


@operation(
    "limit.set",
    roles=ADMINS,
    writes=True,
    route=Route("POST", "/limit"),
    command=Command(
        "limit set",
        section="work",
        example="engrambus limit set --key 'customer-*' --running 2",
        renderer="work:limit",
        rank=46,
    ),
    absent_from=_FOR_PEOPLE,
    prose=("lane", "run", "key", "rate"),
)
def limit_set(context: Context, request: SetLimit) -> LimitRow:
    """Limit how many tasks run at once, or start within a time.

    It holds at once, for every worker. Setting only one of the two again leaves the other as it is. What runs goes on.
    `--run RUN` makes it a limit of that run.
    """
    match = _match(request)
    return _change(
        context,
        lambda view: set_limit(view, match, running=request.running, rate=request.rate, by=_name(context)),
    )


class ListLimits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


@operation(
    "limit.list",
    roles=PEOPLE,
    route=Route("GET", "/limit"),
    command=Command(
        "limit list",
        section="work",
        example="engrambus limit list",
        renderer="work:limits",
        rank=47,
    ),
    absent_from=_FOR_PEOPLE,
)
def limit_list(context: Context, request: ListLimits) -> Limits:
    """List limits and pauses, what is used of each now, and how many tasks wait because of it."""
    return Limits(limits=limit_rows(context))


def limit_rows(context: Context) -> list[LimitRow]:
    """Return every limit and pause with its use."""
    with context.tuple_space.space.store.read() as view:
        return [_row(use) for use in view.limit_uses()]


class RemoveLimit(Match, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


@operation(
    "limit.remove",
    roles=ADMINS,
    writes=True,
    route=Route("POST", "/limit/remove"),
    command=Command(
        "limit remove",
        section="work",
        example="engrambus limit remove --lane build",
        renderer="work:limit_removed",
        rank=48,
    ),
    absent_from=_FOR_PEOPLE,
    prose=("lane", "run", "key"),
)
def limit_remove(context: Context, request: RemoveLimit) -> LimitRow:
    """Remove a limit. Name the same tasks as when it was set."""
    match = _match(request)
    return _change(context, lambda view: remove_limit(view, match))


class Pause(Match, frozen=True, kw_only=True, forbid_unknown_fields=True):
    why: Annotated[str, Meta(max_length=400, description="Why, for those who find their tasks waiting")] = ""


@operation(
    "work.pause",
    roles=PEOPLE,
    writes=True,
    route=Route("POST", "/work/pause"),
    command=Command(
        "pause",
        section="work",
        example='engrambus pause --lane build --why "the registry is down"',
        renderer="work:limit",
        rank=49,
    ),
    absent_from=_FOR_PEOPLE,
    prose=("lane", "run", "key", "why"),
)
def work_pause(context: Context, request: Pause) -> LimitRow:
    """Let no task of a lane, run, authority or key start until `unpause`. What runs goes on, nothing is lost."""
    match = _match(request)
    return _change(context, lambda view: pause(view, match, why=request.why, by=_name(context)))


class Unpause(Match, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


@operation(
    "work.unpause",
    roles=PEOPLE,
    writes=True,
    route=Route("POST", "/work/unpause"),
    command=Command(
        "unpause",
        section="work",
        example="engrambus unpause --lane build",
        renderer="work:unpaused",
        rank=49,
    ),
    absent_from=_FOR_PEOPLE,
    prose=("lane", "run", "key"),
)
def work_unpause(context: Context, request: Unpause) -> LimitRow:
    """End a pause: its tasks start again. Name the same tasks as when they were paused."""
    match = _match(request)
    return _change(context, lambda view: unpause(view, match, by=_name(context)))


def _name(context: Context) -> str:
    """Return the caller's name without its run, which is not what the rule is about."""
    return context.caller.full_name.rpartition("/")[2]


def _match(request: Match) -> LimitMatch:
    return read_match(lane=request.lane, run=request.run, authority=request.authority, key=request.key)


def _change(context: Context, decide: Callable[[WorkView], tuple[Sequence[Any], LimitRule]]) -> LimitRow:
    return _row(LimitUse(rule=context.tuple_space.space.store.commit(decide)))


def _row(use: LimitUse) -> LimitRow:
    rule = use.rule
    return LimitRow(
        name=rule.match.name,
        lane=rule.match.lane,
        run=rule.match.run,
        authority=rule.match.authority,
        key=rule.match.key,
        limit_running=rule.running,
        rate=rule.rate,
        paused=rule.paused,
        by=rule.by,
        since=print_time(rule.since_us),
        running=use.running,
        started=use.started,
        waiting=use.waiting,
        full_keys=use.full if rule.match.is_prefix else 0,
        summary=use.summary,
    )
