"""Recall: find the engrams that share most with a question, through its keys alone.

For each key the newest `DEPTH` live engrams that the caller may see are read. A key found on few of them weighs more
than one found on many; an engram's rank is the sum of the weights of the keys it was found by. A phrase is looked up
only if the shorter phrases in it were found. Of equal ranks, untrusted engrams come last, and
before them those learned from the repository; then they are ordered by scope (the nearest first), by age in whole
seconds, confidence, how many of its pointers lead to a file the question names, and last by id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeAlias, TypeVar

from engrambus.core import SECOND_US
from engrambus.knowledge.engrams.keys import name_keys
from engrambus.knowledge.engrams.memories import engram_of_memory
from engrambus.knowledge.engrams.ports import EVERYTHING, HELD, HELD_KINDS, Traits, VisibleStore, kind_key
from engrambus.knowledge.engrams.values import Engram, is_memory

# decision 8: a window bounds the cost of a query whatever the size of the store, and integer ranks give the same answer
# on every machine
DEPTH = 64
"""How many engrams are read for one key."""

DEFAULT_K = 12
MAX_K = 100

T = TypeVar("T")

_Order: TypeAlias = tuple[int, bool, bool, int, int, float, int, str]
"""What candidates are sorted by; its last part is the id."""

_DISTANCE = {"run": 0, "project": 1, "org": 2, "global": 3}


class RankedEngram(NamedTuple):
    """An engram that answers a question."""

    engram: Engram
    is_untrusted: bool


def recall(stores: Sequence[VisibleStore], keys: Sequence[str], *, k: int, kind: str | None = None) -> list[Engram]:
    """Return the k engrams and memories that answer these keys best, best first, over every visible store."""
    return [ranked.engram for ranked in rank(stores, keys, k=k, kind=kind)]


def rank(stores: Sequence[VisibleStore], keys: Sequence[str], *, k: int, kind: str | None = None) -> list[RankedEngram]:
    """Return the k engrams and memories that answer these keys best, best first, with whether each is untrusted."""
    ranks = _ranks(stores, keys, kind)
    untrusted = {index for index, store in enumerate(stores) if store.is_untrusted}
    limit = k
    while True:
        ordered = _ordered(stores, ranks, frozenset(keys), limit)
        distinct = _shown_once(stores, ordered, kind)
        if len(distinct) >= k or len(ordered) == len(ranks):
            break
        limit *= 2  # a memory and its engram were among the best, and count as one
    best = with_own_share(distinct, k, lambda entry: entry.store in untrusted) if untrusted else distinct[:k]
    return [
        RankedEngram(stores[entry.store].reads.engrams((entry.ordinal,))[0], entry.store in untrusted) for entry in best
    ]


class _Entry(NamedTuple):
    """A candidate; sorting puts the best first."""

    order: _Order
    store: int
    """Index of its store."""
    ordinal: int


def _ranks(stores: Sequence[VisibleStore], keys: Sequence[str], kind: str | None) -> dict[int, int]:
    """Return the rank of every candidate: by ordinal × number of stores + index of the store, one integer."""
    ranks: dict[int, int] = {}
    store_count = len(stores)
    missing: set[str] = set()
    for key in sorted(keys, key=_phrase_length):  # words first, because a missing word rules out its phrases
        if missing and _contains_missing(key, missing):
            missing.add(key)
            continue
        postings = [store.reads.postings(store.spaces, key, kind=kind, limit=DEPTH) for store in stores]
        if not any(postings):
            missing.add(key)
            continue
        key_weight = _weight(_count(list(map(_posting_counter(key, kind), stores, postings)), stores))
        for store_index, ordinals in enumerate(postings):
            for ordinal in ordinals:
                name = ordinal * store_count + store_index
                ranks[name] = ranks.get(name, 0) + key_weight
    return ranks


def _ordered(stores: Sequence[VisibleStore], ranks: dict[int, int], keys: frozenset[str], wanted: int) -> list[_Entry]:
    """Return the candidates that could be among the best `wanted`, and among as many untrusted ones, in order."""
    store_count = len(stores)
    untrusted = {index for index, store in enumerate(stores) if store.is_untrusted}
    contenders = [
        *_contenders({name: rank for name, rank in ranks.items() if name % store_count not in untrusted}, wanted),
        *_contenders({name: rank for name, rank in ranks.items() if name % store_count in untrusted}, wanted),
    ]
    learned = [store.reads.learned_ordinals(store.spaces) for store in stores]
    return sorted(
        _Entry(
            _order(
                ranks[traits.ordinal * store_count + store_index],
                store.is_untrusted,
                traits.ordinal in learned[store_index],
                traits,
                keys,
            ),
            store_index,
            traits.ordinal,
        )
        for store_index, store in enumerate(stores)
        for traits in store.reads.traits([n // store_count for n in contenders if n % store_count == store_index])
    )


def _shown_once(stores: Sequence[VisibleStore], ordered: Sequence[_Entry], kind: str | None) -> list[_Entry]:
    """Return the candidates with a memory replaced by its engram, if it has one of this kind, and each only once."""
    # decision 81: whichever of the two was found, the engram stands for both, at the better place
    if not any(is_memory(entry.order[-1]) for entry in ordered):
        return list(ordered)
    entries: dict[tuple[int, int], _Entry] = {}
    for entry in ordered:
        if is_memory(entry.order[-1]):
            reads = stores[entry.store].reads
            engram = engram_of_memory(reads, reads.engrams((entry.ordinal,))[0])
            if engram is not None and (kind is None or reads.engrams((engram,))[0].kind == kind):
                entry = entry._replace(ordinal=engram)
        entries.setdefault((entry.store, entry.ordinal), entry)
    return list(entries.values())


def with_own_share(ordered: Sequence[T], k: int, is_untrusted: Callable[[T], bool]) -> list[T]:
    """Return the first k entries, of which untrusted ones take up to half, or more where nothing else was found."""
    # decision 68: claims that a stranger stuffed with keys never push the project's own out of an answer
    own = [index for index, entry in enumerate(ordered) if not is_untrusted(entry)]
    foreign = [index for index, entry in enumerate(ordered) if is_untrusted(entry)]
    share = max(k // 2, k - len(own))
    chosen = sorted([*own, *foreign[:share]])[:k]
    return [ordered[index] for index in chosen]


def posted_keys(engram: Engram, more_keys: Iterable[str]) -> tuple[str, ...]:
    """Return every key an engram is posted under: the common one, its kind, and the keys it is found by."""
    held = (kind_key(HELD),) if engram.kind in HELD_KINDS else ()
    return (EVERYTHING, kind_key(engram.kind), *held, *engram.hash_keys, *more_keys)


def pointer_names(engram: Engram) -> str:
    """Return the names an engram's pointers lead to, as keys separated by spaces."""
    return " ".join(name_keys(pointer.ref for pointer in engram.pointers))


