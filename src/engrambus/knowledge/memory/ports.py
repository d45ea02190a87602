"""What the controller needs from whoever keeps the stores."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from engrambus.knowledge.memory.rows import Store
    from engrambus.knowledge.memory.scoring import Question


class Stores(Protocol):
    """JSONL files, opened for reading only."""

    def scan(self, stores: list[Store], question: Question) -> list[Iterator[list[str]]]:
        """The rows of all stores in a few runs, each in its order and handed out piece by piece."""
        ...

    def line(self, path: str, start: int, end: int) -> bytes:
        """A line of a store that was scanned."""
        ...

    def snapshot(self, path: str) -> bytes:
        """The content of a trust snapshot."""
        ...
