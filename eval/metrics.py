"""Measures of a ranking and their intervals."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from typing import NamedTuple

RESAMPLES = 2000
DEFAULT_SEED = 7


class Interval(NamedTuple):
    """A mean over questions, and the range in which 95 % of the means of resampled questions lie."""

    mean: float
    low: float
    high: float


def recall_at(ranked: Sequence[str], correct: Collection[str], k: int) -> float:
    """Return the share of the correct names that are among the first k distinct ones."""
    if not correct:
        raise ValueError("recall of nothing")
    return len(set(list(dict.fromkeys(ranked))[:k]) & set(correct)) / len(correct)


def reciprocal_rank(ranked: Sequence[str], correct: Collection[str]) -> float:
    """Return 1 / the rank of the first correct name among distinct ones; 0 if there is none."""
    for rank, name in enumerate(dict.fromkeys(ranked), start=1):
        if name in correct:
            return 1 / rank
    return 0.0


def bootstrap(values: Sequence[float], *, seed: int = DEFAULT_SEED, resamples: int = RESAMPLES) -> Interval:
    """Return the mean and the percentile interval of resampled means; the same for the same seed."""
    if not values:
        return Interval(0.0, 0.0, 0.0)
    chooser = random.Random(seed)
    count = len(values)
    means = sorted(sum(chooser.choices(values, k=count)) / count for _ in range(resamples))
    return Interval(sum(values) / count, means[int(resamples * 0.025)], means[int(resamples * 0.975) - 1])


def difference(ours: Sequence[float], theirs: Sequence[float], *, seed: int = DEFAULT_SEED) -> Interval:
    """Return the mean difference over the same questions with its interval: questions are resampled in pairs."""
    return bootstrap([own - other for own, other in zip(ours, theirs, strict=True)], seed=seed)
