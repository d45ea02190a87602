"""Tasks as they are answered: rows of lists, histories, and the lines of a brief (decision 113)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

import engrambus.space.tasks as tasks
from engrambus.core import print_time, short_id
from engrambus.core.process_names import is_dead
from engrambus.errors import AgentNotFound, TupleNotFound
from engrambus.evidence.pointers import Pointer
from engrambus.evidence.receipts import EvidenceRef
from engrambus.gateway.context import Context
from engrambus.policy import ADMIN, Caller, find_agent
from engrambus.space.tuples import (
    TASK_LANE,
    TaskChange,
    TupleRecord,
    WorkView,
    describe_block,
    find_tuple,
    last_receipt,
    visible_tuple,
)

if TYPE_CHECKING:
    from engrambus.gateway.ports import View
    from engrambus.space.tasks import Task


NOBODY = "nobody"
"""Stands for no owner where an agent is named."""


class TaskNote(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An entry of a task's history."""

    at: str
    what: str
    """`claimed`, `released`, `given`, `blocked`, `unblocked` or `done`."""
    by: str
    text: str = ""
    owner: str | None = None
    """With `given`: the new owner, empty for no one."""


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
    receipt_id: str | None = None
    """The final receipt."""


class ClaimedTask(TaskRow, frozen=True, kw_only=True, omit_defaults=True):
    """A task that was claimed, with what happened to it before."""

    fence: str = ""
    """Names this claim: `task.done` may name the claim it ends."""
    history: list[TaskNote] = []


class TaskAnswer(TaskRow, frozen=True, kw_only=True, omit_defaults=True):
    """A task with its history and its evidence."""

    history: list[TaskNote] = []
    evidence: list[EvidenceRef] = []


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
        gone = gone_agents(memory)
        live = [task for task in tasks.live_tasks(view, is_dead) if sees_task(context, task.record, reader)]
        claimed = [task for task in live if task.holder == actor]
        ready = [task for task in live if task.state == "ready" and (task.owner in ("", actor) or gone(task.owner))]
        return [task_row(context, view, task, actor) for task in (*claimed, *ready)]


def task_lines(context: Context, reader: Caller, *, limit: int) -> list[str]:
    """Return the lines about tasks that an agent is shown with other things: what it has claimed, what is ready."""
    if not reader.name:
        return []
    rows = ready_rows(context, reader)
    claimed_lines = [f"Your task {short_id(row.id)}: {row.title}{_due_words(row)}" for row in rows if row.mine]
    ready = [row for row in rows if not row.mine]
    lines = claimed_lines[:limit]
    if ready and len(lines) < limit:
        first = ready[0]
        suffix = f", +{len(ready) - 1} more" if len(ready) > 1 else ""
        lines.append(f"Ready task {short_id(first.id)}: {first.title}{_due_words(first)}{suffix}: task claim")
    return lines


def ended_row(context: Context, view: WorkView, record: TupleRecord) -> TaskRow:
    """Return a task that has ended as a row of a list."""
    return task_row(context, view, tasks.read_task(view, record, is_dead))


def _due_words(row: TaskRow) -> str:
    if row.due is None:
        return ""
    return f" (overdue since {row.due[:16]}Z)" if row.overdue else f" (due {row.due[:16]}Z)"


def task_of(view: WorkView, tuple_id: str) -> Task:
    return tasks.read_task(view, find_tuple(view, tuple_id), is_dead)


def visible_task(context: Context, view: WorkView, task_id: str) -> TupleRecord:
    """Return the task that a caller means by an id or its beginning."""
    record = visible_tuple(view, context.caller, task_id)
    if record.lane != TASK_LANE or not sees_task(context, record):
        raise TupleNotFound("There is no such task.", field="id", used=task_id, hint="`task list` lists the tasks.")
    return record


def visible_task_id(context: Context, id_or_prefix: str) -> str:
    """Return the whole id of a task that the caller sees."""
    with context.tuple_space.space.store.read() as view:
        return visible_task(context, view, id_or_prefix).id


def sees_task(context: Context, record: TupleRecord, reader: Caller | None = None) -> bool:
    """True if the roles of caller and reader may see everything that a task points at."""
    roles = {context.caller.role, (reader or context.caller).role}
    rules = [rule for role in roles if (rule := context.policy.visible_to(role)) is not None]
    if not rules or record.lane != TASK_LANE:
        return True
    from engrambus.gateway.role_evidence import make_role_filter

    pointers = [Pointer(type=ref.partition(":")[0], ref=ref) for ref in record.tuple.src_ptr]
    return all(make_role_filter(rule, context.project_files.repositories).sees_pointers(pointers) for rule in rules)


def task_row(context: Context, view: WorkView, task: Task, actor: str | None = None) -> TaskRow:
    return TaskRow(**task_fields(context, view, task, actor))


def task_fields(context: Context, view: WorkView, task: Task, actor: str | None = None) -> dict[str, Any]:
    record = task.record
    actor = actor_of(context.caller) if actor is None else actor
    final = last_receipt(view, record) if task.state in ("done", "cancelled") else None
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
        "receipt_id": final.id if final is not None else None,
    }


def task_history(task: Task) -> list[TaskNote]:
    return [_entry(change) for change in task.history]


def _entry(change: TaskChange) -> TaskNote:
    return TaskNote(at=print_time(change.at_us), what=change.what, by=change.by, text=change.text, owner=change.owner)


def gone_agents(memory: View) -> Callable[[str], bool]:
    """Return what tells whether the agent of a full name was removed, or its run has ended."""

    def is_gone(name: str) -> bool:
        if name == tasks.PERSON:
            return False
        run_id, _, bare = name.rpartition("/")
        run, agent = memory.run(run_id), memory.agent(run_id, bare)
        return run is None or run.ended or agent is None or agent.removed

    return is_gone


def agent_named(memory: View, caller: Caller, name: str | None, field: str) -> str:
    """Return the full name of the agent that a caller names as an owner; empty for no one."""
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


def awaited_ids(context: Context, ids: Sequence[str], field: str) -> list[str]:
    if not ids:
        return []
    with context.tuple_space.space.store.read() as view:
        return list(
            dict.fromkeys(
                visible_tuple(view, context.caller, tuple_id, f"{field}[{position}]").id
                for position, tuple_id in enumerate(ids)
            )
        )


def one_line(text: str) -> str:
    """Return a note on one line: what an agent wrote must not begin a line of its own."""
    return " ".join(text.split())
