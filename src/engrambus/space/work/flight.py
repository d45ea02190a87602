"""One of several equal steps runs while the others wait for its result, whichever processes they are in."""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from engrambus.core import digest

SHORTEST, LONGEST = 0.01, 0.25
"""Seconds between two looks whether the other has ended."""


class Flight:
    """A step that runs, or is about to; nobody else runs an equal one until it has ended."""

    def __init__(self, path: Path | None, descriptor: int | None, *, waited: bool) -> None:
        self._path = path
        self._descriptor = descriptor
        self.waited = waited
        """Whether another one ran meanwhile, and may have left a result."""

    def end(self) -> None:
        """Let the next one go ahead."""
        if self._descriptor is not None and self._path is not None:
            self._path.unlink(missing_ok=True)
            os.close(self._descriptor)
            self._descriptor = None


class Flights:
    """The steps under way in a project, by what their results are found by: a locked file each.

    A lock goes with its process, so nobody waits for the dead.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def begin(self, key: str, over: Callable[[], bool], stop: threading.Event) -> Flight:
        """Wait until nobody else runs an equal step, it is told to stop, or waiting is over."""
        path = self._folder / digest(key.encode()).removeprefix("sha256:")
        pause, waited = SHORTEST, False
        while not stop.is_set() and not over():
            try:
                descriptor = self._locked(path)
            except OSError:  # no locks here, or no room: better twice than never
                break
            if descriptor is not None:
                return Flight(path, descriptor, waited=waited)
            waited = True
            stop.wait(pause)
            pause = min(pause * 2, LONGEST)
        return Flight(None, None, waited=waited)

    def _locked(self, path: Path) -> int | None:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Whoever held it may have taken the file away between our opening and our locking.
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                    return descriptor
        except BlockingIOError:
            pass
        except OSError:
            os.close(descriptor)
            raise
        os.close(descriptor)
        return None
