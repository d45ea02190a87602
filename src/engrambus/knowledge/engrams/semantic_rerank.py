"""The order of recalled engrams by words and by meaning together (decision 88).

Each engram has a score by its words and a similarity to the question. Both are expressed in standard deviations from
the mean of the recalled set, and added with equal weight. All of it is whole numbers, so that the same input gives the
same order on every machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")

UNIT_BITS = 32
"""Standard scores are whole numbers of 2^-32 deviations."""
_ROOT_BITS = 64


class ComparedItem(NamedTuple, Generic[T]):
    """A recalled item with what it is ordered by."""

    item: T
    score: int
    """How well its words answer the question; 0 if it shares none with it."""
    similarity: int
    """How similar its meaning is to the question, in millionths."""


def rerank(candidates: Sequence[ComparedItem[T]]) -> list[ComparedItem[T]]:
    """Return candidates by the sum of both standard scores, the best first; of equal sums, the first given first."""
    by_words = standard_scores([candidate.score for candidate in candidates])
    by_meaning = standard_scores([candidate.similarity for candidate in candidates])
    sums = [words + meaning for words, meaning in zip(by_words, by_meaning, strict=True)]
    order = sorted(range(len(candidates)), key=lambda index: (-sums[index], index))
    return [candidates[index] for index in order]


def standard_scores(values: Sequence[int]) -> list[int]:
    """Return how many deviations each value lies above the mean, in units of 2^-32; 0 for all if they are equal."""
    count, total = len(values), sum(values)
    centred = [count * value - total for value in values]  # `count` times the distance from the mean
    squares = sum(value * value for value in centred)
    if squares == 0:
        return [0] * count
    # distance / deviation = centred · sqrt(count / squares)
    root = isqrt((count << 2 * _ROOT_BITS) // squares)
    return [(value * root) >> (_ROOT_BITS - UNIT_BITS) for value in centred]
