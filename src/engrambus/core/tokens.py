"""The token estimator that every budget on the wire is counted with."""

from __future__ import annotations

BYTES_PER_TOKEN = 4


def estimate_tokens(content: str | bytes) -> int:
    """ceil(UTF-8 bytes / 4): deterministic, and the same for every model."""
    size = len(content.encode() if isinstance(content, str) else content)
    return -(-size // BYTES_PER_TOKEN)
