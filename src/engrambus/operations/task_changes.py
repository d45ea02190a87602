"""Operations that change tasks: block, unblock, give, release, cancel (decision 113)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any

from msgspec import Meta, Struct

import engrambus.space.tasks as tasks
from engrambus.core import short_id
from engrambus.errors import FieldValue
from engrambus.gateway.context import Context
from engrambus.gateway.declare import Command, Route, Tool, operation
from engrambus.operations.task_rows import (
    TaskRow,
    actor_of,
    agent_named,
    awaited_ids,
    one_line,
    task_of,
    task_row,
    visible_task,
    visible_task_id,
)
from engrambus.operations.tasks import MAX_NOTE_CHARS, PART_OF, Note, ShowTask, TaskId
from engrambus.operations.tuples import CancelAnswer
from engrambus.policy import descends
from engrambus.space.tuples import TASK_LANE, TaskChanged, TupleRecord, WorkView, block, unblock, visible_tuple


class BlockTask(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What blocks a task."""

    id: TaskId
    note: Annotated[str, Meta(max_length=MAX_NOTE_CHARS, description="What has to happen first, in words")] = ""
    after: Annotated[
        list[Annotated[str, Meta(max_length=80)]],
        Meta(max_length=64, description="Ids of tasks or tuples that must be done first"),
    ] = []


@operation(
    "task.block",
    writes=True,
    route=Route("POST", "/task/{id}/block"),
    command=Command(
        "task block",
        section="work",
        example='engrambus task block 3f2a91c0b7de --why "the licence is not decided"',
        renderer="tasks:row",
        rank=46,
        arguments=("id",),
        option_names={"after": "--on", "note": "--why"},
    ),
    tool=Tool(part_of=PART_OF, action="block"),
    prose=("note",),
)
def block_task(context: Context, request: BlockTask) -> TaskRow:
    """Block a task until others are done (--on), or until someone unblocks it (--why). Your claim on it ends.

    A dependency that would close a cycle is refused. It works for every tuple that has not ended.
    """
    why = one_line(request.note)
    if not why and not request.after:
        raise FieldValue("Say what blocks it.", field="note", hint="`note` says it in words, `after` names tasks.")
    awaited = awaited_ids(context, request.after, "after")
    actor = actor_of(context.caller)

    def change(view: WorkView, record: TupleRecord) -> Sequence[Any]:
        facts = block(view, record, on=awaited, reason=why or None, by=actor)
        text = why or "waits for " + ", ".join(map(short_id, awaited))
        return [*facts, _note(record, "blocked", actor, text)] if facts else []

    return _changed(context, request.id, change)


