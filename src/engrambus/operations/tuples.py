"""Operations on tuples: dispatch, read, take, observe, cancel, and dead letters."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from engrambus.core import MICROS_PER_DOLLAR, print_time
from engrambus.errors import TupleNotFound
from engrambus.gateway.context import Context, check_run_goes_on
from engrambus.gateway.declare import PEOPLE, Command, Route, Tool, operation
from engrambus.operations.engram_about import read_cursor
from engrambus.policy import ADMIN
from engrambus.space.tuples import (
    ENDED,
    BatchSpace,
    PutResult,
    StepState,
    TuplePattern,
    TupleRecord,
    WorkView,
    check_stamp,
    folded_agents,
    last_receipt,
    public_tuple,
    read_pattern,
    stamp_authority,
    step_states,
    visible_tuple,
    with_delay,
)

# The inner loop of the space takes a commit per call. It is for programs on this machine; others dispatch and observe.
_INNER_LOOP = {
    "http": "it runs only on the project's machine; dispatch tuples instead",
    "mcp": "it runs only on the project's machine; dispatch tuples instead",
}
LOCAL_ONLY = {"http": "it runs only on the project's machine", "mcp": "it runs only on the project's machine"}
MAX_WAIT_SECONDS = 3600
MAX_LISTED = 1000


class TupleFields(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Fields of a tuple as a caller sends it: all of them with an id, or without one only those it sets."""

    lane: Annotated[str, Meta(description="Queue it waits in")]
    payload: Annotated[list[dict[str, Any]], Meta(description="Steps: {yool, args, after?}")] = []
    delay: Annotated[
        str | UnsetType,
        Meta(description="How long it waits before it may be claimed: PT10M; sets agent_terms.not_before_iso"),
    ] = UNSET
    map_pos: Annotated[dict[str, Any] | UnsetType, Meta(description="Its position in the project")] = UNSET
    agent_terms: Annotated[
        dict[str, Any] | UnsetType,
        Meta(description="budget_usd, budget_tokens, deadline_iso, max_retries"),
    ] = UNSET
    src_ptr: Annotated[list[str] | UnsetType, Meta(description="Pointers to its sources")] = UNSET
    parent_id: Annotated[str | UnsetType | None, Meta(description="Parent tuple; shares its spending")] = UNSET
    flags: Annotated[dict[str, Any] | UnsetType, Meta(description="no_cache: use no cached result")] = UNSET
    priority: Annotated[int | UnsetType, Meta(description="Higher is claimed first; 0 by default")] = UNSET
    after: Annotated[list[str] | UnsetType, Meta(description="Ids of tuples that must be done first")] = UNSET
    schema: Annotated[str | UnsetType, Meta(description="yool-tuple/v1 or v2")] = UNSET
    id: Annotated[str | UnsetType, Meta(description="Its id; leave out to have it computed")] = UNSET
    authority: Annotated[dict[str, Any] | UnsetType, Meta(description="Set for you; only sent with an id")] = UNSET
    receipts: Annotated[list[str] | UnsetType, Meta(description="Empty for a new tuple")] = UNSET
    created_at: Annotated[str | UnsetType, Meta(description="Time of creation; now by default")] = UNSET


class TupleDispatch(TupleFields, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class DispatchAnswer(Struct, frozen=True, kw_only=True):
    id: str
    receipt_id: str | None
    """The acceptance receipt."""
    new: bool
    """False if the tuple was in the space already."""


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
        about="Submit a tuple.",
        needs_yools=True,
        hidden=(
            *("after", "authority", "created_at", "delay", "flags", "id", "map_pos", "parent_id", "priority"),
            *("receipts", "schema", "src_ptr"),
        ),
        explained=("agent_terms", "payload"),
    ),
    prose=("lane",),
)
def tuple_dispatch(context: Context, request: TupleDispatch) -> DispatchAnswer:
    """Submit a task (a tuple) and return at once.

    A tuple names its lane, the queue it waits in, and its steps; each step names a yool, a function of the
    catalog that a worker runs.
    """
    put = _put(context, request, block=None, accept=True)
    return DispatchAnswer(id=put.id, receipt_id=put.receipt_id, new=put.new)


