"""The journal of a `.catalog` folder, held alone while it is looked at for damage or mended."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from stigmergy.backends.sqlite.lock import WriteLock
from stigmergy.backends.sqlite.store import LOCK
from stigmergy.core.journal import Journal
from stigmergy.policy import JOURNAL


@contextmanager
def hold_journal(folder: Path) -> Iterator[Journal]:
    """The journal, while nobody writes to it."""
    with closing(Journal(folder / JOURNAL)) as journal, closing(WriteLock(folder / LOCK)) as lock, lock:
        yield journal
