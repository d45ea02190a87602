"""Pointer bundles: where the agents of each role below a parent should look.

A bundle holds the pointers that a parent sent to a role or an agent. Where it sent none, it holds the first pointers of
the newest engrams of the kinds that matter to the role.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import Any

import msgspec

from engrambus.evidence.pointers import compact_ref
from engrambus.knowledge.brief.contents import (
    MAX_PACKS,
    ContentsView,
    first_ref,
    is_for_role,
    kinds_of,
    newest_first,
    sent_refs,
)
from engrambus.knowledge.brief.layout import BriefItem, BriefSection, plural
from engrambus.knowledge.engrams import FindStale, has_evidence
from engrambus.policy import ADMIN, ROLES, Agent, Caller, visible_spaces

MAX_POINTERS = 6
"""Pointers in one bundle; the others are counted."""
MAX_DERIVED = 4
"""Pointers of engrams in a bundle where nobody sent any."""
WEIGHT = 2
LABEL = "pointer bundle"

RestrictView = Callable[[Any, str], ContentsView]
"""Returns a view without what a role may not see."""


class PointerBundles(msgspec.Struct, frozen=True, kw_only=True):
    """The pointer bundles of a brief."""

    own: tuple[str, ...]
    """A line with the pointers that were sent to the reader, if there are any."""
    for_children: BriefSection
    """A line for each role among the reader's children."""


def pointer_bundles(
    view: ContentsView, reader: Caller, restrict: RestrictView, find_stale: FindStale
) -> PointerBundles:
    """Return the bundles of an agent; for a role, what was sent to it, and the bundles of all its agents' children."""
    sent = bundle_text(sent_refs(view, reader))
    whose = "you" if reader.name else plural(reader.role)
    items: list[BriefItem] = []
    agents = view.agents(reader.run.run_id)
    parents = _parents(agents, reader)
    roles = {agent.role for agent in agents if (agent.parent or ADMIN) in parents}
    for role in ROLES:
        if role in roles:
            as_child_sees = restrict(view, role)
            refs = _refs_sent_by(as_child_sees, reader, parents, role)
            refs = refs or _newest_refs(as_child_sees, reader, role, find_stale)
            if refs:
                items.append(BriefItem(text=f"For {plural(role)}: {bundle_text(refs)}", label=LABEL))
    return PointerBundles(
        own=(f"For {whose}: {sent}",) if sent else (), for_children=BriefSection(items=items, weight=WEIGHT)
    )


def bundle_text(refs: Sequence[str]) -> str:
    """Return pointers in short form, and the number of those that are too many."""
    places = list(dict.fromkeys(map(compact_ref, refs)))
    more = [f"+{len(places) - MAX_POINTERS} more"] if len(places) > MAX_POINTERS else []
    return ", ".join([*places[:MAX_POINTERS], *more])


def _parents(agents: Sequence[Agent], reader: Caller) -> set[str]:
    """Return the names whose children a brief has bundles for: the reader's, or those of all agents of a role."""
    if reader.name:
        return {reader.name}
    names = {agent.name for agent in agents if agent.role == reader.role}
    return names | {ADMIN} if reader.role == ADMIN else names


def _refs_sent_by(view: ContentsView, reader: Caller, parents: Container[str], role: str) -> list[str]:
    """Return the pointers that parents sent to a role, or to agents that have it; the newest first."""
    names = {agent.name for agent in view.agents(reader.run.run_id) if agent.role == role}
    packs = view.pointer_packs(reader.run.run_id, limit=MAX_PACKS)
    return [
        pointer.ref
        for sent in packs
        if sent.sender in parents and (is_for_role(sent, role) or not names.isdisjoint(sent.pack.to))
        for pointer in sent.pack.pointers
    ]


def _newest_refs(view: ContentsView, reader: Caller, role: str, find_stale: FindStale) -> list[str]:
    """Return the first pointers of the newest engrams of the kinds that matter to a role."""
    spaces = visible_spaces(reader)
    engrams = [
        engram
        for kind in kinds_of(role)
        for engram in view.engrams(view.newest(spaces, kind=kind, limit=MAX_DERIVED, older_than=None))
    ]
    # Only the newest few, so that a bundle does not grow with the store.
    stale = find_stale(engrams)
    current = (engram for engram in newest_first(engrams) if has_evidence(engram) and engram.id not in stale)
    return [first_ref(engram) for engram in current][:MAX_DERIVED]
