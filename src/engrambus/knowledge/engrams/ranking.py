"""Recall: the engrams that share most with a question, found through its keys alone.

For each key the newest `DEPTH` live engrams inside what the caller may see are read. A key found on few of them
weighs more than one found on many; an engram's rank is the sum of the weights of the keys it was found by. A phrase is
looked for only where every shorter phrase in it that was asked for has been found. Equal ranks
are parted by scope (the nearest first), then recency in whole seconds, confidence, how many of its pointers lead to
a file the question names, and last by id. All of it is integer arithmetic over what the journal says, so the same
store and the same question give the same answer everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from engrambus.core import SECOND
from engrambus.knowledge.engrams.keys import name_keys
from engrambus.knowledge.engrams.ports import EVERYTHING, Traits, VisibleStore, kind_key
from engrambus.knowledge.engrams.values import Engram

DEPTH = 64
"""How many postings of one key are looked at."""

DEFAULT_K = 12
MAX_K = 100

_NEARNESS = {"run": 0, "project": 1, "org": 2, "global": 3}


def weight(found: int) -> int:
    """What a key is worth that was found on this many engrams: 1 for a common key, 7 for a unique one."""
    return max(1, (DEPTH // found).bit_length())


def recall(
    visible_stores: Sequence[VisibleStore], keys: Sequence[str], *, k: int, kind: str | None = None
) -> list[Engram]:
    """The k engrams that answer these keys best, best first, over every store in sight."""
    ranks: dict[int, int] = {}  # by ordinal × number of stores + which of them, so one integer names an engram
    stores = len(visible_stores)
    missing: set[str] = set()
    for key in sorted(keys, key=_words):
        if missing and _holds_missing(key, missing):
            missing.add(key)
            continue
        found = [sight.reads.postings(sight.spaces, key, kind=kind, limit=DEPTH) for sight in visible_stores]
        if not any(found):
            missing.add(key)
            continue
        worth = weight(sum(map(len, found)))
        for store, ordinals in enumerate(found):
            for ordinal in ordinals:
                name = ordinal * stores + store
                ranks[name] = ranks.get(name, 0) + worth
    if not ranks:
        return []
    asked = frozenset(keys)
    contenders = _contenders(ranks, k)
    ordered = [
        (_order(ranks[traits.ordinal * stores + store], traits, asked), store, traits.ordinal)
        for store, sight in enumerate(visible_stores)
        for traits in sight.reads.traits([name // stores for name in contenders if name % stores == store])
    ]
    ordered.sort()
    return [visible_stores[store].reads.engrams((ordinal,))[0] for _, store, ordinal in ordered[:k]]


def posted_keys(engram: Engram, more_keys: Iterable[str]) -> tuple[str, ...]:
    """Everything an engram is posted under: itself, its kind, and the keys it is found by."""
    return (EVERYTHING, kind_key(engram.kind), *engram.hash_keys, *more_keys)


def _words(key: str) -> int:
    return key.count("+")


def _holds_missing(phrase: str, missing: set[str]) -> bool:
    """Whether a phrase holds one of a word fewer that was looked for in vain."""
    head, plus, _ = phrase.rpartition("+")
    return bool(plus) and (head in missing or phrase.partition("+")[2] in missing)


def pointer_names(engram: Engram) -> str:
    """The names an engram's pointers lead to, as keys, parted by spaces."""
    return " ".join(name_keys(pointer.ref for pointer in engram.pointers))


def _contenders(ranks: dict[int, int], k: int) -> list[int]:
    """Those that could be among the first k: every one whose rank is at least the k-th highest."""
    if len(ranks) <= k:
        return list(ranks)
    floor = sorted(ranks.values(), reverse=True)[k - 1]
    return [name for name, rank in ranks.items() if rank >= floor]


def _order(rank: int, traits: Traits, asked: frozenset[str]) -> tuple[int, int, int, float, int, str]:
    overlap = sum(name in asked for name in traits.names.split())
    return (
        -rank,
        _NEARNESS[traits.scope],
        -(traits.created_at // SECOND),
        -traits.confidence,
        -overlap,
        traits.id,
    )
