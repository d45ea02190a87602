"""Tokens as a model counts them, of what an agent reads."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import msgspec
from splintr import Tokenizer

from engrambus.edges.mcp.answers import compact_text
from engrambus.operations import OPERATIONS

MAX_ANSWER_TOKENS = 10_000
"""Limit of an answer as text: none here is larger, so each is counted whole."""


@cache
def _encode() -> Callable[[str], list[int]]:
    return Tokenizer.from_pretrained("cl100k_base").encode_ordinary


def count_tokens(text: str) -> int:
    """Return how many tokens of cl100k a text has."""
    return len(_encode()(text))


def answer_tokens(operation: str, answer: msgspec.Struct) -> int:
    """Return how many tokens an agent reads of the answer of an operation, which tools give as text."""
    return count_tokens(compact_text(OPERATIONS[operation], answer, MAX_ANSWER_TOKENS))
