"""Texts of an exact number of tokens."""

from __future__ import annotations

from bisect import bisect_right

from engrambus.core import estimate_tokens

MAX_CHARS = 100_000


def pad(text: str, tokens: int, filler: str = "#") -> str:
    """Return the longest text of this many tokens that continues `text` with the filler."""
    count = bisect_right(range(MAX_CHARS), tokens, key=lambda length: estimate_tokens(text + filler * length)) - 1
    padded = text + filler * count
    assert estimate_tokens(padded) == tokens
    return padded
