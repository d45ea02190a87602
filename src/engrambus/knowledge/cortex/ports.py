"""What the shared cortex asks of a back end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from engrambus.knowledge.cortex.contributions import Contribution, Status
    from engrambus.knowledge.cortex.episodes import Episode


class CortexReads(Protocol):
    """The episodes and contributions of a project."""

    def episode(self, kind: str, slug: str, *, version: int | None = None, before: int | None = None) -> Episode | None:
        """A version of an episode: that one, the last one made before a moment, or the last."""
        ...

    def pins(self, *, limit: int) -> Sequence[Episode]:
        """Live pinned episodes in their last version: the most important first, then the newest."""
        ...

    def important(self, least: float, *, about: frozenset[str], limit: int) -> Sequence[Episode]:
        """Live episodes in their last version that are not pinned, from this importance on: the most important first.

        Of equal importance, the newest first; if categories are named, only those filed under one of them.
        """
        ...

    def recent(self, since: int, *, about: frozenset[str], limit: int) -> Sequence[Episode]:
        """The same of those made since a moment, the newest first."""
        ...

    def episodes_after(self, ordinal: int, *, limit: int) -> Sequence[Episode]:
        """Every version of every episode in the order they were made, from the one after that number on."""
        ...

    def contribution(self, contribution_id: str) -> Contribution | None:
        """The contribution of that id, as it stands."""
        ...

    def contributions(
        self, status: Status | None, *, thread: str | None, limit: int, before: str | None
    ) -> Sequence[Contribution]:
        """Contributions as they stand, the newest first."""
        ...

    def contributed(self, session: str, content_hash: str, since: int) -> str | None:
        """The first contribution of these words from a session since a moment that was not withdrawn."""
        ...

    def contributed_alike(self, similarity_key: str, *, limit: int) -> Sequence[str]:
        """Contributions with this fuzzy key, the newest first."""
        ...
