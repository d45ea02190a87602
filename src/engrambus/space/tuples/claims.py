"""Claims: giving tuples to workers, renewing and releasing them, and checking that a claim is still valid."""

from __future__ import annotations

from collections.abc import Iterable

from engrambus.core import print_time
from engrambus.errors import StaleFence, TupleNotFound
from engrambus.space.tuples.budgets import reserve_step
from engrambus.space.tuples.dead_letters import WORKER_LOST, dead_letter_reason
from engrambus.space.tuples.facts import (
    EpochBegun,
    Fact,
    LeaseRenewed,
    StepStarted,
    TupleClaimed,
    TuplePut,
    TupleReleased,
)
from engrambus.space.tuples.final_receipts import EXIT_LOST, EXIT_REFUSED, end_tuple
from engrambus.space.tuples.next_steps import CanRun, may_run, next_yools
from engrambus.space.tuples.patterns import TuplePattern
from engrambus.space.tuples.ports import WorkView
from engrambus.space.tuples.values import Claim, Fence, Price, SpaceSettings, TupleRecord

MAX_ENDED_PER_CLAIM = 256
"""Number of expired tuples that one claim ends, at most, on its way to those that can be claimed."""


def claim(
    view: WorkView,
    pattern: TuplePattern,
    *,
    worker: str,
    limit: int,
    settings: SpaceSettings,
    boot: str,
    can_run: CanRun | None = None,
) -> tuple[list[Fact], list[Claim]]:
    """Claim up to `limit` tuples for a worker; end those that are past their deadline or out of retries.

    With `can_run` only tuples are claimed of which it can run a next step. Those of lost workers that it cannot run
    wait again for another worker.
    """
    # Expired claims are detected here, by the next claim of any worker: no separate job has to run for it.
    facts, epoch, counter = begin_epoch(view, boot)
    now_us = view.as_of
    lease_until_us = now_us + settings.lease_us
    claims: list[Claim] = []
    for record in _due(view, pattern, epoch, limit, settings, can_run) if limit > 0 else ():
        reason = dead_letter_reason(record, now_us, settings)
        if reason is not None:
            exit = EXIT_LOST if reason == WORKER_LOST else EXIT_REFUSED
            facts.append(end_tuple(view, record, "dead", exit=exit, error=reason))
            continue
        if not _may_claim(view, record, can_run):
            # decision 100: once, by whoever finds it; every later claim then passes it by.
            facts.append(TupleReleased(id=record.id, ready_us=now_us, reason=WORKER_LOST))
            continue
        if len(claims) == limit:
            break
        counter += 1
        facts.append(
            TupleClaimed(id=record.id, worker=worker, epoch=epoch, counter=counter, lease_until_us=lease_until_us)
        )
        claims.append(
            Claim(
                id=record.id,
                fence=Fence(epoch, counter),
                lease_until_us=lease_until_us,
                attempt=record.attempts + 1,
                worker=worker,
                run=record.run,
                body=record.body,
                # A tuple that was never claimed has no finished steps; the query is saved (decision 35).
                finished_steps=view.finished_steps(record.id) if record.attempts or record.ready_us else {},
            )
        )
    # A claim that finds nothing leaves no line: back ends may look more or less closely whether one is worthwhile.
    changes = [fact for fact in facts if not isinstance(fact, EpochBegun)]
    return facts if changes else [], claims


def claim_new(
    view: WorkView, new: TuplePut, *, worker: str, settings: SpaceSettings, boot: str
) -> tuple[list[Fact], Claim]:
    """Claim a tuple in the same commit that puts it, so that no other worker ever sees it wait."""
    facts, epoch, counter = begin_epoch(view, boot)
    fence, lease_until_us = Fence(epoch, counter + 1), view.as_of + settings.lease_us
    claimed = TupleClaimed(id=new.id, worker=worker, epoch=epoch, counter=fence.counter, lease_until_us=lease_until_us)
    return [*facts, new, claimed], Claim(
        id=new.id,
        fence=fence,
        lease_until_us=lease_until_us,
        attempt=1,
        worker=worker,
        run=new.run,
        body=bytes(new.tuple),
        finished_steps={},
    )


def begin_epoch(view: WorkView, boot: str) -> tuple[list[Fact], int, int]:
    """Return number and last counter of the epoch to claim in, with the fact that begins it after a restart."""
    epoch = view.current_epoch()
    if epoch.boot == boot:
        return [], epoch.number, epoch.counter
    # decision 22: claims are not synced, so a restart voids them all; a new epoch makes every old fence stale.
    return [EpochBegun(epoch=epoch.number + 1, boot=boot)], epoch.number + 1, 0


