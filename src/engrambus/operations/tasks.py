"""Tasks that agents and people do themselves: add, list, claim, finish, block (decision 113)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from msgspec import Meta, Struct

import engrambus.space.tasks as tasks
from engrambus.core import parse_duration, parse_time
from engrambus.core.process_names import is_dead
from engrambus.errors import FieldValue
from engrambus.evidence.receipts import EvidenceRef
from engrambus.gateway.context import Context, check_run_goes_on
from engrambus.gateway.declare import Command, Route, Tool, operation
from engrambus.gateway.pointer_fields import Place
from engrambus.operations.reservations import ProcessName
from engrambus.operations.task_evidence import read_evidence, stamp_place
from engrambus.operations.task_rows import (
    ClaimedTask,
    TaskAnswer,
    TaskRow,
    actor_of,
    agent_named,
    awaited_ids,
    gone_agents,
    one_line,
    ready_rows,
    sees_task,
    task_fields,
    task_history,
    task_of,
    task_row,
    visible_task,
    visible_task_id,
)
from engrambus.operations.tuples import idempotency_of
from engrambus.space.tuples import (
    MAX_PRIORITY,
    TASK_LANE,
    WorkView,
    find_tuple,
    last_receipt,
    read_pattern,
    stamp_authority,
)

MAX_LISTED = 1000
MAX_EVIDENCE = 32
MAX_NOTE_CHARS = 500
NOBODY = "nobody"
PART_OF = "task"

TaskId = Annotated[str, Meta(max_length=80, description="The task's id, or its first digits")]
Note = Annotated[str, Meta(max_length=MAX_NOTE_CHARS, description="A note for whoever reads the task later")]


class AddTask(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A task for an agent or a person."""

    title: Annotated[str, Meta(min_length=1, max_length=tasks.MAX_TITLE_CHARS, description="What is to be done")]
    for_agent: Annotated[str, Meta(max_length=96, description="Who is to do it; anybody by default")] | None = None
    after: Annotated[
        list[Annotated[str, Meta(max_length=80)]],
        Meta(max_length=64, description="Ids of tasks or tuples that must be done first"),
    ] = []
    priority: Annotated[
        int, Meta(ge=-MAX_PRIORITY, le=MAX_PRIORITY, description="Tasks with a higher number come first")
    ] = 0
    due: Annotated[str, Meta(max_length=64, description="When it is due: a time, or P2D from now")] | None = None
    at: Annotated[
        list[Place], Meta(max_length=32, description="What it is about: path:10-20 at HEAD, or a pointer's ref")
    ] = []


@operation(
    "task.add",
    writes=True,
    route=Route("POST", "/task"),
    command=Command(
        "task add",
        section="work",
        example='engrambus task add "Rename the parser module" --at src/parser.py:1-20 --priority 5 --due P2D',
        renderer="tasks:added",
        rank=40,
        arguments=("title",),
        option_names={"for_agent": "--for"},
        override="tasks:add",
    ),
    tool=Tool(part_of=PART_OF, action="add", hidden=("due",)),
    prose=("title",),
)
def add_task(context: Context, request: AddTask) -> TaskRow:
    """Add a task for an agent or a person, with what it is about and what must be done first.

    It is ready as soon as everything named with --after is done. Tasks are the project's: the agents of later runs see
    them too.
    """
    title = " ".join(request.title.split())
    if not title:
        raise FieldValue("Say what is to be done.", field="title")
    with context.store.read() as memory:
        check_run_goes_on(memory, context.caller)
        owner = agent_named(memory, context.caller, request.for_agent, "for_agent")
    space = context.tuple_space.space
    terms = tasks.TaskTerms(
        title=title,
        owner=owner,
        due_us=_due(request.due, context.as_of),
        priority=request.priority,
        after=tuple(awaited_ids(context, request.after, "after")),
        pointers=tuple(_checked(context, request.at)),
    )
    authority = stamp_authority(context.caller, ci=context.tuple_space.ci)
    put = space.around(
        "out",
        lambda: space.store.commit(
            lambda view: tasks.add_task(
                view, terms, authority=authority, settings=space.settings, idempotency=idempotency_of(context)
            )
        ),
        drafts=({"lane": TASK_LANE, "title": title, "priority": request.priority},),
        authority=authority,
        run=context.caller.run.run_id,
    )
    with space.store.read() as view:
        return task_row(context, view, task_of(view, put.id))


