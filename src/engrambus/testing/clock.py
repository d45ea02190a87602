"""Time and randomness that a test controls."""

from __future__ import annotations

import hashlib

from engrambus.core import SECOND_US, BootTime

NEW_YEAR = 1_767_225_600 * SECOND_US
"""2026-01-01T00:00:00Z in microseconds."""


class ManualClock:
    """A clock that moves only when a test moves it."""

    def __init__(self, now_us: int = NEW_YEAR) -> None:
        self._now_us = now_us
        self._monotonic_us = 0
        self._boots = 1

    def now(self) -> int:
        """Return microseconds since 1970-01-01T00:00:00Z."""
        return self._now_us

    def monotonic(self) -> int:
        """Return the microseconds it was advanced in all. Moving it back or setting it is a correction, not time."""
        return self._monotonic_us

    def since_boot(self) -> BootTime:
        """Return the time it was advanced since the machine was started."""
        return BootTime(f"{self._boots:08x}", self._monotonic_us // 1000)

    def restart(self) -> None:
        """Start the machine again: its other clock begins at zero."""
        self._boots += 1
        self._monotonic_us = 0

    def advance(self, *, seconds: int = 0, microseconds: int = 0) -> None:
        """Move the clock forwards, or backwards by a negative amount."""
        amount_us = seconds * SECOND_US + microseconds
        self._now_us += amount_us
        self._monotonic_us += max(0, amount_us)

    def set(self, now_us: int) -> None:
        """Set the clock, as an administrator would."""
        self._now_us = now_us


class SeededRandomness:
    """A source of random bytes that gives the same bytes in the same order for the same seed."""

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed
        self._calls = 0

    def __call__(self, count: int) -> bytes:
        """Return the next `count` bytes."""
        self._calls += 1
        return hashlib.shake_128(f"{self._seed}:{self._calls}".encode()).digest(count)
