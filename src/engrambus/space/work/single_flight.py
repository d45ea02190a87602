"""Single flight: of several equal steps one runs while the others wait for its result, across processes."""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from engrambus.core import digest, files

MIN_WAIT_SECONDS, MAX_WAIT_SECONDS = 0.01, 0.25
"""Bounds of the time between two attempts to take a lock."""


class StepLock:
    """Right to run a step; no other process runs an equal one until it is released."""

    def __init__(self, path: Path | None, descriptor: int | None, *, waited: bool) -> None:
        self._path = path
        self._descriptor = descriptor
        self.waited = waited
        """True if an equal step ran before, and may have left a result."""

    def release(self) -> None:
        if self._descriptor is not None and self._path is not None:
            files.remove(self._path)
            os.close(self._descriptor)
            self._descriptor = None


class SingleFlight:
    """Locks of the steps that run now in a project, one file for each cache key."""

    # decision 32: a kernel lock ends with its process, so nothing waits for a dead one, and no lease is needed.

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def acquire(self, key: str, is_late: Callable[[], bool], stop: threading.Event) -> StepLock:
        """Wait until no equal step runs, the deadline has passed, or `stop` is set."""
        path = self._folder / digest(key.encode()).removeprefix("sha256:")
        pause, waited = MIN_WAIT_SECONDS, False
        while not stop.is_set() and not is_late():
            try:
                descriptor = self._try_lock(path)
            except OSError:  # no locks on this file system, or a full disk: rather run twice than never
                break
            if descriptor is not None:
                return StepLock(path, descriptor, waited=waited)
            waited = True
            stop.wait(pause)
            pause = min(pause * 2, MAX_WAIT_SECONDS)
        return StepLock(None, None, waited=waited)

    def _try_lock(self, path: Path) -> int | None:
        files.make_folder(self._folder)
        descriptor = files.open_file(path, os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The previous holder may have deleted the file between our open and our lock.
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(descriptor), files.status_of(path)):
                    return descriptor
        except BlockingIOError:
            pass
        except OSError:
            os.close(descriptor)
            raise
        os.close(descriptor)
        return None
