"""How tuples come into the space, and what takes them out of it before anyone has worked on them.

Here as in `holding`, each function looks at a view under the write lock and says what happens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from engrambus.core import SECOND, parse_time, print_time
from engrambus.errors import IdempotencyConflict, LaneFull, LineageTooLong, TimeInvalid, TupleEnded, TupleNotFound
from engrambus.evidence.receipts import Receipt, seal
from engrambus.space.tuples.endings import ACCEPTED, CANCELLED, end, whole
from engrambus.space.tuples.facts import Fact, StepDone, TupleAsked, TupleDone, TupleOut, TupleTaken
from engrambus.space.tuples.money import MAX_GENERATIONS, lineage
from engrambus.space.tuples.patterns import Pattern
from engrambus.space.tuples.ports import WorkView
from engrambus.space.tuples.rules import Checked, check_new, moved_on, read_tuple
from engrambus.space.tuples.settings import SpaceSettings
from engrambus.space.tuples.values import ENDED, Kept

GC_LANE, GC_YOOL = "gc.urgent", "fs.gc.run"
"""Where a tuple that asks for room waits, and what it asks for."""
GC_PAUSE = 300 * SECOND
"""So long after one has ended no other asks: what could go has gone, and each looks at every receipt."""

FEW = 16
"""How many tuples that say the same are passed one by one."""

OWN_AUTHORITY = {"user": None, "agent": "engrambus", "ci": False}
"""On whose authority the product's own tuples run."""


