"""ULIDs: 48 bits of milliseconds, 80 bits of randomness, 26 characters that sort by time (decision 4)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

from engrambus.errors import ambiguous_id

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_ALPHABET_SET = frozenset(_ALPHABET)

Randomness = Callable[[int], bytes]
"""Returns that many random bytes; `os.urandom` unless a test passes another."""


def new_ulid(moment_us: int, randomness: Randomness = os.urandom) -> str:
    """Make a ULID for a time in microseconds."""
    value = (moment_us // 1000) << 80 | int.from_bytes(randomness(10), "big")
    return "".join(_ALPHABET[(value >> shift) & 31] for shift in range(125, -5, -5))


def ulid_time(ulid: str) -> int:
    """Return the time of a ULID in microseconds, exact to the millisecond."""
    value = 0
    for digit in ulid[:10]:
        value = value << 5 | _ALPHABET.index(digit)
    return value * 1000


def is_ulid(text: str) -> bool:
    """True if `text` is a ULID in its canonical upper-case form."""
    return len(text) == 26 and text[0] <= "7" and _ALPHABET_SET.issuperset(text)


def canonical_id(text: str) -> str | None:
    """Return a ULID in upper case or a UUID in lower case, however it is written; None if it is neither."""
    if is_ulid(upper := text.upper()):
        return upper
    return lower if _is_uuid(lower := text.lower()) else None


SHORT_ULID_CHARS = 13
"""A ULID's millisecond and fifteen random bits: unique even among the ids of one millisecond."""
SHORT_DIGEST_CHARS = 12
"""Hex digits of a short digest: 48 bits."""
MIN_PREFIX_CHARS = 4
"""A shorter text is no beginning of an id."""


def short_id(identifier: str) -> str:
    """Return the beginning of a ULID or a digest, by which commands and people name it; any other id as it is."""
    if is_ulid(identifier):
        return identifier[:SHORT_ULID_CHARS]
    digits = identifier.removeprefix("sha256:")
    return digits[:SHORT_DIGEST_CHARS] if len(digits) == 64 and digits != identifier else identifier


def only_beginning(text: str, ids: Iterable[str], field: str = "id") -> str | None:
    """Return the only one of some ids that begins with a text; refuse several, and list them.

    The ids are those the caller sees: others neither match nor make a beginning ambiguous.
    """
    if len(text) < MIN_PREFIX_CHARS:
        return None
    found = list(dict.fromkeys(identifier for identifier in ids if identifier.startswith(text)))
    if len(found) > 1:
        raise ambiguous_id(found, text, field)
    return found[0] if found else None


def _is_uuid(text: str) -> bool:
    """True if `text` is a UUID in its canonical lower-case form."""
    if len(text) != 36 or any(text[index] != "-" for index in (8, 13, 18, 23)):
        return False
    digits = text.replace("-", "")
    return len(digits) == 32 and all(digit in "0123456789abcdef" for digit in digits)
