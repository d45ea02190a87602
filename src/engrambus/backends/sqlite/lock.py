"""The write lock: one writer at a time, among the threads of a process and among processes."""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from engrambus.backends.sqlite.connections import file_id
from engrambus.core.files import open_file
from engrambus.core.lock import LOCK_SECONDS, store_busy, take_lock, this_process, try_lock
from engrambus.errors import StoreReadOnly

T = TypeVar("T")


class WriteLock:
    """A lock on a file, so that a process that dies holds none. Waiting for it has a limit (decision 92)."""

    def __init__(self, path: Path, limit_seconds: float = LOCK_SECONDS) -> None:
        self._path = path
        self._name = str(path)
        self._limit_seconds = limit_seconds
        self._open()
        self._mutex = threading.RLock()  # its release fails in a thread that does not have it; no thread takes it twice
        self._held = False
        """True while a thread of this process has the lock."""

    # Not a context manager: Ctrl-C may come at any moment, also between the return of __enter__, when the lock is
    # taken, and the `with` block that would release it.

    def run(self, work: Callable[[], T], waiting_since: float | None = None) -> T:
        """Wait for the lock, and hold it while some work is done. An interrupt leaves nothing locked.

        Raise StoreBusy after the limit, counted from a moment of `time.monotonic`, by default from now.
        """
        deadline = (time.monotonic() if waiting_since is None else waiting_since) + self._limit_seconds
        try:
            if not self._mutex.acquire(timeout=max(0.0, deadline - time.monotonic())):
                raise store_busy(self._path, this_process(), self._limit_seconds)
            return self._run_alone(work, lambda file: take_lock(file, self._path, deadline, self._limit_seconds))
        finally:
            # Nothing before the release but its own call: an interrupt between two calls would leave the mutex locked.
            try:  # noqa: SIM105
                self._mutex.release()
            except RuntimeError:  # not acquired
                pass

    def run_if_free(self, work: Callable[[], None]) -> bool:
        """Do some work under the lock if no other caller holds it; return True if it was done."""
        if self._held:
            return False
        try:
            if not self._mutex.acquire(blocking=False):
                return False
            self._run_alone(work, _take_if_free)
            return True
        except (BlockingIOError, StoreReadOnly):
            return False
        finally:
            try:  # noqa: SIM105
                self._mutex.release()
            except RuntimeError:
                pass

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    def _run_alone(self, work: Callable[[], T], take: Callable[[int], None]) -> T:
        """Take the lock between processes and do some work. This thread has the mutex."""
        try:
            self._held = True
            self._take(take)
            return work()
        finally:
            self._held = False
            fcntl.flock(self._file, fcntl.LOCK_UN)  # harmless where it was not taken yet

    def _take(self, take: Callable[[int], None]) -> None:
        """Lock the file that is there now: the lock on a deleted one excludes no process that creates another."""
        take(self._file)
        while file_id(self._name) != self._file_id:
            deleted = self._file
            try:
                self._open()
            except FileNotFoundError:
                fcntl.flock(self._file, fcntl.LOCK_UN)
                raise StoreReadOnly(f"{self._path.parent} is gone.", hint="Put it back from a copy.") from None
            os.close(deleted)
            take(self._file)

    def _open(self) -> None:
        self._file = open_file(self._path, os.O_RDWR | os.O_CREAT)
        status = os.fstat(self._file)
        self._file_id = status.st_dev, status.st_ino


def _take_if_free(file: int) -> None:
    if not try_lock(file):
        raise BlockingIOError
