"""Randomness that comes out the same every time."""

from __future__ import annotations

import hashlib


class SeededRandomness:
    """Gives the same bytes in the same order for the same seed."""

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed
        self._drawn = 0

    def __call__(self, count: int) -> bytes:
        """The next `count` bytes."""
        self._drawn += 1
        return hashlib.shake_128(f"{self._seed}:{self._drawn}".encode()).digest(count)
