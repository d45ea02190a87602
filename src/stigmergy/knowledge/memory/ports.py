"""What the controller needs from whoever keeps the stores."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from stigmergy.knowledge.memory.scoring import Question, Scored


class Stores(Protocol):
    """JSONL files, opened for reading only."""

    def scan(self, path: str, question: Question) -> Iterator[Scored]:
        """The records of a store with their scores, stretch by stretch, in the order of its lines."""
        ...

    def line(self, path: str, start: int, end: int) -> bytes:
        """A line of a store that was scanned."""
        ...

    def snapshot(self, path: str) -> bytes:
        """The content of a trust snapshot."""
        ...
