"""Tuples in somebody's hands: claimed, worked on, paid for, settled or given back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from engrambus.core import print_time
from engrambus.errors import DeadlinePast, ReceiptForeign, StaleFence, TupleNotFound
from engrambus.evidence.receipts import Receipt
from engrambus.space.tuples.coming import made_new
from engrambus.space.tuples.endings import LOST, REFUSED, end, with_all_spent
from engrambus.space.tuples.facts import (
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
)
from engrambus.space.tuples.money import Meanwhile, alarming, check_affordable
from engrambus.space.tuples.patterns import Pattern
from engrambus.space.tuples.ports import WorkView
from engrambus.space.tuples.rules import read_tuple
from engrambus.space.tuples.settings import SpaceSettings
from engrambus.space.tuples.values import Claim, Fence, Kept, Price

_NEVER_AGAIN = frozenset(
    {"BUDGET_EXCEEDED", "DEADLINE_PAST", "YOOL_FORBIDDEN", "YOOL_ARGUMENTS", "MEMORY_QUOTA", "DISK_QUOTA"}
    | {"ARTIFACT_PATH", "FIELD_VALUE"}
)
"""Refusals that another attempt would only meet again."""
MOST_ENDED = 256
"""How many tuples that may not be given out any more are passed by in one commit, and ended in it."""
GONE = "the worker was lost"
"""Why a tuple is a dead letter whose last attempt nobody ended."""


class Settled(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker says about a tuple it held."""

    id: str
    fence: Fence
    receipts: tuple[Receipt, ...] = ()
    """Of steps just executed, in order."""
    hits: tuple[tuple[int, str], ...] = ()
    """Steps that had been executed before: position and original receipt."""
    last: Receipt | None = None
    """The receipt of the whole tuple, when it is finished; what it cost is told as it was counted."""
    failed: str | None = None
    """Why it is not, in short: a code, or a code, a colon and more; then it is tried again if it may be."""


def claim(
    view: WorkView, pattern: Pattern, *, worker: str, limit: int, settings: SpaceSettings, boot: str
) -> tuple[list[Fact], list[Claim]]:
    """Give tuples to a worker for a while. Claims that nobody holds any more are judged here, not in a job apart."""
    facts, epoch, counter = _begun(view, boot)
    now = view.as_of
    until = now + settings.lease
    claims: list[Claim] = []
    for one in _due(view, pattern, epoch, limit, settings) if limit > 0 else ():
        over = why_over(one, now, settings)
        if over is not None:
            facts.append(end(view, one, "dead", exit=LOST if over == GONE else REFUSED, error=over))
            continue
        if len(claims) == limit:
            break
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


def hold(view: WorkView, new: TupleOut, *, worker: str, settings: SpaceSettings, boot: str) -> tuple[list[Fact], Claim]:
    """Give a tuple to a worker with the very commit it comes in by: nobody else ever sees it wait."""
    facts, epoch, counter = _begun(view, boot)
    fence, until = Fence(epoch, counter + 1), view.as_of + settings.lease
    facts += [new, TupleClaimed(id=new.id, worker=worker, epoch=epoch, counter=fence.counter, until=until)]
    body = bytes(new.tuple)
    return facts, Claim(id=new.id, fence=fence, until=until, attempt=1, worker=worker, run=new.run, body=body, done={})


def _begun(view: WorkView, boot: str) -> tuple[list[Fact], int, int]:
    """The epoch claims are made in, begun if the machine was started anew, and the last claim of it."""
    reign = view.reign()
    if reign.boot == boot:
        return [], reign.epoch, reign.counter
    return [EpochBegun(epoch=reign.epoch + 1, boot=boot)], reign.epoch + 1, 0


def _due(view: WorkView, pattern: Pattern, epoch: int, limit: int, settings: SpaceSettings) -> list[Kept]:
    """What is due, and more of it when some of that may not be given out: what may stands behind it."""
    first = view.claimable(pattern, epoch=epoch, limit=limit)
    if len(first) < limit or all(why_over(one, view.as_of, settings) is None for one in first):
        return first
    return view.claimable(pattern, epoch=epoch, limit=limit + MOST_ENDED)


def why_over(one: Kept, now: int, settings: SpaceSettings) -> str | None:
    """Why a tuple that waits may not be given out any more; it is a dead letter as soon as somebody asks for it."""
    if one.deadline is not None and one.deadline <= now:
        return DeadlinePast.code
    return GONE if one.attempts > _retries(one, settings) else None


def _retries(one: Kept, settings: SpaceSettings) -> int:
    return settings.max_retries if one.retries is None else one.retries


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
    view: WorkView, tuple_id: str, fence: Fence, step: int, said: Price, *, settings: SpaceSettings, boot: str
) -> tuple[list[Fact], bool]:
    """Count what a step has said in all that it spent, as far as it was not counted before; whether it is still held.

    Money that is spent is the tuple's, whoever holds it by now and whatever has become of it: no fence keeps it out.
    But a claim that nobody made spends nothing.
    """
    one, reign = view.find(tuple_id), view.reign()
    if one is None:
        raise TupleNotFound(field="id", used=tuple_id)
    if fence > Fence(reign.epoch, reign.counter):
        raise StaleFence("There was no such claim.", field="fence", used=str(fence))
    held = one.fence == fence
    more = said.beyond(view.counted(tuple_id, fence, step))
    facts: list[Fact] = []
    if more:
        at = {"epoch": fence.epoch, "counter": fence.counter}
        facts.append(StepCost(id=tuple_id, step=step, micros=more.micros, tokens=more.tokens, late=not held, **at))
        facts += _alarms(view, alarming(view, one, more, settings.alarm_pct), more, settings)
    return facts, held and one.until > view.as_of and fence.epoch == reign.epoch and reign.boot == boot


