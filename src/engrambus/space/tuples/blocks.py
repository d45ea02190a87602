"""Blocks: what keeps a tuple from being claimed, although a worker could run it (decision 113).

A tuple is blocked by tuples that are not done, and by a reason that someone gave in words. It waits for a worker as
soon as nothing blocks it any more, in the same commit that takes the last block away.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from engrambus.core import short_id
from engrambus.errors import DependencyCycle, TooManyDependencies, TupleEnded, TupleNotFound
from engrambus.space.tuples.facts import Fact, TupleBlocked, TupleReleased, TupleUnblocked
from engrambus.space.tuples.ports import TupleBlock, WorkView
from engrambus.space.tuples.rules import MAX_DEPENDENCIES
from engrambus.space.tuples.values import ENDED, TASK_LANE, TupleRecord

MAX_DEPENDENTS = 4096
"""Tuples that may wait for one: the commit that ends it names all of them."""
MAX_AWAITED = 1000
"""Tuples that one may wait for, directly or through others: each new dependency is compared with all of them."""


def awaited_ids(
    view: WorkView, after: Sequence[str], *, new_ids: Collection[str] = (), run: str | None = None
) -> tuple[str, ...]:
    """Return the ids of those tuples that are not done yet; refuse ids that the caller does not see.

    Args:
        view: The space as of now
        after: Ids of the tuples to wait for; a dead letter stands for the tuple that replaced it
        new_ids: Ids of tuples that the same commit puts
        run: The only run that the caller sees, None for all; everybody sees tasks
    """
    awaited: dict[str, None] = {}
    for position, tuple_id in enumerate(after):
        if tuple_id in new_ids:
            awaited[tuple_id] = None
            continue
        record = _replacement(view, tuple_id)
        if record is None or record.state == "taken" or (run not in (None, record.run) and record.lane != TASK_LANE):
            raise TupleNotFound("There is no such tuple to wait for.", field=f"after[{position}]", used=tuple_id)
        if record.state != "done":
            awaited[record.id] = None
    _check_dependents(view, awaited)
    _check_awaited(view, awaited)
    return tuple(awaited)


def block(
    view: WorkView, record: TupleRecord, *, on: Sequence[str] = (), reason: str | None = None, by: str
) -> list[Fact]:
    """Return the facts that block a tuple that has not ended; a claim on it ends.

    Waiting for tuples that are done blocks nothing. A dependency that would close a circle is refused.
    """
    if record.state in ENDED:
        raise TupleEnded(f"The tuple is {record.state}.", field="id", used=record.id)
    blockers = {item.on for item in view.blocks(record.id)}
    new = tuple(tuple_id for tuple_id in awaited_ids(view, on) if tuple_id not in blockers)
    for tuple_id in new:
        check_no_cycle(view, record.id, tuple_id)
    if len(blockers) + len(new) > MAX_DEPENDENCIES:
        raise TooManyDependencies(field="after", limit=MAX_DEPENDENCIES, used=len(blockers) + len(new))
    if not new and reason is None:
        return []
    blocked = TupleBlocked(id=record.id, on=new, reason=reason, by=by)
    if record.state != "claimed":
        return [blocked]
    return [TupleReleased(id=record.id, ready_us=view.as_of, reason="blocked"), blocked]


def unblock(view: WorkView, record: TupleRecord, *, on: Sequence[str] = (), by: str) -> list[Fact]:
    """Return the facts that take blocks away: of these tuples, or else the reason and every tuple that has ended."""
    blocks = view.blocks(record.id)
    if on:
        removed = [item.on for item in blocks if item.on in on and item.on is not None]
        return [TupleUnblocked(id=record.id, on=tuple(removed), by=by)] if removed else []
    ended = tuple(item.on for item in blocks if item.on is not None and _has_ended(view, item.on))
    reason = any(item.on is None for item in blocks)
    return [TupleUnblocked(id=record.id, on=ended, reason=reason, by=by)] if ended or reason else []


def unblock_dependents(view: WorkView, tuple_id: str) -> list[Fact]:
    """Return the facts by which the tuples that were blocked by this one are so no longer, now that it is done."""
    return [TupleUnblocked(id=dependent, on=(tuple_id,)) for dependent in view.dependents(tuple_id)]


def freed_by(view: WorkView, tuple_id: str) -> list[str]:
    """Return the ids of the tuples that nothing but this one blocks."""
    return [
        dependent
        for dependent in view.dependents(tuple_id)
        if [item.on for item in view.blocks(dependent)] == [tuple_id]
    ]


def check_no_cycle(view: WorkView, tuple_id: str, awaited: str) -> None:
    """Refuse to let a tuple wait for one that waits for it, directly or through others; name the chain."""
    reached: dict[str, str | None] = {awaited: None}
    queue = [awaited]
    for current in queue:
        if current == tuple_id:
            chain = list(_chain(reached, current))
            chain_text = " waits for ".join(map(short_id, chain))
            raise DependencyCycle(
                f"{short_id(tuple_id)} would wait for itself: {chain_text}.",
                field="after",
                used=short_id(awaited),
                hint=f"`task.unblock` takes a dependency away: of {short_id(chain[-2])} on {short_id(chain[-1])}."
                if len(chain) > 1
                else "A tuple does not wait for itself.",
            )
        for blocker in _blockers(view, current):
            if blocker not in reached:
                reached[blocker] = current
                queue.append(blocker)


def describe_block(view: WorkView, item: TupleBlock) -> tuple[str, str | None]:
    """Return what blocks a tuple in words, and what to do about it if it will not go away by itself."""
    if item.on is None:
        by = f" ({item.by.rpartition('/')[2]})" if item.by else ""
        return f"blocked: {item.reason}{by}", None
    record, name = view.find(item.on), short_id(item.on)
    if record is None or record.state == "taken":
        return f"It waits for {name}, which was taken out.", f"--on {name}"
    if record.state == "dead":
        return f"It waits for {name}, which was given up.", f"engrambus again {name}"
    if record.state == "cancelled":
        return f"It waits for {name}, which was cancelled.", f"--on {name}"
    doing = (
        f", claimed by {str(record.worker).rpartition('/')[2]}" if record.state == "claimed" else f", {record.state}"
    )
    return f"It waits for {name}{doing}.", None


def _chain(reached: dict[str, str | None], tuple_id: str) -> Iterable[str]:
    """Yield the ids from a tuple to the one that the search began with, and the first one again."""
    path = [tuple_id]
    while (previous := reached[path[-1]]) is not None:
        path.append(previous)
    yield tuple_id
    yield from reversed(path[1:]) if len(path) > 1 else ()
    if len(path) > 1:
        yield tuple_id


def _replacement(view: WorkView, tuple_id: str) -> TupleRecord | None:
    """Return the tuple of an id, or of a dead letter the last one that was put in its place."""
    record = view.find(tuple_id)
    while record is not None and record.put_again_as is not None:
        record = view.find(record.put_again_as)
    return record


def _blockers(view: WorkView, tuple_id: str) -> list[str]:
    return [item.on for item in view.blocks(tuple_id) if item.on is not None]


def _has_ended(view: WorkView, tuple_id: str) -> bool:
    record = view.find(tuple_id)
    return record is None or record.state in ENDED or record.state == "taken"


def _check_dependents(view: WorkView, awaited: Iterable[str]) -> None:
    for tuple_id in awaited:
        used = len(view.dependents(tuple_id))
        if used >= MAX_DEPENDENTS:
            raise TooManyDependencies(
                f"{used} tuples wait for {short_id(tuple_id)} already.",
                field="after",
                limit=MAX_DEPENDENTS,
                used=used + 1,
            )


def _check_awaited(view: WorkView, awaited: Iterable[str]) -> None:
    reached = dict.fromkeys(awaited)
    queue = list(reached)
    for current in queue:
        for blocker in _blockers(view, current):
            if blocker not in reached:
                reached[blocker] = None
                queue.append(blocker)
        if len(queue) > MAX_AWAITED:
            raise TooManyDependencies(
                "The tuple would wait for too many others, directly or through them.",
                field="after",
                limit=MAX_AWAITED,
                used=len(queue),
                hint="Put it once some of them are done.",
            )
