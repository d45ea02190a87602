"""Comparing new claims with earlier ones around a commit: found before it, recorded in it."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from engrambus.gateway.context import Context
from engrambus.gateway.ports import View
from engrambus.gateway.role_view import restrict_view

# decision 39: as a module, so that a put in a project without any decision does not load the rules
from engrambus.knowledge import cortex
from engrambus.knowledge.engrams import HELD_KINDS, EngramReplaced
from engrambus.policy import visible_spaces

if TYPE_CHECKING:
    from engrambus.knowledge.engrams import PreparedEngram

NearClaims = Mapping[str, Sequence["cortex.EarlierClaim"]]
"""The earlier claims near new ones, by the text of the new one."""


# Threads that search at once take the interpreter from each other after every read, and all of them get slower.
_one_search = threading.Lock()


def find_near(context: Context, prepared: Sequence[PreparedEngram], *, only_pins: bool = False) -> NearClaims:
    """Return the earlier claims that are near those of a request, as far as the caller sees them.

    They are looked for before the commit, so that the write lock is not held for that long.
    """
    checked = [item.checked for item in prepared if item.checked.kind in cortex.CHECKED_KINDS]
    if not checked:
        return {}
    spaces = visible_spaces(context.caller)
    with _one_search, context.store.read() as view:
        has_held = not only_pins and not HELD_KINDS.isdisjoint(view.live_kinds(spaces))
        if not has_held and not _has_pins(view, spaces):
            return {}
        seen = restrict_view(view, context.role_filter)
        near = {
            item.claim: cortex.nearest_claims(
                item.claim, cortex.earlier_claims(seen, spaces, item.claim, only_pins=not has_held)
            )
            for item in checked
        }
    return {claim: claims for claim, claims in near.items() if claims}


def _has_pins(view: View, spaces: Sequence[str]) -> bool:
    return bool(view.pinned(spaces)) or bool(view.pins(limit=1))


def with_contradictions(context: Context, view: View, facts: Sequence[Any], near: NearClaims) -> list[Any]:
    """Return the facts of a put with the contradictions that it records or closes; tell the author of near claims."""
    if not near and not any(isinstance(fact, EngramReplaced) for fact in facts):
        return [*facts]
    return [
        *facts,
        *cortex.record_contradictions(
            view,
            facts,
            near,
            caller=context.caller,
            policy=context.policy,
            limits=context.limits,
            randomness=context.randomness,
        ),
    ]
