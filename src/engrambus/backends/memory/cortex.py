"""Episodes and contributions in plain lists and dictionaries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from engrambus.backends.facts import CortexChange
from engrambus.core import parse_time
from engrambus.knowledge.cortex import (
    Contradiction,
    ContradictionRecorded,
    ContradictionSettled,
    Contribution,
    ContributionMoved,
    ContributionSubmitted,
    Episode,
    EpisodeKept,
    SnapshotTaken,
    SnapshotTaking,
    Status,
    apply_move,
    settle,
)


class CortexState:
    """Every version of every episode, the current state of every contribution, and who took which snapshot."""

    def __init__(self) -> None:
        self.episodes: list[Episode] = []
        self.contributions: dict[str, Contribution] = {}
        self.contradictions: dict[str, Contradiction] = {}
        self.snapshots: dict[str, dict[tuple[str, str, str], SnapshotTaking]] = {}

    def apply(self, fact: CortexChange, at_us: int) -> None:
        """Apply one fact."""
        match fact:
            case EpisodeKept():
                self.episodes.append(fact.episode)
            case ContributionSubmitted():
                self.contributions[fact.contribution.contribution_id] = fact.contribution
            case ContributionMoved():
                contribution = self.contributions[fact.contribution_id]
                self.contributions[fact.contribution_id] = apply_move(contribution, fact, at_us)
            case SnapshotTaken():
                taking = SnapshotTaking(taken_us=at_us, run=fact.run, by=fact.by, heir=fact.heir, recipe=fact.recipe)
                takings = self.snapshots.setdefault(fact.snapshot_id, {})
                takings.setdefault((fact.run, fact.by, fact.heir), taking)
            case ContradictionRecorded():
                self.contradictions[fact.contradiction_id] = fact.record(at_us)
            case ContradictionSettled():
                waiting = self.contradictions[fact.contradiction_id]
                self.contradictions[fact.contradiction_id] = settle(waiting, fact, at_us)


class MemoryCortex:
    """The part of `MemoryView` that reads episodes and contributions. `CortexReads` documents the methods."""

    _cortex: CortexState
    _expiry_us: int

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

    def snapshot_takings(self, snapshot_id: str) -> Sequence[SnapshotTaking]:
        takings = self._cortex.snapshots.get(snapshot_id, {})
        return sorted(takings.values(), key=lambda taking: (taking.recipe is None, taking.taken_us))

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

    def contradiction(self, contradiction_id: str) -> Contradiction | None:
        return self._cortex.contradictions.get(contradiction_id)

    def contradictions(self, *, waiting: bool, limit: int, before: str | None) -> Sequence[Contradiction]:
        return [
            record
            for record_id, record in sorted(self._cortex.contradictions.items(), reverse=True)
            if (not waiting or record.keep is None) and (before is None or record_id < before)
        ][:limit]

    def waiting_contradictions(self, engram_id: str) -> Sequence[Contradiction]:
        records = (record for _, record in sorted(self._cortex.contradictions.items()))
        return [
            record
            for record in records
            if record.keep is None and engram_id in (record.newer, record.older, record.risk)
        ]

    def _unpinned(self, categories: frozenset[str]) -> Iterator[Episode]:
        return (episode for episode in self._live_episodes() if not episode.pinned and episode.has_category(categories))

    def _live_episodes(self) -> Iterator[Episode]:
        """The last version of episode episode that has not expired, in the order they were made."""
        last = {(episode.kind, episode.slug): episode.version for episode in self._cortex.episodes}
        for episode in self._cortex.episodes:
            if last[episode.kind, episode.slug] == episode.version and episode.is_live(self._expiry_us):
                yield episode


def _by_importance(episodes: Iterator[Episode]) -> list[Episode]:
    newest_first = list(episodes)[::-1]
    return sorted(newest_first, key=lambda episode: -episode.importance)
