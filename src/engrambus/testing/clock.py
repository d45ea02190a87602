"""A clock to turn, forwards and backwards."""

from __future__ import annotations

from engrambus.core import SECOND

NEW_YEAR = 1_767_225_600 * SECOND
"""2026-01-01T00:00:00Z."""


class TurningClock:
    """Stands still until somebody turns it."""

    def __init__(self, moment: int = NEW_YEAR) -> None:
        self._moment = moment
        self._passed = 0

    def now(self) -> int:
        """Microseconds since 1970-01-01T00:00:00Z."""
        return self._moment

    def passed(self) -> int:
        """How far it was turned forwards: that is time passing. Turned back or set, it was only wrong before."""
        return self._passed

    def turn(self, *, seconds: int = 0, microseconds: int = 0) -> None:
        """Move the hands; negative amounts move them back."""
        by = seconds * SECOND + microseconds
        self._moment += by
        self._passed += max(0, by)

    def set(self, moment: int) -> None:
        """Put the hands at a moment."""
        self._moment = moment
