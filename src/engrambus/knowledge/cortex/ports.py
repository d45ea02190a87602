"""The reads that the rules of the shared cortex need from a back end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from engrambus.knowledge.engrams import EngramView, UseReads

if TYPE_CHECKING:
    from engrambus.knowledge.cortex.values import Contradiction, Contribution, Episode, SnapshotTaking, Status


class CortexReads(Protocol):
    """The episodes and contributions of a project."""

    def episode(
        self, kind: str, slug: str, *, version: int | None = None, before_us: int | None = None
    ) -> Episode | None:
        """Return this version of an episode, or the last one made before a time, or the last one."""
        ...

    def pins(self, *, limit: int) -> Sequence[Episode]:
        """Return live pinned episodes in their last version: the most important first, then the newest."""
        ...

    def important(self, min_importance: float, *, categories: frozenset[str], limit: int) -> Sequence[Episode]:
        """Return live unpinned episodes in their last version: the most important first, then the newest.

        If categories are given, in lower case, only episodes with one of them are returned.
        """
        ...

    def recent(self, since_us: int, *, categories: frozenset[str], limit: int) -> Sequence[Episode]:
        """Return live unpinned episodes made since a time in their last version, the newest first."""
        ...

    def episodes_after(self, ordinal: int, *, limit: int) -> Sequence[Episode]:
        """Return all versions of all episodes in the order they were made, after the first `ordinal` ones."""
        ...

    def snapshot_takings(self, snapshot_id: str) -> Sequence[SnapshotTaking]:
        """Return who took a snapshot, each agent once, in the order of time; the first taking has the recipe."""
        ...

    def contribution(self, contribution_id: str) -> Contribution | None:
        """Return the current state of a contribution."""
        ...

    def contributions(
        self, status: Status | None, *, thread: str | None, limit: int, before: str | None
    ) -> Sequence[Contribution]:
        """Return contributions, the newest first; with `before`, only those older than that id."""
        ...

    def find_duplicate(self, session: str, content_hash: str, since_us: int) -> str | None:
        """Return the first contribution of a session since a time that has this content and was not withdrawn."""
        ...

    def similar_contributions(self, similarity_key: str, *, limit: int) -> Sequence[str]:
        """Return the ids of contributions with this similarity key, the newest first."""
        ...

    def contradiction(self, contradiction_id: str) -> Contradiction | None:
        """Return the current state of a contradiction."""
        ...

    def contradictions(self, *, waiting: bool, limit: int, before: str | None) -> Sequence[Contradiction]:
        """Return contradictions, the newest first; if `waiting`, only the undecided ones."""
        ...

    def waiting_contradictions(self, engram_id: str) -> Sequence[Contradiction]:
        """Return the undecided contradictions that an engram is a side or the risk of, the oldest first."""
        ...


class CortexView(EngramView, CortexReads, UseReads, Protocol):
    """The part of a store that the rules read under the write lock.

    It includes engrams, because accepting a contribution puts one.
    """
