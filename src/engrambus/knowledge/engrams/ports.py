"""The reads of a back end that engrams need. Each shows one point in time and only the named spaces."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, TypeVar

import msgspec

from engrambus.core import TimeReads
from engrambus.knowledge.engrams.postings import PostingChunk
from engrambus.knowledge.engrams.values import Adoption, Capture, Engram, Learned, UserKind
from engrambus.policy import IdentityReads, TurnReads

EVERYTHING = "*"
"""The key every engram is posted under: the newest engrams are found through the index like all others."""
WITH_EVIDENCE = "memory=pointed"
"""The key of memories that point at evidence: only these can be engrams, too."""
MAX_SEARCHED = 10_000
"""Rows that a filtered read looks at to find as many as it was asked for."""

T = TypeVar("T")

HELD_KINDS = frozenset({"decision", "constraint", "policy"})
"""Kinds of what a team has agreed on; a new claim is compared with these."""
HELD = "held"
"""Stands for all of `HELD_KINDS` where engrams are looked up by kind (decision 77)."""
_OF_HELD = "!"


def kind_key(kind: str) -> str:
    """Return the key every engram of a kind is posted under."""
    return f"kind={kind}"


def held_key(key: str) -> str:
    """Return the key that engrams of `HELD_KINDS` are posted under besides `key`: every put looks them up."""
    return _OF_HELD + key


class Traits(msgspec.Struct, frozen=True):
    """The properties that order engrams of equal rank."""

    ordinal: int
    id: str
    scope: str
    created_us: int
    confidence: float
    names: str
    """The base names its pointers lead to, as keys separated by spaces."""
    sequence: int
    """The same number for what one author put in a row; 0 for an engram that is in no sequence."""


class RecentPuts(NamedTuple):
    """The engrams that one author put in one second."""

    last_us: int
    """Time of the last of them."""
    author: str
    engrams: int


class StoredEngram(msgspec.Struct, frozen=True, kw_only=True):
    """An engram with what the store knows about it."""

    ordinal: int
    engram: Engram
    space: str
    run: str
    expires_at: int
    """End of its ttl in microseconds."""
    more_keys: tuple[str, ...]


class PastEngram(NamedTuple):
    """An engram that is no longer live: it was replaced, or it has expired."""

    stored: StoredEngram
    superseded_us: int | None = None
    """When it was replaced; None if it has expired without that."""
    replaced_by: str | None = None
    """Id of the engram that replaced it, or the pointer to a memory that did."""


class LearnedEngram(NamedTuple):
    """A live engram that was learned from the repository."""

    ordinal: int
    id: str
    space: str
    expires_at: int
    learned: Learned


class EngramReads(Protocol):
    """The engrams of a store at one point in time; expired and replaced ones are absent, unless a read names them."""

    # decision 2: the space is part of the index entry, so what a caller may not see is never read
    def postings(self, spaces: Sequence[str], key: str, *, kind: str | None, limit: int) -> Sequence[int]:
        """Return the ordinals of the newest live engrams in these spaces posted under a key, newest first."""
        ...

    def chunks(self, space: str, key: str) -> Sequence[PostingChunk]:
        """Return the live engrams of a space posted under a key, those included that a role rule or a filter hides."""
        ...

    def expect_chunks(self, spaces: Sequence[str], keys: Sequence[str]) -> None:
        """Take note that the chunks of these keys will be asked for, so that a store far away fetches them at once."""
        ...

    def count(self, space: str) -> int:
        """Return the number of live engrams in a space, those included that a role rule or a filter hides."""
        ...

    def visible(self, ordinals: Sequence[int]) -> list[int]:
        """Return those of these ordinals, in order, that no role rule and no filter hides."""
        ...

    def sequence_rows(self, space: str, ordinals: Sequence[int], reach: int) -> dict[int, int]:
        """Return the sequences of the live engrams of a space within `reach` of these ordinals, by ordinal.

        Engrams in no sequence are left out, and those that a role rule or a filter hides are included.
        """
        ...

    def newest(self, spaces: Sequence[str], *, kind: str | None, limit: int, older_than: int | None) -> Sequence[int]:
        """Return the ordinals of the newest live engrams below the ordinal `older_than`, newest first."""
        ...

    def traits(self, ordinals: Sequence[int]) -> list[Traits]:
        """Return the traits of these engrams, in any order."""
        ...

    def engrams(self, ordinals: Sequence[int]) -> list[Engram]:
        """Return these engrams, in the order of `ordinals`."""
        ...

    def find(self, spaces: Sequence[str], engram_id: str) -> StoredEngram | None:
        """Return the live engram of that id from the first of these spaces that has it."""
        ...

    def ids_starting(self, spaces: Sequence[str], beginning: str, *, limit: int) -> Sequence[str]:
        """Return the ids of live engrams in these spaces that begin like this, in order."""
        ...

    def find_past(self, spaces: Sequence[str], engram_id: str) -> PastEngram | None:
        """Return the replaced or expired engram of that id from the first of these spaces that has it."""
        ...

    def replaced_ids_starting(self, spaces: Sequence[str], beginning: str, *, limit: int) -> Sequence[str]:
        """Return the ids of replaced engrams in these spaces that begin like this, in order."""
        ...

    def replaced_with(self, newer_ids: Sequence[str]) -> dict[str, list[str]]:
        """Return the ids of the engrams that each of these replaced, whether or not the caller may see them."""
        ...

    def at(self, time_us: int) -> EngramReads:
        """Return these reads as of an earlier time: the engrams that were live then, without forgotten ones.

        Only `postings`, `chunks`, `count`, `newest`, `traits` and `engrams` are of that time.
        """
        ...

    def is_id_taken(self, space: str, engram_id: str) -> bool:
        """True if a space has a live engram of that id, whether or not the caller may see it."""
        ...

    def is_id_used(self, engram_id: str) -> bool:
        """True if an engram of any space ever had that id, also one that has expired or was forgotten."""
        ...

    def twins(self, space: str, twin: str, *, limit: int) -> Sequence[int]:
        """Return the ordinals of the newest live engrams in a space with this twin key, newest first."""
        ...

    def pinned(self, spaces: Sequence[str]) -> Sequence[int]:
        """Return the ordinals of the pinned live engrams in these spaces, the last pinned first."""
        ...

    def votes(self, ordinal: int, *, except_root: str) -> int:
        """Return how many roots of the agent hierarchy, not counting `except_root`, have confirmed an engram."""
        ...

    def values(self, ordinals: Sequence[int]) -> dict[int, int]:
        """Return the value of each of these engrams, from 0 to 7, as `value_in_space` says; 0 for one not live."""
        ...

    def recent_puts(self, root: str, since_us: int) -> Sequence[RecentPuts]:
        """Return the engrams that an agent and its descendants put after a moment, the oldest first.

        They are counted by author and second: what an author put in the second of `since_us` is there if the last of
        it came later. The admin's are not counted.
        """
        ...

    def adoptions(self, engram_ids: Sequence[str]) -> dict[str, Adoption]:
        """Return where those of these live engrams came from that were adopted, by id."""
        ...

    def captures(self, engram_ids: Sequence[str]) -> dict[str, Capture]:
        """Return which answers those of these live engrams came from that were taken from prose, by id."""
        ...

    def learned(self, engram_ids: Sequence[str]) -> dict[str, Learned]:
        """Return where those of these live engrams were learned that were, by id."""
        ...

    def learned_ordinals(self, spaces: Sequence[str]) -> frozenset[int]:
        """Return the ordinals of the live engrams in these spaces that were learned."""
        ...

    def learned_engrams(self) -> list[LearnedEngram]:
        """Return the live engrams of every space that were learned, in the order in which they were put."""
        ...

    def unwanted_keys(self) -> frozenset[str]:
        """Return the keys of what was learned and then forgotten by a person: it is not learned again."""
        ...

    def learned_commit(self) -> str | None:
        """Return the commit of the repository that was learned from last."""
        ...

    def outbox(self) -> list[StoredEngram]:
        """Return the engrams that wait to be delivered to a shared store."""
        ...


class EngramUse(NamedTuple):
    """One engram, message, broadcast, contribution or review that used an engram."""

    kind: UserKind
    item: str
    """Its id; a review has its contribution's."""
    run: str
    agent: str
    used_us: int


