"""Recall with a model: find engrams by their words and their meaning, and those most similar to an engram.

The words choose which engrams are compared. If they find fewer than `RECALLED`, the newest of the caller's engrams are
compared as well, so that in a small or middle-sized project a claim in other words than the question is found.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from engrambus.knowledge.engrams.embeddings import EngramVectors
from engrambus.knowledge.engrams.filters import list_once
from engrambus.knowledge.engrams.ports import VisibleStore
from engrambus.knowledge.engrams.ranking import RankedEngram, rank, with_own_share
from engrambus.knowledge.engrams.semantic_rerank import ComparedItem, rerank
from engrambus.knowledge.engrams.values import Engram

RECALLED = 200
"""Engrams that are compared with a question."""
LEAST_SIMILARITY = 300_000
"""Similarity in millionths below which an engram that shares no word with the question is not shown."""
MAX_COMPARED = 10_000
"""Engrams that are compared with an engram: the newest."""
MAX_COMPUTED = 500
"""Vectors that one comparison with an engram computes: about 5 seconds."""


def recall_by_meaning(
    stores: Sequence[VisibleStore],
    keys: Sequence[str],
    question: str,
    vectors: EngramVectors,
    *,
    k: int,
    kind: str | None = None,
) -> list[Engram]:
    """Return the k engrams and memories that answer a question best by words and meaning, best first."""
    candidates = _compare(stores, keys, question, vectors, k=k, kind=kind)
    ordered = [
        candidate.item
        for candidate in rerank(candidates)
        if candidate.score > 0 or candidate.similarity >= LEAST_SIMILARITY
    ]
    # decision 68: meaning can be imitated as words can, so untrusted engrams keep to their share
    return [ranked.engram for ranked in with_own_share(ordered, k, lambda ranked: ranked.is_untrusted)]


def find_about(
    stores: Sequence[VisibleStore], keys: Sequence[str], text: str, vectors: EngramVectors, *, k: int
) -> list[Engram]:
    """Return the k confirmed engrams and memories that are about a text by their meaning, the most similar first."""
    candidates = _compare(stores, keys, text, vectors, k=k, kind=None)
    near = [item for item in candidates if item.similarity >= LEAST_SIMILARITY and not item.item.is_untrusted]
    return [candidate.item.engram for candidate in sorted(near, key=lambda item: -item.similarity)[:k]]


def _compare(
    stores: Sequence[VisibleStore],
    keys: Sequence[str],
    question: str,
    vectors: EngramVectors,
    *,
    k: int,
    kind: str | None,
) -> list[ComparedItem[RankedEngram]]:
    """Return what the words find, and the newest, with their similarity to a question."""
    recalled = rank(stores, keys, k=max(k, RECALLED), kind=kind)
    for engram in _newest_others(stores, recalled, kind, RECALLED - len(recalled)):
        recalled.append(RankedEngram(engram, is_untrusted=False, score=0))
    by_id = vectors.of_engrams([ranked.engram for ranked in recalled], max_computed=len(recalled))
    similarities = vectors.embedder.similarities(
        vectors.of_text(question), [by_id[ranked.engram.id] for ranked in recalled]
    )
    return [
        ComparedItem(ranked, ranked.score, similarity)
        for ranked, similarity in zip(recalled, similarities, strict=True)
    ]


class SimilarEngrams(NamedTuple):
    """The engrams most similar to one, and how many were compared with it."""

    engrams: list[Engram]
    compared: int
    visible: int
    """How many should have been; if it is more, the next call continues."""


def most_similar(stores: Sequence[VisibleStore], engram: Engram, vectors: EngramVectors, *, k: int) -> SimilarEngrams:
    """Return the k confirmed engrams and memories whose meaning is nearest to an engram's, nearest first."""
    candidates = _newest_others(stores, [RankedEngram(engram, is_untrusted=False, score=0)], None, MAX_COMPARED)
    (vector,) = vectors.of_engrams([engram], max_computed=1).values()
    by_id = vectors.of_engrams(candidates, max_computed=MAX_COMPUTED)
    compared = [candidate for candidate in candidates if candidate.id in by_id]
    similarities = vectors.embedder.similarities(vector, [by_id[candidate.id] for candidate in compared])
    # Sorting is stable: of equal ones, the nearest store's newest comes first.
    order = sorted(range(len(compared)), key=lambda index: -similarities[index])[:k]
    return SimilarEngrams([compared[index] for index in order], len(compared), len(candidates))


def _newest_others(
    stores: Sequence[VisibleStore], recalled: Sequence[RankedEngram], kind: str | None, limit: int
) -> list[Engram]:
    """Return the newest confirmed engrams and memories besides those found, from the nearest store on."""
    known_ids = {ranked.engram.id for ranked in recalled}
    candidates: list[Engram] = []
    for store in stores:
        if store.is_untrusted or len(candidates) >= limit:
            continue  # decision 82: unconfirmed claims are found by words alone
        reads = list_once(store, kind).reads
        size = limit - len(candidates) + len(known_ids)
        for engram in reads.engrams(reads.newest(store.spaces, kind=kind, limit=size, older_than=None)):
            if engram.id not in known_ids and len(candidates) < limit:
                known_ids.add(engram.id)
                candidates.append(engram)
    return candidates
