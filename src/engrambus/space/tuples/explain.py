"""Explaining a tuple: what failed, what it waits for, and which command comes next."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec

from engrambus.core import SECOND_US, print_second, short_id
from engrambus.errors import BudgetReserved, EngramBusError
from engrambus.evidence.receipts import Receipt
from engrambus.space.catalog import CatalogEntry
from engrambus.space.tuples.access import authority_kind
from engrambus.space.tuples.blocks import describe_block
from engrambus.space.tuples.budgets import estimate_price, reserve_step
from engrambus.space.tuples.dead_letters import dead_letter_reason, is_own_exit
from engrambus.space.tuples.limits import limit_blocks, subject_of
from engrambus.space.tuples.next_steps import next_yools
from engrambus.space.tuples.ports import RunningWorker, WorkView
from engrambus.space.tuples.rules import dependencies
from engrambus.space.tuples.stalled_work import release_command
from engrambus.space.tuples.status import last_receipt
from engrambus.space.tuples.values import ENDED, OPEN, TASK_LANE, Price, SpaceSettings, TupleRecord

LookUp = Callable[[str], CatalogEntry]
"""Returns the catalog entry of a yool's name, or refuses."""
_QUOTAS = {
    "MEMORY_QUOTA": "memory_mb",
    "DISK_QUOTA": "disk_quota_mb",
    "PROCESS_QUOTA": "max_processes",
}
"""Error code → the term of the tuple that sets the limit."""


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """Why a tuple is in the state it is in."""

    reason: str
    failed: Receipt | None = None
    """The newest execution of a step that failed and did not succeed since."""
    waits_for: tuple[str, ...] = ()
    """What a waiting tuple waits for."""
    next: tuple[str, ...] = ()
    """What to do: commands, each with a word of explanation where it needs one."""


def explain_tuple(
    view: WorkView,
    record: TupleRecord,
    look_up: LookUp,
    settings: SpaceSettings,
    workers: Sequence[RunningWorker],
) -> Explanation:
    """Explain the state of a tuple, by what the space, the catalog and the running workers say now."""
    failed = failed_step(view, record)
    if record.state in ENDED:
        return _explain_end(view, record, failed)
    if record.state == "claimed":
        return _explain_claim(view, record, failed)
    if record.state == "blocked":
        return _explain_block(view, record)
    if record.lane == TASK_LANE:
        return Explanation(
            reason="It is ready: a task for an agent or a person.",
            next=(f"engrambus task claim {short_id(record.id)}",),
        )
    if record.state == OPEN:
        return _explain_open(view, record)
    waits_for = tuple(_waits_for(view, record, look_up, settings, workers))
    return Explanation(
        reason="It waits." if failed is None else f"Attempt {record.attempts} failed; it waits for the next one.",
        failed=failed,
        waits_for=waits_for,
        next=tuple(_next_of_waiting(view, record)),
    )


def _explain_open(view: WorkView, record: TupleRecord) -> Explanation:
    """Explain a node of a batch that waits for the agents below it."""
    agent = view.agents([record.id])[record.id]
    children = agent.position.children
    batch_id = short_id(agent.position.batch)
    return Explanation(
        reason="It is a node of a batch, and ends when everything below it has ended.",
        waits_for=(f"{agent.children_left:,} of its {children:,} children have not ended.",),
        next=(f"engrambus batch show {batch_id}", f"engrambus cancel {short_id(record.id)}"),
    )


def failed_step(view: WorkView, record: TupleRecord) -> Receipt | None:
    """Return the newest execution of a step of the tuple that failed, unless the step succeeded since."""
    if not record.attempts or record.state == "done":
        return None
    finished = view.finished_steps(record.id)
    for receipt_id in reversed(view.receipt_ids(record.id)):
        receipt = view.receipt(receipt_id)
        is_step = receipt is not None and receipt.step is not None and receipt.tuple_id == record.id
        if receipt is not None and is_step and receipt.exit != 0 and receipt.step not in finished:
            return receipt
    return None


