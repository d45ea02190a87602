"""Who may write: one at a time, among the threads of a process and among processes."""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class WriteLock:
    """A lock on a file, so that a process that dies holds none."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._mutex = threading.Lock()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Wait for it, and hold it."""
        with self._mutex:
            fcntl.flock(self._file, fcntl.LOCK_EX)
            try:
                yield
            finally:
                fcntl.flock(self._file, fcntl.LOCK_UN)

    @contextmanager
    def held_if_free(self) -> Iterator[bool]:
        """Hold it if nobody does; tells whether."""
        if not self._mutex.acquire(blocking=False):
            yield False
            return
        try:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            try:
                yield True
            finally:
                fcntl.flock(self._file, fcntl.LOCK_UN)
        finally:
            self._mutex.release()

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._file)
