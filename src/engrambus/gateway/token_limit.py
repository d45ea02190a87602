"""Answers that never cost more than they were asked to: counted on their JSON, as their reader pays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import msgspec

from engrambus.core import BYTES_PER_TOKEN
from engrambus.errors import BudgetTooSmall

T = TypeVar("T")

_encode = msgspec.json.Encoder().encode


def fits(answer: msgspec.Struct, max_tokens: int) -> bool:
    """Whether an answer costs no more than it may."""
    return len(_encode(answer)) <= max_tokens * BYTES_PER_TOKEN


def take_within(empty: msgspec.Struct, items: Sequence[T], max_tokens: int, *, at_least: int = 0) -> list[T]:
    """As many of an answer's items, from the first on, as fit; `empty` is the answer without any."""
    used = size_of(empty, max_tokens)
    kept: list[T] = []
    for item in items:
        used += len(_encode(item)) + (1 if kept else 0)
        if used > max_tokens * BYTES_PER_TOKEN:
            if len(kept) < at_least:
                raise too_small(max_tokens, used)
            break
        kept.append(item)
    return kept


def size_of(answer: msgspec.Struct, max_tokens: int) -> int:
    """The bytes of an answer that must fit for there to be any answer at all."""
    size = len(_encode(answer))
    if size > max_tokens * BYTES_PER_TOKEN:
        raise too_small(max_tokens, size)
    return size


def too_small(max_tokens: int, size: int) -> BudgetTooSmall:
    """The refusal of a budget, with the one that would do."""
    needed = -(-size // BYTES_PER_TOKEN)
    return BudgetTooSmall(field="max_tokens", limit=max_tokens, used=needed, hint=f"Ask with at least {needed}.")
