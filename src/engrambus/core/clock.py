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
from typing import NamedTuple, Protocol

from engrambus.errors import TtlInvalid

SECOND_US = 1_000_000
MAX_DURATION_CHARS = 40
BOOT_CHARS = 8
"""Characters of a boot's id that tell it from others of the same machine."""
_BOOT_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Also counts while the machine is suspended; so does macOS's CLOCK_MONOTONIC."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_AGE_UNITS = (("y", 31_536_000), ("d", 86_400), ("h", 3600), ("m", 60), ("s", 1))
_UNIT_SECONDS = {"weeks": 604_800, "days": 86_400, "hours": 3_600, "minutes": 60, "seconds": 1}
_NUMBER = "[0-9]+(?:[.,][0-9]+)?"
_DURATION = re.compile(
    rf"P(?=.)(?:(?P<years>[0-9]+)Y)?(?:(?P<months>[0-9]+)M)?(?:(?P<weeks>{_NUMBER})W)?(?:(?P<days>{_NUMBER})D)?"
    rf"(?:T(?=.)(?:(?P<hours>{_NUMBER})H)?(?:(?P<minutes>{_NUMBER})M)?(?:(?P<seconds>{_NUMBER})S)?)?"
)
_DURATION_HINT = "Write it like PT6H, P7D or P2W."
_MAX_DURATION_US = 10_000 * 365 * 86_400 * SECOND_US


class Clock(Protocol):
    def now(self) -> int:
        """Return the microseconds since 1970-01-01T00:00:00Z."""
        ...

    def monotonic(self) -> int:
        """Return the microseconds since an arbitrary moment, unaffected by changes of the clock."""
        ...

    def since_boot(self) -> BootTime:
        """Return how long the machine has been running, suspended or not, and in which boot."""
        ...


class BootTime(NamedTuple):
    """A moment by the clock that counts from the machine's start and cannot be set."""

    boot: str
    """Short id of the boot: the same until the machine is started again."""
    elapsed_ms: int
    """Milliseconds since then, also those in which the machine was suspended."""


class SystemClock:
    """The machine's clock."""

    def now(self) -> int:
        """Return the microseconds since 1970-01-01T00:00:00Z."""
        return time.time_ns() // 1000

    def monotonic(self) -> int:
        """Return the microseconds since an arbitrary moment, unaffected by changes of the clock."""
        return time.monotonic_ns() // 1000

    def since_boot(self) -> BootTime:
        """Return how long the machine has been running, suspended or not, and in which boot."""
        return BootTime(boot_id()[:BOOT_CHARS], time.clock_gettime_ns(_BOOT_CLOCK) // 1_000_000)


@lru_cache(maxsize=64)
def print_time(moment_us: int) -> str:
    """Print a time as RFC 3339 with microseconds: `2026-01-08T09:30:00.000000Z`."""
    second, fraction_us = divmod(moment_us, SECOND_US)
    return f"{_print_second(second)}.{fraction_us:06d}Z"


def print_second(moment_us: int) -> str:
    """Print a time to the second, for a text that people read: `2026-01-08T09:30:00Z`."""
    return f"{_print_second(moment_us // SECOND_US)}Z"


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
    """Parse an ISO 8601 duration such as `PT6H`, `P7D` or `PT1.5H` into microseconds.

    Only weeks, days, hours, minutes and seconds are accepted, because years and months have no fixed length. The last
    number may have a decimal fraction, after a full stop or a comma.
    """
    match = _DURATION.fullmatch(text.removeprefix("-")) if len(text) <= MAX_DURATION_CHARS else None
    if match is None:
        raise TtlInvalid(
            f"{'The ttl' if field == 'ttl' else 'That'} is not an ISO-8601 duration in weeks, days, hours, minutes and"
            " seconds.",
            field=field,
            used=text[:MAX_DURATION_CHARS],
            hint=_DURATION_HINT,
        )
    parts = match.groupdict()
    if any(parts[unit] and int(parts[unit]) for unit in ("years", "months")):
        raise TtlInvalid(
            "Years and months have no fixed length.", field=field, used=text, hint="Use days: P30D, P365D."
        )
    amounts = [(unit, parts[unit]) for unit in _UNIT_SECONDS if parts[unit] is not None]
    if any(not amount.isdigit() for _, amount in amounts[:-1]):
        raise TtlInvalid("Only the last number of a duration may have a fraction.", field=field, used=text)
    total_us = 0
    for unit, amount in amounts:
        whole, _, decimals = amount.replace(",", ".").partition(".")
        unit_us = _UNIT_SECONDS[unit] * SECOND_US
        fraction_us, remainder = divmod(int(decimals or 0) * unit_us, 10 ** len(decimals))
        if remainder:
            raise TtlInvalid("A duration is counted in microseconds, no finer.", field=field)
        total_us += int(whole) * unit_us + fraction_us
    if total_us <= 0 or text.startswith("-"):
        raise TtlInvalid("A duration must be longer than zero.", field=field, used=text, hint=_DURATION_HINT)
    if total_us > _MAX_DURATION_US:
        raise TtlInvalid("The duration is too long.", field=field, used=text)
    return total_us


def print_duration(duration_us: int) -> str:
    """Return an ISO 8601 duration in days, hours, minutes and seconds: `P1D`, `PT1H30M`, `PT0.5S`."""
    seconds, fraction_us = divmod(duration_us, SECOND_US)
    days, seconds = divmod(seconds, _UNIT_SECONDS["days"])
    hours, seconds = divmod(seconds, _UNIT_SECONDS["hours"])
    minutes, seconds = divmod(seconds, _UNIT_SECONDS["minutes"])
    exact_seconds = f"{seconds}.{fraction_us:06}".rstrip("0") if fraction_us else seconds
    date = f"{days}D" if days else ""
    time = "".join(f"{amount}{unit}" for amount, unit in ((hours, "H"), (minutes, "M"), (exact_seconds, "S")) if amount)
    return f"P{date}T{time}" if time else f"P{date}" if date else "PT0S"


@cache
def boot_id() -> str:
    """Return a text that stays the same until the machine is started again."""
    if sys.platform == "darwin":
        import subprocess

        output = subprocess.run(["/usr/sbin/sysctl", "-n", "kern.bootsessionuuid"], capture_output=True, check=True)
        return output.stdout.decode().strip().lower()
    return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
