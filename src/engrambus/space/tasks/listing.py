"""Tasks as they are listed: what a tuple and its history say, and in which order tasks are offered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

from engrambus.core import parse_time
from engrambus.space.tuples import TASK_LANE, TaskChange, TupleBlock, TupleRecord, WorkView

TaskState = Literal["ready", "claimed", "blocked", "done", "cancelled"]
IsDead = Callable[[str], bool]
"""Tells whether the process of that name has ended."""


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """A task as of one moment."""

    record: TupleRecord
    title: str
    state: TaskState
    """`ready` also if an agent had claimed it and is gone."""
    owner: str
    """Full name of the agent that it is for; empty for no one."""
    added_by: str
    due_us: int | None
    pointers: tuple[str, ...]
    blocks: tuple[TupleBlock, ...]
    history: tuple[TaskChange, ...]

    @property
    def holder(self) -> str | None:
        """The full name of who is doing it."""
        return self.record.worker if self.state == "claimed" else None

    @property
    def begun_by(self) -> str | None:
        """The full name of who began it and did not finish it."""
        claimants = [change.by for change in self.history if change.what == "claimed"]
        return claimants[-1] if claimants and self.state in ("ready", "blocked") else None


def read_task(view: WorkView, record: TupleRecord, is_dead: IsDead) -> Task:
    """Return a tuple of the lane of tasks as a task."""
    fields = record.tuple
    args = fields.payload[0].args if fields.payload else {}
    history = tuple(view.task_changes(record.id))
    owners = [change.owner for change in history if change.owner is not None]
    due = args.get("due")
    return Task(
        record=record,
        title=str(args.get("title", "")),
        state=_state(view, record, history, is_dead),
        owner=owners[-1] if owners else str(args.get("owner", "")),
        added_by=str(fields.authority.get("agent") or fields.authority.get("user") or ""),
        due_us=parse_time(due) if isinstance(due, str) else None,
        pointers=fields.src_ptr,
        blocks=tuple(view.blocks(record.id)) if record.state == "blocked" else (),
        history=history,
    )


def live_tasks(view: WorkView, is_dead: IsDead) -> list[Task]:
    """Return the tasks that have not ended, in the order in which they are offered."""
    return sorted((read_task(view, record, is_dead) for record in view.live_in(TASK_LANE)), key=ready_order)


def ready_order(task: Task) -> tuple[int, bool, int, int]:
    """Return the key by which tasks are offered: the highest priority, then the first due, then the oldest."""
    return -task.record.rank, task.due_us is None, task.due_us or 0, task.record.ordinal


def _state(view: WorkView, record: TupleRecord, history: tuple[TaskChange, ...], is_dead: IsDead) -> TaskState:
    if record.state == "claimed":
        return "ready" if is_lost(view, record, history, is_dead) else "claimed"
    if record.state == "waiting":
        return "ready"
    return "blocked" if record.state == "blocked" else "done" if record.state == "done" else "cancelled"


def is_lost(view: WorkView, record: TupleRecord, history: tuple[TaskChange, ...], is_dead: IsDead) -> bool:
    """True if a claim has ended without anybody saying so: by its lease, or with the process of its holder."""
    if record.lease_until_us <= view.as_of:
        return True
    process = next((change.process for change in reversed(history) if change.what == "claimed"), None)
    return process is not None and is_dead(process)
