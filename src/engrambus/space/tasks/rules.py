"""The rules of tasks: who may claim, finish, give and end one, and when a claim ends by itself (decision 113).

A claim is a lease that each call of its holder renews. It ends when nothing renews it, or with the process that its
holder works in; then the task is ready for the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import msgspec

from engrambus.core import SECOND_US, print_second, print_time, short_id
from engrambus.errors import NoTaskReady, StaleFence, TaskBlocked, TaskEvidence, TaskHeld, TaskLost, TupleEnded
from engrambus.evidence.receipts import EvidenceRef, Receipt, new_receipt
from engrambus.space.tasks.listing import IsDead, Task, is_lost, live_tasks, read_task
from engrambus.space.tuples import (
    ENDED,
    TASK_LANE,
    TASK_YOOL,
    CheckedTuple,
    Fact,
    LeaseRenewed,
    PutResult,
    SpaceSettings,
    StepDone,
    TaskChanged,
    TupleClaimed,
    TupleDone,
    TupleRecord,
    TupleReleased,
    WorkView,
    begin_epoch,
    cancel,
    describe_block,
    freed_by,
    put,
    read_tuple,
    tuple_receipt,
    unblock_dependents,
)

PERSON = "admin"
"""The name of a person in histories and as an owner: the same person in every run."""
PERSON_LEASE_US = 7 * 86_400 * SECOND_US
"""How long a person has a task: no one notices when a person goes on, so nothing renews it."""
RENEWED_AFTER_US = 300 * SECOND_US
"""A lease is not renewed again sooner than this: agents call often, and each renewal is a line of the journal."""
TASK_RUN = "tasks"
"""Run of all tasks: they are the project's, and outlive the run in which one was added."""
MAX_TITLE_CHARS = 200
MAX_ATTEMPTS = 1_000_000
"""Claims of a task before it is given up: never, since its claimants are not at fault if they crash."""

IsGone = Callable[[str], bool]
"""Tells whether the agent of that full name was removed, or its run has ended."""


