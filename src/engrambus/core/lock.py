"""A lock between processes."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from engrambus.core.files import open_file


@contextmanager
def file_lock(path: Path) -> Iterator[None]:
    """Hold the lock on a file, creating it if necessary; the kernel releases it when the process dies."""
    lock = open_file(path, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)
