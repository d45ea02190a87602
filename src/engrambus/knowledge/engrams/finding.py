"""Finding one engram by its id or the beginning of it: live, replaced or expired."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from engrambus.core import MIN_PREFIX_CHARS, canonical_id
from engrambus.errors import AlreadyReplaced, EngramNotFound, ambiguous_id
from engrambus.knowledge.engrams.ports import EngramReads, PastEngram, StoredEngram, VisibleStore
from engrambus.knowledge.engrams.values import is_memory

MAX_FOUND_IDS = 6
"""Ids beginning with a text that are looked up: one more than an error lists."""
MEMORY_HINT = "A memory is changed by `sam.keep`, which makes a new version, and pinned by `sam.pin`."
MAX_CHAIN = 1000
"""Replacements that are followed to the engram that is live now."""


class FoundEngram(NamedTuple):
    """An engram that a caller sees, with the store that has it."""

    store: VisibleStore
    stored: StoredEngram
    past: PastEngram | None = None
    """How it ended, if it was replaced."""


def find_engram(view: EngramReads, spaces: Sequence[str], engram_id: str, field: str = "id") -> StoredEngram:
    """Return the live engram of that id in these spaces, or the only one whose id begins like this; or refuse."""
    engram_id = canonical_id(engram_id) or engram_id
    stored = view.find(spaces, engram_id)
    if stored is None and len(engram_id) >= MIN_PREFIX_CHARS:
        # decision 54: answers to agents show the beginning of an id
        ids = view.ids_starting(spaces, engram_id, limit=MAX_FOUND_IDS)
        if len(ids) > 1:
            raise ambiguous_id(ids, engram_id, field)
        stored = view.find(spaces, ids[0]) if ids else None
    if stored is not None:
        return stored
    replaced = find_replaced(view, spaces, engram_id, field)
    if replaced is not None:
        raise _already_replaced(view, spaces, replaced, field)
    raise EngramNotFound(field=field, hint=MEMORY_HINT if is_memory(engram_id) else None)


def find_replaced(view: EngramReads, spaces: Sequence[str], engram_id: str, field: str = "id") -> PastEngram | None:
    """Return the replaced engram of that id in these spaces, or the only one whose id begins like this."""
    engram_id = canonical_id(engram_id) or engram_id
    past = view.find_past(spaces, engram_id)
    if past is None and len(engram_id) >= MIN_PREFIX_CHARS:
        ids = view.replaced_ids_starting(spaces, engram_id, limit=MAX_FOUND_IDS)
        if len(ids) > 1:
            raise ambiguous_id(ids, engram_id, field)
        past = view.find_past(spaces, ids[0]) if ids else None
    return past if past is not None and past.replaced_by is not None else None


def find_ever(view: EngramReads, spaces: Sequence[str], engram_id: str, field: str = "id") -> StoredEngram:
    """Return the engram of that id in these spaces, whether it is live, was replaced or has expired; or refuse."""
    past = view.find_past(spaces, canonical_id(engram_id) or engram_id)
    if past is not None and view.find(spaces, past.stored.engram.id) is None:
        return past.stored
    try:
        return find_engram(view, spaces, engram_id, field)
    except AlreadyReplaced:
        replaced = find_replaced(view, spaces, engram_id, field)
        if replaced is None:
            raise
        return replaced.stored


def current_id(view: EngramReads, spaces: Sequence[str], past: PastEngram) -> str | None:
    """Return the id of the live engram that a replaced one led to; None if it is gone, or not to be seen."""
    newer = past.replaced_by
    for _ in range(MAX_CHAIN):
        if newer is None:
            return None
        if view.find(spaces, newer) is not None:
            return newer
        later = view.find_past(spaces, newer)
        newer = later.replaced_by if later is not None else None
    return None


def _already_replaced(view: EngramReads, spaces: Sequence[str], past: PastEngram, field: str) -> AlreadyReplaced:
    replaced_id = past.stored.engram.id
    newer = current_id(view, spaces, past)
    if newer is None:
        return AlreadyReplaced(
            "This engram was replaced, and what replaced it is no longer live.",
            field=field,
            used=replaced_id,
            hint="`engram.show` still returns it. Put the claim anew if it holds again.",
        )
    return AlreadyReplaced(
        f"This engram was replaced; the current one is {newer}.",
        field=field,
        limit=newer,
        used=replaced_id,
        hint=f"Use {newer}. `engram.show` still returns the older one.",
    )


def find_visible(
    stores: Sequence[VisibleStore], engram_id: str, field: str = "id"
) -> tuple[VisibleStore, StoredEngram]:
    """Return an engram and the nearest of these stores that has it, by its id or the beginning of it; or refuse."""
    whole_id = canonical_id(engram_id) or engram_id
    for store in stores:
        stored = store.reads.find(store.spaces, whole_id)
        if stored is not None:
            return store, stored
    refusal: AlreadyReplaced | None = None
    for store in stores:
        with suppress(EngramNotFound):
            try:
                return store, find_engram(store.reads, store.spaces, engram_id, field)
            except AlreadyReplaced as replaced:
                refusal = refusal or replaced
    raise refusal or EngramNotFound(field=field)


def find_shown(stores: Sequence[VisibleStore], engram_id: str, field: str = "id") -> FoundEngram:
    """Return an engram by its id or the beginning of it, also one that was replaced; or refuse."""
    try:
        return FoundEngram(*find_visible(stores, engram_id, field))
    except AlreadyReplaced:
        for store in stores:
            past = find_replaced(store.reads, store.spaces, engram_id, field)
            if past is not None:
                return FoundEngram(store, past.stored, past)
        raise
