"""Pointer bundles: where the agents of each role below a parent should look.

A bundle holds the pointers that a parent sent to a role or an agent. Where it sent none, it holds the first pointers of
the newest engrams of the kinds that matter to the role.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from engrambus.evidence.pointers import compact_ref
from engrambus.knowledge.brief.contents import ContentsView, first_ref, kinds_of, newest_first
from engrambus.knowledge.brief.layout import BriefItem, BriefSection, plural
from engrambus.knowledge.engrams import has_evidence
from engrambus.policy import ADMIN, ROLES, Caller, IdentityReads, visible_spaces

MAX_POINTERS = 6
"""Pointers in one bundle; the others are counted."""
MAX_DERIVED = 4
"""Pointers of engrams in a bundle where nobody sent any."""
WEIGHT = 2

RestrictView = Callable[[Any, str], ContentsView]
"""Returns a view without what a role may not see."""


def child_bundles(view: ContentsView, reader: Caller, restrict: RestrictView) -> BriefSection:
    """Return a line for each role among the children of an agent; for a role, of all its agents."""
    items = [
        BriefItem(text=f"For {plural(role)}: {text}", label="pointer bundle")
        for role in _child_roles(view, reader)
        if (text := bundle_text(_derived_refs(restrict(view, role), reader, role)))
    ]
    return BriefSection(items=items, weight=WEIGHT)


def bundle_text(refs: Sequence[str]) -> str:
    """Return pointers in short form, and the number of those that are too many."""
    places = list(dict.fromkeys(map(compact_ref, refs)))
    more = [f"+{len(places) - MAX_POINTERS} more"] if len(places) > MAX_POINTERS else []
    return ", ".join([*places[:MAX_POINTERS], *more])


def _child_roles(view: IdentityReads, reader: Caller) -> list[str]:
    agents = view.agents(reader.run.run_id)
    if reader.name:
        parents = {reader.name}
    else:
        parents = {agent.name for agent in agents if agent.role == reader.role} | (
            {ADMIN} if reader.role == ADMIN else set()
        )
    roles = {agent.role for agent in agents if (agent.parent or ADMIN) in parents}
    return [role for role in ROLES if role in roles]


def _derived_refs(view: ContentsView, reader: Caller, role: str) -> list[str]:
    spaces = visible_spaces(reader)
    engrams = [
        engram
        for kind in kinds_of(role)
        for engram in view.engrams(view.newest(spaces, kind=kind, limit=MAX_DERIVED, older_than=None))
    ]
    # Only the newest few, so that a bundle does not grow with the store.
    return [first_ref(engram) for engram in newest_first(engrams) if has_evidence(engram)][:MAX_DERIVED]
