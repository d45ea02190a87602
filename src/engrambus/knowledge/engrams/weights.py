"""Weights of keys: integers made from true frequencies, the same on every machine (decision 87)."""

from __future__ import annotations

from engrambus.knowledge.engrams.postings import LONG_LINE, is_line_key

STEPS = 16
"""Weight of a key for each halving of the share of engrams that have it."""
LINE_SHARE, LONG_LINE_SHARE, PHRASE_SHARE = 12, 9, 2
"""Sixteenths of the weight of a word of the claim that other lists have: a word of the pointed lines, one of many
pointed lines, which have so many words that some always fit, and a phrase, whose words count already."""


def list_weight(key: str, frequency: int, total: int) -> int:
    """Return the weight of being on the list of a key, found on `frequency` of `total` engrams."""
    share = 16
    if "+" in key:
        share = PHRASE_SHARE
    elif is_line_key(key):
        share = LONG_LINE_SHARE if key.startswith(LONG_LINE) else LINE_SHARE
    return max(1, rarity(frequency, total) * share // 16)


def rarity(frequency: int, total: int) -> int:
    """Return `STEPS` × log2(1 + total / frequency), rounded down; at least `STEPS`."""
    # In integers: the last digit of a logarithm differs between machines.
    numerator, denominator = max(total, frequency) + frequency, max(1, frequency)
    halvings = (numerator // denominator).bit_length() - 1
    value, part = (numerator << 32) // (denominator << halvings), 0
    for _ in range(STEPS.bit_length() - 1):
        value = value * value >> 32
        part <<= 1
        if value >> 33:
            value >>= 1
            part |= 1
    return halvings * STEPS + part
