"""Work: dispatching tuples and observing them, and what only those at the machine may do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from engrambus.core import MICROS
from engrambus.errors import AuthorityStamped, TupleNotFound
from engrambus.gateway.context import Context, check_run_goes_on
from engrambus.gateway.declare import ADMINS, Command, Route, Tool, operation
from engrambus.operations.board import StepState, step_states
from engrambus.operations.engram_queries import read_cursor
from engrambus.operations.short_ids import meant
from engrambus.policy import ADMIN, Caller

if TYPE_CHECKING:
    from engrambus.space.tuples import PutResult, TupleRecord, WorkView

_INNER_LOOP = {
    "http": "the inner loop stays off the wire: dispatch tuples instead",
    "mcp": "the inner loop stays off the wire: dispatch tuples instead",
}
AT_THE_MACHINE = {"http": "those at the machine do this", "mcp": "those at the machine do this"}
MAX_WAIT = 3600
MAX_LISTED = 1000


class TupleFields(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tuple as it is sent: with its id and everything it is made of, or without, and then completed."""

    lane: Annotated[str, Meta(description="Where it waits for a worker")]
    payload: Annotated[list[dict[str, Any]], Meta(description="Steps: {yool, args, after?}")] = []
    map_pos: Annotated[dict[str, Any] | UnsetType, Meta(description="Where in the project it belongs")] = UNSET
    agent_terms: Annotated[
        dict[str, Any] | UnsetType, Meta(description="budget_usd, budget_tokens, deadline_iso, max_retries")
    ] = UNSET
    src_ptr: Annotated[list[str] | UnsetType, Meta(description="What it comes from")] = UNSET
    parent_id: Annotated[str | UnsetType | None, Meta(description="The tuple it is a part of")] = UNSET
    flags: Annotated[dict[str, Any] | UnsetType, Meta(description="no_cache: do everything anew")] = UNSET
    priority: Annotated[int | UnsetType, Meta(description="Higher goes first")] = UNSET
    schema: Annotated[str | UnsetType, Meta(description="yool-tuple/v1 or v2")] = UNSET
    id: Annotated[str | UnsetType, Meta(description="Its id, when it has one")] = UNSET
    authority: Annotated[dict[str, Any] | UnsetType, Meta(description="Stamped; only with an id")] = UNSET
    receipts: Annotated[list[str] | UnsetType, Meta(description="None when it is created")] = UNSET
    created_at: Annotated[str | UnsetType, Meta(description="When it was created")] = UNSET


