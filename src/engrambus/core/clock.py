"""Time: clocks that are passed in, timestamps, durations, and the id of the machine's boot.

Times are integer microseconds since 1970, printed as RFC 3339 in UTC.
"""

from __future__ import annotations

import re
import sys
import time
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from pathlib import Path
from typing import Protocol

from engrambus.errors import TtlInvalid

SECOND_US = 1_000_000
MAX_DURATION_CHARS = 40

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_AGE_UNITS = (("y", 31_536_000), ("d", 86_400), ("h", 3600), ("m", 60), ("s", 1))
_UNIT_SECONDS = {"weeks": 604_800, "days": 86_400, "hours": 3_600, "minutes": 60, "seconds": 1}
_WHOLE_DAYS = re.compile("P(?!0+D)[0-9]{1,4}D")
_DURATION_HINT = "Write it like PT6H, P7D or P2W."


class Clock(Protocol):
    def now(self) -> int:
        """Return the microseconds since 1970-01-01T00:00:00Z."""
        ...

    def monotonic(self) -> int:
        """Return the microseconds since an arbitrary moment, unaffected by changes of the clock."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> int:
        """Return the microseconds since 1970-01-01T00:00:00Z."""
        return time.time_ns() // 1000

    def monotonic(self) -> int:
        """Return the microseconds since an arbitrary moment, unaffected by changes of the clock."""
        return time.monotonic_ns() // 1000


class ProjectClock:
    """The time of a project: the machine's, but never before the last time in its journal.

    After the machine's clock was set back, time goes on from the journal's last time at half the pace until the clock
    has caught up. It must not stand still, because leases would never end.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._behind: tuple[int, int] | None = None
        """Project time and monotonic time at which the project left the machine's clock; None while they agree."""

    def now(self, least: int) -> int:
        """Return the microseconds since 1970-01-01T00:00:00Z; `least` is the journal's last time."""
        now_us, behind = self._clock.now(), self._behind
        if behind is None and now_us >= least:
            return now_us
        monotonic_us = self._clock.monotonic()
        if behind is not None:
            project_us = behind[0] + (monotonic_us - behind[1]) // 2
            if now_us >= max(project_us, least):
                self._behind = None
                return now_us
            if project_us >= least:
                return project_us
        self._behind = least, monotonic_us
        return least


@lru_cache(maxsize=64)
def print_time(moment_us: int) -> str:
    """Print a time as RFC 3339 with microseconds: `2026-01-08T09:30:00.000000Z`."""
    second, fraction_us = divmod(moment_us, SECOND_US)
    return f"{_print_second(second)}.{fraction_us:06d}Z"


@lru_cache(maxsize=64)
def _print_second(second: int) -> str:
    return (_EPOCH + timedelta(seconds=second)).isoformat(timespec="seconds")[:-6]


def parse_time(text: str) -> int:
    """Parse an RFC 3339 text; raise ValueError when it is not one, or has no offset."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError("a time needs an offset")
    return (moment - _EPOCH) // timedelta(microseconds=1)


def age(moment: str, now: str) -> str:
    """Return the time between two timestamps in one unit: `5m`."""
    seconds = max(0, parse_time(now) - parse_time(moment)) // SECOND_US
    for unit, unit_seconds in _AGE_UNITS:
        if seconds >= unit_seconds:
            return f"{seconds // unit_seconds}{unit}"
    return "now"


@lru_cache(maxsize=256)
def parse_duration(text: str, field: str = "ttl") -> int:
    """Parse an ISO 8601 duration such as `PT6H` or `P7D` into microseconds.

    Only weeks, days, hours, minutes and seconds are accepted, because years and months have no fixed length.
    """
    if _WHOLE_DAYS.fullmatch(text):
        # decision 39: policies use whole days; reading them here saves the 20 ms that `whenever` takes to load.
        return int(text[1:-1]) * _UNIT_SECONDS["days"] * SECOND_US
    import whenever

    if len(text) > MAX_DURATION_CHARS or text != text.upper() or text.startswith("+"):
        raise TtlInvalid(field=field, hint=_DURATION_HINT)
    try:
        parts = whenever.ItemizedDelta.parse_iso(text)
    except ValueError:
        raise TtlInvalid(field=field, hint=_DURATION_HINT) from None
    total_us = 0
    for unit, amount in parts.items():
        if unit == "nanoseconds":
            if amount % 1000:
                raise TtlInvalid("A duration is counted in microseconds, no finer.", field=field)
            total_us += amount // 1000
        elif unit in _UNIT_SECONDS:
            total_us += amount * _UNIT_SECONDS[unit] * SECOND_US
        elif amount:
            raise TtlInvalid(
                "Years and months have no fixed length.", field=field, used=text, hint="Use days: P30D, P365D."
            )
    if total_us <= 0:
        raise TtlInvalid("A duration must be longer than zero.", field=field, used=text)
    return total_us


@cache
def boot_id() -> str:
    """Return a text that stays the same until the machine is started again."""
    if sys.platform == "darwin":
        import subprocess

        output = subprocess.run(["/usr/sbin/sysctl", "-n", "kern.bootsessionuuid"], capture_output=True, check=True)
        return output.stdout.decode().strip().lower()
    return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