def _explain_end(view: WorkView, record: TupleRecord, failed: Receipt | None) -> Explanation:
    final = last_receipt(view, record)
    error = final.error if final is not None and final.error else ""
    tuple_id = short_id(record.id)
    if record.state == "done":
        steps = len(record.tuple.payload)
        return Explanation(
            reason=f"It is done: {steps} of {steps} steps succeeded.", next=(f"engrambus observe {tuple_id}",)
        )
    if record.state == "cancelled":
        return Explanation(
            reason="It was cancelled.", failed=failed, next=("engrambus dispatch FILE  (submits a new task)",)
        )
    reason = f"It was given up after {record.attempts} attempt{'s' * (record.attempts != 1)}: {error}"
    if record.put_again_as is not None:
        return Explanation(reason=reason, failed=failed, next=(f"engrambus why {short_id(record.put_again_as)}",))
    return Explanation(reason=reason, failed=failed, next=tuple(_next_of_dead(record, failed, error)))


def _next_of_dead(record: TupleRecord, failed: Receipt | None, error: str) -> Iterator[str]:
    """Yield what to do about a dead letter, by the code of its error."""
    code, again = error.partition(":")[0], f"engrambus again {short_id(record.id)}"
    if is_own_exit(error):
        yield f"{again}  (once what the step reports is mended)"
    elif code == "YOOL_ARGUMENTS":
        yool = failed.yool if failed is not None else record.tuple.payload[0].yool
        yield f"engrambus catalog lookup {yool}  (its arguments; submit a new task with those)"
    elif code == "BUDGET_EXCEEDED":
        yield "engrambus dispatch FILE  (a new task with a larger agent_terms.budget_usd or agent_terms.budget_tokens)"
    elif code in _QUOTAS:
        yield f"engrambus dispatch FILE  (a new task with a larger agent_terms.{_QUOTAS[code]})"
    elif code == "YOOL_NOT_FOUND":
        yield f"{again}  (and a worker with its code: engrambus worker --lane {record.lane} --import MODULE)"
    elif code == "DEADLINE_PAST":
        yield f"{again}  (it then has no deadline)"
    else:
        yield again


def _explain_block(view: WorkView, record: TupleRecord) -> Explanation:
    tuple_id = short_id(record.id)
    lines: list[str] = []
    next_steps: list[str] = []
    for item in view.blocks(record.id):
        line, remedy = describe_block(view, item)
        lines.append(line)
        if item.on is None:
            next_steps.append(f"engrambus task unblock {tuple_id}  (once that is settled)")
        elif remedy is not None:
            unblock = f"engrambus task unblock {tuple_id} {remedy}  (it then does not wait for that any more)"
            next_steps.append(unblock if remedy.startswith("--") else remedy)
        else:
            next_steps.append(f"engrambus why {short_id(item.on)}")
    return Explanation(
        reason="It is blocked.", waits_for=tuple(lines), next=(*next_steps[:3], f"engrambus cancel {tuple_id}")
    )


def _explain_claim(view: WorkView, record: TupleRecord, failed: Receipt | None) -> Explanation:
    tuple_id = short_id(record.id)
    if record.lane == TASK_LANE:
        until = print_second(record.lease_until_us)
        lost = record.lease_until_us <= view.as_of
        return Explanation(
            reason=f"{record.worker} lost it: the lease ended at {until}. It is ready again."
            if lost
            else f"{record.worker} does it, until {until} without another call.",
            next=(f"engrambus task claim {tuple_id}" if lost else f"engrambus task show {tuple_id}",),
        )
    if record.lease_until_us <= view.as_of:
        since = print_second(record.lease_until_us)
        return Explanation(
            reason=f"Its worker {record.worker} is lost: the lease ended at {since}. The next worker continues it.",
            failed=failed,
            next=(_work_command(record),),
        )
    finished = view.finished_steps(record.id)
    steps = record.tuple.payload
    position = next((index for index in range(len(steps)) if index not in finished), None)
    step = "" if position is None else f" step {position + 1} of {len(steps)}, {steps[position].yool}"
    return Explanation(
        reason=f"{record.worker} runs{step or ' it'}; attempt {record.attempts}.",
        failed=failed,
        next=(f"engrambus observe {tuple_id}", f"engrambus cancel {tuple_id}"),
    )


