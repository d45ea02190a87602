"""The UTC timestamps that `memory.read` accepts, and the one form it prints them in.

ISO 8601, a date and a time joined by `T`: a calendar date (`2026-02-03`, `20260203`) or a week date (`2026-W06-2`,
`2026W062`); an hour, an hour and a minute, or these and seconds (`04`, `04:05`, `0405`, `04:05:06`, `040506`), seconds
with a fraction behind `.` or `,`; then `Z`, `+00`, `+0000` or `+00:00`. Nothing else is a timestamp (decision 108).
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache

_MOMENT = re.compile(
    r"(\d{4}(?:(-?)W\d\d\2\d|(-?)\d\d\3\d\d))"  # the date
    r"T(\d\d)(?:(:?)(\d\d)(?:\5(\d\d)(?:[.,](\d+))?)?)?"  # hour, minute, second and fraction
    r"(?:Z|\+00(?::?00)?)",
    re.ASCII,
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def parse_moment(text: str) -> int | None:
    """Return the microseconds since 1970 of a UTC timestamp; None when `text` is not one."""
    match = _MOMENT.fullmatch(text)
    if match is None:
        return None
    date_text, _, _, hour, _, minute, second, fraction = match.groups()
    # Newer Pythons read 24:00 as midnight of the next day, older ones refuse it; here it is no hour of a day.
    if hour > "23" or (minute or "00") > "59" or (second or "00") > "59":
        return None
    day = _days_since_epoch(date_text)
    if day is None:
        return None
    seconds = day * 86_400 + int(hour) * 3600 + int(minute or 0) * 60 + int(second or 0)
    return seconds * 1_000_000 + (int(fraction[:6].ljust(6, "0")) if fraction else 0)


@lru_cache(maxsize=1024)
def _days_since_epoch(text: str) -> int | None:
    digits = text.replace("-", "")
    year, day_digits = int(digits[:4]), digits[4:]
    try:
        if day_digits[0] == "W":
            day = date.fromisocalendar(year, int(day_digits[1:3]), int(day_digits[3]))
        else:
            day = date(year, int(day_digits[:2]), int(day_digits[2:]))
    except (ValueError, OverflowError):  # a day that does not exist, or lies beyond the year 9999
        return None
    return day.toordinal() - _EPOCH.toordinal()


def print_moment(moment_us: int) -> str:
    """Print a moment in the normal form of `ts_utc`: a fraction only where it is not zero."""
    return (_EPOCH + moment_us * _MICROSECOND).isoformat()[:-6] + "Z"
