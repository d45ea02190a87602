"""Tasks that agents and people do themselves: add, list, claim, finish, block (decision 113)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta, Struct

import engrambus.space.tasks as tasks
from engrambus.core import is_digest, is_hex, parse_duration, parse_time, print_time, short_id
from engrambus.core.process_names import is_dead
from engrambus.errors import AgentNotFound, EngramBusError, FieldValue, ReceiptNotFound, TaskEvidence, TupleNotFound
from engrambus.evidence.pointers import DiffAddress, Pointer, check_pointer, print_address
from engrambus.evidence.receipts import EvidenceRef
from engrambus.gateway.context import Context, check_run_goes_on
from engrambus.gateway.declare import Command, Route, Tool, operation
from engrambus.gateway.pointer_fields import Place
from engrambus.operations.reservations import ProcessName
from engrambus.operations.tuples import CancelAnswer, idempotency_of
from engrambus.policy import ADMIN, Caller, find_agent
from engrambus.space.tuples import (
    MAX_PRIORITY,
    TASK_LANE,
    TaskChange,
    TupleRecord,
    WorkView,
    block,
    describe_block,
    find_tuple,
    last_receipt,
    read_pattern,
    stamp_authority,
    unblock,
    visible_receipt,
    visible_tuple,
)

if TYPE_CHECKING:
    from engrambus.gateway.ports import View
    from engrambus.space.tasks import Task

MAX_LISTED = 1000
MAX_EVIDENCE = 32
MAX_CHANGED_FILES = 16
"""Files of a commit whose changes are named as evidence; the first of more."""
MAX_NOTE_CHARS = 500
MIN_RECEIPT_CHARS = 8
"""Digits from which the beginning of a receipt's id is taken for one, and not for a file's name."""
HEAD = "HEAD"
NOBODY = "nobody"
PART_OF = "task"

TaskId = Annotated[str, Meta(max_length=80, description="The task's id, or its first digits")]
Note = Annotated[str, Meta(max_length=MAX_NOTE_CHARS, description="A note for whoever reads the task later")]


class TaskNote(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An entry of a task's history."""

    at: str
    what: str
    """`claimed`, `released`, `given`, `blocked`, `unblocked` or `done`."""
    by: str
    text: str = ""
    owner: str | None = None
    """With `given`: the new owner, empty for nobody."""


class TaskRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A task as it is listed."""

    id: str
    title: str
    state: tasks.TaskState
    """`ready` is also a task whose agent is gone."""
    added_by: str
    created_at: str
    owner: str = ""
    """The agent that it is for; empty for anybody."""
    claimed_by: str | None = None
    lease_until: str | None = None
    begun_by: str | None = None
    """Who began it and left it."""
    mine: bool = False
    """True if the reader has claimed it."""
    priority: int = 0
    due: str | None = None
    overdue: bool = False
    attempts: int = 0
    """How often it was claimed."""
    at: list[str] = []
    """Pointers to what it is about."""
    blocked_on: list[str] = []
    """Ids of the tasks and tuples that must be done first."""
    blocked: list[str] = []
    """What blocks it, in words."""


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
    with context.store.read() as view:
        check_run_goes_on(view, context.caller)
        owner = _agent_named(view, context.caller, request.for_agent, "for_agent")
    space = context.tuple_space.space
    terms = tasks.TaskTerms(
        title=title,
        owner=owner,
        due_us=_due(request.due, context.as_of),
        priority=request.priority,
        after=tuple(_awaited(context, request.after, "after")),
        pointers=tuple(_checked(context, request.at)),
    )
    authority = stamp_authority(context.caller, ci=context.tuple_space.ci)
    put = space.store.commit(
        lambda view: tasks.add_task(
            view, terms, authority=authority, settings=space.settings, idempotency=idempotency_of(context)
        )
    )
    with space.store.read() as view:
        return _row(context, view, _task(view, put.id))


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
            listed += [_task(view, record.id) for record in reversed(ended) if record.id not in live]
        rows = [_row(context, view, task) for task in listed if _sees(context, task.record)]
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


class ClaimedTask(TaskRow, frozen=True, kw_only=True, omit_defaults=True):
    """A task that was claimed, with what happened to it before."""

    fence: str = ""
    """Names this claim: `task.done` can be told which claim it ends."""
    history: list[TaskNote] = []


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
        gone = _gone(memory)
        space = context.tuple_space.space

        def decide(view: WorkView) -> tuple[Sequence[Any], str]:
            record = None if request.id is None else _visible(context, view, request.id)
            return tasks.claim_task(
                view,
                record,
                actor=actor_of(context.caller),
                settings=space.settings,
                boot=space.boot,
                is_dead=is_dead,
                is_gone=gone,
                sees=lambda record: _sees(context, record),
                process=request.process,
            )

        task_id = space.store.commit(decide)
    with space.store.read() as view:
        task = _task(view, task_id)
        row = _fields(context, view, task)
        return ClaimedTask(**row, fence=str(task.record.fence), history=_history(task))


class ShowTask(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: TaskId


class TaskAnswer(TaskRow, frozen=True, kw_only=True, omit_defaults=True):
    """A task with its history and its evidence."""

    history: list[TaskNote] = []
    receipt_id: str | None = None
    """The final receipt."""
    evidence: list[EvidenceRef] = []


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
        task = _task(view, _visible(context, view, request.id).id)
        final = last_receipt(view, task.record) if task.state in ("done", "cancelled") else None
        return TaskAnswer(
            **_fields(context, view, task),
            history=_history(task),
            receipt_id=final.id if final is not None else None,
            evidence=list(final.evidence) if final is not None else [],
        )


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
        record = _visible(context, view, request.id)
    evidence = _evidence(context, request.evidence)
    with context.store.read() as memory:
        check_run_goes_on(memory, context.caller)
        gone = _gone(memory)
        final, freed = space.store.commit(
            lambda view: tasks.finish_task(
                view,
                find_tuple(view, record.id),
                evidence,
                actor=actor,
                note=_one_line(request.note),
                settings=space.settings,
                boot=space.boot,
                is_dead=is_dead,
                is_gone=gone,
                fence=request.fence,
            )
        )
    with space.store.read() as view:
        freed_tasks = [_task(view, tuple_id) for tuple_id in freed if find_tuple(view, tuple_id).lane == TASK_LANE]
        return FinishedTask(
            id=record.id,
            title=_task(view, record.id).title,
            receipt_id=final.id,
            evidence=list(final.evidence),
            ready=[_row(context, view, task) for task in freed_tasks if _sees(context, task.record)],
            unblocked=freed,
        )


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
    """Block a task until others are done (--on), or until somebody unblocks it (--why). Your claim on it ends.

    A dependency that would close a circle is refused. It works for every tuple that has not ended.
    """
    why = _one_line(request.note)
    if not why and not request.after:
        raise FieldValue("Say what blocks it.", field="note", hint="`note` says it in words, `after` names tasks.")
    awaited = _awaited(context, request.after, "after")
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
    """Give a task to another agent, or to nobody. The claim of anybody else on it ends."""
    with context.store.read() as memory:
        owner = _agent_named(memory, context.caller, request.agent, "agent")
    actor = actor_of(context.caller)
    return _changed(
        context,
        request.id,
        lambda view, record: tasks.give_task(view, record, owner, actor=actor, note=_one_line(request.note)),
        only_tasks=True,
    )


class ReleaseTasks(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The claims to give back."""

    id: Annotated[str, Meta(max_length=80, description="The task's id; by default all you have claimed")] | None = None
    note: Note = ""
    all: Annotated[bool, Meta(description="Also what your descendants have claimed")] = False


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
    tool=Tool(part_of=PART_OF, action="release", hidden=("all",)),
    prose=("note",),
)
def release_tasks(context: Context, request: ReleaseTasks) -> ReleasedTasks:
    """Give back a task that you do not finish, with a note for the next; by default all that you have claimed."""
    if not context.tuple_space.has_journal():
        return ReleasedTasks(released=[])
    space, actor = context.tuple_space.space, actor_of(context.caller)
    with context.store.read() as memory:
        holders = _descendants(memory, context.caller) if request.all else {actor}

    def decide(view: WorkView) -> tuple[Sequence[Any], list[str]]:
        if request.id is None:
            records = [record for record in view.live_in(TASK_LANE) if record.worker in holders]
        else:
            records = [_visible(context, view, request.id)]
            if records[0].worker != actor:
                tasks.check_may_change(_task(view, records[0].id), actor)
        return tasks.release_tasks(view, records, actor=actor, note=_one_line(request.note))

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
    space = context.tuple_space.space

    def decide(view: WorkView) -> tuple[Sequence[Any], CancelAnswer]:
        task = _task(view, _visible(context, view, request.id).id)
        tasks.check_may_change(task, actor_of(context.caller))
        facts, final = tasks.cancel_task(view, task.record)
        return facts, CancelAnswer(id=task.record.id, receipt_id=final.id)

    return space.store.commit(decide)


