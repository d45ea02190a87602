"""Money: counted in whole micro-dollars, printed in dollars."""

from __future__ import annotations

MICROS = 1_000_000
"""Micro-dollars in a dollar."""


def print_dollars(usd: float) -> str:
    """Money as people write it: `$0`, `$0.10`, `$0.001`, `$1,200`."""
    whole, _, rest = f"${usd:,.6f}".partition(".")
    cents = rest.rstrip("0")
    return f"{whole}.{cents.ljust(2, '0')}" if cents else whole
