"""What the team remembers and what waits for review, in plain lists and dictionaries."""

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
    """Every version of every episode, and every contribution as it stands."""

    def __init__(self) -> None:
        self.episodes: list[Episode] = []
        self.contributions: dict[str, Contribution] = {}

    def apply(self, fact: EpisodeKept | ContributionSubmitted | ContributionMoved, at: int) -> None:
        """Let one fact have happened."""
        match fact:
            case EpisodeKept():
                self.episodes.append(fact.episode)
            case ContributionSubmitted():
                self.contributions[fact.contribution.contribution_id] = fact.contribution
            case ContributionMoved():
                before = self.contributions[fact.contribution_id]
                self.contributions[fact.contribution_id] = apply_move(before, fact, at)


class MemoryCortex:
    """Reads of the cortex as of one moment."""

    _cortex: CortexState
    _as_of: int

    def episode(
        self, kind: str, slug: str, *, version: int | None = None, before_us: int | None = None
    ) -> Episode | None:
        found = [
            each
            for each in self._cortex.episodes
            if (each.kind, each.slug) == (kind, slug)
            and (version is None or each.version == version)
            and (before_us is None or each.created_us < before_us)
        ]
        return found[-1] if found else None

    def pins(self, *, limit: int) -> Sequence[Episode]:
        return _by_importance(each for each in self._remembered() if each.pinned)[:limit]

    def important(self, min_importance: float, *, categories: frozenset[str], limit: int) -> Sequence[Episode]:
        return _by_importance(each for each in self._unpinned(categories) if each.importance >= min_importance)[:limit]

    def recent(self, since_us: int, *, categories: frozenset[str], limit: int) -> Sequence[Episode]:
        return [each for each in reversed(list(self._unpinned(categories))) if each.created_us >= since_us][:limit]

    def episodes_after(self, ordinal: int, *, limit: int) -> Sequence[Episode]:
        return self._cortex.episodes[ordinal : ordinal + limit]

    def contribution(self, contribution_id: str) -> Contribution | None:
        return self._cortex.contributions.get(contribution_id)

    def contributions(
        self, status: Status | None, *, thread: str | None, limit: int, before: str | None
    ) -> Sequence[Contribution]:
        return [
            each
            for name, each in sorted(self._cortex.contributions.items(), reverse=True)
            if status in (None, each.status) and thread in (None, each.thread_id) and (before is None or name < before)
        ][:limit]

    def find_duplicate(self, session: str, content_hash: str, since_us: int) -> str | None:
        for name, each in sorted(self._cortex.contributions.items()):
            same = each.from_session == session and each.dedupe.content_hash == content_hash
            if same and each.status != "withdrawn" and parse_time(each.submitted_at) >= since_us:
                return name
        return None

    def similar_contributions(self, similarity_key: str, *, limit: int) -> Sequence[str]:
        found = sorted(self._cortex.contributions.items(), reverse=True)
        return [name for name, each in found if each.dedupe.similarity_key == similarity_key][:limit]

    def _unpinned(self, categories: frozenset[str]) -> Iterator[Episode]:
        return (each for each in self._remembered() if not each.pinned and each.has_category(categories))

    def _remembered(self) -> Iterator[Episode]:
        """The last version of each episode that has not expired, in the order they were made."""
        last = {(each.kind, each.slug): each.version for each in self._cortex.episodes}
        for each in self._cortex.episodes:
            if last[each.kind, each.slug] == each.version and (each.is_live(self._as_of)):
                yield each


def _by_importance(found: Iterator[Episode]) -> list[Episode]:
    newest_first = list(found)[::-1]
    return sorted(newest_first, key=lambda each: -each.importance)