class TupleDispatch(TupleFields, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class Dispatched(Struct, frozen=True, kw_only=True):
    id: str
    receipt_id: str | None
    """The receipt for taking it in."""
    new: bool
    """Not when it was in the space already."""


@operation(
    "tuple.dispatch",
    writes=True,
    route=Route("POST", "/tuple", body_limit=2 * 1024 * 1024),
    command=Command(
        "dispatch",
        section="work",
        example="engrambus dispatch tuple.json",
        renderer="work:dispatch",
        rank=10,
        override="work:dispatch",
    ),
    tool=Tool(
        hidden=(
            "agent_terms",
            "authority",
            "created_at",
            "flags",
            "id",
            "map_pos",
            "parent_id",
            "priority",
            "receipts",
            "schema",
            "src_ptr",
        ),
        explained=("payload",),
    ),
)
def tuple_dispatch(context: Context, request: TupleDispatch) -> Dispatched:
    """Submit a task (a tuple) and return at once.

    A tuple names its lane, the queue it waits in, and its steps; each step names a yool, a function of the
    catalog that a worker runs.
    """
    put = _put(context, request, block=None, accept=True)
    return Dispatched(id=put.id, receipt_id=put.receipt_id, new=put.new)


class TupleOut(TupleFields, frozen=True, kw_only=True, forbid_unknown_fields=True):
    block: Annotated[float, Meta(ge=0, le=MAX_WAIT, description="Seconds to wait while the lane is full")] | None = None


@operation(
    "tuple.out",
    writes=True,
    command=Command(
        "out",
        section="work",
        example="engrambus out --lane build --yool agent.lint.ruff --arg path=src",
        renderer="work:dispatch",
        rank=12,
        override="work:out",
    ),
    absent_from=_INNER_LOOP,
)
def tuple_out(context: Context, request: TupleOut) -> Dispatched:
    """Put a tuple (a task) into its lane (a queue), for a worker to run."""
    put = _put(context, request, block=request.block, accept=False)
    return Dispatched(id=put.id, receipt_id=put.receipt_id, new=put.new)


def _put(context: Context, request: TupleFields, *, block: float | None, accept: bool) -> PutResult:
    with context.store.read() as view:
        check_run_goes_on(view, context.caller)
    stamp = stamped(context.caller, ci=context.tuple_space.ci)
    draft = msgspec.to_builtins(request)
    draft.pop("block", None)
    if "authority" in draft and context.caller.role != ADMIN and draft["authority"] != stamp:
        raise AuthorityStamped(field="authority", hint="Leave it out.")
    if "authority" in draft and "id" not in draft:
        raise AuthorityStamped(field="authority", hint="Leave it out; it is stamped.")
    return context.tuple_space.space.out(
        draft,
        authority=stamp,
        run=context.caller.run.run_id,
        block=block,
        accept=accept,
        idempotency=_idempotency(context),
        every_run=context.caller.role == ADMIN,
    )[0]


def _idempotency(context: Context) -> tuple[str, str] | None:
    """Under which key, and with which request, this was asked for."""
    if context.idempotency_key is None or context.request_digest is None:
        return None
    return f"{context.caller.full_name} {context.idempotency_key}", context.request_digest


def stamped(caller: Caller, *, ci: bool) -> dict[str, Any]:
    """The authority a caller's tuples bear."""
    if caller.role == ADMIN:
        return {"user": ADMIN, "agent": None, "ci": ci}
    return {"user": None, "agent": caller.full_name, "ci": False}


class TuplePattern(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    lane: Annotated[str | None, Meta(description="Only this lane's")] = None
    state: Annotated[str | None, Meta(description="Only in this state: waiting, claimed, done, dead, cancelled")] = None
    pattern: Annotated[
        dict[str, Any] | UnsetType,
        Meta(description="Fields as created, by path: a value, or {eq, ne, prefix, lt, le, gt, ge, exists: …}"),
    ] = UNSET
    timeout: Annotated[float, Meta(ge=0, le=MAX_WAIT, description="Seconds to wait for one")] = 0.0


class TupleAnswer(Struct, frozen=True, kw_only=True):
    state: str
    tuple: dict[str, Any]
    """As created, with its id and the receipts it has got since."""


@operation(
    "tuple.rd",
    command=Command(
        "rd",
        section="work",
        example="engrambus rd --lane build --where map_pos.stack=python",
        renderer="work:tuple_record",
        rank=36,
        override="work:rd",
    ),
    absent_from=_INNER_LOOP,
)
def tuple_rd(context: Context, request: TuplePattern) -> TupleAnswer:
    """Show the oldest tuple that matches a pattern, and leave it in its lane."""
    found = context.tuple_space.space.rd(_pattern(context, request), timeout=request.timeout)
    if found is None:
        raise TupleNotFound("No tuple matches.", field="pattern")
    return _shown(context, found, found.state)


class TupleIn(TuplePattern, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


@operation(
    "tuple.in",
    writes=True,
    command=Command(
        "in",
        section="work",
        example="engrambus in --lane notes --timeout 10",
        renderer="work:tuple_record",
        rank=38,
        override="work:in_",
    ),
    absent_from=_INNER_LOOP,
)
def tuple_in(context: Context, request: TupleIn) -> TupleAnswer:
    """Take one waiting tuple out of its lane for good."""
    found = context.tuple_space.space.in_(
        _pattern(context, request), by=context.caller.full_name, timeout=request.timeout
    )
    if found is None:
        raise TupleNotFound("No waiting tuple matches.", field="pattern")
    return _shown(context, found, "taken")


def _pattern(context: Context, request: TuplePattern) -> Any:
    """The pattern asked for, within what the caller may see."""
    from engrambus.space.tuples import read_pattern

    said = {"lane": request.lane, "state": request.state, "run": context.run_seen}
    besides = read_pattern({name: value for name, value in said.items() if value is not None})
    return read_pattern({} if request.pattern is UNSET else request.pattern).narrowed(besides)


class TupleId(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: Annotated[str, Meta(max_length=80, description="The tuple's id, or how it begins")]


class Observed(Struct, frozen=True, kw_only=True, omit_defaults=True):
    id: str
    state: str
    lane: str
    attempts: int
    steps: list[StepState]
    receipts: list[str]
    usd: float
    """What it and its children have spent."""
    tokens: int
    budget_usd: float | None = None
    budget_tokens: int | None = None
    again: str | None = None
    """The tuple it was put again as."""
    terminal: str | None = None
    """The last receipt, of the whole tuple."""
    error: str | None = None
    """Why it was given up, or why its last attempt failed."""


@operation(
    "tuple.observe",
    route=Route("GET", "/tuple/{id}", conditional=True),
    command=Command(
        "observe",
        section="work",
        example="engrambus observe sha256:61a6ffdddafeee3fc081cfbe189306b35a39fc01b3438d0917016f00ec9f16b9",
        renderer="work:tuple_status",
        rank=24,
        arguments=("id",),
    ),
    tool=Tool(),
)
def tuple_observe(context: Context, request: TupleId) -> Observed:
    """Show a task's status."""
    with context.tuple_space.space.store.read() as view:
        one = _visible(context.caller, view, request.id)
        return _observed(view, one)


def _observed(view: WorkView, one: TupleRecord) -> Observed:
    from engrambus.space.tuples import ENDED

    receipts = view.receipt_ids(one.id)
    last = view.receipt(receipts[-1]) if receipts else None
    return Observed(
        id=one.id,
        state=one.state,
        lane=one.lane,
        attempts=one.attempts,
        steps=step_states(view, one),
        receipts=receipts,
        usd=one.spent_micros / MICROS,
        tokens=one.spent_tokens,
        budget_usd=None if one.budget_micros is None else one.budget_micros / MICROS,
        budget_tokens=one.budget_tokens,
        again=one.put_again_as,
        terminal=receipts[-1] if one.state in ENDED else None,
        error=last.error if last is not None else None,
    )


def _visible(caller: Caller, view: WorkView, given: str) -> TupleRecord:
    """A tuple of the caller's run; an admin sees all."""

    def see(tuple_id: str) -> TupleRecord | None:
        one = view.find(tuple_id)
        if one is None or one.state == "taken" or (caller.role != ADMIN and one.run != caller.run.run_id):
            return None
        return one

    one = meant(given, view.tuple_ids_starting, see)
    if one is None:
        raise TupleNotFound(field="id", used=given)
    return one


def _shown(context: Context, one: TupleRecord, state: str) -> TupleAnswer:
    from engrambus.space.tuples import public_tuple

    with context.tuple_space.space.store.read() as view:
        return TupleAnswer(state=state, tuple=public_tuple(one, view.receipt_ids(one.id)))


class ListWork(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class RunRow(Struct, frozen=True, kw_only=True):
    run_id: str
    states: dict[str, int]
    executed: int
    hits: int
    usd: float
    tokens: int
    unfinished: int
    """Tuples without a last receipt: what `engrambus resume` goes on with."""


class WorkRunsAnswer(Struct, frozen=True, kw_only=True):
    runs: list[RunRow]
    """The newest first."""


@operation(
    "runs.list",
    command=Command(
        "runs",
        section="work",
        example="engrambus runs",
        renderer="work:work_runs",
        rank=34,
    ),
    absent_from=AT_THE_MACHINE,
)
def list_work(context: Context, request: ListWork) -> WorkRunsAnswer:
    """List runs that have tasks: how many are done, cached, given up or unfinished, and their cost."""
    with context.tuple_space.space.store.read() as view:
        figures = view.run_totals()
    rows = [
        RunRow(
            run_id=each.run,
            states=each.states,
            executed=each.executed,
            hits=each.hits,
            usd=each.micros / MICROS,
            tokens=each.tokens,
            unfinished=each.states.get("waiting", 0) + each.states.get("claimed", 0),
        )
        for each in reversed(figures)
        if context.run_seen in (None, each.run)
    ]
    return WorkRunsAnswer(runs=rows)


class ListDead(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    lane: Annotated[str | None, Meta(description="Only this lane's")] = None
    all: Annotated[bool, Meta(description="Those that were put again, too")] = False
    limit: Annotated[int, Meta(ge=1, le=MAX_LISTED, description="How many at the most")] = 100
    cursor: Annotated[str, Meta(max_length=20, description="Where the last page ended")] | None = None


class DeadLetter(Struct, frozen=True, kw_only=True, omit_defaults=True):
    id: str
    lane: str
    attempts: int
    error: str | None = None
    again: str | None = None
    """The tuple it was put again as."""


class DeadLetters(Struct, frozen=True, kw_only=True, omit_defaults=True):
    dead: list[DeadLetter]
    """The last first."""
    cursor: str | None = None
    """Where to go on, when there are more."""


@operation(
    "tuple.dead",
    command=Command(
        "dead",
        section="work",
        example="engrambus dead",
        renderer="work:dead_letters",
        rank=28,
    ),
    absent_from=AT_THE_MACHINE,
)
def list_dead(context: Context, request: ListDead) -> DeadLetters:
    """List tasks that were given up: retried too often, expired, or over budget."""
    with context.tuple_space.space.store.read() as view:
        dead = view.list_dead(
            context.run_seen,
            lane=request.lane,
            include_put_again=request.all,
            limit=request.limit + 1,
            ended_before=read_cursor(request.cursor),
        )
        rows = [
            DeadLetter(
                id=one.id, lane=one.lane, attempts=one.attempts, error=_last_error(view, one), again=one.put_again_as
            )
            for one in dead[: request.limit]
        ]
    more = len(dead) > request.limit
    return DeadLetters(dead=rows, cursor=str(dead[request.limit - 1].final_receipt_number) if more else None)


def _last_error(view: WorkView, one: TupleRecord) -> str | None:
    receipts = view.receipt_ids(one.id)
    last = view.receipt(receipts[-1]) if receipts else None
    return last.error if last is not None else None


@operation(
    "tuple.again",
    roles=ADMINS,
    writes=True,
    command=Command(
        "again",
        section="work",
        example="engrambus again sha256:61a6ffdddafeee3fc081cfbe189306b35a39fc01b3438d0917016f00ec9f16b9",
        renderer="work:dispatch",
        rank=30,
        arguments=("id",),
    ),
    absent_from=AT_THE_MACHINE,
)
def tuple_again(context: Context, request: TupleId) -> Dispatched:
    """Submit a task that was given up once more, as a new tuple."""
    with context.tuple_space.space.store.read() as view:
        dead = _visible(context.caller, view, request.id).id
    put = context.tuple_space.space.put_again(dead, authority=stamped(context.caller, ci=context.tuple_space.ci))
    return Dispatched(id=put.id, receipt_id=None, new=put.new)


class Cancelled(Struct, frozen=True, kw_only=True):
    id: str
    receipt_id: str
    """The receipt that ends it."""


@operation(
    "tuple.cancel",
    writes=True,
    command=Command(
        "cancel",
        section="work",
        example="engrambus cancel sha256:61a6ffdddafeee3fc081cfbe189306b35a39fc01b3438d0917016f00ec9f16b9",
        renderer="work:cancellation",
        rank=26,
        arguments=("id",),
    ),
    absent_from=AT_THE_MACHINE,
)
def cancel_tuple(context: Context, request: TupleId) -> Cancelled:
    """Cancel a task that is waiting or running."""
    with context.tuple_space.space.store.read() as view:
        one = _visible(context.caller, view, request.id)
    return Cancelled(id=one.id, receipt_id=context.tuple_space.space.cancel(one.id).id)