def actor_of(caller: Caller) -> str:
    """Return the name under which a caller claims tasks: the same for a person in every run."""
    return tasks.PERSON if caller.role == ADMIN else caller.full_name


def ready_rows(context: Context, caller: Caller | None = None) -> list[TaskRow]:
    """Return what a caller has claimed, then what is ready for it or for anybody."""
    if not context.tuple_space.has_journal():
        return []
    reader = caller or context.caller
    actor = actor_of(reader)
    with context.store.read() as memory, context.tuple_space.space.store.read() as view:
        gone = _gone(memory)
        live = [task for task in tasks.live_tasks(view, is_dead) if _sees(context, task.record, reader)]
        own = [task for task in live if task.holder == actor]
        ready = [task for task in live if task.state == "ready" and (task.owner in ("", actor) or gone(task.owner))]
        return [_row(context, view, task, actor) for task in (*own, *ready)]


def task_lines(context: Context, reader: Caller, *, limit: int) -> list[str]:
    """Return the lines about tasks that an agent is shown beside other things: what it has claimed, what is ready."""
    if not reader.name:
        return []
    rows = ready_rows(context, reader)
    own = [f"Your task {short_id(row.id)}: {row.title}{_due_words(row)}" for row in rows if row.mine]
    ready = [row for row in rows if not row.mine]
    lines = own[:limit]
    if ready and len(lines) < limit:
        first = ready[0]
        more = f", +{len(ready) - 1} more" if len(ready) > 1 else ""
        lines.append(f"Ready task {short_id(first.id)}: {first.title}{_due_words(first)}{more}: task claim")
    return lines


def _due_words(row: TaskRow) -> str:
    if row.due is None:
        return ""
    return f" (overdue since {row.due[:16]}Z)" if row.overdue else f" (due {row.due[:16]}Z)"


def _task(view: WorkView, tuple_id: str) -> Task:
    return tasks.read_task(view, find_tuple(view, tuple_id), is_dead)


def _visible(context: Context, view: WorkView, task_id: str) -> TupleRecord:
    """Return the task that a caller means by an id or its beginning."""
    record = visible_tuple(view, context.caller, task_id)
    if record.lane != TASK_LANE or not _sees(context, record):
        raise TupleNotFound("There is no such task.", field="id", used=task_id, hint="`task list` lists the tasks.")
    return record


def _sees(context: Context, record: TupleRecord, reader: Caller | None = None) -> bool:
    """True if the roles of caller and reader may see everything that a task points at."""
    roles = {context.caller.role, (reader or context.caller).role}
    rules = [rule for role in roles if (rule := context.policy.visible_to(role)) is not None]
    if not rules or record.lane != TASK_LANE:
        return True
    from engrambus.gateway.role_evidence import make_role_filter

    pointers = [Pointer(type=ref.partition(":")[0], ref=ref) for ref in record.tuple.src_ptr]
    return all(make_role_filter(rule, context.project_files.repositories).sees_pointers(pointers) for rule in rules)