class ListTasks(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A selection of tasks."""

    mine: Annotated[bool, Meta(description="Only those that are for you or that you have claimed")] = False
    state: Annotated[tasks.TaskState | None, Meta(description="Only tasks in this state")] = None
    all: Annotated[bool, Meta(description="Also those that are done or cancelled")] = False
    limit: Annotated[int, Meta(ge=1, le=MAX_LISTED, description="Maximum number of tasks")] = 100


class TasksAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    tasks: list[TaskRow]
    more: int = 0
    """Further tasks that the limit leaves out."""


@operation(
    "task.list",
    route=Route("GET", "/task"),
    command=Command(
        "task list", section="work", example="engrambus task list --mine", renderer="tasks:task_list", rank=41
    ),
    absent_from={"mcp": "the list of tools has little room; action ready lists what an agent may do next"},
)
def list_tasks(context: Context, request: ListTasks) -> TasksAnswer:
    """List the project's tasks: first the claimed and the ready ones, then the blocked ones."""
    with context.tuple_space.space.store.read() as view:
        listed = tasks.live_tasks(view, is_dead)
        if request.all or request.state in ("done", "cancelled"):
            ended = view.matching(read_pattern({"lane": TASK_LANE}), limit=100_000)
            live = {task.record.id for task in listed}
            listed += [task_of(view, record.id) for record in reversed(ended) if record.id not in live]
        rows = [task_row(context, view, task) for task in listed if sees_task(context, task.record)]
    order = {state: position for position, state in enumerate(("claimed", "ready", "blocked", "done", "cancelled"))}
    actor = actor_of(context.caller)
    chosen = [
        row
        for row in rows
        if request.state in (None, row.state) and (not request.mine or actor in (row.owner, row.claimed_by))
    ]
    chosen.sort(key=lambda row: order[row.state])
    return TasksAnswer(tasks=chosen[: request.limit], more=max(0, len(chosen) - request.limit))


class ReadyTasks(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many ready tasks to list."""

    limit: Annotated[int, Meta(ge=1, le=MAX_LISTED, description="Maximum number of tasks")] = 20


@operation(
    "task",
    route=Route("GET", "/task/ready"),
    command=Command("task ready", section="work", example="engrambus task ready", renderer="tasks:ready_list", rank=42),
    tool=Tool(action="ready", hidden=("limit",), about="The team's tasks; done needs evidence."),
)
def ready_tasks(context: Context, request: ReadyTasks) -> TasksAnswer:
    """List the tasks that nothing blocks and that are for you or for anybody, and those that you have claimed.

    The highest priority comes first, then what is due first, then the oldest.
    """
    rows = ready_rows(context)
    return TasksAnswer(tasks=rows[: request.limit], more=max(0, len(rows) - request.limit))


class ClaimTask(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The task to claim."""

    id: Annotated[str, Meta(max_length=80, description="The task's id; by default the first ready one")] | None = None
    process: ProcessName | None = None


@operation(
    "task.claim",
    writes=True,
    route=Route("POST", "/task/claim"),
    command=Command(
        "task claim",
        section="work",
        example="engrambus task claim",
        renderer="tasks:claimed",
        rank=43,
        arguments=("id",),
        override="tasks:without_process",
    ),
    tool=Tool(part_of=PART_OF, action="claim", hidden=("process",)),
)
def claim_task(context: Context, request: ClaimTask) -> ClaimedTask:
    """Claim a task, by default the first that is ready for you or for anybody, so that no other does it too.

    A claim is a lease that each of your calls renews. If nothing renews it, the task is ready again.
    """
    with context.store.read() as memory:
        check_run_goes_on(memory, context.caller)
        gone = gone_agents(memory)
        space = context.tuple_space.space

        def decide(view: WorkView) -> tuple[Sequence[Any], str]:
            record = None if request.id is None else visible_task(context, view, request.id)
            return tasks.claim_task(
                view,
                record,
                actor=actor_of(context.caller),
                settings=space.settings,
                boot=space.boot,
                is_dead=is_dead,
                is_gone=gone,
                sees=lambda record: sees_task(context, record),
                process=request.process,
            )

        claimed = None if request.id is None else visible_task_id(context, request.id)
        task_id = space.around("claim", lambda: space.store.commit(decide), tuple_id=claimed, lane=TASK_LANE)
    with space.store.read() as view:
        task = task_of(view, task_id)
        row = task_fields(context, view, task)
        return ClaimedTask(**row, fence=str(task.record.fence), history=task_history(task))


class ShowTask(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: TaskId


@operation(
    "task.show",
    route=Route("GET", "/task/{id}"),
    command=Command(
        "task show",
        section="work",
        example="engrambus task show 3f2a91c0b7de",
        renderer="tasks:shown",
        rank=44,
        arguments=("id",),
    ),
    tool=Tool(part_of=PART_OF, action="show"),
)
def show_task(context: Context, request: ShowTask) -> TaskAnswer:
    """Show a task: its state, what blocks it, who did what with it, and the evidence that it is done."""
    with context.tuple_space.space.store.read() as view:
        task = task_of(view, visible_task(context, view, request.id).id)
        final = last_receipt(view, task.record) if task.state in ("done", "cancelled") else None
        evidence = list(final.evidence) if final is not None else []
        return TaskAnswer(**task_fields(context, view, task), history=task_history(task), evidence=evidence)


class FinishTask(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The task that is done, and what shows it."""

    id: TaskId
    evidence: Annotated[
        list[Annotated[str, Meta(max_length=4096)]],
        Meta(max_length=MAX_EVIDENCE, description="path:10-20, HEAD or a receipt"),
    ] = []
    note: Note = ""
    fence: Annotated[str, Meta(max_length=40, description="The claim that this ends, as it was answered")] | None = None


class FinishedTask(Struct, frozen=True, kw_only=True):
    id: str
    title: str
    receipt_id: str
    """The final receipt, which names the evidence."""
    evidence: list[EvidenceRef]
    ready: list[TaskRow]
    """Tasks that were blocked and are ready now."""
    unblocked: list[str]
    """Ids of all tuples that were blocked and wait now."""


@operation(
    "task.done",
    writes=True,
    route=Route("POST", "/task/{id}/done"),
    command=Command(
        "task done",
        section="work",
        example="engrambus task done 3f2a91c0b7de --evidence src/parser.py:1-20 --note 'callers renamed too'",
        renderer="tasks:finished",
        rank=45,
        arguments=("id",),
        option_names={"evidence": "--evidence"},
        override="tasks:done",
    ),
    tool=Tool(part_of=PART_OF, action="done", hidden=("fence",), explained=("evidence",)),
    prose=("note",),
)
def finish_task(context: Context, request: FinishTask) -> FinishedTask:
    """End a task that is done, with the evidence: lines, a commit, a pointer, or a receipt that ended with 0.

    Refused without evidence, and if your lease has ended and another agent has the task. What was blocked by it is
    ready at once.
    """
    space, actor = context.tuple_space.space, actor_of(context.caller)
    with space.store.read() as view:
        record = visible_task(context, view, request.id)
    evidence = read_evidence(context, request.evidence)
    with context.store.read() as memory:
        check_run_goes_on(memory, context.caller)
        gone = gone_agents(memory)
        final, freed = space.around(
            "tuple_complete",
            lambda: space.store.commit(
                lambda view: tasks.finish_task(
                    view,
                    find_tuple(view, record.id),
                    evidence,
                    actor=actor,
                    note=one_line(request.note),
                    settings=space.settings,
                    boot=space.boot,
                    is_dead=is_dead,
                    is_gone=gone,
                    fence=request.fence,
                )
            ),
            tuple_id=record.id,
        )
    with space.store.read() as view:
        freed_tasks = [task_of(view, tuple_id) for tuple_id in freed if find_tuple(view, tuple_id).lane == TASK_LANE]
        return FinishedTask(
            id=record.id,
            title=task_of(view, record.id).title,
            receipt_id=final.id,
            evidence=list(final.evidence),
            ready=[task_row(context, view, task) for task in freed_tasks if sees_task(context, task.record)],
            unblocked=freed,
        )


def _due(text: str | None, now_us: int) -> int | None:
    if text is None:
        return None
    if text.startswith("P"):
        return now_us + parse_duration(text, "due")
    try:
        return parse_time(text)
    except (ValueError, OverflowError):
        raise FieldValue(
            "A due time is a time with an offset, 2027-01-31T12:00:00Z, or a duration from now, P2D.",
            field="due",
            used=text[:40],
        ) from None


def _checked(context: Context, refs: Sequence[str]) -> list[str]:
    """Return the refs of places that exist; their commits are kept."""
    return [stamp_place(context, ref, f"at[{position}]").ref for position, ref in enumerate(refs)]