def _waits_for(
    view: WorkView, record: TupleRecord, look_up: LookUp, settings: SpaceSettings, workers: Sequence[RunningWorker]
) -> Iterator[str]:
    """Yield what a waiting tuple waits for, the surest first."""
    ends = dead_letter_reason(record, view.as_of, settings)
    if ends is not None:
        yield f"The next worker that looks for tasks gives it up: {ends}."
        return
    if not record.tuple.payload:
        yield f"It has no steps: it waits for a reader of the lane '{record.lane}'."
        return
    if record.ready_us > view.as_of:
        seconds = -(-(record.ready_us - view.as_of) // SECOND_US)
        if record.ready_us == record.not_before_us:
            yield f"It may be claimed not before {print_second(record.ready_us)}, in {seconds} s: its terms say so."
            return
        yield f"Attempt {record.attempts + 1} starts in {seconds} s at the earliest."
    limits = limit_blocks(view, subject_of(record))
    yield from (f"{block.summary[0].upper()}{block.summary[1:]}." for block in limits)
    yield from _waiting_steps(view, record, look_up)
    if not limits:
        yield _worker_it_needs(view, record, look_up, workers)


def _worker_it_needs(view: WorkView, record: TupleRecord, look_up: LookUp, workers: Sequence[RunningWorker]) -> str:
    """Say which worker a tuple waits for, and whether one runs."""
    names = next_yools(record.body, view.finished_steps(record.id))
    in_lane = [worker for worker in workers if worker.works_in(record.lane, record.run)]
    if not in_lane:
        return f"No worker runs in the lane '{record.lane}'."
    if names and not any(_full_name(name, look_up) in worker.yools for worker in in_lane for name in names):
        which = "The running worker" if len(in_lane) == 1 else f"None of the {len(in_lane)} running workers"
        verb = "has no code" if len(in_lane) == 1 else "has code"
        return f"{which} of the lane '{record.lane}' {verb} for {' or '.join(names)}."
    counts = {counts.lane: counts for counts in view.lane_counts()}.get(record.lane)
    waiting = max(0, counts.waiting - 1) if counts is not None else 0
    claimed = counts.claimed if counts is not None else 0
    return f"A worker of the lane '{record.lane}': {waiting} other tasks wait there, {claimed} run."


def _full_name(name: str, look_up: LookUp) -> str:
    try:
        return look_up(name).full_name
    except EngramBusError:  # the catalog's own line says so
        return name


def _waiting_steps(view: WorkView, record: TupleRecord, look_up: LookUp) -> Iterator[str]:
    """Yield why steps whose dependencies are met cannot start now, by catalog and budget."""
    steps, finished = record.tuple.payload, view.finished_steps(record.id).keys()
    waits = dependencies(len(steps), tuple(step.after for step in steps))
    for position, step in enumerate(steps):
        if position in finished or not waits[position] <= finished:
            continue
        try:
            entry = look_up(step.yool)
        except EngramBusError as refusal:
            yield f"Step {position + 1}: {refusal.detail} {refusal.hint or ''}".strip()
            continue
        authority = authority_kind(record.tuple.authority)
        if not entry.admits(authority):
            yield f"Step {position + 1}: '{entry.full_name}' no longer runs on the authority of '{authority}'."
        declared = Price(micros=entry.contract.cost_micros or 0, tokens=entry.contract.cost_tokens or 0)
        price = estimate_price(view.cost_history(entry.full_name), declared)
        try:
            reserve_step(view, record, position, price, entry.full_name)
        except BudgetReserved as wait:
            yield f"Step {position + 1} waits for steps that run under the same budget. {wait.detail}"
        except EngramBusError as refusal:
            yield f"Step {position + 1} would be refused, {refusal.code}: {refusal.detail}"


def _next_of_waiting(view: WorkView, record: TupleRecord) -> Iterator[str]:
    if not record.tuple.payload:
        yield f"engrambus in --lane {record.lane}"
        return
    limits = limit_blocks(view, subject_of(record))
    yield from (release_command(block.rule) for block in limits)
    if not limits:
        yield _work_command(record)
    yield f"engrambus cancel {short_id(record.id)}"


def _work_command(record: TupleRecord) -> str:
    return f"engrambus worker --lane {record.lane} --until-empty --import MODULE"