def settle(
    view: WorkView, results: Sequence[Settled], *, settings: SpaceSettings, boot: str
) -> tuple[list[Fact], list[str | None]]:
    """Write down what workers did; for each result the code of the refusal when it comes too late."""
    facts: list[Fact] = []
    answers: list[str | None] = []
    held = view.find_all([result.id for result in results])
    told = view.known_receipts(receipt for result in results for receipt in result.receipts)
    ended: set[str] = set()
    meanwhile = Meanwhile(view)
    for result in results:
        try:
            if result.id in ended:  # by what came before it here
                raise StaleFence(field="fence", used=str(result.fence))
            one = _still_held(view, held.get(result.id), result.id, result.fence, boot)
            facts += _settled(view, result, one, told, meanwhile, settings)
            told.update(receipt.id for receipt in result.receipts)
            if result.last is not None or result.failed is not None:
                ended.add(result.id)
        except (StaleFence, TupleNotFound, ReceiptForeign) as refusal:
            answers.append(refusal.code)
        else:
            answers.append(None)
    return facts, answers


def _settled(
    view: WorkView, result: Settled, one: Kept, told: set[str], meanwhile: Meanwhile, settings: SpaceSettings
) -> list[Fact]:
    if result.last is not None and result.last.tuple_id != one.id:
        raise ReceiptForeign(field="receipt", used=result.last.id)
    facts: list[Fact] = []
    alarms: list[Fact] = []
    spent = Price()
    for receipt in {each.id: each for each in result.receipts}.values():
        if receipt.tuple_id != one.id or receipt.step is None:
            raise ReceiptForeign(field="receipt", used=receipt.id)
        if receipt.id in told:  # told twice
            continue
        in_all = Price(micros=receipt.cost.micros, tokens=receipt.cost.tokens)
        more = in_all.beyond(meanwhile.counted(one.id, result.fence, receipt.step)) if in_all else in_all
        at = {"epoch": result.fence.epoch, "counter": result.fence.counter} if more else {}
        facts.append(
            StepDone(
                id=one.id, step=receipt.step, run=one.run, receipt=receipt, micros=more.micros, tokens=more.tokens, **at
            )
        )
        if more:
            spent += more
            meanwhile.count(one.id, result.fence, receipt.step, more)
    facts += [StepHit(id=one.id, step=step, receipt=original) for step, original in result.hits]
    if spent:
        nearly = alarming(meanwhile, meanwhile.now(one), spent, settings.alarm_pct)
        alarms = _alarms(view, nearly, spent, settings)
        meanwhile.spend(one, spent)
        for each in nearly:
            meanwhile.alarm(each)
    if result.last is not None:
        last = with_all_spent(result.last, meanwhile.now(one).spent)
        facts.append(TupleDone(id=one.id, run=one.run, state="done", receipt=last))
    elif result.failed is not None:
        facts.append(_failed(view, meanwhile.now(one), result, settings))
    return facts + alarms


def _failed(view: WorkView, one: Kept, result: Settled, settings: SpaceSettings) -> Fact:
    """Another attempt after a while, or the end."""
    reason = result.failed or ""
    allowed = _retries(one, settings)
    if one.attempts > allowed or reason.partition(":")[0] in _NEVER_AGAIN:
        # A step that failed while others were under way may have been told with theirs, before the end is.
        known = (view.receipt(each) for each in view.receipts_of(one.id))
        before = [each for each in known if each is not None and each.attempt == one.attempts]
        codes = [receipt.exit for receipt in (*before, *result.receipts) if receipt.exit]
        return end(view, one, "dead", exit=codes[-1] if codes else REFUSED, error=reason, more=result.receipts)
    waits = min(settings.backoff << min(one.attempts - 1, 30), settings.max_backoff)
    return TupleReleased(id=one.id, ready_at=view.as_of + waits, reason=reason)


def _alarms(view: WorkView, nearly: Sequence[Kept], more: Price, settings: SpaceSettings) -> list[Fact]:
    """Tell, for each tuple that has nearly spent its budget, how much it will have spent."""
    facts: list[Fact] = []
    for each in nearly:
        says = {"tuple": each.id, "spent_micros": each.micros + more.micros, "budget_micros": each.budget_micros}
        says |= {"spent_tokens": each.tokens + more.tokens, "budget_tokens": each.budget_tokens}
        fields = {
            "lane": settings.alarm_lane,
            "payload": [{"yool": "op.budget.alarm", "args": says}],
            "src_ptr": [f"tuple://{each.id}"],
            "priority": 100,
        }
        draft = made_new(view, read_tuple(fields, each.tuple.authority, view.as_of))
        facts.append(TupleOut(id=draft.id, run=each.run, tuple=msgspec.Raw(draft.body)))
        facts.append(AlarmRaised(id=each.id, alarm=draft.id))
    return facts


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


def let_go(view: WorkView, held: Iterable[tuple[str, Fence]], *, reason: str) -> tuple[list[Fact], list[str]]:
    """Take tuples from holders who are known to be dead, unless somebody else holds them by now; tells which."""
    found = [one for each, fence in held if (one := view.find(each)) is not None and one.fence == fence]
    taken = [one.id for one in found if one.state == "claimed"]
    return [TupleReleased(id=each, reason=reason) for each in taken], taken
