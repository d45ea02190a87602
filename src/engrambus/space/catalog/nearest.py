"""The names most like one that is not there: few, and always the same ones."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import nsmallest

OFFERED = 3
_CLOSELY = 12
_LIKE = 0.6


def nearest_names(wanted: str, names: Sequence[str]) -> list[str]:
    """Up to three of some names, the likest first. All are looked at: a slip may be anywhere in a name."""
    from difflib import SequenceMatcher

    padded = f" {wanted} "
    grams = {padded[at : at + 3] for at in range(len(padded) - 2)}

    def unlikeness(name: str) -> tuple[float, str]:
        padded = f" {name} "
        return -sum([gram in padded for gram in grams]) / (len(grams) + len(name)), name

    pool = nsmallest(_CLOSELY, names, key=unlikeness)
    rated = [(SequenceMatcher(None, wanted, name, autojunk=False).ratio(), name) for name in pool]
    rated.sort(key=lambda each: (-each[0], each[1]))
    return [name for likeness, name in rated if likeness >= _LIKE][:OFFERED]
