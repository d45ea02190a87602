"""By what two contributions are known to say the same, or nearly."""

from __future__ import annotations

import hashlib

from engrambus.knowledge.engrams import query_keys
from engrambus.knowledge.memory import normalise

SIMILAR = 8
"""How many keys the fuzzy key is made of."""


def content_hash(content: str) -> str:
    """sha256 of the content trimmed, white space collapsed, lower-cased."""
    return hashlib.sha256(normalise(content).encode()).hexdigest()


def similarity_key(content: str) -> str:
    """The same for contents that use the same telling words, whatever their order."""
    words = sorted(key for key in query_keys(content) if "+" not in key)
    telling = sorted(words, key=lambda word: (-len(word), word))[:SIMILAR]
    return hashlib.sha256(" ".join(sorted(telling)).encode()).hexdigest()[:16]
