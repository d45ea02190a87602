"""The caches in the folder of derived files, as `verify` checks them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from engrambus.backends.jsonl_stores import SegmentCache
from engrambus.core import files
from engrambus.core.database import find_problem, remove_database


class DerivedCaches:
    """Databases, each named by its path, and a folder of decoded lines of memory stores."""

    def __init__(self, databases: Sequence[Path], segments: Path) -> None:
        self._databases = databases
        self._segments = SegmentCache(segments)

    def find_damaged(self) -> Iterator[tuple[Path, str]]:
        """Read every page and every entry; yield what does not check."""
        for path in self._databases:
            problem = find_problem(path) if files.is_file(path) else None
            if problem is not None:
                yield path, problem
        yield from ((path, "its checksum is wrong") for path in self._segments.find_damaged())

    def remove(self, path: Path) -> None:
        """Delete a database with its `-wal` and `-shm` files, or an entry."""
        if path in self._databases:
            remove_database(path)
        else:
            files.remove(path)