def _due(
    view: WorkView, pattern: TuplePattern, epoch: int, limit: int, settings: SpaceSettings, can_run: CanRun | None
) -> list[TupleRecord]:
    """Return due tuples; fetch MAX_ENDED_PER_CLAIM more if some of the first batch may not be claimed."""
    first = view.claimable(pattern, epoch=epoch, limit=limit, can_run=can_run)
    if len(first) < limit or all(
        dead_letter_reason(record, view.as_of, settings) is None and _may_claim(view, record, can_run)
        for record in first
    ):
        return first
    return view.claimable(pattern, epoch=epoch, limit=limit + MAX_ENDED_PER_CLAIM, can_run=can_run)


def _may_claim(view: WorkView, record: TupleRecord, can_run: CanRun | None) -> bool:
    """True if a worker can run a next step of a tuple that is due; of those that wait, the view has left out others."""
    if can_run is None or record.state == "waiting":
        return True
    return may_run(next_yools(record.body, view.finished_steps(record.id)), can_run)


def renew(
    view: WorkView, fences: Iterable[tuple[str, Fence]], *, settings: SpaceSettings, boot: str
) -> tuple[list[Fact], list[str]]:
    """Renew claims; return the ids of the tuples whose claim is no longer valid."""
    facts: list[Fact] = []
    lost: list[str] = []
    for tuple_id, fence in fences:
        try:
            check_held(view, tuple_id, fence, boot)
        except StaleFence:
            lost.append(tuple_id)
        else:
            facts.append(LeaseRenewed(id=tuple_id, lease_until_us=view.as_of + settings.lease_us))
    return facts, lost


def check_held(view: WorkView, tuple_id: str, fence: Fence, boot: str) -> TupleRecord:
    """Return the tuple if the claim with this fence is still valid, or refuse."""
    return check_fence(view, view.find(tuple_id), tuple_id, fence, boot)


def check_fence(view: WorkView, record: TupleRecord | None, tuple_id: str, fence: Fence, boot: str) -> TupleRecord:
    """Return a tuple that was looked up already if the claim with this fence is still valid, or refuse."""
    if record is None:
        raise TupleNotFound(field="id", used=tuple_id)
    epoch = view.current_epoch()
    # decision 22: an expired lease is not valid even if no other worker has claimed the tuple since, so a worker that
    # slept may not write; nor is a claim from before the machine restarted.
    expired = record.lease_until_us <= view.as_of or fence.epoch != epoch.number or epoch.boot != boot
    if record.state != "claimed" or record.fence != fence or expired:
        holder = f"{record.fence}" if record.fence is not None else "nobody"
        raise StaleFence(
            f"The tuple is {record.state}, held by {holder} until {print_time(record.lease_until_us)}.",
            field="fence",
            used=str(fence),
            limit=holder,
        )
    return record


def start_step(
    view: WorkView, tuple_id: str, fence: Fence, step: int, price: Price, *, yool: str = "", boot: str
) -> tuple[list[Fact], None]:
    """Start a step and reserve what it may cost; refuse if the tuple or a parent cannot afford it."""
    record = check_held(view, tuple_id, fence, boot)
    reserved, has_budget = reserve_step(view, record, step, price, yool)
    named = yool if has_budget else ""
    return [StepStarted(id=tuple_id, step=step, micros=reserved.micros, tokens=reserved.tokens, yool=named)], None


def release(
    view: WorkView,
    fences: Iterable[tuple[str, Fence]],
    *,
    counts_attempt: bool,
    reason: str,
    boot: str,
    delay_us: int = 0,
) -> tuple[list[Fact], list[str]]:
    """Release claimed tuples; return the ids of those whose claim was still valid."""
    released: list[str] = []
    for tuple_id, fence in fences:
        try:
            check_held(view, tuple_id, fence, boot)
        except (StaleFence, TupleNotFound):
            continue
        released.append(tuple_id)
    # `ready_us` is set although they are ready at once: the next claim then knows that steps may be finished already.
    return [
        TupleReleased(id=tuple_id, ready_us=view.as_of + delay_us, counts_attempt=counts_attempt, reason=reason)
        for tuple_id in released
    ], released


def release_dead(view: WorkView, fences: Iterable[tuple[str, Fence]], *, reason: str) -> tuple[list[Fact], list[str]]:
    """Release tuples of workers that are known to be dead; return the ids of those not claimed by another since."""
    released = [
        record.id
        for tuple_id, fence in fences
        if (record := view.find(tuple_id)) is not None and record.fence == fence and record.state == "claimed"
    ]
    return [TupleReleased(id=tuple_id, reason=reason) for tuple_id in released], released
