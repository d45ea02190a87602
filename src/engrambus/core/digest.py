"""Digests: `sha256:` and 64 lower-case hex digits."""

from __future__ import annotations

import hashlib
import re
from typing import Any

from engrambus.core.canonical import canonical

PREFIX = "sha256:"
_HEX = frozenset("0123456789abcdef")
_DIGEST = re.compile(PREFIX + "[0-9a-f]{64}").fullmatch


def digest(content: bytes) -> str:
    """The digest of some bytes."""
    return PREFIX + hashlib.sha256(content).hexdigest()


def digest_of(value: Any) -> str:
    """The digest of a JSON value's canonical form."""
    return digest(canonical(value))


def is_hex(text: str, *lengths: int) -> bool:
    """Whether a text is lower-case hex of one of these lengths."""
    return len(text) in lengths and _HEX.issuperset(text)


def is_digest(text: str) -> bool:
    """Whether a text is a digest as this project writes them."""
    return _DIGEST(text) is not None
