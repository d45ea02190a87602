"""Weights of keys: integers made from true frequencies, the same on every machine (decision 87)."""

from __future__ import annotations

STEPS = 16
"""Weight of a key for each halving of the share of engrams that have it."""
LINE_PARTS, PHRASE_PARTS = 2, 8
"""A word of the pointed lines has this part of the weight of a word of the claim; so has a phrase."""


def claim_weight(key: str, frequency: int, total: int) -> int:
    """Return the weight of a key that an engram has, found on `frequency` of `total` engrams."""
    weight = rarity(frequency, total)
    return max(1, weight // PHRASE_PARTS) if "+" in key else weight


def line_weight(key: str, frequency: int, total: int) -> int:
    """Return the weight of a word of the lines that an engram points at."""
    return max(1, rarity(frequency, total) // LINE_PARTS)


def rarity(frequency: int, total: int) -> int:
    """Return `STEPS` × log2(1 + total / frequency), rounded down; at least `STEPS`."""
    # In integers: the last digit of a logarithm differs between machines.
    numerator, denominator = max(total, frequency) + frequency, max(1, frequency)
    whole = (numerator // denominator).bit_length() - 1
    value, part = (numerator << 32) // (denominator << whole), 0
    for _ in range(STEPS.bit_length() - 1):
        value = value * value >> 32
        part <<= 1
        if value >> 33:
            value >>= 1
            part |= 1
    return whole * STEPS + part