class TaskTerms(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be done, and for whom."""

    title: str
    owner: str = ""
    """Full name of the agent that is to do it; empty for anybody."""
    due_us: int | None = None
    priority: int = 0
    after: tuple[str, ...] = ()
    """Ids of the tuples that must be done first."""
    pointers: tuple[str, ...] = ()


def add_task(
    view: WorkView,
    terms: TaskTerms,
    *,
    authority: dict[str, Any],
    settings: SpaceSettings,
    idempotency: tuple[str, str] | None = None,
) -> tuple[list[Fact], PutResult]:
    """Put a task into the space."""
    args: dict[str, Any] = {"title": terms.title}
    if terms.owner:
        args["owner"] = terms.owner
    if terms.due_us is not None:
        args["due"] = print_time(terms.due_us)
    fields: dict[str, Any] = {
        "lane": TASK_LANE,
        "payload": [{"yool": TASK_YOOL, "args": args}],
        "src_ptr": list(terms.pointers),
    }
    if terms.priority:
        fields["priority"] = terms.priority
    if terms.after:
        fields["after"] = list(terms.after)
    draft = read_tuple(fields, authority, view.as_of)
    facts, (answer,) = put(
        view,
        [draft],
        run=TASK_RUN,
        settings=settings,
        admit=_admit,
        idempotency=idempotency,
        every_run=True,
    )
    return facts, answer


def _admit(draft: CheckedTuple) -> int:
    return MAX_ATTEMPTS


def claim_task(
    view: WorkView,
    record: TupleRecord | None,
    *,
    actor: str,
    settings: SpaceSettings,
    boot: str,
    is_dead: IsDead,
    is_gone: IsGone,
    sees: Callable[[TupleRecord], bool] = lambda record: True,
    process: str | None = None,
) -> tuple[list[Fact], str]:
    """Claim a task, or without one the first that is ready for the actor or for anybody; return its id.

    Claiming what the actor has already renews the claim.
    """
    if record is None:
        task = next(
            (task for task in live_tasks(view, is_dead) if _offered(task, actor, is_gone) and sees(task.record)), None
        )
        if task is None:
            raise NoTaskReady(hint="`task list` shows who has what, and what blocks the others.")
    else:
        task = read_task(view, record, is_dead)
        _check_claimable(view, task, actor, is_gone)
    if task.holder == actor:
        renewed = LeaseRenewed(id=task.record.id, lease_until_us=view.as_of + _lease_us(actor, settings))
        return [renewed], task.record.id
    return _claim(view, task.record, actor=actor, settings=settings, boot=boot, process=process), task.record.id


def finish_task(
    view: WorkView,
    record: TupleRecord,
    evidence: Sequence[EvidenceRef],
    *,
    actor: str,
    note: str,
    settings: SpaceSettings,
    boot: str,
    is_dead: IsDead,
    is_gone: IsGone,
    fence: str | None = None,
) -> tuple[list[Fact], tuple[Receipt, list[str]]]:
    """End a task with the evidence that it is done; return its final receipt, and which tuples wait no longer.

    One that is ready is claimed in the same commit. `fence` is the claim that the actor believes to have.
    """
    if not evidence:
        raise TaskEvidence(
            field="evidence",
            hint="Pass what shows it: lines (src/a.py:10-20), the commit's change (HEAD), a pointer, or the id of a "
            "receipt that ended with 0.",
        )
    task = read_task(view, record, is_dead)
    if fence is not None and str(record.fence) != fence and record.state not in ENDED:
        raise _lost(task, fence) if task.holder else StaleFence(field="fence", used=fence, limit=str(record.fence))
    _check_claimable(view, task, actor, is_gone)
    facts: list[Fact] = []
    attempt, began_us = record.attempts, _claimed_at(task, actor)
    if task.holder != actor:
        facts, attempt, began_us = (
            _claim(view, record, actor=actor, settings=settings, boot=boot),
            attempt + 1,
            view.as_of,
        )
    now = print_time(view.as_of)
    step = new_receipt(
        yool=TASK_YOOL,
        tuple_id=record.id,
        started_at=print_time(began_us if began_us is not None else view.as_of),
        ended_at=now,
        exit=0,
        step=0,
        attempt=attempt,
        worker=actor,
        evidence=tuple(evidence),
    )
    final = tuple_receipt(
        record.id,
        executed=[step],
        receipts=[step.id],
        exit=0,
        now=now,
        attempt=attempt,
        worker=actor,
        evidence=tuple(evidence),
    )
    freed = freed_by(view, record.id)
    facts += [
        StepDone(id=record.id, step=0, run=record.run, receipt=step),
        TupleDone(id=record.id, run=record.run, state="done", receipt=final),
        TaskChanged(id=record.id, what="done", by=actor, text=note),
        *unblock_dependents(view, record.id),
    ]
    return facts, (final, freed)


def give_task(view: WorkView, record: TupleRecord, owner: str, *, actor: str, note: str) -> list[Fact]:
    """Make another agent, or no one, the owner of a task; a claim of anybody else ends."""
    _check_open(record)
    released: list[Fact] = []
    if record.state == "claimed" and record.worker != owner:
        released = [TupleReleased(id=record.id, ready_us=view.as_of, reason="given")]
    return [*released, TaskChanged(id=record.id, what="given", by=actor, owner=owner, text=note)]


def release_tasks(
    view: WorkView, records: Iterable[TupleRecord], *, actor: str, note: str = ""
) -> tuple[list[Fact], list[str]]:
    """Make claimed tasks ready again; return their ids."""
    facts: list[Fact] = []
    released = [record.id for record in records if record.state == "claimed"]
    for tuple_id in released:
        facts += [
            TupleReleased(id=tuple_id, ready_us=view.as_of, reason="released"),
            TaskChanged(id=tuple_id, what="released", by=actor, text=note),
        ]
    return facts, released


def renew_tasks(view: WorkView, *, actor: str, settings: SpaceSettings, is_dead: IsDead) -> list[Fact]:
    """Return the facts that renew what an actor has claimed, as long as no other has claimed it since."""
    facts: list[Fact] = []
    until_us = view.as_of + _lease_us(actor, settings)
    renewed_after_us = min(RENEWED_AFTER_US, settings.task_lease_us // 2)
    for record in view.live_in(TASK_LANE):
        if record.state != "claimed" or record.worker != actor:
            continue
        if is_lost(view, record, tuple(view.task_changes(record.id)), is_dead):
            # The agent calls from another process now: what ended with the first one is no longer its end.
            facts.append(TaskChanged(id=record.id, what="claimed", by=actor))
        elif record.lease_until_us + renewed_after_us > until_us:
            continue
        facts.append(LeaseRenewed(id=record.id, lease_until_us=until_us))
    return facts


def cancel_task(view: WorkView, record: TupleRecord) -> tuple[list[Fact], Receipt]:
    """End a task without its being done."""
    return cancel(view, record.id)


def check_may_change(task: Task, actor: str, below: Collection[str] = ()) -> None:
    """Refuse to change the task of others: it may be given, blocked and cancelled by who added, owns or has it.

    `below` are the actor's descendants, whose tasks it may change as well.
    """
    if actor == PERSON or not {actor, *below}.isdisjoint({task.added_by, task.owner, task.holder}):
        return
    if not task.owner and task.holder is None:
        return
    raise TaskHeld(
        f"The task is {_bare(task.owner or task.holder)}'s.",
        field="id",
        used=short_id(task.record.id),
        hint="Who added it, owns it or has it can change it, an agent above one of these, and a person.",
    )


def _claim(
    view: WorkView, record: TupleRecord, *, actor: str, settings: SpaceSettings, boot: str, process: str | None = None
) -> list[Fact]:
    facts, epoch, counter = begin_epoch(view, boot)
    until_us = view.as_of + _lease_us(actor, settings)
    return [
        *facts,
        TupleClaimed(id=record.id, worker=actor, epoch=epoch, counter=counter + 1, lease_until_us=until_us),
        TaskChanged(id=record.id, what="claimed", by=actor, process=process),
    ]


def _lease_us(actor: str, settings: SpaceSettings) -> int:
    return PERSON_LEASE_US if actor == PERSON else settings.task_lease_us


def _offered(task: Task, actor: str, is_gone: IsGone) -> bool:
    return task.state == "ready" and (task.owner in ("", actor) or is_gone(task.owner))


def _check_open(record: TupleRecord) -> None:
    if record.state in ENDED or record.state == "taken":
        raise TupleEnded(f"The task is {record.state}.", field="id", used=short_id(record.id))


def _check_claimable(view: WorkView, task: Task, actor: str, is_gone: IsGone) -> None:
    """Refuse a task that has ended, is blocked, is done by another, or is for another."""
    _check_open(task.record)
    name = short_id(task.record.id)
    if task.state == "blocked":
        lines = [describe_block(view, item)[0] for item in task.blocks]
        raise TaskBlocked(
            " ".join(lines),
            field="id",
            used=name,
            hint=f"`why {name}` says what to do about it; `task unblock` lifts it.",
        )
    if task.holder is not None and task.holder != actor:
        if _claimed_at(task, actor) is not None:
            raise _lost(task, name)
        raise TaskHeld(
            f"{_bare(task.holder)} has the task until {print_second(task.record.lease_until_us)}.",
            field="id",
            used=name,
            hint="Take another one (`task ready`), or ask its holder.",
        )
    if task.holder is None and actor != PERSON and task.owner not in ("", actor) and not is_gone(task.owner):
        raise TaskHeld(
            f"The task is for {_bare(task.owner)}.",
            field="id",
            used=name,
            hint="Its owner, or who added it, can give it to you: `task give`.",
        )


def _lost(task: Task, used: str) -> TaskLost:
    return TaskLost(
        f"{_bare(task.holder)} claimed the task after your lease had ended.",
        field="id",
        used=used,
        hint="Nothing you write ends it now. Tell its holder what you have done, or put it down with an engram.",
    )


def _bare(full_name: str | None) -> str:
    return (full_name or "").rpartition("/")[2]


def _claimed_at(task: Task, actor: str) -> int | None:
    """Return when an actor last claimed a task; None if it never did."""
    return next(
        (change.at_us for change in reversed(task.history) if change.what == "claimed" and change.by == actor), None
    )