def _posting_counter(key: str, kind: str | None) -> Callable[[VisibleStore, Sequence[int]], int]:
    """Return a function that counts the engrams a store has under a key, given those that are visible."""

    # decision 50: a role rule hides rows and changes no weight, so the hidden ones are counted
    def count(store: VisibleStore, visible: Sequence[int]) -> int:
        if store.counted is None:
            return len(visible)
        return len(store.counted.postings(store.spaces, key, kind=kind, limit=DEPTH))

    return count


def _count(posting_counts: Sequence[int], stores: Sequence[VisibleStore]) -> int:
    """Return how many engrams a key counts as found on: untrusted ones only if there are no others."""
    # decision 68: a flood of adopted engrams changes no weight, so the project's own keep their order
    trusted = sum(count for count, store in zip(posting_counts, stores, strict=True) if not store.is_untrusted)
    return trusted or sum(posting_counts)


def _weight(posting_count: int) -> int:
    """Return the weight of a key found on this many engrams: 1 for a common key, 7 for a unique one."""
    return max(1, (DEPTH // posting_count).bit_length())


def _phrase_length(key: str) -> int:
    return key.count("+")


def _contains_missing(phrase: str, missing: set[str]) -> bool:
    """True if the phrase contains one of a word fewer that was looked up in vain."""
    head, plus, _ = phrase.rpartition("+")
    return bool(plus) and (head in missing or phrase.partition("+")[2] in missing)


def _contenders(ranks: dict[int, int], k: int) -> list[int]:
    """Return the engrams that could be among the first k: those whose rank is at least the k-th highest."""
    if len(ranks) <= k:
        return list(ranks)
    lowest = sorted(ranks.values(), reverse=True)[k - 1]
    return [name for name, rank in ranks.items() if rank >= lowest]


def _order(rank: int, is_untrusted: bool, is_learned: bool, traits: Traits, keys: frozenset[str]) -> _Order:
    named_files = sum(name in keys for name in traits.names.split())
    return (
        -rank,
        is_untrusted,
        is_learned,
        _DISTANCE[traits.scope],
        -(traits.created_us // SECOND_US),
        -traits.confidence,
        -named_files,
        traits.id,
    )
