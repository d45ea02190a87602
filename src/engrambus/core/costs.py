"""Costs: the token estimator that every budget is counted with, answers within `max_tokens`, and money."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import msgspec

from engrambus.errors import BudgetTooSmall

BYTES_PER_TOKEN = 4
MICROS_PER_DOLLAR = 1_000_000
"""Money is counted in whole micro-dollars."""

T = TypeVar("T")

_encode = msgspec.json.Encoder().encode


def estimate_tokens(content: str | bytes) -> int:
    """Return ceil(UTF-8 bytes / 4): deterministic, and the same for every model."""
    size_bytes = len(content.encode() if isinstance(content, str) else content)
    return -(-size_bytes // BYTES_PER_TOKEN)


# decision 5: the JSON of the whole answer counts, because the reader pays for all of it.


def fits(answer: msgspec.Struct, max_tokens: int) -> bool:
    """True if the answer costs no more than `max_tokens`."""
    return len(_encode(answer)) <= max_tokens * BYTES_PER_TOKEN


def take_within(empty: msgspec.Struct, items: Sequence[T], max_tokens: int, *, at_least: int = 0) -> list[T]:
    """Return as many of an answer's first items as fit; `empty` is the answer without any.

    A budget too small for `at_least` items is refused.
    """
    used_bytes = answer_size(empty, max_tokens)
    taken_items: list[T] = []
    for item in items:
        used_bytes += len(_encode(item)) + (1 if taken_items else 0)  # a comma between two items
        if used_bytes > max_tokens * BYTES_PER_TOKEN:
            if len(taken_items) < at_least:
                raise _budget_too_small(max_tokens, used_bytes)
            break
        taken_items.append(item)
    return taken_items


def answer_size(answer: msgspec.Struct, max_tokens: int) -> int:
    """Return the bytes of an answer's JSON; refuse a budget it does not fit into."""
    size_bytes = len(_encode(answer))
    if size_bytes > max_tokens * BYTES_PER_TOKEN:
        raise _budget_too_small(max_tokens, size_bytes)
    return size_bytes


def _budget_too_small(max_tokens: int, size_bytes: int) -> BudgetTooSmall:
    needed = -(-size_bytes // BYTES_PER_TOKEN)
    return BudgetTooSmall(
        field="max_tokens", limit=max_tokens, used=needed, hint=f"Set `max_tokens` to at least {needed}."
    )


def print_dollars(usd: float) -> str:
    """Print money as people write it: `$0`, `$0.10`, `$0.001`, `$1,200`."""
    dollars, _, decimals = f"${usd:,.6f}".partition(".")
    cents = decimals.rstrip("0")
    return f"{dollars}.{cents.ljust(2, '0')}" if cents else dollars