def _changed(
    context: Context,
    task_id: str,
    change: Callable[[WorkView, TupleRecord], Sequence[Any]],
    *,
    only_tasks: bool = False,
) -> TaskRow:
    """Change a task that the caller may change, and return it."""
    space = context.tuple_space.space

    def decide(view: WorkView) -> tuple[Sequence[Any], str]:
        record = visible_tuple(view, context.caller, task_id)
        if only_tasks or record.lane == TASK_LANE:
            record = _visible(context, view, task_id)
            tasks.check_may_change(_task(view, record.id), actor_of(context.caller))
        return change(view, record), record.id

    tuple_id = space.store.commit(decide)
    with space.store.read() as view:
        return _row(context, view, _task(view, tuple_id))


def _note(record: TupleRecord, what: str, actor: str, text: str = "") -> Any:
    from engrambus.space.tuples import TaskChanged

    return TaskChanged(id=record.id, what=what, by=actor, text=text)


def _row(context: Context, view: WorkView, task: Task, actor: str | None = None) -> TaskRow:
    return TaskRow(**_fields(context, view, task, actor))


def _fields(context: Context, view: WorkView, task: Task, actor: str | None = None) -> dict[str, Any]:
    record = task.record
    actor = actor_of(context.caller) if actor is None else actor
    return {
        "id": record.id,
        "title": task.title or record.lane,
        "state": task.state,
        "owner": task.owner,
        "added_by": task.added_by,
        "created_at": record.tuple.created_at,
        "claimed_by": task.holder,
        "lease_until": print_time(record.lease_until_us) if task.holder is not None else None,
        "begun_by": task.begun_by,
        "mine": task.holder == actor,
        "priority": record.rank,
        "due": print_time(task.due_us) if task.due_us is not None else None,
        "overdue": task.due_us is not None and task.due_us < view.as_of and task.state not in ("done", "cancelled"),
        "attempts": record.attempts,
        "at": list(task.pointers),
        "blocked_on": [item.on for item in task.blocks if item.on is not None],
        "blocked": [describe_block(view, item)[0] for item in task.blocks],
    }


def _history(task: Task) -> list[TaskNote]:
    return [_entry(change) for change in task.history]


def _entry(change: TaskChange) -> TaskNote:
    return TaskNote(at=print_time(change.at_us), what=change.what, by=change.by, text=change.text, owner=change.owner)


def _gone(memory: View) -> Callable[[str], bool]:
    """Return what tells whether the agent of a full name was removed, or its run has ended."""

    def is_gone(name: str) -> bool:
        if name == tasks.PERSON:
            return False
        run_id, _, bare = name.rpartition("/")
        run, agent = memory.run(run_id), memory.agent(run_id, bare)
        return run is None or run.ended or agent is None or agent.removed

    return is_gone


def _agent_named(memory: View, caller: Caller, name: str | None, field: str) -> str:
    """Return the full name of the agent that a caller names as an owner; empty for nobody."""
    if name is None or name == NOBODY:
        return ""
    if name in (tasks.PERSON, "person"):
        return tasks.PERSON
    if caller.role == ADMIN:
        return find_agent(memory, caller, name, field).full_name
    run_id, _, bare = name.rpartition("/")
    agent = memory.agent(caller.run.run_id, bare) if run_id in ("", caller.run.run_id) else None
    if agent is None or agent.removed:
        raise AgentNotFound(f"There is no agent '{name}' in this run.", field=field, hint="`agent.list` lists them.")
    return agent.full_name


