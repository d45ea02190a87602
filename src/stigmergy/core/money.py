"""Money: counted in whole micro-dollars, printed in dollars."""

from __future__ import annotations

MICROS = 1_000_000
"""Micro-dollars in a dollar."""


def print_dollars(usd: float) -> str:
    """Money as people write it: `$0.12`, `$0`."""
    return f"${usd:,.6f}".rstrip("0").rstrip(".")
