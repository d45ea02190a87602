"""What replaced an engram and what it replaced, and the stores as they were at an earlier time."""

from __future__ import annotations

import re
from collections.abc import Sequence

from engrambus.core import parse_duration, parse_time, print_time
from engrambus.errors import TimeInvalid
from engrambus.gateway.context import Context
from engrambus.knowledge.engrams import Engram, VisibleStore

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_DAY_US = 86_400_000_000
MEMORY_POINTER = "sam:"


def replaced_about(stores: Sequence[VisibleStore], engrams: Sequence[Engram]) -> dict[str, list[str]]:
    """Return the ids of the older engrams that each of these replaced, as far as the caller sees them."""
    ids = [engram.id for engram in engrams]
    about: dict[str, list[str]] = {}
    for store in stores:
        for newer_id, older_ids in store.reads.replaced_with(ids).items():
            seen = [older for older in older_ids if store.reads.find_past(store.spaces, older) is not None]
            about.setdefault(newer_id, []).extend(seen)
    return about


def past_about(stores: Sequence[VisibleStore], engram: Engram) -> dict[str, str]:
    """Return the fields of `about` that say when and by what an engram was replaced; none for one that was not."""
    for store in stores:
        past = store.reads.find_past(store.spaces, engram.id)
        if past is None or past.superseded_us is None or store.reads.find(store.spaces, engram.id) is not None:
            continue
        about = {"valid_from": engram.provenance.created_at, "superseded_at": print_time(past.superseded_us)}
        newer = past.replaced_by or ""
        if newer.startswith(MEMORY_POINTER) or _is_visible(stores, newer):
            about["replaced_by"] = newer
        return about
    return {}


def _is_visible(stores: Sequence[VisibleStore], engram_id: str) -> bool:
    return any(
        store.reads.find(store.spaces, engram_id) is not None
        or store.reads.find_past(store.spaces, engram_id) is not None
        for store in stores
    )


def past_stores(stores: Sequence[VisibleStore], time_us: int | None) -> Sequence[VisibleStore]:
    """Return these stores as they were at a time, without untrusted knowledge; as they are now without a time."""
    if time_us is None:
        return stores
    return [VisibleStore(store.reads.at(time_us), store.spaces) for store in stores if not store.is_untrusted]


def read_past_time(context: Context, text: str | None, field: str = "as_of") -> int | None:
    """Return the time that a request asks about: a date (its end), a time with its offset, or a duration ago."""
    if text is None:
        return None
    time_us = _parse(text, context.as_of, field)
    if time_us > context.as_of:
        raise TimeInvalid(
            "This time is in the future.",
            field=field,
            limit=print_time(context.as_of),
            used=text,
            hint="Ask without a time for what holds now.",
        )
    first_us = context.view.first_us()
    if time_us < first_us:
        raise TimeInvalid("The project did not exist at this time.", field=field, limit=print_time(first_us), used=text)
    return time_us


def _parse(text: str, now_us: int, field: str) -> int:
    if text.startswith("P"):
        return now_us - parse_duration(text, field)
    try:
        if _DATE.fullmatch(text):
            # A day still going on is asked about as it is now.
            return min(parse_time(f"{text}T00:00:00Z") + _DAY_US - 1, max(now_us, parse_time(f"{text}T00:00:00Z")))
        return parse_time(text)
    except (ValueError, OverflowError):
        raise TimeInvalid(
            "This is no time.",
            field=field,
            limit="2026-01-31, 2026-01-31T09:30:00Z or P7D",
            used=text,
            hint="Write a date, a time with its offset, or a duration: P7D is seven days ago.",
        ) from None
