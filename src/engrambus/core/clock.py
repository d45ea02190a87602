"""Time, handed in from outside: integer microseconds since 1970, printed as RFC 3339 in UTC."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Protocol

SECOND = 1_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS = (("y", 31_536_000), ("d", 86_400), ("h", 3600), ("m", 60), ("s", 1))


class Clock(Protocol):
    """Tells the time in microseconds."""

    def now(self) -> int:
        """Microseconds since 1970-01-01T00:00:00Z."""
        ...

    def passed(self) -> int:
        """Microseconds since some moment, whatever the clock was set to meanwhile."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> int:
        """Microseconds since 1970-01-01T00:00:00Z."""
        return time.time_ns() // 1000

    def passed(self) -> int:
        """Microseconds since some moment, whatever the clock was set to meanwhile."""
        return time.monotonic_ns() // 1000


class ProjectClock:
    """The time of a project: the machine's, and never before the last time its journal tells.

    When the machine's clock was set back, time does not stand still until it has caught up, or leases would not end: it
    goes on from the journal's last time at half its pace, so that the two meet again.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._behind: tuple[int, int] | None = None
        """The moment time went on from without the machine's clock, and what had passed then."""

    def now(self, least: int) -> int:
        """Microseconds since 1970-01-01T00:00:00Z, given the journal's last time."""
        now, behind = self._clock.now(), self._behind
        if behind is None and now >= least:
            return now
        passed = self._clock.passed()
        if behind is not None:
            moment = behind[0] + (passed - behind[1]) // 2
            if now >= max(moment, least):
                self._behind = None
                return now
            if moment >= least:
                return moment
        self._behind = least, passed
        return least


@lru_cache(maxsize=64)
def print_time(moment: int) -> str:
    """A moment as RFC 3339 with microseconds: `2026-01-08T09:30:00.000000Z`."""
    second, rest = divmod(moment, SECOND)
    return f"{_print_second(second)}.{rest:06d}Z"


@lru_cache(maxsize=64)
def _print_second(second: int) -> str:
    return (_EPOCH + timedelta(seconds=second)).isoformat(timespec="seconds")[:-6]


def parse_time(text: str) -> int:
    """The moment an RFC 3339 text names; ValueError when it names none."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError("a time needs an offset")
    return (moment - _EPOCH) // timedelta(microseconds=1)


def age(moment: str, now: str) -> str:
    """How long ago, in one unit: `5m`."""
    seconds = max(0, parse_time(now) - parse_time(moment)) // SECOND
    for unit, size in _UNITS:
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return "now"
