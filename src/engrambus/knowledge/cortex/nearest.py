"""The earlier claims that are nearest to a new one by their words (decision 77).

The rules of `contradiction` find less than half of all contradictions; the contradicted claim is nearly always among
the three nearest. So the nearest are shown, and the rules only sort them. A new claim is compared with pinned memories,
with pinned engrams, and with decisions, constraints and policies.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from heapq import nsmallest
from itertools import islice
from math import log
from typing import Protocol

import msgspec

from engrambus.core import digest
from engrambus.evidence.pointers import Pointer
from engrambus.knowledge.cortex.contradiction import contradicts
from engrambus.knowledge.cortex.ports import CortexReads
from engrambus.knowledge.cortex.values import Episode, NearClaim
from engrambus.knowledge.engrams import (
    HELD,
    Engram,
    EngramReads,
    query_keys,
    split_sentences,
    tokens,
)

MAX_NEAR = 3
MIN_SHARED = 1 / 3
"""Share of the words of the shorter claim that the other must have to be near; `python -m tests.cortex` measures it."""
LEAST_WORDS = 3
"""A shorter claim counts as if it had so many words."""
CANDIDATES = 12
"""Engrams that are compared: those that share the rarest words with the new one."""
MAX_WORDS = 8
"""Words of a new claim that earlier ones are looked up by, the longest."""
MAX_POSTINGS = 64
"""Newest claims that have a word which are looked at."""
MAX_PINS = 1000
MAX_SENTENCES = 40
"""Sentences of a memory that are compared."""
# The two constants of BM25, as most search engines have them.
_SATURATION, _LENGTH = 1.2, 0.75


class EarlierClaim(msgspec.Struct, frozen=True, kw_only=True):
    """A claim that a new one may contradict, with its sources."""

    near: NearClaim
    pointers: tuple[Pointer, ...]
    """Its evidence; of a memory, the memory itself first."""


class ClaimReads(CortexReads, EngramReads, Protocol):
    """The reads of a store that finding earlier claims needs."""


def earlier_claims(
    view: ClaimReads, spaces: Sequence[str], text: str, *, only_pins: bool = False
) -> list[EarlierClaim]:
    """Return the claims that a new one is compared with: the pins, and engrams that share words with it."""
    claims = [_of_memory(episode) for episode in view.pins(limit=MAX_PINS)]
    pinned = {engram.id: engram for engram in view.engrams(view.pinned(spaces))}
    claims += [_of_engram(engram, pinned=True) for engram in pinned.values()]
    if only_pins:
        return claims
    engrams = view.engrams(_sharing_words(view, spaces, text))
    return [*claims, *(_of_engram(engram, pinned=False) for engram in engrams if engram.id not in pinned)]


def _sharing_words(view: EngramReads, spaces: Sequence[str], text: str) -> list[int]:
    """Return the ordinals of the decisions, constraints and policies that share most with a text."""
    words = [key for key in query_keys(text) if "+" not in key]  # phrases would favour the same wording
    # Long words are rarer than short ones. Every put pays for each that is looked up.
    longest = sorted(words, key=len, reverse=True)[:MAX_WORDS]
    weights: dict[int, int] = {}
    for word in longest:
        ordinals = view.postings(spaces, word, kind=HELD, limit=MAX_POSTINGS)
        weight = (MAX_POSTINGS // max(1, len(ordinals))).bit_length()  # one more for a word that is half as common
        for ordinal in ordinals:
            weights[ordinal] = weights.get(ordinal, 0) + weight
    return nsmallest(CANDIDATES, weights, key=lambda ordinal: (-weights[ordinal], -ordinal))


def nearest_claims(text: str, claims: Sequence[EarlierClaim]) -> list[EarlierClaim]:
    """Return the three nearest of some claims that are near at all, those that the rules call contradictory first."""
    words = words_of(text)
    scored = _scored(words, claims)
    near = [claims[index] for score, index in scored[:MAX_NEAR] if score > 0 and _is_near(words, claims[index])]
    judged = [
        msgspec.structs.replace(
            claim, near=msgspec.structs.replace(claim.near, verdict=contradicts(text, claim.near.claim))
        )
        for claim in near
    ]
    return sorted(judged, key=lambda claim: claim.near.verdict == "clean")


def nearest_pins(view: ClaimReads, spaces: Sequence[str], text: str) -> tuple[NearClaim, ...]:
    """Return the three nearest pins of a text, for who decides on it."""
    return tuple(claim.near for claim in nearest_claims(text, earlier_claims(view, spaces, text, only_pins=True)))


@lru_cache(maxsize=4096)
def words_of(text: str) -> tuple[str, ...]:
    """Return the words of a text that it is compared by."""
    return tuple(word for token in tokens(text) for word in token.words)


@lru_cache(maxsize=2048)
def _sentences(text: str) -> tuple[tuple[str, ...], ...]:
    """Return the words of each sentence of a claim: a long memory is near if one of its sentences is."""
    sentences = (words_of(sentence) for sentence in islice(split_sentences(text), MAX_SENTENCES))
    return tuple(words for words in sentences if words)


def _is_near(words: Sequence[str], claim: EarlierClaim) -> bool:
    new = set(words)
    for sentence in _sentences(claim.near.claim):
        shorter = max(min(len(new), len(set(sentence))), LEAST_WORDS)
        if len(new.intersection(sentence)) >= MIN_SHARED * shorter:
            return True
    return False


def _scored(words: Sequence[str], claims: Sequence[EarlierClaim]) -> list[tuple[float, int]]:
    """Return the BM25 score of each claim's best sentence and the claim's index, the best first."""
    documents = [(index, sentence) for index, claim in enumerate(claims) for sentence in _sentences(claim.near.claim)]
    if not documents:
        return []
    counts = Counter(word for _, sentence in documents for word in set(sentence))
    mean_length = sum(len(sentence) for _, sentence in documents) / len(documents)
    wanted = set(words)
    best: dict[int, float] = {}
    for index, sentence in documents:
        score = sum(
            log(1 + (len(documents) - counts[word] + 0.5) / (counts[word] + 0.5))
            * _frequency(sentence.count(word), len(sentence) / mean_length)
            for word in wanted.intersection(sentence)
        )
        best[index] = max(best.get(index, 0.0), score)
    # rounded, so that the last digits of a logarithm decide no order
    return sorted(((round(score, 6), index) for index, score in best.items()), key=lambda item: (-item[0], item[1]))


def _frequency(count: int, relative_length: float) -> float:
    return count * (_SATURATION + 1) / (count + _SATURATION * (1 - _LENGTH + _LENGTH * relative_length))


def _of_memory(episode: Episode) -> EarlierClaim:
    near = NearClaim(id=episode.ref, kind=episode.kind, claim=episode.text, pinned=True)
    # The memory itself is its first source: whoever reads the risk can look it up as it was.
    source = Pointer(type="sam", ref=episode.ref, digest=digest(episode.text.encode()))
    return EarlierClaim(near=near, pointers=(source, *episode.pointers))


def _of_engram(engram: Engram, *, pinned: bool) -> EarlierClaim:
    near = NearClaim(id=engram.id, kind=engram.kind, claim=engram.claim, pinned=pinned)
    return EarlierClaim(near=near, pointers=engram.pointers)


def names_memory(claim_id: str) -> bool:
    """True if an id names a memory and not an engram: it is the pointer to it."""
    return claim_id.startswith("sam:")