class UseReads(Protocol):
    """The engrams that others named as used, at one point in time."""

    def uses(self, engram_id: str, *, limit: int) -> list[EngramUse]:
        """Return what used an engram, the newest first, whether or not the caller may see it."""
        ...

    def used_in(self, kind: UserKind, item: str) -> tuple[str, ...]:
        """Return the ids of the engrams that something used, in its author's order."""
        ...


class ListingReads(Protocol):
    """What agents were shown by queries with `since_last`."""

    def listed_position(self, run_id: str, agent: str) -> int:
        """Return the position up to which an agent was shown everything; 0 if it has not asked yet.

        The run of the admin, who is one person in all runs, is empty.
        """


class RecallReads(Protocol):
    """The engrams that agents were shown unasked, at one point in time."""

    def recalled(self, run_id: str, agent: str) -> dict[str, bool]:
        """Return the ids of the engrams that an agent was shown, the last first, and whether each was called stale."""
        ...

    def task_recalled(self, run_id: str, agent: str, task: str) -> tuple[str, ...] | None:
        """Return what was found for the oldest task with this digest whose sub-agent has not started; None if none."""
        ...


class EngramView(EngramReads, IdentityReads, TurnReads, TimeReads, Protocol):
    """The reads of a store that the rules of putting and changing engrams need."""


class VisibleStore(NamedTuple):
    """A read of a store, and the spaces of it that a caller may see."""

    reads: EngramReads
    spaces: Sequence[str]
    is_untrusted: bool = False
    """True if these spaces hold unconfirmed knowledge: from elsewhere, or from prose."""


def fill(limit: int, read: Callable[[int], Sequence[T]], keep: Callable[[Sequence[T]], list[T]]) -> list[T]:
    """Read more rows until enough of them are kept, or there are no more."""
    size = limit
    while True:
        rows = read(size)
        kept = keep(rows)
        if len(kept) >= limit or len(rows) < size or size >= MAX_SEARCHED:
            return kept[:limit]
        size = min(size * 4, MAX_SEARCHED)
