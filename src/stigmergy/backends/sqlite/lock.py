"""Who may write: one at a time, among the threads of a process and among processes."""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stigmergy.backends.sqlite.readers import identity
from stigmergy.errors import StoreReadOnly


class WriteLock:
    """A lock on a file, so that a process that dies holds none."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._name = str(path)
        self._open()
        self._mutex = threading.Lock()

    def __enter__(self) -> None:
        """Wait for it, and hold it."""
        self._mutex.acquire()
        try:
            self._take(fcntl.LOCK_EX)
        except BaseException:
            self._mutex.release()
            raise

    def __exit__(self, *problem: object) -> None:
        """Let go of it."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_UN)
        finally:
            self._mutex.release()

    @contextmanager
    def held_if_free(self) -> Iterator[bool]:
        """Hold it if nobody does; tells whether."""
        if not self._mutex.acquire(blocking=False):
            yield False
            return
        try:
            try:
                self._take(fcntl.LOCK_EX | fcntl.LOCK_NB)
            except (BlockingIOError, StoreReadOnly):
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

    def _take(self, how: int) -> None:
        """Lock the file that lies there now: a deleted one keeps nobody out who makes another."""
        fcntl.flock(self._file, how)
        while identity(self._name) != self._identity:
            old = self._file
            try:
                self._open()
            except FileNotFoundError:
                fcntl.flock(self._file, fcntl.LOCK_UN)
                raise StoreReadOnly(f"{self._path.parent} is gone.", hint="Put it back from a copy.") from None
            os.close(old)
            fcntl.flock(self._file, how)

    def _open(self) -> None:
        self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        status = os.fstat(self._file)
        self._identity = status.st_dev, status.st_ino
