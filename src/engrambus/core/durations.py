"""Durations as ISO 8601 writes them, and only those whose length is fixed: weeks, days, hours, minutes, seconds."""

from __future__ import annotations

from functools import lru_cache

from engrambus.core.clock import SECOND
from engrambus.errors import TtlInvalid

_SECONDS = {"weeks": 604_800, "days": 86_400, "hours": 3_600, "minutes": 60, "seconds": 1}
MAX_TEXT = 40
_FEW_DAYS = len("P9999D")


@lru_cache(maxsize=256)
def parse_duration(text: str, field: str = "ttl") -> int:
    """Microseconds in a duration such as `PT6H` or `P7D`; zero, negative and calendar lengths are refused."""
    if len(text) <= _FEW_DAYS and text[:1] == "P" and text[-1:] == "D" and text[1:-1].isdecimal() and text.isascii():
        days = int(text[1:-1])
        if days:
            return days * _SECONDS["days"] * SECOND  # what policies say, without 20 ms for the parser of everything
    import whenever

    if len(text) > MAX_TEXT or text != text.upper() or text.startswith("+"):
        raise TtlInvalid(field=field, hint="Write it like PT6H, P7D or P2W.")
    try:
        parts = whenever.ItemizedDelta.parse_iso(text)
    except ValueError:
        raise TtlInvalid(field=field, hint="Write it like PT6H, P7D or P2W.") from None
    total = 0
    for unit, amount in parts.items():
        if unit == "nanoseconds":
            if amount % 1000:
                raise TtlInvalid("A ttl is counted in microseconds, no finer.", field=field)
            total += amount // 1000
        elif unit in _SECONDS:
            total += amount * _SECONDS[unit] * SECOND
        elif amount:
            raise TtlInvalid(
                "Years and months have no fixed length.", field=field, used=text, hint="Use days: P30D, P365D."
            )
    if total <= 0:
        raise TtlInvalid("A ttl must be longer than nothing.", field=field, used=text)
    return total
