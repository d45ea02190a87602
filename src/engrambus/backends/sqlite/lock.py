"""The write lock: one writer at a time, among the threads of a process and among processes."""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from engrambus.backends.sqlite.connections import file_id
from engrambus.core.files import open_file
from engrambus.errors import StoreReadOnly

T = TypeVar("T")


class WriteLock:
    """A lock on a file, so that a process that dies holds none."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._name = str(path)
        self._open()
        self._mutex = threading.Lock()

    # Not a context manager: Ctrl-C may come at any moment, also between the return of __enter__, when the lock is
    # taken, and the `with` block that would release it.

    def run(self, work: Callable[[], T]) -> T:
        """Wait for the lock, and hold it while some work is done. An interrupt leaves nothing locked."""
        with self._mutex:
            try:
                self._take(fcntl.LOCK_EX)
                return work()
            finally:
                fcntl.flock(self._file, fcntl.LOCK_UN)  # harmless where it was not taken yet

    def run_if_free(self, work: Callable[[], None]) -> bool:
        """Do some work under the lock if no other caller holds it; return True if it was done."""
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
        """Close the file."""
        os.close(self._file)

    def _take(self, mode: int) -> None:
        """Lock the file that is there now: the lock on a deleted one excludes no process that creates another."""
        fcntl.flock(self._file, mode)
        while file_id(self._name) != self._file_id:
            deleted = self._file
            try:
                self._open()
            except FileNotFoundError:
                fcntl.flock(self._file, fcntl.LOCK_UN)
                raise StoreReadOnly(f"{self._path.parent} is gone.", hint="Put it back from a copy.") from None
            os.close(deleted)
            fcntl.flock(self._file, mode)

    def _open(self) -> None:
        self._file = open_file(self._path, os.O_RDWR | os.O_CREAT)
        status = os.fstat(self._file)
        self._file_id = status.st_dev, status.st_ino
