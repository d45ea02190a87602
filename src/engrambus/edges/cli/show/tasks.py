"""Lines for people: tasks of agents and people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from engrambus.core import short_id
from engrambus.edges.cli.screen import counted, dim, pairs, safe, safe_id, safe_line
from engrambus.evidence.pointers import compact_ref

if TYPE_CHECKING:
    from engrambus.operations.task_changes import ReleasedTasks
    from engrambus.operations.task_rows import ClaimedTask, TaskAnswer, TaskNote, TaskRow
    from engrambus.operations.tasks import FinishedTask, TasksAnswer

_COLOURS = {"ready": "green", "claimed": "cyan", "blocked": "yellow", "done": None, "cancelled": None}


def added(answer: TaskRow) -> Iterator[str]:
    """Show the id of a new task, and what it waits for."""
    yield click.style(safe_id(answer.id), bold=True)
    yield from (dim(f"  {safe(line)}") for line in answer.blocked)


def row(answer: TaskRow) -> Iterator[str]:
    """Show a task in one line, and what blocks it."""
    yield _line(answer)
    yield from (dim(f"  {safe_line(line)}") for line in answer.blocked)


def task_list(answer: TasksAnswer) -> Iterator[str]:
    for task in answer.tasks:
        yield from row(task)
    if not answer.tasks:
        yield "No tasks."
        yield dim('Add one: engrambus task add "What is to be done"')
    if answer.more:
        yield dim(f"+{answer.more} more: --limit {len(answer.tasks) + answer.more}")


def ready_list(answer: TasksAnswer) -> Iterator[str]:
    for task in answer.tasks:
        yield _line(task)
    if not answer.tasks:
        yield "No task is ready for you."
        yield dim("engrambus task list shows who has what, and what blocks the others.")
    if answer.more:
        yield dim(f"+{answer.more} more: --limit {len(answer.tasks) + answer.more}")


def claimed(answer: ClaimedTask) -> Iterator[str]:
    """Show a claimed task with what it is about and what happened to it before."""
    yield _line(answer)
    yield from (f"  {safe(compact_ref(ref))}" for ref in answer.at)
    earlier = answer.history[:-1]
    if earlier:
        yield f"  attempt {answer.attempts}; before:"
        yield from (f"    {_note(note)}" for note in earlier)
    yield dim(f"Done: engrambus task done {short_id(answer.id)} --evidence PATH:10-20")


def shown(answer: TaskAnswer) -> Iterator[str]:
    """Show a task with its history and its evidence."""
    yield _line(answer)
    rows = [
        ("added", f"{answer.created_at[:16]}Z by {_name(answer.added_by)}"),
        ("for", _name(answer.owner) if answer.owner else ""),
        ("lease", f"until {answer.lease_until}" if answer.lease_until else ""),
        ("attempts", str(answer.attempts) if answer.attempts else ""),
        ("receipt", short_id(answer.receipt_id) if answer.receipt_id else ""),
    ]
    yield from pairs(item for item in rows if item[1])
    yield from (f"  {safe(compact_ref(ref))}" for ref in answer.at)
    yield from (f"  {safe_line(line)}" for line in answer.blocked)
    yield from (f"  evidence {safe(compact_ref(item.ref))}" for item in answer.evidence)
    yield from (f"  {_note(note)}" for note in answer.history)


def finished(answer: FinishedTask) -> Iterator[str]:
    """Show that a task is done, its receipt, and which tasks are ready now."""
    yield f"{click.style(safe_id(answer.id), bold=True)}  done  {safe_line(answer.title)}"
    yield from (dim(f"  evidence {safe(compact_ref(item.ref))}") for item in answer.evidence)
    yield dim(f"  receipt {safe_id(answer.receipt_id)}")
    for task in answer.ready:
        yield f"ready now: {safe_id(task.id)}  {safe_line(task.title)}"
    other_count = len(answer.unblocked) - len(answer.ready)
    if other_count:
        yield f"{counted(other_count, 'other tuple')} no longer blocked"


def released(answer: ReleasedTasks) -> Iterator[str]:
    for task_id in answer.released:
        yield f"{safe_id(task_id)}  ready"
    if not answer.released:
        yield "You had claimed no task."


def _line(task: TaskRow) -> str:
    """Return a task in one line: id, state, what is special about it, title."""
    state = click.style(f"{task.state:<9}", fg=_COLOURS[task.state])
    words = [f"p{task.priority}"] if task.priority else []
    if task.due is not None:
        due = f"{'overdue' if task.overdue else 'due'} {task.due[:16].replace('T', ' ')}Z"
        words.append(click.style(due, fg="red") if task.overdue else due)
    if task.claimed_by is not None:
        words.append(f"by {_name(task.claimed_by)}")
    elif task.owner:
        words.append(f"for {_name(task.owner)}")
    if task.begun_by is not None:
        words.append(f"begun by {_name(task.begun_by)}")
    notes = dim(f"  ({', '.join(words)})") if words else ""
    return f"{click.style(safe_id(task.id), bold=True)}  {state}  {safe_line(task.title)}{notes}"


def _note(note: TaskNote) -> str:
    to = f" to {_name(note.owner) if note.owner else 'nobody'}" if note.owner is not None else ""
    text = f": {safe_line(note.text)}" if note.text else ""
    return f"{note.at[:16]}Z {safe(note.what)}{to} by {_name(note.by)}{text}"


def _name(full_name: str) -> str:
    return safe(full_name.rpartition("/")[2])