def _descendants(memory: View, caller: Caller) -> set[str]:
    """Return the names of a caller and of the agents below it."""
    from engrambus.policy import descends

    agents = memory.agents(caller.run.run_id)
    below = {agent.full_name for agent in agents if descends(memory, caller, agent.name)}
    return {actor_of(caller), *below}


def _awaited(context: Context, ids: Sequence[str], field: str) -> list[str]:
    if not ids:
        return []
    with context.tuple_space.space.store.read() as view:
        return list(
            dict.fromkeys(
                visible_tuple(view, context.caller, tuple_id, f"{field}[{position}]").id
                for position, tuple_id in enumerate(ids)
            )
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
    return [_stamped(context, ref, f"at[{position}]").ref for position, ref in enumerate(refs)]


def _stamped(context: Context, text: str | Pointer, field: str) -> Pointer:
    """Return a full pointer with the digest of its content; refuse one that leads nowhere."""
    checked, address = check_pointer(context.completer.complete(text, field), field)
    stamped = context.evidence.stamp(checked, address, field)
    context.project_files.retain((address,))
    return stamped


def _evidence(context: Context, texts: Sequence[str]) -> list[EvidenceRef]:
    """Return what shows that a task is done: receipts that ended with 0, and pointers with their digests."""
    found: dict[str, EvidenceRef] = {}
    for position, text in enumerate(texts):
        field = f"evidence[{position}]"
        for item in _evidence_of(context, text.strip(), field):
            found[item.ref] = item
    return list(found.values())


def _evidence_of(context: Context, text: str, field: str) -> list[EvidenceRef]:
    receipt = _receipt(context, text, field)
    if receipt is not None:
        return [receipt]
    try:
        pointers = _changes_of_head(context) if text == HEAD else [_stamped(context, text, field)]
    except EngramBusError as refusal:
        raise TaskEvidence(
            f"'{text[:80]}' shows nothing: {refusal.detail}",
            field=field,
            used=text[:80],
            hint="Pass lines (src/a.py:10-20), HEAD for the last commit, a full pointer, or the id of a receipt that "
            "ended with 0.",
        ) from None
    return [EvidenceRef(ref=pointer.ref, digest=pointer.digest) for pointer in pointers]


def _receipt(context: Context, text: str, field: str) -> EvidenceRef | None:
    """Return the receipt of an id or its beginning, or None if the text is none."""
    digits = text.removeprefix("sha256:")
    if not is_digest(text) and not (len(digits) >= MIN_RECEIPT_CHARS and is_hex(digits, len(digits))):
        return None
    try:
        with context.tuple_space.space.store.read() as view:
            receipt = visible_receipt(view, context.caller, text)
    except ReceiptNotFound:
        if is_digest(text):
            raise TaskEvidence(f"There is no receipt {short_id(text)}.", field=field, used=text[:80]) from None
        return None
    if receipt.exit != 0 or receipt.step is None:
        what = f"ended with {receipt.exit}" if receipt.exit else "is of no step that was executed"
        raise TaskEvidence(
            f"The receipt {short_id(receipt.id)} {what}.",
            field=field,
            used=short_id(receipt.id),
            limit="a step's receipt with exit 0",
            hint="`receipt list` lists the receipts of steps.",
        )
    return EvidenceRef(ref=receipt.id)


def _changes_of_head(context: Context) -> list[Pointer]:
    """Return the changes of the commit that is checked out, as pointers."""
    head = context.project_files.head()
    base = context.project_files.expand(f"{head}^")
    changed = context.project_files.repositories.select().changed_files(base, head)
    paths = [change.new_path or change.old_path or "" for change in changed][:MAX_CHANGED_FILES]
    pointers = []
    for path in filter(None, paths):
        ref = print_address(DiffAddress(path=path, base=base, head=head))
        pointers.append(_stamped(context, Pointer(type="diff", ref=ref), "evidence"))
    if not pointers:
        raise FieldValue("The last commit changes no file.", field="evidence", used=HEAD)
    return pointers


def _one_line(text: str) -> str:
    return " ".join(text.split())