class TupleOut(TupleFields, frozen=True, kw_only=True, forbid_unknown_fields=True):
    block: (
        Annotated[float, Meta(ge=0, le=MAX_WAIT_SECONDS, description="Seconds to wait while the lane is full")] | None
    ) = None


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
    prose=("lane",),
)
def tuple_out(context: Context, request: TupleOut) -> DispatchAnswer:
    """Put a tuple (a task) into its lane (a queue), for a worker to run."""
    put = _put(context, request, block=request.block, accept=False)
    return DispatchAnswer(id=put.id, receipt_id=put.receipt_id, new=put.new)


def _put(context: Context, request: TupleFields, *, block: float | None, accept: bool) -> PutResult:
    with context.store.read() as view:
        check_run_goes_on(view, context.caller)
    stamp = stamp_authority(context.caller, ci=context.tuple_space.ci)
    draft = msgspec.to_builtins(request)
    draft.pop("block", None)
    if (delay := draft.pop("delay", None)) is not None:
        with context.tuple_space.space.store.read() as work:
            draft = with_delay(draft, delay, work.as_of)
    if "id" not in draft and draft.get("parent_id"):
        with context.tuple_space.space.store.read() as work:
            draft["parent_id"] = visible_tuple(work, context.caller, draft["parent_id"], "parent_id").id
    if "id" not in draft and draft.get("after"):
        with context.tuple_space.space.store.read() as work:
            draft["after"] = [
                visible_tuple(work, context.caller, tuple_id, f"after[{position}]").id
                for position, tuple_id in enumerate(draft["after"])
            ]
    if "authority" in draft:
        with context.tuple_space.space.store.read() as work:
            check_stamp(work, draft, stamp, context.caller)
    return context.tuple_space.space.out(
        draft,
        authority=stamp,
        run=context.caller.run.run_id,
        block=block,
        accept=accept,
        idempotency=idempotency_of(context),
        every_run=context.caller.role == ADMIN,
    )[0]


def idempotency_of(context: Context) -> tuple[str, str] | None:
    """Return the idempotency key of a call, with its caller, and the digest of the request."""
    # decision 24: a dispatch's key is journalled with its tuple, since no commit spans two journals. Hence it is passed
    # on here, and not handled by `Context.commit`.
    sent = context.idempotency
    return None if sent is None else (f"{context.caller.full_name} {sent.key}", sent.request)