class UnblockTask(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What no longer blocks a task."""

    id: TaskId
    after: Annotated[
        list[Annotated[str, Meta(max_length=80)]],
        Meta(max_length=64, description="Tasks or tuples that it is not to wait for any more"),
    ] = []


@operation(
    "task.unblock",
    writes=True,
    route=Route("POST", "/task/{id}/unblock"),
    command=Command(
        "task unblock",
        section="work",
        example="engrambus task unblock 3f2a91c0b7de",
        renderer="tasks:row",
        rank=47,
        arguments=("id",),
        option_names={"after": "--on"},
    ),
    tool=Tool(part_of=PART_OF, action="unblock"),
)
def unblock_task(context: Context, request: UnblockTask) -> TaskRow:
    """Unblock a task: lift the reason, and every dependency that has ended; with --on only these dependencies.

    It is ready once nothing else blocks it. It works for every blocked tuple.
    """
    with context.tuple_space.space.store.read() as view:
        on = [visible_tuple(view, context.caller, tuple_id, "after").id for tuple_id in request.after]
    actor = actor_of(context.caller)

    def change(view: WorkView, record: TupleRecord) -> Sequence[Any]:
        facts = unblock(view, record, on=on, by=actor)
        return [*facts, _note(record, "unblocked", actor)] if facts else []

    return _changed(context, request.id, change)


class GiveTask(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The task and its new owner."""

    id: TaskId
    agent: Annotated[str, Meta(max_length=96, description="The agent that is to do it; `nobody` leaves it to anybody")]
    note: Note = ""


@operation(
    "task.give",
    writes=True,
    route=Route("POST", "/task/{id}/give"),
    command=Command(
        "task give",
        section="work",
        example="engrambus task give 3f2a91c0b7de amber-fox",
        renderer="tasks:row",
        rank=48,
        arguments=("id", "agent"),
    ),
    absent_from={"mcp": "the list of tools has little room; a parent names an agent when it adds the task"},
    prose=("note",),
)
def give_task(context: Context, request: GiveTask) -> TaskRow:
    """Give a task to another agent, or to no one. The claim of anybody else on it ends."""
    with context.store.read() as memory:
        owner = agent_named(memory, context.caller, request.agent, "agent")
    actor = actor_of(context.caller)
    return _changed(
        context,
        request.id,
        lambda view, record: tasks.give_task(view, record, owner, actor=actor, note=one_line(request.note)),
        only_tasks=True,
    )


class ReleaseTasks(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The claims to give back."""

    id: Annotated[str, Meta(max_length=80, description="The task's id; by default all you have claimed")] | None = None
    note: Note = ""
    all: Annotated[bool, Meta(description="Also what your descendants have claimed")] = False
    fence: Annotated[str, Meta(max_length=40, description="Only if it still is this claim")] | None = None


class ReleasedTasks(Struct, frozen=True, kw_only=True):
    released: list[str]
    """Ids of the tasks that are ready again."""


@operation(
    "task.release",
    writes=True,
    route=Route("POST", "/task/release"),
    command=Command(
        "task release",
        section="work",
        example="engrambus task release 3f2a91c0b7de --note 'the tests are written, the code is not'",
        renderer="tasks:released",
        rank=49,
        arguments=("id",),
    ),
    tool=Tool(part_of=PART_OF, action="release", hidden=("all", "fence")),
    prose=("note",),
)
def release_tasks(context: Context, request: ReleaseTasks) -> ReleasedTasks:
    """Give back a task that you do not finish, with a note for the next; by default all that you have claimed."""
    if not context.tuple_space.has_journal():
        return ReleasedTasks(released=[])
    space, actor = context.tuple_space.space, actor_of(context.caller)
    below = _names_below(context)
    holders = below if request.all else {actor}

    def decide(view: WorkView) -> tuple[Sequence[Any], list[str]]:
        if request.id is None:
            records = [record for record in view.live_in(TASK_LANE) if record.worker in holders]
            records = [record for record in records if record.state == "claimed"]
        else:
            records = [visible_task(context, view, request.id)]
            if records[0].worker != actor:
                tasks.check_may_change(task_of(view, records[0].id), actor, below)
            if request.fence is not None and str(records[0].fence) != request.fence:
                return [], []
        return tasks.release_tasks(view, records, actor=actor, note=one_line(request.note))

    with space.store.read() as view:  # a hook releases at the end of every session; most have claimed nothing
        facts, released = decide(view)
    return ReleasedTasks(released=space.store.commit(decide) if facts else released)


@operation(
    "task.cancel",
    writes=True,
    route=Route("POST", "/task/{id}/cancel"),
    command=Command(
        "task cancel",
        section="work",
        example="engrambus task cancel 3f2a91c0b7de",
        renderer="work:cancellation",
        rank=50,
        arguments=("id",),
    ),
    absent_from={"mcp": "the list of tools has little room; a person or a parent ends what is not wanted any more"},
)
def cancel_task(context: Context, request: ShowTask) -> CancelAnswer:
    """End a task that is not to be done any more. What waits for it stays blocked until it is unblocked."""
    space, below = context.tuple_space.space, _names_below(context)

    def decide(view: WorkView) -> tuple[Sequence[Any], CancelAnswer]:
        task = task_of(view, visible_task(context, view, request.id).id)
        tasks.check_may_change(task, actor_of(context.caller), below)
        facts, final = tasks.cancel_task(view, task.record)
        return facts, CancelAnswer(id=task.record.id, receipt_id=final.id)

    return space.around("cancel", lambda: space.store.commit(decide), tuple_id=visible_task_id(context, request.id))


def _changed(
    context: Context,
    task_id: str,
    change: Callable[[WorkView, TupleRecord], Sequence[Any]],
    *,
    only_tasks: bool = False,
) -> TaskRow:
    """Change a task that the caller may change, and return it."""
    space, below = context.tuple_space.space, _names_below(context)

    def decide(view: WorkView) -> tuple[Sequence[Any], str]:
        record = visible_tuple(view, context.caller, task_id)
        if only_tasks or record.lane == TASK_LANE:
            record = visible_task(context, view, task_id)
            tasks.check_may_change(task_of(view, record.id), actor_of(context.caller), below)
        return change(view, record), record.id

    tuple_id = space.store.commit(decide)
    with space.store.read() as view:
        return task_row(context, view, task_of(view, tuple_id))


def _note(record: TupleRecord, what: str, actor: str, text: str = "") -> Any:
    return TaskChanged(id=record.id, what=what, by=actor, text=text)


def _names_below(context: Context) -> set[str]:
    """Return the names of the caller and of the agents below it."""
    caller = context.caller
    with context.store.read() as memory:
        agents = memory.agents(caller.run.run_id)
        below = {agent.full_name for agent in agents if descends(memory, caller, agent.name)}
    return {actor_of(caller), *below}
