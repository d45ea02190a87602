"""The journal of a `.catalog` folder, held alone while it is looked at for damage or mended."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stigmergy.backends.sqlite.store import JOURNAL, LOCK
from stigmergy.core.journal import Journal


@contextmanager
def hold_journal(folder: Path) -> Iterator[Journal]:
    """The journal, while nobody writes to it."""
    journal = Journal(folder / JOURNAL)
    lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield journal
    finally:
        os.close(lock)
        journal.close()
