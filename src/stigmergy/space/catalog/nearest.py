"""The names most like one that is not there: few, quickly, and always the same ones."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

OFFERED = 3
POOL = 2_000
"""How many names are looked at: all of a small catalog, those around the place it would stand in a large one."""
_CLOSELY = 12
_LIKE = 0.6


def nearest_names(wanted: str, names: Sequence[str]) -> list[str]:
    """Up to three of some sorted names, the likest first."""
    from difflib import SequenceMatcher

    at = bisect_left(names, wanted)
    start = max(0, min(at - POOL // 2, len(names) - POOL))
    grams = _grams(wanted)
    pool = sorted(names[start : start + POOL], key=lambda name: (-_overlap(grams, _grams(name)), name))
    rated = [(SequenceMatcher(None, wanted, name, autojunk=False).ratio(), name) for name in pool[:_CLOSELY]]
    rated.sort(key=lambda each: (-each[0], each[1]))
    return [name for likeness, name in rated if likeness >= _LIKE][:OFFERED]


def _grams(name: str) -> set[str]:
    padded = f" {name} "
    return {padded[at : at + 3] for at in range(len(padded) - 2)}


def _overlap(one: set[str], other: set[str]) -> float:
    return 2 * len(one & other) / (len(one) + len(other))
