"""Operations on schedules: add, list, show, pause, resume, remove, and emit now."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, to_builtins

from engrambus.core import print_duration, print_time
from engrambus.errors import FieldValue
from engrambus.gateway.context import Context, check_run_goes_on
from engrambus.gateway.declare import Command, Route, operation
from engrambus.operations.tuples import DispatchAnswer
from engrambus.policy import ADMIN
from engrambus.space.schedules import NEVER_US, Schedule, SchedulePosition, local_time, upcoming
from engrambus.space.tuples import stamp_authority

_NO_TOOL = {"mcp": "the list of tools has no room; a schedule is set up once, by people and programs"}
MAX_LISTED = 1000
SHOWN_TIMES = 5
_NOT_TEMPLATE = frozenset({"name", "cron", "every", "at", "tz", "catch_up", "overlap"})

Name = Annotated[str, Meta(max_length=80, description="The schedule's name")]


class AddSchedule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A schedule, with the fields of the tuples that it puts."""

    name: Name
    lane: Annotated[str, Meta(description="Queue of its tuples")]
    cron: (
        Annotated[str, Meta(max_length=400, description="Minute, hour, day of month, month, day of week: 0 3 * * *")]
        | None
    ) = None
    every: Annotated[str, Meta(max_length=80, description="Interval instead of a cron expression: PT15M")] | None = None
    at: Annotated[str, Meta(max_length=80, description="The only time, instead: 2026-12-01T09:00+01:00")] | None = None
    tz: Annotated[str, Meta(max_length=200, description="Time zone of the cron expression [default: UTC]")] | None = (
        None
    )
    catch_up: Annotated[
        Literal["one", "all", "none"], Meta(description="What is put for times that nobody was there for")
    ] = "one"
    overlap: (
        Annotated[
            Literal["skip", "queue"],
            Meta(description="What happens while the previous tuple has not ended [default: skip]"),
        ]
        | None
    ) = None
    payload: Annotated[list[dict[str, Any]], Meta(description="Steps: {yool, args, after?}")] = []
    map_pos: Annotated[dict[str, Any] | UnsetType, Meta(description="Position in the project")] = UNSET
    agent_terms: Annotated[dict[str, Any] | UnsetType, Meta(description="budget_usd, budget_tokens, max_retries")] = (
        UNSET
    )
    src_ptr: Annotated[list[str] | UnsetType, Meta(description="Pointers to its sources")] = UNSET
    flags: Annotated[dict[str, Any] | UnsetType, Meta(description="no_cache: use no cached result")] = UNSET
    priority: Annotated[int | UnsetType, Meta(description="Higher is claimed first; 0 by default")] = UNSET
    schema: Annotated[str | UnsetType, Meta(description="yool-tuple/v1 or v2")] = UNSET


class ScheduleRefusalRow(Struct, frozen=True, kw_only=True):
    code: str
    detail: str
    at: str
    tries: int
    """Tries in a row that were refused."""
    again_at: str
    """When it is tried again."""


class ScheduleRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    when: str
    """`cron 0 3 * * * Europe/Berlin`, `every PT15M` or `at TIME`."""
    state: Literal["active", "paused", "ended"]
    lane: str
    yools: list[str]
    run_id: str
    added_by: str
    catch_up: str
    overlap: str
    emitted: int
    """Tuples put so far."""
    next_due: str | None = None
    last_at: str | None = None
    """When its last tuple was put."""
    last_tuple: str | None = None
    skipped: int = 0
    """Times skipped because the previous tuple had not ended."""
    missed: int = 0
    """Times that no one was there for and that were not caught up with."""
    refused: ScheduleRefusalRow | None = None
    """Why its last tuple was refused."""


class AddedSchedule(Struct, frozen=True, kw_only=True):
    schedule: ScheduleRow
    new: bool
    """False if the same schedule was there already."""


