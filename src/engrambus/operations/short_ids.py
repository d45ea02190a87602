"""What is named by a hash may be named by how that begins."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from engrambus.core import is_digest, is_hex
from engrambus.errors import IdAmbiguous

T = TypeVar("T")

SHORTEST_START = 6
"""Of how many digits the beginning of an id is at least, for it to name one."""
MAX_LIKE = 100


def meant(given: str, like: Callable[..., list[str]], see: Callable[[str], T | None]) -> T | None:
    """What an id names, or the beginning of one: of those the caller sees, as if there were no others."""
    start = given.removeprefix("sha256:")
    if is_digest(given) or len(start) < SHORTEST_START or not is_hex(start, len(start)):
        return see(given)
    ids = like(start, limit=MAX_LIKE) if len(start) <= 64 else []
    seen = [found for found in map(see, ids) if found is not None]
    if len(seen) > 1:
        raise IdAmbiguous(field="id", used=given, hint="Give more of it.")
    return seen[0] if seen else None
