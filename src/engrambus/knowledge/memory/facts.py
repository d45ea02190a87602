"""What a read leaves in the journal: which question, over which stores, with which outcome, and no content."""

from __future__ import annotations

import msgspec


class MemoryReadData(msgspec.Struct, frozen=True, kw_only=True):
    query_hash: str
    store_paths: list[str]
    """As they were given, sorted, each once."""
    selected_count: int
    package_hash: str


class MemoryRead(msgspec.Struct, frozen=True, kw_only=True, tag="memory.read", tag_field="fact"):
    """A memory store was read."""

    data: MemoryReadData
