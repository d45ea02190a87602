"""The order of an answer by its evidence: engrams whose pointed lines are changed or gone come last (decision 84).

Ranks are the store's and know nothing of files. The best engrams are taken by rank first, and what their lines are now
is looked up only for these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from engrambus.evidence.pointers import Staleness
from engrambus.knowledge.engrams.values import Engram

if TYPE_CHECKING:
    from engrambus.knowledge.engrams.ranking import RankedEngram

WINDOW = 4
"""Engrams among which stale ones come last: this many times as many as are asked for."""
MAX_WINDOW = 100
"""The same in all, unless more are asked for."""

FindStale = Callable[[Sequence[Engram]], Mapping[str, Staleness]]
"""Returns those of some engrams whose evidence is changed or gone: the state by the engram's id."""

T = TypeVar("T")


def current_first(find: Callable[[int], Sequence[RankedEngram]], k: int, find_stale: FindStale) -> list[Engram]:
    """Return k engrams, those with stale evidence after all others of the best; otherwise in the order of their ranks.

    `find` returns as many of the best as it is asked for, best first.
    """
    best = find(k)
    stale = find_stale([ranked.engram for ranked in best])
    if not any(ranked.engram.id in stale for ranked in best):
        return [ranked.engram for ranked in best]
    window = max(k, min(WINDOW * k, MAX_WINDOW))
    if window > k:
        best = find(window)
        stale = find_stale([ranked.engram for ranked in best])
    ordered = stale_last(best, lambda ranked: ranked.engram.id in stale)
    # decision 68: what a stranger wrote does not take the place of the project's own because that is stale
    from engrambus.knowledge.engrams.ranking import with_own_share  # decision 39: a brief does not rank by words

    return [ranked.engram for ranked in with_own_share(ordered, k, lambda ranked: ranked.is_untrusted)]


def stale_last(items: Sequence[T], is_stale: Callable[[T], bool]) -> list[T]:
    """Return the items in their order, the stale ones after all others."""
    return sorted(items, key=is_stale)  # sorting is stable
