"""Who may write: one at a time, among the threads of a process and among processes."""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from engrambus.backends.sqlite.readers import identity
from engrambus.errors import StoreReadOnly

T = TypeVar("T")


class WriteLock:
    """A lock on a file, so that a process that dies holds none."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._name = str(path)
        self._open()
        self._mutex = threading.Lock()

    def run(self, work: Callable[[], T]) -> T:
        """Wait for it, and hold it while something is done.

        Ctrl-C may come at any moment and leaves nothing locked. A context manager of our own could not promise that: it
        may be interrupted when it has the lock and nobody knows yet that it is to be left.
        """
        with self._mutex:
            try:
                self._take(fcntl.LOCK_EX)
                return work()
            finally:
                fcntl.flock(self._file, fcntl.LOCK_UN)  # which does no harm where it was not had yet

    def run_if_free(self, work: Callable[[], None]) -> bool:
        """Hold it while something is done, if nobody does; tells whether."""
        if self._mutex.locked():
            return False
        with self._mutex:
            try:
                try:
                    self._take(fcntl.LOCK_EX | fcntl.LOCK_NB)
                except (BlockingIOError, StoreReadOnly):
                    return False
                work()
                return True
            finally:
                fcntl.flock(self._file, fcntl.LOCK_UN)

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
