"""The order of an answer by its evidence: engrams whose pointed lines are changed or gone come last (decision 84).

Ranks are the store's and know nothing of files. The best engrams are taken by rank first, and what their lines are now
is looked up only for these: a stale claim that answers the question best stays in the answer, marked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from engrambus.knowledge.engrams.values import Engram

if TYPE_CHECKING:
    from engrambus.evidence.pointers import Staleness

T = TypeVar("T")
FindStale = Callable[[Sequence[Engram]], "Mapping[str, Staleness]"]
"""Returns those of some engrams whose evidence is changed or gone: the state by the engram's id."""


def stale_last(items: Sequence[T], is_stale: Callable[[T], bool]) -> list[T]:
    """Return the items in their order, the stale ones after all others."""
    return sorted(items, key=is_stale)  # sorting is stable
