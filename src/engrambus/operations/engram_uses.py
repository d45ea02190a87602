"""The engrams that a request says it used, and what used an engram, as operations take and show them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, TypeAlias, cast

from msgspec import Meta, Struct

from engrambus.core import print_time
from engrambus.gateway.context import Context
from engrambus.gateway.ports import View
from engrambus.gateway.role_view import unrestricted

# decision 39: as a module, so that a message without `used` does not load the rules
from engrambus.knowledge import engrams
from engrambus.knowledge.engrams import MAX_SHOWN_ID_CHARS, MAX_USED, UserKind, VisibleStore

if TYPE_CHECKING:
    from engrambus.knowledge.messages import Mail

SHOWN_USES = 5

UsedIds: TypeAlias = Annotated[
    list[Annotated[str, Meta(max_length=MAX_SHOWN_ID_CHARS)]],
    Meta(description=f"Id of an engram that it is based on; at most {MAX_USED}"),
]


class UseAbout(Struct, frozen=True, kw_only=True):
    """One engram, message, broadcast, contribution or review that used an engram."""

    kind: UserKind
    id: str
    """Its id; a review has its contribution's."""
    agent: str
    """Its author, as run/name."""
    at: str


class UsesAbout(Struct, frozen=True, kw_only=True, omit_defaults=True):
    count: int
    """How many used it that the caller may know of."""
    newest: list[UseAbout] = []
    """The newest of them; a query shows only the count."""


def resolve_used(context: Context, ids: Sequence[str], field: str = "used") -> tuple[str, ...]:
    """Return the whole ids of the engrams that a request used; refuse one that the caller cannot see now."""
    if not ids:
        return ()
    ids = engrams.read_used(list(ids), field)
    with context.present_stores() as stores:
        return engrams.find_used(stores, ids, context.limits, field)


def used_in_mail(view: View, mail: Mail) -> tuple[str, ...]:
    """Return the ids of the engrams that a message or a broadcast used."""
    match mail.kind:
        case "broadcast":
            return view.used_in("broadcast", mail.item)
        case "message" | "answer" | "note":
            return view.used_in("message", mail.item)
        case _:
            return ()


def used_about(context: Context, stores: Sequence[VisibleStore], engram_id: str) -> list[str]:
    """Return the ids of the engrams that an engram used, without those that the caller's role may not see."""
    ids = context.view.used_in("engram", engram_id)
    if context.role_filter is None:
        return list(ids)
    everything = [VisibleStore(unrestricted(cast("View", store.reads)), store.spaces) for store in stores]
    return [used for used in ids if _has(stores, used) or not _has(everything, used)]


def _has(stores: Sequence[VisibleStore], engram_id: str) -> bool:
    return any(store.reads.find(store.spaces, engram_id) is not None for store in stores)


def uses_about(context: Context, stores: Sequence[VisibleStore], engram_id: str, *, shown: int) -> UsesAbout | None:
    """Return how many used an engram, and the newest `shown` of them; None if nothing did."""
    uses = engrams.visible_uses(context.view, stores, context.caller, engram_id)
    if not uses:
        return None
    newest = [
        UseAbout(kind=use.kind, id=use.item, agent=f"{use.run}/{use.agent}", at=print_time(use.used_us))
        for use in uses[:shown]
    ]
    return UsesAbout(count=len(uses), newest=newest)
