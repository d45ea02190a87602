"""Enqueue: putting tuples into the space and taking waiting ones out of it.

As in `claims` and `completion`, each function looks at a view under the write lock and returns facts and an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec

from engrambus.core import SECOND_US, parse_time, print_time
from engrambus.errors import USE_ANOTHER_KEY, IdempotencyConflict, LaneFull, LineageTooLong, TupleNotFound
from engrambus.evidence.receipts import Receipt, new_receipt
from engrambus.space.tuples.blocks import awaited_ids
from engrambus.space.tuples.budgets import MAX_GENERATIONS, lineage
from engrambus.space.tuples.facts import Fact, IdempotencyKeyUsed, StepDone, TupleDone, TuplePut, TupleTaken
from engrambus.space.tuples.final_receipts import ACCEPT_YOOL, tuple_receipt
from engrambus.space.tuples.patterns import TuplePattern
from engrambus.space.tuples.ports import IdempotentPut, WorkView
from engrambus.space.tuples.rules import CheckedTuple, check_new, moved_later, read_tuple, with_free_id
from engrambus.space.tuples.values import SpaceSettings, TupleRecord

GC_LANE, GC_YOOL = "gc.urgent", "fs.gc.run"
"""Lane and yool of a tuple that requests garbage collection."""
GC_PAUSE_US = 300 * SECOND_US
"""Time after one collection during which no other is requested: each reads every receipt, and would free nothing."""

INTERNAL_AUTHORITY = {"user": None, "agent": "engrambus", "ci": False}
"""Authority of the tuples that the product puts itself."""
INTERNAL_RUN = "internal"
"""Run of the collections that the product requests itself; the id of no run of users (decision 106)."""


class PutResult(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to putting one tuple."""

    id: str
    new: bool
    """False if the tuple was already in the space."""
    receipt_id: str | None = None
    """Id of the acceptance receipt."""


def put(
    view: WorkView,
    drafts: Sequence[CheckedTuple],
    *,
    run: str,
    settings: SpaceSettings,
    admit: Callable[[CheckedTuple], int | None],
    accept: bool = False,
    replaces: str | None = None,
    idempotency: tuple[str, str] | None = None,
    every_run: bool = False,
    also_waiting: Mapping[str, int] = MappingProxyType({}),
) -> tuple[list[Fact], list[PutResult]]:
    """Put tuples, each id once. A draft without an id gets one that is new, by creating it some microseconds later.

    Args:
        view: The space as of now
        drafts: The tuples to put; all of them are put or none
        run: Id of the run they belong to
        settings: The queue limit
        admit: Refuses a tuple, or returns the number of retries its yools allow
        accept: Whether each new tuple gets an acceptance receipt
        replaces: Id of the dead letter that is put again
        idempotency: Key and request digest; a repeated request is answered with the first tuple
        every_run: Whether the caller sees other runs; if not, their tuples do not exist for it
        also_waiting: Number of tuples by lane that the same commit has put before
    """
    if idempotency is not None and (previous := view.idempotent_put(idempotency[0])) is not None:
        return [], [repeated_put(previous, idempotency[1])]
    key, request_digest = idempotency or (None, None)
    facts: list[Fact] = []
    answers: list[PutResult] = []
    new_receipts: dict[str, str | None] = {}  # by id of the tuples of this commit
    waiting: dict[str, int] = {}
    moved: dict[str, CheckedTuple] = {}  # the last copy of equal drafts, so that the search for the next starts there
    generations: dict[str, int] = {}  # depth of the tuples of this commit and of their parents
    existing = view.find_all([draft.id for draft in drafts])
    for draft in drafts:
        if draft.has_id and (draft.id in new_receipts or draft.id in existing):
            visible = draft.id in existing and (every_run or existing[draft.id].run == run)
            receipt_id = _acceptance_of(view, draft.id) if accept and visible else new_receipts.get(draft.id)
            answers.append(PutResult(id=draft.id, new=False, receipt_id=receipt_id))
            if idempotency is not None:
                facts.append(_key_used(draft.id, *idempotency, receipt_id))
            continue
        check_new(draft, view.as_of)
        retries = admit(draft)
        lane = draft.tuple.lane
        generation = _generation(view, draft.tuple.parent_id, generations, None if every_run else run)
        after = () if draft.tuple.after is msgspec.UNSET else draft.tuple.after
        blocked_by = awaited_ids(view, after, new_ids=new_receipts, run=None if every_run else run) if after else ()
        if draft.id in new_receipts or draft.id in existing:
            original_id = draft.id
            draft = with_free_id(
                moved_later(moved.get(original_id, draft)), lambda id: id in new_receipts or view.find(id) is not None
            )
            moved[original_id] = draft
        generations[draft.id] = generation
        if lane not in waiting:
            waiting[lane] = view.waiting_count(lane) + also_waiting.get(lane, 0)
        if waiting[lane] >= settings.queue_maxsize:
            raise _lane_full(lane, settings.queue_maxsize, waiting[lane])
        waiting[lane] += 1
        receipt = _acceptance(draft.id, view.as_of) if accept else None
        new_receipts[draft.id] = receipt.id if receipt else None
        facts.append(
            TuplePut(
                id=draft.id,
                run=run,
                tuple=msgspec.Raw(draft.body),
                accepted=receipt,
                replaces=replaces,
                idempotency_key=key,
                request_digest=request_digest,
                retries=retries,
                blocked_by=blocked_by,
            )
        )
        answers.append(PutResult(id=draft.id, new=True, receipt_id=receipt.id if receipt else None))
    return facts, answers


