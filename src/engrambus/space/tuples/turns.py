"""Turns: the order in which tuples that may start are given to workers (decision 110).

The highest priority first. Among equal ones the run that was served longest ago in its lane, in it the parent tuple
whose children were served longest ago, and of those the oldest. What was never served comes before what was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heapreplace

from engrambus.space.tuples.values import Fence, TupleRecord

TurnKey = tuple[int, int, int, int, int, int]
"""Negated rank, turn and number of the run, turn and ordinal of the parent, ordinal: the least is served next."""

_EPOCH_BITS = 44


def turn_of(fence: Fence) -> int:
    """Return the number of a claim among all claims: what was served by it was served then."""
    return (fence.epoch << _EPOCH_BITS) + fence.counter


def in_turn(
    records: Iterable[TupleRecord],
    *,
    key: Callable[[TupleRecord], TurnKey],
    admit: Callable[[TupleRecord], bool],
    serve: Callable[[TupleRecord], None],
    limit: int,
) -> list[TupleRecord]:
    """Return the tuples that are served next, one after the other.

    `admit` says whether a tuple may start after those before it, and `serve` notes that it does. A key only grows by
    what is served, so it is enough to compute it again when it is the least.
    """
    heap = [(key(record), position, record) for position, record in enumerate(records)]
    heapify(heap)
    served: list[TupleRecord] = []
    while heap and len(served) < limit:
        least, position, record = heap[0]
        now = key(record)
        if now != least:
            heapreplace(heap, (now, position, record))
            continue
        heappop(heap)
        if admit(record):
            serve(record)
            served.append(record)
    return served
