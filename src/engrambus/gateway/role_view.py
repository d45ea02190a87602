"""The store without what a role may not see.

decision 50: the rule is applied here, around everything an operation reads, so that no operation can forget it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace

from engrambus.knowledge.engrams import MAX_POINTERS, VisibleStore, fill, is_memory, memory_name
from engrambus.policy import PROJECT_SPACE, Caller, memory_spaces, unconfirmed_space, untrusted_spaces, visible_spaces

if TYPE_CHECKING:
    from engrambus.gateway.ports import View
    from engrambus.knowledge.cortex import Episode
    from engrambus.knowledge.engrams import Engram, EngramReads, PastEngram, RoleFilter, StoredEngram
    from engrambus.knowledge.messages import SentPack

MAX_SEARCHED_IDS = 100
"""Ids that begin alike and are looked at."""


class RoleView:
    """A view of the store without the engrams and episodes that a role may not see; all other reads are unchanged."""

    def __init__(self, view: View, role_filter: RoleFilter) -> None:
        self.unrestricted = view
        self._filter = role_filter
        self._seen: dict[int, bool] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self.unrestricted, name)

    def postings(self, spaces: Sequence[str], key: str, *, kind: str | None, limit: int) -> Sequence[int]:
        """Return the visible ones of `EngramReads.postings`."""
        read = self.unrestricted.postings
        return fill(limit, lambda size: read(spaces, key, kind=kind, limit=size), self._visible)

    def newest(self, spaces: Sequence[str], *, kind: str | None, limit: int, older_than: int | None) -> Sequence[int]:
        """Return the visible ones of `EngramReads.newest`."""
        read = self.unrestricted.newest
        return fill(limit, lambda size: read(spaces, kind=kind, limit=size, older_than=older_than), self._visible)

    def visible(self, ordinals: Sequence[int]) -> list[int]:
        """Return the visible ones of `EngramReads.visible`."""
        return self._visible(self.unrestricted.visible(ordinals))

    def twins(self, space: str, twin: str, *, limit: int) -> Sequence[int]:
        """Return the visible ones of `EngramReads.twins`: what is hidden is not confirmed by repeating it."""
        read = self.unrestricted.twins
        return fill(limit, lambda size: read(space, twin, limit=size), self._visible)

    def pinned(self, spaces: Sequence[str]) -> Sequence[int]:
        """Return the visible ones of `EngramReads.pinned`."""
        return self._visible(self.unrestricted.pinned(spaces))

    def find(self, spaces: Sequence[str], engram_id: str) -> StoredEngram | None:
        """Return the engram if it is visible."""
        for space in spaces:
            stored = self.unrestricted.find((space,), engram_id)
            if stored is not None and self._sees(stored.engram):
                return stored
        return None

    def find_past(self, spaces: Sequence[str], engram_id: str) -> PastEngram | None:
        """Return the replaced or expired engram if it is visible."""
        for space in spaces:
            past = self.unrestricted.find_past((space,), engram_id)
            if past is not None and self._filter.sees(past.stored.engram):
                return past
        return None

    def replaced_ids_starting(self, spaces: Sequence[str], beginning: str, *, limit: int) -> Sequence[str]:
        """Return the visible ones of `EngramReads.replaced_ids_starting`."""
        ids = self.unrestricted.replaced_ids_starting(spaces, beginning, limit=MAX_SEARCHED_IDS)
        return [engram_id for engram_id in ids if self.find_past(spaces, engram_id) is not None][:limit]

    def at(self, time_us: int) -> EngramReads:
        """Return the visible part of `EngramReads.at`."""
        return cast("EngramReads", RoleView(cast("View", self.unrestricted.at(time_us)), self._filter))

    def ids_starting(self, spaces: Sequence[str], beginning: str, *, limit: int) -> Sequence[str]:
        """Return the visible ones of `EngramReads.ids_starting`."""
        read = self.unrestricted.ids_starting
        ids = read(spaces, beginning, limit=MAX_SEARCHED_IDS)
        return [engram_id for engram_id in ids if self.find(spaces, engram_id) is not None][:limit]

    def live_kinds(self, spaces: Sequence[str]) -> dict[str, int]:
        """Return the counts of visible kinds."""
        kinds = self.unrestricted.live_kinds(spaces)
        return {kind: count for kind, count in kinds.items() if self._filter.rule.sees_kind(kind)}

    def pins(self, *, limit: int) -> Sequence[Episode]:
        """Return the visible ones of `CortexReads.pins`."""
        return fill(limit, lambda size: self.unrestricted.pins(limit=size), self._visible_episodes)

    def important(self, min_importance: float, *, categories: frozenset[str], limit: int) -> Sequence[Episode]:
        """Return the visible ones of `CortexReads.important`."""
        read = self.unrestricted.important
        return fill(limit, lambda size: read(min_importance, categories=categories, limit=size), self._visible_episodes)

    def recent(self, since_us: int, *, categories: frozenset[str], limit: int) -> Sequence[Episode]:
        """Return the visible ones of `CortexReads.recent`."""
        read = self.unrestricted.recent
        return fill(limit, lambda size: read(since_us, categories=categories, limit=size), self._visible_episodes)

    def pointer_packs(self, run_id: str, *, limit: int) -> list[SentPack]:
        """Return the packs of `MessageReads.pointer_packs` with their visible pointers."""
        packs = []
        for sent in self.unrestricted.pointer_packs(run_id, limit=limit):
            visible = tuple(pointer for pointer in sent.pack.pointers if self._filter.sees_pointers((pointer,)))
            packs.append(replace(sent, pack=replace(sent.pack, pointers=visible)))
        return packs

    def _visible(self, ordinals: Sequence[int]) -> list[int]:
        unknown = [ordinal for ordinal in ordinals if ordinal not in self._seen]
        for ordinal, engram in zip(unknown, self.unrestricted.engrams(unknown), strict=True):
            self._seen[ordinal] = self._sees(engram)
        return [ordinal for ordinal in ordinals if self._seen[ordinal]]

    def _sees(self, engram: Engram) -> bool:
        if not self._filter.sees(engram):
            return False
        # decision 81: a memory in the form of an engram shows its first pointers, and is hidden by any of them
        if is_memory(engram.id) and len(engram.pointers) == MAX_POINTERS:
            episode = self.unrestricted.episode(*memory_name(engram.id))
            return episode is None or self._filter.sees_pointers(episode.pointers)
        return engram.kind != "risk" or engram.provenance.source != "tool" or self._sees_both_sides(engram.id)

    def _sees_both_sides(self, risk: str) -> bool:
        """True if both claims that a risk made by the gateway quotes are visible; also for a risk that quotes none."""
        # decision 77: the risk of a contradiction quotes two claims, whose kinds and paths are not its own
        records = [record for record in self.unrestricted.waiting_contradictions(risk) if record.risk == risk]
        return all(self._sees_side(side, record.space) for record in records for side in (record.newer, record.older))

    def _sees_side(self, claim_id: str, space: str) -> bool:
        if is_memory(claim_id):
            episode = self.unrestricted.episode(*memory_name(claim_id))
            return episode is None or self._sees_episode(episode)
        stored = self.unrestricted.find((space, PROJECT_SPACE), claim_id)
        return stored is not None and self._filter.sees(stored.engram)

    def _sees_episode(self, episode: Episode) -> bool:
        from engrambus.knowledge.cortex import memory_engram  # only for roles with a rule

        return self._filter.sees_pointers(episode.pointers) and self._filter.sees(memory_engram(episode))

    def _visible_episodes(self, episodes: Sequence[Episode]) -> list[Episode]:
        return [episode for episode in episodes if self._sees_episode(episode)]


def restrict_view(view: View, role_filter: RoleFilter | None) -> View:
    """Return a view as a role sees it; without a rule, the view itself."""
    return view if role_filter is None else cast("View", RoleView(view, role_filter))


def unrestricted(view: View) -> View:
    """Return the view that a restricted one was made from."""
    return view.unrestricted if isinstance(view, RoleView) else view


def visible_store(view: View, spaces: Sequence[str], *, is_untrusted: bool = False) -> VisibleStore:
    """Return a view and the spaces to read in it."""
    return VisibleStore(view, spaces, is_untrusted)


def project_stores(view: View, caller: Caller, scope: str | None = None) -> list[VisibleStore]:
    """Return what a caller may read of the project: its own spaces and the memories, then unconfirmed knowledge."""
    own_spaces = visible_spaces(caller, scope)
    spaces = (*own_spaces, *memory_spaces(scope))
    untrusted = (*untrusted_spaces(scope), *map(unconfirmed_space, own_spaces))
    own = [visible_store(view, spaces)] if spaces else []
    return [*own, *([visible_store(view, untrusted, is_untrusted=True)] if untrusted else [])]
