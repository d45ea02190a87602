"""Ranking: the k engrams that answer a question best, the same on every machine.

Every live engram that the caller may see is scored: each key of the question adds the weight of the lists that the
engram is on (`counting`). A key found on few engrams weighs more; a word of the pointed lines weighs less than one of
the claim, and a phrase little, because its words count already (`weights`). What points only at changes of the past
counts half. Then the best `POOL` of each space are looked at more closely: what one author put in a row lends words
(`sequences`), and what others used or confirmed gains a little (`value`). Ties go to trusted engrams, then to what
people and agents stated before what was learned, then to the nearer scope, the newer second, the higher confidence, the
more pointers to files that the question names, and the lower id.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple, TypeAlias, TypeVar

from engrambus.core import SECOND_US
from engrambus.knowledge.engrams.counting import Candidate, Scores, WeightedList, count_scores
from engrambus.knowledge.engrams.keys import name_keys
from engrambus.knowledge.engrams.memories import engram_of_memory
from engrambus.knowledge.engrams.ports import EVERYTHING, HELD, HELD_KINDS, Traits, VisibleStore, held_key, kind_key
from engrambus.knowledge.engrams.postings import LINE, LONG_LINE, PostingChunk, count_postings, is_line_key
from engrambus.knowledge.engrams.sequences import lend, sequence_of
from engrambus.knowledge.engrams.values import Engram, is_memory
from engrambus.knowledge.engrams.weights import list_weight

DEFAULT_K = 12
MAX_K = 100
POOL = 200
"""Engrams of a space whose neighbours in a sequence are looked at."""

T = TypeVar("T")

_Order: TypeAlias = tuple[int, bool, bool, int, int, float, int, str]
"""What candidates are sorted by; its last part is the id."""

ONLY_CHANGES = "only=changes"
"""The key of engrams that point at nothing but changes: they say what was done, and count half of what says what is."""
VALUE_PARTS = 64
"""Parts of its score, one for each step of its value, that an engram gains from what others did with it."""
IN_SEQUENCE = "in=sequence"
"""The key of engrams that are in a sequence, so that a question does not look for neighbours where there are none."""

_DISTANCE = {"run": 0, "project": 1, "org": 2, "global": 3}


class RankedEngram(NamedTuple):
    """An engram that answers a question."""

    engram: Engram
    is_untrusted: bool
    score: int = 0
    """Weight of what it shares with the question, with what it gained from its neighbours."""


def recall(stores: Sequence[VisibleStore], keys: Sequence[str], *, k: int, kind: str | None = None) -> list[Engram]:
    """Return the k engrams and memories that answer these keys best, best first, over every visible store."""
    return [ranked.engram for ranked in rank(stores, keys, k=k, kind=kind)]


def rank(stores: Sequence[VisibleStore], keys: Sequence[str], *, k: int, kind: str | None = None) -> list[RankedEngram]:
    """Return the k engrams and memories that answer these keys best, best first, with whether each is untrusted."""
    lists = _weighted_lists(stores, keys)
    asked = frozenset(keys)
    wanted = 2 * k  # a memory and its engram may both be found, and are shown once
    entries = [entry for space, weighted in lists.items() for entry in _best_of(space, weighted, asked, kind, wanted)]
    ordered = sorted(entries, key=lambda entry: (entry.order, entry.ordinal))
    distinct = _shown_once(ordered, kind)
    best = with_own_share(distinct, k, lambda entry: entry.store.is_untrusted)
    return [
        RankedEngram(entry.store.reads.engrams((entry.ordinal,))[0], entry.store.is_untrusted, -entry.order[0])
        for entry in best
    ]


class _Space(NamedTuple):
    """A space of a store. All its engrams are of one scope, and trusted or not."""

    store: VisibleStore
    name: str

    def chunks(self, key: str) -> Sequence[PostingChunk]:
        return self.store.reads.chunks(self.name, key)


class _Entry(NamedTuple):
    """A candidate."""

    order: _Order
    ordinal: int
    store: VisibleStore


def _weighted_lists(stores: Sequence[VisibleStore], keys: Sequence[str]) -> dict[_Space, list[WeightedList]]:
    """Return the lists that the question is on, in every space that has any."""
    spaces = [_Space(store, name) for store in stores for name in store.spaces]
    for store in stores:
        store.reads.expect_chunks(store.spaces, [name for key in keys for name in _posted_as(key)] + [ONLY_CHANGES])
    total = _frequency([(space, space.store.reads.count(space.name)) for space in spaces])
    lists: dict[_Space, list[WeightedList]] = {}
    missing: set[str] = set()
    for key in sorted(keys, key=_phrase_length):  # words first, because a missing word rules out its phrases
        if missing and _contains_missing(key, missing):
            missing.add(key)
            continue
        posted_lists = [
            (space, name, chunks) for space in spaces for name in _posted_as(key) if (chunks := space.chunks(name))
        ]
        if not any(name == key for _, name, _ in posted_lists):
            missing.add(key)
        # A word is as rare as the engrams are that have it in the claim or in their lines.
        frequency = _frequency([(space, count_postings(chunks)) for space, _, chunks in posted_lists])
        for space, name, chunks in posted_lists:
            weighted = WeightedList(key, list_weight(name, frequency, total), chunks)
            lists.setdefault(space, []).append(weighted)
    return lists


def _posted_as(key: str) -> tuple[str, ...]:
    """Return the names of the lists that a key of a question is looked up in."""
    return (key,) if _phrase_length(key) else (key, LINE + key, LONG_LINE + key)


def _frequency(counts: Sequence[tuple[_Space, int]]) -> int:
    """Return how many engrams a key counts as found on: untrusted ones only if there are no others."""
    # decision 68: a flood of adopted engrams changes no weight, so the project's own keep their order
    trusted = sum(count for space, count in counts if not space.store.is_untrusted)
    return trusted or sum(count for _, count in counts)


def _best_of(
    space: _Space, lists: Sequence[WeightedList], asked: frozenset[str], kind: str | None, wanted: int
) -> list[_Entry]:
    """Return the best entries of a space, at least `wanted` if so many are found, after lending."""
    reads = space.store.reads
    learned = reads.learned_ordinals((space.name,))
    allowed = None if kind is None else space.chunks(kind_key(kind))
    scores = count_scores(lists, allowed, halved=space.chunks(ONLY_CHANGES))
    has_sequences = bool(reads.postings((space.name,), IN_SEQUENCE, kind=None, limit=1))
    pool, traits = _pool(space, scores, learned, wanted, max(wanted, POOL if has_sequences else 0))

    def visible_rows(ordinals: Sequence[int], reach: int) -> dict[int, int]:
        rows = reads.sequence_rows(space.name, ordinals, reach)
        return {ordinal: rows[ordinal] for ordinal in reads.visible(list(rows))}  # what is hidden lends nothing

    lent = lend(pool, traits, scores, visible_rows) if has_sequences else {c.ordinal: c.score for c in pool}
    traits |= {row.ordinal: row for row in reads.traits([ordinal for ordinal in lent if ordinal not in traits])}
    # Few engrams have a value, and it moves none far: those near the best are asked for it.
    near = sorted(lent, key=lambda ordinal: -lent[ordinal])[: 2 * wanted]
    for ordinal, value in reads.values(near).items():
        lent[ordinal] += lent[ordinal] * value // VALUE_PARTS
    return [
        _Entry(
            _order(score, space.store.is_untrusted, ordinal in learned, traits[ordinal], asked), ordinal, space.store
        )
        for ordinal, score in lent.items()
    ]


def _pool(
    space: _Space, scores: Scores, learned: frozenset[int], wanted: int, size: int
) -> tuple[list[Candidate], dict[int, Traits]]:
    """Return the best visible engrams of a space by their keys: `size`, or all that tie with the last wanted."""
    reads = space.store.reads
    read = size + 1
    while True:
        best = scores.best(read, learned)
        visible = set(reads.visible([candidate.ordinal for candidate in best]))
        pool = [candidate for candidate in best if candidate.ordinal in visible]
        if len(best) < read or (len(pool) > size and pool[wanted - 1].score != pool[-1].score):
            break
        if len(pool) > size:  # the newest come first, so the tie ends with the second of the last wanted
            last, beyond = (
                (candidate.ordinal in learned, row.created_us // SECOND_US)
                for candidate in (pool[wanted - 1], pool[-1])
                for row in reads.traits((candidate.ordinal,))
            )
            if last != beyond:
                break
        read *= 4
    return pool, {row.ordinal: row for row in reads.traits([candidate.ordinal for candidate in pool])}


def _shown_once(ordered: Sequence[_Entry], kind: str | None) -> list[_Entry]:
    """Return the candidates with a memory replaced by its engram, if it has one of this kind, and each only once."""
    # decision 81: whichever of the two was found, the engram stands for both, at the better place
    if not any(is_memory(entry.order[-1]) for entry in ordered):
        return list(ordered)
    entries: dict[tuple[int, int], _Entry] = {}
    for entry in ordered:
        if is_memory(entry.order[-1]):
            reads = entry.store.reads
            engram = engram_of_memory(reads, reads.engrams((entry.ordinal,))[0])
            if engram is not None and (kind is None or reads.engrams((engram,))[0].kind == kind):
                entry = entry._replace(ordinal=engram)
        entries.setdefault((id(entry.store.reads), entry.ordinal), entry)
    return list(entries.values())


def with_own_share(ordered: Sequence[T], k: int, is_untrusted: Callable[[T], bool]) -> list[T]:
    """Return the first k entries, of which untrusted ones take up to half, or more where nothing else was found."""
    # decision 68: claims that a stranger stuffed with keys never push the project's own out of an answer
    own = [index for index, entry in enumerate(ordered) if not is_untrusted(entry)]
    foreign = [index for index, entry in enumerate(ordered) if is_untrusted(entry)]
    share = max(k // 2, k - len(own))
    chosen = sorted([*own, *foreign[:share]])[:k]
    return [ordered[index] for index in chosen]


def posted_keys(engram: Engram, more_keys: Collection[str]) -> tuple[str, ...]:
    """Return every key an engram is posted under: the common one, its kind, and the keys it is found by."""
    held: tuple[str, ...] = ()
    if engram.kind in HELD_KINDS:
        words = (key for key in (*engram.hash_keys, *more_keys) if "+" not in key and not is_line_key(key))
        held = (kind_key(HELD), *map(held_key, words))
    changes = (ONLY_CHANGES,) if all(pointer.type == "diff" for pointer in engram.pointers) else ()
    sequence = (IN_SEQUENCE,) if sequence_of(engram) else ()
    marks = (EVERYTHING, kind_key(engram.kind), *held, *changes, *sequence)
    return tuple(dict.fromkeys((*marks, *engram.hash_keys, *more_keys)))


def pointer_names(engram: Engram) -> str:
    """Return the names an engram's pointers lead to, as keys separated by spaces."""
    return " ".join(name_keys(pointer.ref for pointer in engram.pointers))


def _phrase_length(key: str) -> int:
    return key.count("+")


def _contains_missing(phrase: str, missing: set[str]) -> bool:
    """True if the phrase contains one of a word fewer that was looked up in vain."""
    head, plus, _ = phrase.rpartition("+")
    return bool(plus) and (head in missing or phrase.partition("+")[2] in missing)


def _order(score: int, is_untrusted: bool, is_learned: bool, traits: Traits, keys: frozenset[str]) -> _Order:
    named_files = sum(name in keys for name in traits.names.split())
    return (
        -score,
        is_untrusted,
        is_learned,
        _DISTANCE[traits.scope],
        -(traits.created_us // SECOND_US),
        -traits.confidence,
        -named_files,
        traits.id,
    )
