"""ULIDs: 48 bits of milliseconds, 80 bits of randomness, 26 characters that sort by time."""

from __future__ import annotations

import os
from collections.abc import Callable

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_LEGAL = frozenset(_ALPHABET)

Randomness = Callable[[int], bytes]
"""Gives that many random bytes; `os.urandom` unless a test hands in another."""


def new_ulid(moment: int, randomness: Randomness = os.urandom) -> str:
    """A fresh ULID for a moment in microseconds."""
    value = (moment // 1000) << 80 | int.from_bytes(randomness(10), "big")
    return "".join(_ALPHABET[(value >> shift) & 31] for shift in range(125, -5, -5))


def ulid_time(ulid: str) -> int:
    """The moment a ULID was made for, in microseconds; it knows no more than milliseconds."""
    value = 0
    for digit in ulid[:10]:
        value = value << 5 | _ALPHABET.index(digit)
    return value * 1000


def is_ulid(text: str) -> bool:
    """Whether a text is a ULID in its canonical upper-case form."""
    return len(text) == 26 and text[0] <= "7" and _LEGAL.issuperset(text)


def is_uuid(text: str) -> bool:
    """Whether a text is a UUID in its canonical lower-case form."""
    if len(text) != 36 or any(text[at] != "-" for at in (8, 13, 18, 23)):
        return False
    digits = text.replace("-", "")
    return len(digits) == 32 and all(digit in "0123456789abcdef" for digit in digits)
