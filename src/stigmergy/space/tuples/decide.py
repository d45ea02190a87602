"""What may happen in the space: each function looks at a view under the write lock and says what happens."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from stigmergy.core import MICROS, print_time
from stigmergy.errors import (
    DeadlinePast,
    IdempotencyConflict,
    LaneFull,
    ReceiptForeign,
    StaleFence,
    TupleEnded,
    TupleNotFound,
)
from stigmergy.evidence.receipts import Cost, Receipt, seal
from stigmergy.space.tuples.facts import (
    AlarmRaised,
    EpochBegun,
    Fact,
    LeaseRenewed,
    StepCost,
    StepDone,
    StepHit,
    StepStarted,
    TupleClaimed,
    TupleDone,
    TupleOut,
    TupleReleased,
    TupleTaken,
)
from stigmergy.space.tuples.money import Price, alarming, check_affordable
from stigmergy.space.tuples.patterns import Pattern
from stigmergy.space.tuples.ports import WorkView
from stigmergy.space.tuples.rules import Checked, moved_on, read_tuple
from stigmergy.space.tuples.settings import SpaceSettings
from stigmergy.space.tuples.values import ENDED, Claim, Fence, Kept

ACCEPTED, WHOLE = "tuple.accept", "tuple.run"
"""What the receipts of taking a tuple in, and of all its steps together, say in the place of a yool."""
LOST, CANCELLED, REFUSED = 137, 130, 125
"""Exits of tuples that did not run to their end: the last worker was lost, somebody cancelled, a rule forbade it."""

GC_LANE, GC_YOOL = "gc.urgent", "fs.gc.run"
"""Where a tuple that asks for room waits, and what it asks for."""

OWN_AUTHORITY = {"user": None, "agent": "stigmergy", "ci": False}
"""On whose authority the product's own tuples run."""

Decided = tuple[Sequence[Fact], Any]