@operation(
    "schedule.add",
    writes=True,
    route=Route("POST", "/schedule"),
    command=Command(
        "schedule add",
        section="work",
        example='engrambus schedule add nightly --cron "0 3 * * *" --lane build --yool agent.lint.ruff',
        renderer="schedules:schedule_added",
        rank=40,
        override="schedules:add",
    ),
    absent_from=_NO_TOOL,
    prose=("lane",),
)
def add_schedule(context: Context, request: AddSchedule) -> AddedSchedule:
    """Add a schedule, which puts a task into a lane at certain times.

    It is due by a cron expression, at an interval or once. Workers and `engrambus up` put its tasks, with the authority
    and in the run of who added it. What its tasks may be is checked now and each time.
    """
    with context.store.read() as view:
        check_run_goes_on(view, context.caller)
    template = {name: value for name, value in to_builtins(request).items() if name not in _NOT_TEMPLATE}
    is_new = context.tuple_space.schedules.add(
        name=request.name,
        run=context.caller.run.run_id,
        added_by=context.caller.full_name,
        authority=stamp_authority(context.caller, ci=context.tuple_space.ci),
        is_admin=context.caller.role == ADMIN,
        template=template,
        cron=request.cron,
        every=request.every,
        at=request.at,
        zone=request.tz,
        catch_up=request.catch_up,
        overlap=request.overlap,
    )
    return AddedSchedule(schedule=_row(context.tuple_space.schedules.get(request.name)), new=is_new)


