"""Episodes and contributions in plain lists and dictionaries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from engrambus.core import parse_time
from engrambus.knowledge.cortex import (
    Contribution,
    ContributionMoved,
    ContributionSubmitted,
    Episode,
    EpisodeKept,
    Status,
    apply_move,
)


class CortexState:
    """Every version of every episode, and the current state of every contribution."""

    def __init__(self) -> None:
        self.episodes: list[Episode] = []
        self.contributions: dict[str, Contribution] = {}

    def apply(self, fact: EpisodeKept | ContributionSubmitted | ContributionMoved, at_us: int) -> None:
        """Apply one fact."""
        match fact:
            case EpisodeKept():
                self.episodes.append(fact.episode)
            case ContributionSubmitted():
                self.contributions[fact.contribution.contribution_id] = fact.contribution
            case ContributionMoved():
                contribution = self.contributions[fact.contribution_id]
                self.contributions[fact.contribution_id] = apply_move(contribution, fact, at_us)


class MemoryCortex:
    """The part of `MemoryView` that reads episodes and contributions. `CortexReads` documents the methods."""

    _cortex: CortexState
    _as_of: int

    def episode(
        self, kind: str, slug: str, *, version: int | None = None, before_us: int | None = None
    ) -> Episode | None:
        versions = [
            episode
            for episode in self._cortex.episodes
            if (episode.kind, episode.slug) == (kind, slug)
            and (version is None or episode.version == version)
            and (before_us is None or episode.created_us < before_us)
        ]
        return versions[-1] if versions else None

    def pins(self, *, limit: int) -> Sequence[Episode]:
        return _by_importance(episode for episode in self._live_episodes() if episode.pinned)[:limit]

    def important(self, min_importance: float, *, categories: frozenset[str], limit: int) -> Sequence[Episode]:
        return _by_importance(
            episode for episode in self._unpinned(categories) if episode.importance >= min_importance
        )[:limit]

    def recent(self, since_us: int, *, categories: frozenset[str], limit: int) -> Sequence[Episode]:
        return [episode for episode in reversed(list(self._unpinned(categories))) if episode.created_us >= since_us][
            :limit
        ]

    def episodes_after(self, ordinal: int, *, limit: int) -> Sequence[Episode]:
        return self._cortex.episodes[ordinal : ordinal + limit]

    def contribution(self, contribution_id: str) -> Contribution | None:
        return self._cortex.contributions.get(contribution_id)

    def contributions(
        self, status: Status | None, *, thread: str | None, limit: int, before: str | None
    ) -> Sequence[Contribution]:
        return [
            contribution
            for contribution_id, contribution in sorted(self._cortex.contributions.items(), reverse=True)
            if status in (None, contribution.status)
            and thread in (None, contribution.thread_id)
            and (before is None or contribution_id < before)
        ][:limit]

    def find_duplicate(self, session: str, content_hash: str, since_us: int) -> str | None:
        for contribution_id, contribution in sorted(self._cortex.contributions.items()):
            same = contribution.from_session == session and contribution.dedupe.content_hash == content_hash
            if same and contribution.status != "withdrawn" and parse_time(contribution.submitted_at) >= since_us:
                return contribution_id
        return None

    def similar_contributions(self, similarity_key: str, *, limit: int) -> Sequence[str]:
        newest_first = sorted(self._cortex.contributions.items(), reverse=True)
        ids = [
            contribution_id
            for contribution_id, contribution in newest_first
            if contribution.dedupe.similarity_key == similarity_key
        ]
        return ids[:limit]

    def _unpinned(self, categories: frozenset[str]) -> Iterator[Episode]:
        return (episode for episode in self._live_episodes() if not episode.pinned and episode.has_category(categories))

    def _live_episodes(self) -> Iterator[Episode]:
        """The last version of episode episode that has not expired, in the order they were made."""
        last = {(episode.kind, episode.slug): episode.version for episode in self._cortex.episodes}
        for episode in self._cortex.episodes:
            if last[episode.kind, episode.slug] == episode.version and episode.is_live(self._as_of):
                yield episode


def _by_importance(episodes: Iterator[Episode]) -> list[Episode]:
    newest_first = list(episodes)[::-1]
    return sorted(newest_first, key=lambda episode: -episode.importance)
