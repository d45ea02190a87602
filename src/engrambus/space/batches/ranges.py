"""Ranges of leaves: sets of leaf numbers as sorted ranges that neither touch nor overlap."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class LeafRange(NamedTuple):
    """The leaves from `start` up to, but not including, `stop`."""

    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start


def count_leaves(ranges: Iterable[LeafRange]) -> int:
    """Return the number of leaves in ranges that do not overlap."""
    return sum(stop - start for start, stop in ranges)


def united(ranges: Iterable[LeafRange]) -> list[LeafRange]:
    """Return the same leaves as sorted ranges that neither touch nor overlap."""
    result: list[LeafRange] = []
    for start, stop in sorted(ranges):
        if start >= stop:
            continue
        if result and start <= result[-1].stop:
            result[-1] = LeafRange(result[-1].start, max(stop, result[-1].stop))
        else:
            result.append(LeafRange(start, stop))
    return result


def overlap(ranges: Iterable[LeafRange], span: LeafRange) -> list[LeafRange]:
    """Return the part of the ranges that lies in a span."""
    parts = (LeafRange(max(start, span.start), min(stop, span.stop)) for start, stop in ranges)
    return [part for part in parts if part.start < part.stop]


def without(ranges: Iterable[LeafRange], removed: Iterable[LeafRange]) -> list[LeafRange]:
    """Return the leaves of `ranges` that are not in `removed`."""
    remaining = list(ranges)
    for cut in removed:
        remaining = [
            part
            for start, stop in remaining
            for part in (LeafRange(start, min(stop, cut.start)), LeafRange(max(start, cut.stop), stop))
            if part.start < part.stop
        ]
    return remaining