class ListSchedules(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    limit: Annotated[int, Meta(ge=1, le=MAX_LISTED, description="Maximum number of schedules")] = 100
    cursor: Annotated[str, Meta(max_length=100, description="Cursor of the previous answer")] | None = None


class SchedulesAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    schedules: list[ScheduleRow]
    """By their next time; paused and ended ones last."""
    cursor: str | None = None
    """Cursor of the next page, if there is one."""


@operation(
    "schedule.list",
    route=Route("GET", "/schedule"),
    command=Command(
        "schedule list", section="work", example="engrambus schedule list", renderer="schedules:schedule_list", rank=41
    ),
    absent_from=_NO_TOOL,
)
def list_schedules(context: Context, request: ListSchedules) -> SchedulesAnswer:
    """List schedules: when each is due next, what it put last, and what was skipped, missed or refused.

    An agent sees its own schedules, a person those of everyone.
    """
    schedules = context.tuple_space.schedules.find_all(
        limit=request.limit + 1, after=_read_cursor(request.cursor), **_sight(context)
    )
    page = schedules[: request.limit]
    cursor = f"{page[-1].state.look_us}:{page[-1].name}" if len(schedules) > request.limit else None
    return SchedulesAnswer(schedules=[_row(schedule) for schedule in page], cursor=cursor)


def _read_cursor(text: str | None) -> SchedulePosition | None:
    if text is None:
        return None
    look, colon, name = text.partition(":")
    if not (colon and look.isascii() and look.isdigit() and len(look) <= 19 and int(look) <= NEVER_US):
        raise FieldValue("It is not a cursor of this list.", field="cursor")
    return SchedulePosition(int(look), name)


class ScheduleNamed(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: Name


class ScheduleTime(Struct, frozen=True, kw_only=True):
    at: str
    local: str
    """The same moment in the schedule's time zone."""


class ShownSchedule(Struct, frozen=True, kw_only=True):
    schedule: ScheduleRow
    tuple: dict[str, Any]
    """Fields of the tuples that it puts."""
    upcoming: list[ScheduleTime]
    """Its next times."""


@operation(
    "schedule.show",
    route=Route("GET", "/schedule/{name}"),
    command=Command(
        "schedule show",
        section="work",
        example="engrambus schedule show nightly",
        renderer="schedules:schedule_details",
        rank=42,
        arguments=("name",),
    ),
    absent_from=_NO_TOOL,
)
def show_schedule(context: Context, request: ScheduleNamed) -> ShownSchedule:
    """Show a schedule with its next five times and the task that it puts."""
    schedules = context.tuple_space.schedules
    schedule = schedules.get(request.name, **_sight(context))
    now_us = schedules.next_look_us()[1]
    zone = schedule.timing.zone
    times = [
        ScheduleTime(at=print_time(moment_us), local=local_time(zone, moment_us))
        for moment_us in upcoming(schedule, now_us, SHOWN_TIMES)
    ]
    return ShownSchedule(schedule=_row(schedule), tuple=schedule.template, upcoming=times)


@operation(
    "schedule.pause",
    writes=True,
    route=Route("POST", "/schedule/{name}/pause"),
    command=Command(
        "schedule pause",
        section="work",
        example="engrambus schedule pause nightly",
        renderer="schedules:schedule_row",
        rank=43,
        arguments=("name",),
    ),
    absent_from=_NO_TOOL,
)
def pause_schedule(context: Context, request: ScheduleNamed) -> ScheduleRow:
    """Pause a schedule: it puts nothing until it is resumed."""
    context.tuple_space.schedules.pause(request.name, by=context.caller.full_name, **_sight(context))
    return _row(context.tuple_space.schedules.get(request.name, **_sight(context)))


@operation(
    "schedule.resume",
    writes=True,
    route=Route("POST", "/schedule/{name}/resume"),
    command=Command(
        "schedule resume",
        section="work",
        example="engrambus schedule resume nightly",
        renderer="schedules:schedule_row",
        rank=44,
        arguments=("name",),
    ),
    absent_from=_NO_TOOL,
)
def resume_schedule(context: Context, request: ScheduleNamed) -> ScheduleRow:
    """Let a paused schedule go on; nothing is put for the times in between."""
    context.tuple_space.schedules.resume(request.name, by=context.caller.full_name, **_sight(context))
    return _row(context.tuple_space.schedules.get(request.name, **_sight(context)))


class RemovedSchedule(Struct, frozen=True, kw_only=True):
    name: str


@operation(
    "schedule.remove",
    writes=True,
    route=Route("DELETE", "/schedule/{name}"),
    command=Command(
        "schedule remove",
        section="work",
        example="engrambus schedule remove nightly",
        renderer="schedules:schedule_removed",
        rank=45,
        arguments=("name",),
    ),
    absent_from=_NO_TOOL,
)
def remove_schedule(context: Context, request: ScheduleNamed) -> RemovedSchedule:
    """Remove a schedule; the tasks that it has put stay."""
    context.tuple_space.schedules.remove(request.name, by=context.caller.full_name, **_sight(context))
    return RemovedSchedule(name=request.name)


@operation(
    "schedule.run",
    writes=True,
    route=Route("POST", "/schedule/{name}/run"),
    command=Command(
        "schedule run",
        section="work",
        example="engrambus schedule run nightly",
        renderer="work:dispatch",
        rank=46,
        arguments=("name",),
    ),
    absent_from=_NO_TOOL,
)
def run_schedule(context: Context, request: ScheduleNamed) -> DispatchAnswer:
    """Put a schedule's task now, even if it is paused; its next time stays as it is."""
    with context.store.read() as view:
        check_run_goes_on(view, context.caller)
    sent = context.idempotency
    put = context.tuple_space.schedules.emit_now(
        request.name,
        idempotency=None if sent is None else (f"{context.caller.full_name} {sent.key}", sent.request),
        **_sight(context),
    )
    return DispatchAnswer(id=put.id, receipt_id=put.receipt_id, new=put.new)


def _sight(context: Context) -> dict[str, str | None]:
    """Return whose schedules, and of which run, the caller sees; None for all."""
    added_by = None if context.caller.role == ADMIN else context.caller.full_name
    return {"added_by": added_by, "run": context.run_seen}


def _row(schedule: Schedule) -> ScheduleRow:
    state, refusal = schedule.state, schedule.state.refusal
    return ScheduleRow(
        name=schedule.name,
        when=_when(schedule),
        state="paused" if state.paused else "ended" if schedule.has_ended else "active",
        lane=schedule.template["lane"],
        yools=[step["yool"] for step in schedule.template.get("payload", ())],
        run_id=schedule.run,
        added_by=schedule.added_by,
        catch_up=schedule.catch_up,
        overlap=schedule.overlap,
        emitted=state.emitted,
        next_due=None if state.due_us is None or state.paused else print_time(state.due_us),
        last_at=None if state.last_us is None else print_time(state.last_us),
        last_tuple=state.last_tuple,
        skipped=state.skipped,
        missed=state.missed,
        refused=None
        if refusal is None
        else ScheduleRefusalRow(
            code=refusal.code,
            detail=refusal.detail,
            at=print_time(refusal.at_us),
            tries=refusal.tries,
            again_at=print_time(state.look_us) if state.look_us != NEVER_US else "",
        ),
    )


def _when(schedule: Schedule) -> str:
    timing = schedule.timing
    if timing.cron is not None:
        return f"cron {timing.cron} {timing.zone}"
    if timing.every_us is not None:
        return f"every {print_duration(timing.every_us)}"
    return f"at {print_time(timing.at_us or 0)}"