class TupleRd(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    lane: Annotated[str | None, Meta(description="Only tuples of this lane")] = None
    state: Annotated[
        str | None, Meta(description="Only tuples in this state: waiting, blocked, claimed, done, dead, cancelled")
    ] = None
    pattern: Annotated[
        dict[str, Any] | UnsetType,
        Meta(description="Fields as created, by path: a value, or {eq, ne, prefix, lt, le, gt, ge, exists: …}"),
    ] = UNSET
    timeout: Annotated[float, Meta(ge=0, le=MAX_WAIT_SECONDS, description="Seconds to wait for a match")] = 0.0


class TupleAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    state: str
    tuple: dict[str, Any]
    """The tuple as it was created, with its id and its receipts so far."""
    not_before: str | None = None
    """Time before which it is not claimed, while it waits for that."""


@operation(
    "tuple.rd",
    command=Command(
        "rd",
        section="work",
        example="engrambus rd --lane build --where map_pos.stack=python",
        renderer="work:tuple_record",
        rank=55,
        override="work:rd",
    ),
    absent_from=_INNER_LOOP,
    is_hashed=True,
)
def tuple_rd(context: Context, request: TupleRd) -> TupleAnswer:
    """Show the oldest tuple that matches a pattern, and leave it in its lane."""
    record = context.tuple_space.space.rd(_pattern(context, request), timeout=request.timeout)
    if record is None:
        raise TupleNotFound("No tuple matches.", field="pattern")
    return _answer(context, record, record.state)


class TupleIn(TupleRd, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


@operation(
    "tuple.in",
    writes=True,
    command=Command(
        "in",
        section="work",
        example="engrambus in --lane notes --timeout 10",
        renderer="work:tuple_record",
        rank=56,
        override="work:in_",
    ),
    absent_from=_INNER_LOOP,
    is_hashed=True,
)
def tuple_in(context: Context, request: TupleIn) -> TupleAnswer:
    """Take one waiting tuple out of its lane for good."""
    record = context.tuple_space.space.in_(
        _pattern(context, request), by=context.caller.full_name, timeout=request.timeout
    )
    if record is None:
        raise TupleNotFound("No waiting tuple matches.", field="pattern")
    return _answer(context, record, "taken")


def _pattern(context: Context, request: TupleRd) -> TuplePattern:
    """Return the requested pattern, restricted to the run the caller sees."""
    fields = {"lane": request.lane, "state": request.state, "run": context.run_seen}
    restriction = read_pattern({name: value for name, value in fields.items() if value is not None})
    return read_pattern({} if request.pattern is UNSET else request.pattern).narrowed(restriction)


def _answer(context: Context, record: TupleRecord, state: str) -> TupleAnswer:
    with context.tuple_space.space.store.read() as view:
        return TupleAnswer(
            state=state,
            tuple=public_tuple(record, view.receipt_ids(record.id)),
            not_before=_not_before(view, record),
        )


def _not_before(view: WorkView, record: TupleRecord) -> str | None:
    is_delayed = record.state == "waiting" and record.ready_us > view.as_of
    return print_time(record.ready_us) if is_delayed else None


class TupleId(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: Annotated[str, Meta(max_length=80, description="The tuple's id, or its first digits")]


class TupleStatus(Struct, frozen=True, kw_only=True, omit_defaults=True):
    id: str
    state: str
    lane: str
    attempts: int
    steps: list[StepState]
    receipts: list[str]
    usd: float
    """Spent by it and its children."""
    tokens: int
    budget_usd: float | None = None
    budget_tokens: int | None = None
    put_again_as: str | None = msgspec.field(default=None, name="again")
    """The tuple that replaced it, if it was put again."""
    not_before: str | None = None
    """Time before which it is not claimed, while it waits for that."""
    terminal: str | None = None
    """The final receipt."""
    error: str | None = None
    """The error of its end or of its last failed attempt."""
    agents: int | None = None
    """Agents of all levels, if it is a batch."""
    folded: int | None = None
    """Those of them that are not materialised."""


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
    tool=Tool(needs_yools=True),
)
def tuple_observe(context: Context, request: TupleId) -> TupleStatus:
    """Show a task's status.

    The status lists each step with its receipt, and what the task has cost.
    """
    with context.tuple_space.space.store.read() as view:
        return _status(view, visible_tuple(view, context.caller, request.id))


def _status(view: WorkView, record: TupleRecord) -> TupleStatus:
    receipts = view.receipt_ids(record.id)
    last = view.receipt(receipts[-1]) if receipts else None
    batch = None if record.tuple.payload else view.batch(record.id)
    return TupleStatus(
        id=record.id,
        state=record.state,
        lane=record.lane,
        attempts=record.attempts,
        steps=step_states(view, record),
        receipts=receipts,
        usd=record.spent_micros / MICROS_PER_DOLLAR,
        tokens=record.spent_tokens,
        budget_usd=None if record.budget_micros is None else record.budget_micros / MICROS_PER_DOLLAR,
        budget_tokens=record.budget_tokens,
        put_again_as=record.put_again_as,
        not_before=_not_before(view, record),
        terminal=receipts[-1] if record.state in ENDED else None,
        error=last.error if last is not None else None,
        agents=None if batch is None else batch.shape.agents,
        folded=None if batch is None else folded_agents(view, batch),
    )


class ListDead(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    lane: Annotated[str | None, Meta(description="Only tuples of this lane")] = None
    all: Annotated[bool, Meta(description="Include those that were put again")] = False
    limit: Annotated[int, Meta(ge=1, le=MAX_LISTED, description="Maximum number of dead letters")] = 100
    cursor: Annotated[str, Meta(max_length=20, description="Cursor of the previous answer")] | None = None


class DeadLetter(Struct, frozen=True, kw_only=True, omit_defaults=True):
    id: str
    lane: str
    attempts: int
    error: str | None = None
    put_again_as: str | None = msgspec.field(default=None, name="again")
    """The tuple that replaced it, if it was put again."""


class DeadLetters(Struct, frozen=True, kw_only=True, omit_defaults=True):
    dead: list[DeadLetter]
    """Newest first."""
    cursor: str | None = None
    """Cursor of the next page, if there is one."""


@operation(
    "tuple.dead",
    command=Command(
        "dead",
        section="work",
        example="engrambus dead",
        renderer="work:dead_letters",
        rank=28,
    ),
    absent_from=LOCAL_ONLY,
)
def list_dead(context: Context, request: ListDead) -> DeadLetters:
    """List tasks that were given up: retried too often, expired, or over budget.

    Such a task is called a dead letter. `engrambus again ID` submits it once more.
    """
    with context.tuple_space.space.store.read() as view:
        records = view.list_dead(
            context.run_seen,
            lane=request.lane,
            include_put_again=request.all,
            limit=request.limit + 1,  # one more tells whether there is a next page
            ended_before=read_cursor(request.cursor),
        )
        page = records[: request.limit]
        dead = [_dead_letter(view, record) for record in page]
    has_more = len(records) > request.limit
    return DeadLetters(dead=dead, cursor=str(page[-1].final_receipt_number) if has_more else None)


def _dead_letter(view: WorkView, record: TupleRecord) -> DeadLetter:
    last = last_receipt(view, record)
    return DeadLetter(
        id=record.id,
        lane=record.lane,
        attempts=record.attempts,
        error=last.error if last is not None else None,
        put_again_as=record.put_again_as,
    )


@operation(
    "tuple.again",
    roles=PEOPLE,
    writes=True,
    command=Command(
        "again",
        section="work",
        example="engrambus again sha256:61a6ffdddafeee3fc081cfbe189306b35a39fc01b3438d0917016f00ec9f16b9",
        renderer="work:dispatch",
        rank=30,
        arguments=("id",),
    ),
    absent_from=LOCAL_ONLY,
)
def tuple_again(context: Context, request: TupleId) -> DispatchAnswer:
    """Submit a task that was given up once more, as a new tuple."""
    with context.tuple_space.space.store.read() as view:
        dead_letter = visible_tuple(view, context.caller, request.id)
    authority = stamp_authority(context.caller, ci=context.tuple_space.ci)
    put = context.tuple_space.space.put_again(dead_letter.id, authority=authority)
    return DispatchAnswer(id=put.id, receipt_id=None, new=put.new)


class CancelTuple(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: Annotated[
        str, Meta(max_length=900, description="The tuple's id, or its first digits; ID/0.3 for a node of a batch")
    ]


class CancelAnswer(Struct, frozen=True, kw_only=True):
    id: str
    receipt_id: str
    """The final receipt."""


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
    absent_from=LOCAL_ONLY,
)
def cancel_tuple(context: Context, request: CancelTuple) -> CancelAnswer:
    """Cancel a task that is waiting or running, or a batch or a node of one with everything below it."""
    space = context.tuple_space.space
    tuple_id, slash, path = request.id.partition("/")
    with space.store.read() as view:
        record = visible_tuple(view, context.caller, tuple_id)
    receipt = BatchSpace(space).cancel(record.id, path) if slash else space.cancel(record.id)
    return CancelAnswer(id=receipt.tuple_id, receipt_id=receipt.id)