class Put(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a tuple that was put."""

    id: str
    new: bool
    """Not when the space had it already."""
    accepted: str | None = None
    """The id of the receipt for taking it in."""


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
    every_run: bool = False,
) -> tuple[list[Fact], list[Put]]:
    """Let tuples in: each once by its id; one that came without an id is moved on until its id is new.

    `asked` is an idempotency key and the digest of the request: asked again, the same tuple is the answer. `admit`
    refuses a tuple, or tells how often its yools let it be tried again. To those who do not see `every_run`, what is
    of another one is absent.
    """
    key, request = asked or (None, None)
    if key is not None and (before := view.asked(key)) is not None:
        if before.request != request:
            raise IdempotencyConflict(field="Idempotency-Key", used=key.partition(" ")[2])
        return [], [Put(id=before.id, new=False, accepted=before.accepted)]
    facts: list[Fact] = []
    answers: list[Put] = []
    fresh: dict[str, str | None] = {}  # with the receipt for taking it in
    depth: dict[str, int] = {}
    moved: dict[str, Checked] = {}  # the last of those that were the same, so that the next one begins behind it
    generations: dict[str, int] = {}  # of those that come now, and of their parents
    there = view.find_all([draft.id for draft in drafts])
    for draft in drafts:
        if draft.named and (draft.id in fresh or draft.id in there):
            ours = draft.id in there and (every_run or there[draft.id].run == run)
            before_it = _receipt_for(view, draft.id) if accept and ours else fresh.get(draft.id)
            answers.append(Put(id=draft.id, new=False, accepted=before_it))
            if key is not None and request is not None:
                facts.append(TupleAsked(id=draft.id, asked=key, request=request, accepted=before_it))
            continue
        check_new(draft, view.as_of)
        retries = admit(draft)
        parent, lane = draft.tuple.parent_id, draft.tuple.lane
        generation = _generation(view, parent, generations, None if every_run else run)
        if draft.id in fresh or draft.id in there:
            first = draft.id
            draft = _free(moved_on(moved.get(first, draft)), lambda each: each in fresh or view.find(each) is not None)
            moved[first] = draft
        generations[draft.id] = generation
        if lane not in depth:
            depth[lane] = view.waiting(lane)
        if depth[lane] >= settings.queue_maxsize:
            raise LaneFull(
                f"The lane '{lane}' is full.", field="lane", limit=settings.queue_maxsize, used=depth[lane],
                hint="Wait for workers to take some, or ask to wait.",
            )  # fmt: skip
        depth[lane] += 1
        receipt = _accepted(draft.id, view.as_of) if accept else None
        fresh[draft.id] = receipt.id if receipt else None
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


def _generation(view: WorkView, parent: str | None, known: dict[str, int], run: str | None) -> int:
    """The how-manieth a tuple of that parent is among those it is a part of.

    Refused past those that are counted, and for a parent that is not there, or not of the one run that is seen.
    """
    if parent is None:
        return 1
    if parent not in known:
        one = view.find(parent)
        if one is None or run not in (None, one.run):
            raise TupleNotFound("There is no such parent tuple.", field="parent_id", used=parent)
        known[parent] = sum(1 for _ in lineage(view, one))
    if known[parent] >= MAX_GENERATIONS:
        raise LineageTooLong(
            f"What is spent counts for {MAX_GENERATIONS} tuples that are parts of each other.",
            field="parent_id",
            limit=MAX_GENERATIONS,
            used=known[parent] + 1,
            hint="Make it a part of one further up.",
        )
    return known[parent] + 1


def _accepted(tuple_id: str, at: int) -> Receipt:
    moment = print_time(at)
    return seal(yool=ACCEPTED, tuple_id=tuple_id, started_at=moment, ended_at=moment, exit=0)


def _receipt_for(view: WorkView, tuple_id: str) -> str | None:
    """The id of the receipt for taking a tuple in, if it got one: then it is its first."""
    first = next(iter(view.receipts_of(tuple_id)), None)
    receipt = view.receipt(first) if first is not None else None
    return first if receipt is not None and receipt.yool == ACCEPTED else None


def made_new(view: WorkView, draft: Checked) -> Checked:
    """The same tuple, moved on until its id is new."""
    return _free(draft, lambda each: view.find(each) is not None)


def _free(draft: Checked, taken: Callable[[str], bool]) -> Checked:
    """The same tuple, moved on until its id is free: a step at a time, and past many that say the same in leaps.

    Where those are one behind the other, it gets the moment that single steps would have led to.
    """
    for _ in range(FEW):
        if not taken(draft.id):
            return draft
        draft = moved_on(draft)

    def is_taken(steps: int) -> bool:
        try:
            return taken(moved_on(draft, steps).id)
        except TimeInvalid:  # beyond the end of time
            return False

    low, high = -1, 0
    while is_taken(high):
        low, high = high, 2 * high + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if is_taken(middle) else (low, middle)
    return moved_on(draft, high) if high else draft


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
    if one.deadline is not None and one.deadline <= view.as_of:  # nothing could be begun
        del fields["agent_terms"]["deadline_iso"]
    draft = read_tuple(fields, authority, view.as_of)
    return put(view, [draft], run=one.run, settings=settings, admit=admit, again=tuple_id, every_run=True)


def record(
    view: WorkView, draft: Checked, made: Callable[[str], Receipt], *, run: str
) -> tuple[list[Fact], tuple[str, Receipt]]:
    """Write down something that was done elsewhere: a tuple that comes in with its receipt, and has ended."""
    draft = made_new(view, draft)
    receipt = made(draft.id)
    last = whole(
        draft.id,
        own=[receipt],
        receipts=[receipt.id],
        exit=receipt.exit,
        at=print_time(view.as_of),
        error=receipt.error,
    )
    return [
        TupleOut(id=draft.id, run=run, tuple=msgspec.Raw(draft.body)),
        StepDone(id=draft.id, step=0, run=run, receipt=receipt),
        TupleDone(id=draft.id, run=run, state="done", receipt=last),
    ], (draft.id, receipt)


def call_for_room(view: WorkView, *, run: str | None) -> tuple[list[Fact], None]:
    """Put a tuple that asks for room, in a run or the last one with work, unless that would not help now."""
    run = run or next((each.run for each in reversed(view.runs())), None)
    if run is None or not would_help(view):
        return [], None
    draft = made_new(view, read_tuple(gc_draft(priority=100), OWN_AUTHORITY, view.as_of))
    return [TupleOut(id=draft.id, run=run, tuple=msgspec.Raw(draft.body))], None


def would_help(view: WorkView) -> bool:
    """Whether room can be asked for: nobody is about to make some, and the last who did has not just ended."""
    if any(each.lane == GC_LANE for each in view.lanes()):
        return False
    last = view.last_in(GC_LANE)
    receipts = view.receipts_of(last.id) if last is not None else []
    ended = view.receipt(receipts[-1]) if receipts else None
    return ended is None or parse_time(ended.ended_at) + GC_PAUSE <= view.as_of


def gc_draft(**more: Any) -> dict[str, Any]:
    """A tuple that asks for room."""
    return {"lane": GC_LANE, "payload": [{"yool": GC_YOOL, "args": {}}], **more}


def take(view: WorkView, pattern: Pattern, *, by: str) -> tuple[list[Fact], Kept | None]:
    """Take one waiting tuple out for good."""
    found = view.claimable(pattern, epoch=view.reign().epoch, limit=1)
    if not found:
        return [], None
    return [TupleTaken(id=found[0].id, by=by)], found[0]


def cancel(view: WorkView, tuple_id: str) -> tuple[list[Fact], Receipt]:
    """End a tuple that waits or is being worked on; whoever holds it may write no more."""
    one = view.find(tuple_id)
    if one is None or one.state == "taken":
        raise TupleNotFound(field="id", used=tuple_id)
    if one.state in ENDED:
        raise TupleEnded(f"The tuple is {one.state}.", field="id", used=tuple_id)
    ended = end(view, one, "cancelled", exit=CANCELLED, error="cancelled")
    return [ended], ended.receipt
