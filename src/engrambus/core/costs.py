"""Costs: answers within `max_tokens`, and money."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import TypeVar

import msgspec

from engrambus.core.tokens import MAX_BYTES_PER_TOKEN, estimate_tokens
from engrambus.errors import BudgetTooSmall
from engrambus.visible_text import make_json_visible

MICROS_PER_DOLLAR = 1_000_000
"""Money is counted in whole micro-dollars."""

T = TypeVar("T")

_encoder = msgspec.json.Encoder()


# decision 5: the JSON of the whole answer counts, because the reader pays for all of it.


def _encode(value: object) -> bytes:
    return make_json_visible(_encoder.encode(value))  # decision 72: escapes are what the reader gets


def fits(answer: msgspec.Struct, max_tokens: int) -> bool:
    """True if the answer costs no more than `max_tokens`."""
    data = _encode(answer)
    return len(data) <= max_tokens * MAX_BYTES_PER_TOKEN and estimate_tokens(data) <= max_tokens


def take_within(empty: msgspec.Struct, items: Sequence[T], max_tokens: int, *, at_least: int = 0) -> list[T]:
    """Return as many of an answer's first items as fit; `empty` is the answer without any.

    A budget too small for `at_least` items is refused.
    """
    check_fits(empty, max_tokens)
    head = _encode(empty)
    texts = [_encode(item) for item in items]

    def cost(count: int) -> int:
        # The list's own brackets are counted twice, in place of how they join what is around them.
        return estimate_tokens(b"%b[%b]" % (head, b",".join(texts[:count])))

    sizes = accumulate((len(text) for text in texts), initial=len(head))
    most = bisect_right(list(sizes), max_tokens * MAX_BYTES_PER_TOKEN) - 1
    count = bisect_right(range(1, most + 1), max_tokens, key=cost)
    if count < at_least:
        raise _budget_too_small(max_tokens, cost(at_least))
    return list(items[:count])


def check_fits(answer: msgspec.Struct, max_tokens: int) -> None:
    """Refuse a budget that the answer does not fit into."""
    tokens = estimate_tokens(_encode(answer))
    if tokens > max_tokens:
        raise _budget_too_small(max_tokens, tokens)


def check_tokens_fit(text: str, max_tokens: int) -> None:
    """Refuse a budget that a text does not fit into."""
    tokens = estimate_tokens(text)
    if tokens > max_tokens:
        raise _budget_too_small(max_tokens, tokens)


def _budget_too_small(max_tokens: int, needed: int) -> BudgetTooSmall:
    return BudgetTooSmall(
        field="max_tokens", limit=max_tokens, used=needed, hint=f"Set `max_tokens` to at least {needed}."
    )


def print_dollars(usd: float) -> str:
    """Print money as people write it: `$0`, `$0.10`, `$0.001`, `$1,200`."""
    dollars, _, decimals = f"${usd:,.6f}".partition(".")
    cents = decimals.rstrip("0")
    return f"{dollars}.{cents.ljust(2, '0')}" if cents else dollars


def print_micros(micros: int) -> str:
    """Print an amount of micro-dollars as dollars: `$0.05`."""
    return print_dollars(micros / MICROS_PER_DOLLAR)