def repeated_put(previous: IdempotentPut, request_digest: str) -> PutResult:
    """Return the answer to a repeated request, or refuse another request under the same key."""
    if previous.request_digest != request_digest:
        raise IdempotencyConflict(field="Idempotency-Key", hint=USE_ANOTHER_KEY)
    return PutResult(id=previous.tuple_id, new=False, receipt_id=previous.receipt_id)


def _key_used(tuple_id: str, key: str, request_digest: str, receipt_id: str | None) -> IdempotencyKeyUsed:
    # decision 24: a key is used up by its first request, so it is journalled although no tuple is put.
    return IdempotencyKeyUsed(id=tuple_id, idempotency_key=key, request_digest=request_digest, accepted=receipt_id)


def _lane_full(lane: str, limit: int, waiting: int) -> LaneFull:
    return LaneFull(
        f"The lane '{lane}' is full.",
        field="lane",
        limit=limit,
        used=waiting,
        hint="Try again when workers have taken some of its tuples, or wait for room with `block`.",
    )


def _generation(view: WorkView, parent_id: str | None, depths: dict[str, int], run: str | None) -> int:
    """Return the depth of a tuple with that parent, 1 without one; refuse a parent that is absent or too deep.

    `run` is the only run the caller sees, None for all.
    """
    if parent_id is None:
        return 1
    if parent_id not in depths:
        parent = view.find(parent_id)
        if parent is None or run not in (None, parent.run):
            raise TupleNotFound("There is no such parent tuple.", field="parent_id", used=parent_id)
        depths[parent_id] = sum(1 for _ in lineage(view, parent))
    if depths[parent_id] >= MAX_GENERATIONS:
        raise LineageTooLong(
            f"A chain of parent tuples has at most {MAX_GENERATIONS} members, because all of them share spending.",
            field="parent_id",
            limit=MAX_GENERATIONS,
            used=depths[parent_id] + 1,
            hint="Choose a parent further up the chain.",
        )
    return depths[parent_id] + 1


def generation_below(view: WorkView, parent_id: str | None, run: str | None) -> int:
    """Return the depth of a tuple with that parent; `run` is the only run the caller sees, None for all."""
    return _generation(view, parent_id, {}, run)


def check_room(view: WorkView, lane: str, count: int, settings: SpaceSettings) -> None:
    """Refuse tuples that do not all fit into a lane."""
    waiting = view.waiting_count(lane)
    if waiting + count > settings.queue_maxsize:
        raise _lane_full(lane, settings.queue_maxsize, waiting)


def _acceptance(tuple_id: str, now_us: int) -> Receipt:
    now = print_time(now_us)
    return new_receipt(yool=ACCEPT_YOOL, tuple_id=tuple_id, started_at=now, ended_at=now, exit=0)


def _acceptance_of(view: WorkView, tuple_id: str) -> str | None:
    """Return the id of a tuple's acceptance receipt; if it has one, it is the first receipt."""
    receipt_id = next(iter(view.receipt_ids(tuple_id)), None)
    receipt = view.receipt(receipt_id) if receipt_id is not None else None
    return receipt_id if receipt is not None and receipt.yool == ACCEPT_YOOL else None


def record_finished(
    view: WorkView, draft: CheckedTuple, make_receipt: Callable[[str], Receipt], *, run: str
) -> tuple[list[Fact], tuple[str, Receipt]]:
    """Record work that was done outside the space: put a tuple and end it with its receipt, in one commit."""
    draft = with_free_id(draft, lambda id: view.find(id) is not None)
    receipt = make_receipt(draft.id)
    final = tuple_receipt(
        draft.id,
        executed=[receipt],
        receipts=[receipt.id],
        exit=receipt.exit,
        now=print_time(view.as_of),
        error=receipt.error,
    )
    return [
        TuplePut(id=draft.id, run=run, tuple=msgspec.Raw(draft.body)),
        StepDone(id=draft.id, step=0, run=run, receipt=receipt),
        TupleDone(id=draft.id, run=run, state="done", receipt=final),
    ], (draft.id, receipt)


def request_gc(view: WorkView) -> tuple[list[Fact], None]:
    """Put a tuple that requests garbage collection, if a collection can help now."""
    if not gc_would_help(view):
        return [], None
    draft = read_tuple(gc_draft(priority=100), INTERNAL_AUTHORITY, view.as_of)
    draft = with_free_id(draft, lambda id: view.find(id) is not None)
    return [TuplePut(id=draft.id, run=INTERNAL_RUN, tuple=msgspec.Raw(draft.body))], None


def gc_would_help(view: WorkView) -> bool:
    """True if no collection is requested or running, and none ended within the last GC_PAUSE_US."""
    if any(counts.lane == GC_LANE for counts in view.lane_counts()):
        return False
    newest = view.newest_in(GC_LANE)
    receipts = view.receipt_ids(newest.id) if newest is not None else []
    final = view.receipt(receipts[-1]) if receipts else None
    return final is None or parse_time(final.ended_at) + GC_PAUSE_US <= view.as_of


def gc_draft(**fields: Any) -> dict[str, Any]:
    """Return the draft of a tuple that requests garbage collection, with further fields."""
    return {"lane": GC_LANE, "payload": [{"yool": GC_YOOL, "args": {}}], **fields}


def take(view: WorkView, pattern: TuplePattern, *, by: str) -> tuple[list[Fact], TupleRecord | None]:
    """Remove one waiting tuple from the space."""
    records = view.claimable(pattern, epoch=view.current_epoch().number, limit=1)
    if not records:
        return [], None
    return [TupleTaken(id=records[0].id, by=by)], records[0]