class Put(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a tuple that was put."""

    id: str
    new: bool
    """Not when the space had it already."""
    accepted: str | None = None
    """The id of the receipt for taking it in."""


class Settled(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker says about a tuple it held."""

    id: str
    fence: Fence
    receipts: tuple[Receipt, ...] = ()
    """Of steps just executed, in order."""
    hits: tuple[tuple[int, str], ...] = ()
    """Steps that had been executed before: position and original receipt."""
    last: Receipt | None = None
    """The receipt of the whole tuple, when it is finished."""
    failed: str | None = None
    """Why it is not, in short; then it is tried again if it may be."""


def put(
    view: WorkView,
    drafts: Sequence[Checked],
    *,
    run: str,
    settings: SpaceSettings,
    admit: Callable[[Checked], int | None],
    accept: bool = False,
    again: str | None = None,
    asked: tuple[str, str] | None = None,
) -> tuple[list[Fact], list[Put]]:
    """Let tuples in: each once by its id; one that came without an id is moved on until its id is new.

    `asked` is an idempotency key and the digest of the request: asked again, the same tuple is the answer. `admit`
    refuses a tuple, or tells how often its yools let it be tried again.
    """
    key, request = asked or (None, None)
    if key is not None and (before := view.asked(key)) is not None:
        if before.request != request:
            raise IdempotencyConflict(field="Idempotency-Key", used=key.partition(" ")[2])
        return [], [Put(id=before.id, new=False, accepted=before.accepted)]
    facts: list[Fact] = []
    answers: list[Put] = []
    fresh: set[str] = set()
    depth: dict[str, int] = {}
    moved: dict[str, Checked] = {}  # the last of those that were the same, so that the next one begins behind it
    there = view.find_all([draft.id for draft in drafts])
    for draft in drafts:
        if draft.named and (draft.id in fresh or draft.id in there):
            answers.append(Put(id=draft.id, new=False))
            continue
        retries = admit(draft)
        parent, lane = draft.tuple.parent_id, draft.tuple.lane
        if parent is not None and parent not in fresh and view.find(parent) is None:
            raise TupleNotFound("There is no such parent tuple.", field="parent_id", used=parent)
        if draft.id in fresh or draft.id in there:
            first = draft.id
            draft = moved_on(moved.get(first, draft))
            while draft.id in fresh or view.find(draft.id) is not None:
                draft = moved_on(draft)
            moved[first] = draft
        if lane not in depth:
            depth[lane] = view.waiting(lane)
        if depth[lane] >= settings.queue_maxsize:
            raise LaneFull(
                f"The lane '{lane}' is full.", field="lane", limit=settings.queue_maxsize, used=depth[lane],
                hint="Wait for workers to take some, or ask to wait.",
            )  # fmt: skip
        depth[lane] += 1
        fresh.add(draft.id)
        receipt = _accepted(draft.id, view.as_of) if accept else None
        facts.append(
            TupleOut(
                id=draft.id,
                run=run,
                tuple=msgspec.Raw(draft.body),
                accepted=receipt,
                again=again,
                asked=key,
                request=request,
                retries=retries,
            )
        )
        answers.append(Put(id=draft.id, new=True, accepted=receipt.id if receipt else None))
    return facts, answers


def take(view: WorkView, pattern: Pattern, *, by: str) -> tuple[list[Fact], Kept | None]:
    """Take one waiting tuple out for good."""
    found = view.claimable(pattern, epoch=view.reign().epoch, limit=1)
    if not found:
        return [], None
    return [TupleTaken(id=found[0].id, by=by)], found[0]


def claim(
    view: WorkView, pattern: Pattern, *, worker: str, limit: int, settings: SpaceSettings, boot: str
) -> tuple[list[Fact], list[Claim]]:
    """Give tuples to a worker for a while. Claims that nobody holds any more are judged here, not in a job apart."""
    facts: list[Fact] = []
    reign = view.reign()
    epoch = reign.epoch
    if reign.boot != boot:
        epoch += 1
        facts.append(EpochBegun(epoch=epoch, boot=boot))
    counter = reign.counter if epoch == reign.epoch else 0
    now = view.as_of
    until = now + settings.lease
    claims: list[Claim] = []
    for one in view.claimable(pattern, epoch=epoch, limit=limit) if limit > 0 else ():
        ended = _judged(view, one, now, settings)
        if ended is not None:
            facts.append(ended)
            continue
        counter += 1
        facts.append(TupleClaimed(id=one.id, worker=worker, epoch=epoch, counter=counter, until=until))
        claims.append(
            Claim(
                id=one.id,
                fence=Fence(epoch, counter),
                until=until,
                attempt=one.attempts + 1,
                worker=worker,
                run=one.run,
                body=one.body,
                done=view.finished(one.id) if one.attempts or one.ready_at else {},
            )
        )
    return facts, claims


def _judged(view: WorkView, one: Kept, now: int, settings: SpaceSettings) -> TupleDone | None:
    """The end of a tuple that may not be given out any more."""
    if one.deadline is not None and one.deadline <= now:
        return end(view, one, "dead", exit=REFUSED, error=DeadlinePast.code)
    if one.attempts > _retries(one, settings):
        return end(view, one, "dead", exit=LOST, error="the worker was lost")
    return None


def renew(
    view: WorkView, held: Iterable[tuple[str, Fence]], *, settings: SpaceSettings, boot: str
) -> tuple[list[Fact], list[str]]:
    """Go on holding tuples; tells which are not held any more."""
    facts: list[Fact] = []
    lost: list[str] = []
    for tuple_id, fence in held:
        try:
            check_held(view, tuple_id, fence, boot)
        except StaleFence:
            lost.append(tuple_id)
        else:
            facts.append(LeaseRenewed(id=tuple_id, until=view.as_of + settings.lease))
    return facts, lost


def check_held(view: WorkView, tuple_id: str, fence: Fence, boot: str) -> Kept:
    """The tuple, if it is still held by whoever has this fence.

    A lease that has run out is not held any more, even if nobody has taken the tuple since; nor is anything that was
    held before the machine was started anew.
    """
    return _still_held(view, view.find(tuple_id), tuple_id, fence, boot)


def _still_held(view: WorkView, one: Kept | None, tuple_id: str, fence: Fence, boot: str) -> Kept:
    if one is None:
        raise TupleNotFound(field="id", used=tuple_id)
    reign = view.reign()
    over = one.until <= view.as_of or fence.epoch != reign.epoch or reign.boot != boot
    if one.state != "claimed" or one.fence != fence or over:
        held = f"{one.fence}" if one.fence is not None else "nobody"
        raise StaleFence(
            f"The tuple is {one.state}, held by {held} until {print_time(one.until)}.",
            field="fence",
            used=str(fence),
            limit=held,
        )
    return one


def start_step(
    view: WorkView, tuple_id: str, fence: Fence, step: int, price: Price, *, boot: str
) -> tuple[list[Fact], None]:
    """Begin a step, with its probable cost set aside; refused when that is not left."""
    one = check_held(view, tuple_id, fence, boot)
    check_affordable(view, one, price, view.as_of)
    return [StepStarted(id=tuple_id, step=step, micros=price.micros, tokens=price.tokens)], None


def spend(
    view: WorkView, tuple_id: str, fence: Fence, step: int, more: Price, *, settings: SpaceSettings, boot: str
) -> tuple[list[Fact], Kept]:
    """Write down what a step under way has spent beyond what was written before."""
    one = check_held(view, tuple_id, fence, boot)
    facts: list[Fact] = [StepCost(id=tuple_id, step=step, micros=more.micros, tokens=more.tokens)]
    return [*facts, *_alarms(view, one, more, settings)], one


def settle(
    view: WorkView, results: Sequence[Settled], *, settings: SpaceSettings, boot: str
) -> tuple[list[Fact], list[str | None]]:
    """Write down what workers did; for each result the code of the refusal when it comes too late."""
    facts: list[Fact] = []
    answers: list[str | None] = []
    held = view.find_all([result.id for result in results])
    told = view.known_receipts([receipt.id for result in results for receipt in result.receipts])
    ended: set[str] = set()
    for result in results:
        try:
            if result.id in ended:  # by what came before it here
                raise StaleFence(field="fence", used=str(result.fence))
            facts += _settled(view, result, held.get(result.id), told, settings, boot)
            told.update(receipt.id for receipt in result.receipts)
            if result.last is not None or result.failed is not None:
                ended.add(result.id)
        except (StaleFence, TupleNotFound, ReceiptForeign) as refusal:
            answers.append(refusal.code)
        else:
            answers.append(None)
    return facts, answers


def _settled(
    view: WorkView, result: Settled, kept: Kept | None, told: set[str], settings: SpaceSettings, boot: str
) -> list[Fact]:
    one = _still_held(view, kept, result.id, result.fence, boot)
    facts: list[Fact] = []
    spent_micros = spent_tokens = 0
    for receipt in {each.id: each for each in result.receipts}.values():
        if receipt.tuple_id != one.id or receipt.step is None:
            raise ReceiptForeign(field="receipt", used=receipt.id)
        if receipt.id in told:  # told twice
            continue
        before = view.running(one.id, receipt.step)
        micros, tokens = receipt.cost.micros, receipt.cost.tokens
        if before is not None:
            micros, tokens = max(0, micros - before.spent_micros), max(0, tokens - before.spent_tokens)
        spent_micros += micros
        spent_tokens += tokens
        facts.append(StepDone(id=one.id, step=receipt.step, run=one.run, receipt=receipt, micros=micros, tokens=tokens))
    facts += [StepHit(id=one.id, step=step, receipt=original) for step, original in result.hits]
    if result.last is not None:
        if result.last.tuple_id != one.id:
            raise ReceiptForeign(field="receipt", used=result.last.id)
        facts.append(TupleDone(id=one.id, run=one.run, state="done", receipt=result.last))
    elif result.failed is not None:
        facts.append(_failed(view, one, result, settings))
    if spent_micros or spent_tokens:
        facts += _alarms(view, one, Price(micros=spent_micros, tokens=spent_tokens), settings)
    return facts


def _failed(view: WorkView, one: Kept, result: Settled, settings: SpaceSettings) -> Fact:
    """Another attempt after a while, or the end."""
    reason = result.failed or ""
    allowed = _retries(one, settings)
    if one.attempts > allowed or reason in _NEVER_AGAIN:
        codes = [receipt.exit for receipt in result.receipts if receipt.exit]
        return end(view, one, "dead", exit=codes[-1] if codes else REFUSED, error=reason, more=result.receipts)
    waits = min(settings.backoff << min(one.attempts - 1, 30), settings.max_backoff)
    return TupleReleased(id=one.id, ready_at=view.as_of + waits, reason=reason)


_NEVER_AGAIN = frozenset({"BUDGET_EXCEEDED", "DEADLINE_PAST", "YOOL_FORBIDDEN", "MEMORY_QUOTA", "DISK_QUOTA"})
"""Refusals that another attempt would only meet again."""


def release(
    view: WorkView, held: Iterable[tuple[str, Fence]], *, counts: bool, reason: str, boot: str
) -> tuple[list[Fact], list[str]]:
    """Give tuples back at once; tells which were given back."""
    given: list[str] = []
    for tuple_id, fence in held:
        try:
            check_held(view, tuple_id, fence, boot)
        except (StaleFence, TupleNotFound):
            continue
        given.append(tuple_id)
    # Since this moment, not since ever: whoever claims it next sees that it was in somebody's hands before.
    return [TupleReleased(id=each, ready_at=view.as_of, counts=counts, reason=reason) for each in given], given


def let_go(view: WorkView, ids: Iterable[str], *, reason: str) -> tuple[list[Fact], list[str]]:
    """Take tuples from whoever holds them, who is known to be dead; tells which."""
    found = [one for each in ids if (one := view.find(each)) is not None and one.state == "claimed"]
    return [TupleReleased(id=one.id, reason=reason) for one in found], [one.id for one in found]


def cancel(view: WorkView, tuple_id: str) -> tuple[list[Fact], Receipt]:
    """End a tuple that waits or is being worked on; whoever holds it may write no more."""
    one = view.find(tuple_id)
    if one is None or one.state == "taken":
        raise TupleNotFound(field="id", used=tuple_id)
    if one.state in ENDED:
        raise TupleEnded(f"The tuple is {one.state}.", field="id", used=tuple_id)
    ended = end(view, one, "cancelled", exit=CANCELLED, error="cancelled")
    return [ended], ended.receipt


def put_again(
    view: WorkView,
    tuple_id: str,
    *,
    authority: Mapping[str, Any],
    settings: SpaceSettings,
    admit: Callable[[Checked], int | None],
) -> tuple[list[Fact], list[Put]]:
    """Put a dead letter once more, as a new tuple that says the same."""
    one = view.find(tuple_id)
    if one is None or one.state == "taken":
        raise TupleNotFound(field="id", used=tuple_id)
    if one.state != "dead" or one.again is not None:
        raise TupleEnded(
            f"The tuple is {one.state}, not a dead letter." if one.again is None else "It was put again already.",
            field="id",
            used=one.again or tuple_id,
        )
    fields = msgspec.json.decode(one.body)
    for stamped in ("authority", "created_at"):
        fields.pop(stamped)
    terms = fields["agent_terms"]
    terms.pop("deadline_iso", None)
    draft = read_tuple(fields, authority, view.as_of)
    return put(view, [draft], run=one.run, settings=settings, admit=admit, again=tuple_id)


def end(view: WorkView, one: Kept, state: str, *, exit: int, error: str, more: Sequence[Receipt] = ()) -> TupleDone:
    """The end of a tuple, with the receipt over all that was done."""
    known = view.receipts_of(one.id) if one.attempts or one.ready_at else []
    kept = [found for each in known if (found := view.receipt(each)) is not None and found.yool != ACCEPTED]
    own = [each for each in kept if each.tuple_id == one.id]
    receipt = whole(
        one.id,
        own=[*own, *more],
        receipts=[each.id for each in (*kept, *more)],
        exit=exit,
        error=error,
        at=print_time(view.as_of),
        attempt=one.attempts or None,
    )
    return TupleDone(id=one.id, run=one.run, state=state, receipt=receipt)


def whole(
    tuple_id: str,
    *,
    own: Sequence[Receipt],
    receipts: Sequence[str],
    exit: int,
    at: str,
    error: str | None = None,
    attempt: int | None = None,
    worker: str | None = None,
) -> Receipt:
    """The receipt of a whole tuple: what its own executions took together; hits took nothing."""
    return seal(
        yool=WHOLE,
        tuple_id=tuple_id,
        started_at=min([each.started_at for each in own], default=at),
        ended_at=max([each.ended_at for each in own], default=at),
        exit=exit,
        cost=_together(own),
        receipts=tuple(receipts),
        error=error,
        attempt=attempt,
        worker=worker,
    )


def _together(receipts: Sequence[Receipt]) -> Cost:
    """What executions used up, added."""
    micros = tokens_in = tokens_out = wall_ms = 0
    disk_mb = 0.0
    for receipt in receipts:
        cost = receipt.cost
        micros += cost.micros
        tokens_in += cost.tokens_in
        tokens_out += cost.tokens_out
        wall_ms += cost.wall_ms
        disk_mb += cost.disk_mb
    return Cost(
        usd=micros / MICROS,
        tokens_in=tokens_in,
        tokens_out=tokens_out,
        wall_ms=wall_ms,
        disk_mb=round(disk_mb, 6),
    )


def _alarms(view: WorkView, one: Kept, more: Price, settings: SpaceSettings) -> list[Fact]:
    facts: list[Fact] = []
    for each in alarming(view, one, more, settings.alarm_pct):
        says = {"tuple": each.id, "spent_micros": each.micros + more.micros, "budget_micros": each.budget_micros}
        says |= {"spent_tokens": each.tokens + more.tokens, "budget_tokens": each.budget_tokens}
        fields = {
            "lane": settings.alarm_lane,
            "payload": [{"yool": "op.budget.alarm", "args": says}],
            "src_ptr": [f"tuple://{each.id}"],
            "priority": 100,
        }
        draft = read_tuple(fields, each.tuple.authority, view.as_of)
        while view.find(draft.id) is not None:
            draft = moved_on(draft)
        facts.append(TupleOut(id=draft.id, run=each.run, tuple=msgspec.Raw(draft.body)))
        facts.append(AlarmRaised(id=each.id, alarm=draft.id))
    return facts


def record(
    view: WorkView, draft: Checked, made: Callable[[str], Receipt], *, run: str
) -> tuple[list[Fact], tuple[str, Receipt]]:
    """Write down something that was done elsewhere: a tuple that comes in with its receipt, and has ended."""
    while view.find(draft.id) is not None:
        draft = moved_on(draft)
    receipt = made(draft.id)
    last = whole(draft.id, own=[receipt], receipts=[receipt.id], exit=receipt.exit, at=print_time(view.as_of))
    return [
        TupleOut(id=draft.id, run=run, tuple=msgspec.Raw(draft.body)),
        StepDone(id=draft.id, step=0, run=run, receipt=receipt),
        TupleDone(id=draft.id, run=run, state="done", receipt=last),
    ], (draft.id, receipt)


def call_for_room(view: WorkView, *, run: str | None) -> tuple[list[Fact], None]:
    """Put a tuple that asks for room, in a run or the last one with work, unless one waits or is worked on."""
    run = run or next((each.run for each in reversed(view.runs())), None)
    if run is None or any(each.lane == GC_LANE for each in view.lanes()):
        return [], None
    draft = read_tuple(gc_draft(priority=100), OWN_AUTHORITY, view.as_of)
    while view.find(draft.id) is not None:
        draft = moved_on(draft)
    return [TupleOut(id=draft.id, run=run, tuple=msgspec.Raw(draft.body))], None


def gc_draft(**more: Any) -> dict[str, Any]:
    """A tuple that asks for room."""
    return {"lane": GC_LANE, "payload": [{"yool": GC_YOOL, "args": {}}], **more}


def _accepted(tuple_id: str, at: int) -> Receipt:
    moment = print_time(at)
    return seal(yool=ACCEPTED, tuple_id=tuple_id, started_at=moment, ended_at=moment, exit=0)


def _retries(one: Kept, settings: SpaceSettings) -> int:
    return settings.max_retries if one.retries is None else one.retries
