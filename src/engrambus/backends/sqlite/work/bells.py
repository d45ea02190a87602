"""Waking those who wait, in this process and others: a FIFO each, in a folder beside the journal.

Whoever waits makes a FIFO, looks once more, and sleeps until a byte comes. Whoever has committed writes a byte into
every FIFO there is. A FIFO nobody reads any more, because its process died, is taken away by the first who finds it.
Nobody asks again and again; a writer that dies between its commit and the bell is made up for by waits that end.

So that nobody looks for FIFOs where nobody waits, a byte for each kind of waiting lies in memory that all share: who
waits sets it before it looks the last time, and who rings clears it before it rings.
"""

from __future__ import annotations

import errno
import mmap
import os
import select
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

KINDS = ("work", "room", "any")
FLAGS = "waiting"


class FifoBell:
    """One waiter's FIFO."""

    def __init__(self, path: str, expect: Callable[[], None]) -> None:
        os.mkfifo(path, 0o600)
        self._path = path
        self.expect = expect
        """Says that somebody waits; to be called before looking the last time."""
        # Open for writing too, so that it never reads as ended when a writer has closed its end.
        self._descriptor = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._poll = select.poll()  # takes any descriptor, where `select` takes the first 1024
        self._poll.register(self._descriptor, select.POLLIN)

    def wait(self, seconds: float) -> None:
        """Sleep until something may have changed, or that long."""
        if self._poll.poll(max(0.0, seconds) * 1000):
            with suppress(BlockingIOError):
                os.read(self._descriptor, 4096)
        self.expect()

    def close(self) -> None:
        """Be rung no more."""
        with suppress(FileNotFoundError):
            os.unlink(self._path)
        os.close(self._descriptor)


class Bells:
    """Everyone's FIFOs."""

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)
        self._waiting: mmap.mmap | None = None

    def _flags(self) -> mmap.mmap:
        if self._waiting is None:
            os.makedirs(self._folder, 0o700, exist_ok=True)
            file = os.open(f"{self._folder}/{FLAGS}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.ftruncate(file, len(KINDS))
                self._waiting = mmap.mmap(file, len(KINDS))
            finally:
                os.close(file)
        return self._waiting

    def close(self) -> None:
        """Let go of the memory that is shared."""
        if self._waiting is not None:
            self._waiting.close()
            self._waiting = None

    @contextmanager
    def hang(self, kind: str) -> Iterator[FifoBell]:
        """A bell of one's own, as long as it is needed."""
        try:
            bell = self._made(kind)
        except FileNotFoundError:  # somebody took the folder away
            self._waiting = None
            bell = self._made(kind)
        bell.expect()
        try:
            yield bell
        finally:
            bell.close()

    def _made(self, kind: str) -> FifoBell:
        flags, at = self._flags(), KINDS.index(kind)

        def expect() -> None:
            flags[at] = 1

        return FifoBell(f"{self._folder}/{kind}.{os.getpid()}.{os.urandom(6).hex()}", expect)

    def ring(self, kinds: Collection[str]) -> None:
        """Wake everyone who waits for one of these. It never fails: what they wait for has happened, and those who are
        not rung look again by themselves."""
        try:
            flags = self._flags()
        except OSError:
            return
        waited = [kind for kind in kinds if flags[KINDS.index(kind)]]
        if not waited:
            return
        for kind in waited:
            flags[KINDS.index(kind)] = 0
        try:
            names = os.listdir(self._folder)
        except FileNotFoundError:  # somebody took the folder away: who waits from now on does so in another
            self._waiting = None
            return
        except OSError:  # too many open files: the next commit rings
            for kind in waited:
                flags[KINDS.index(kind)] = 1
            return
        for name in names:
            if name.partition(".")[0] in waited:
                self._ring_one(f"{self._folder}/{name}")

    def _ring_one(self, path: str) -> None:
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as problem:
            if problem.errno == errno.ENXIO:  # nobody reads it: its process is gone, or has not opened it yet
                self._take_away(path)
            return
        try:
            os.write(descriptor, b"\0")
        except OSError:
            pass  # full: it has been rung often enough
        finally:
            os.close(descriptor)

    def _take_away(self, path: str) -> None:
        owner = os.path.basename(path).split(".")[1]
        if owner.isdigit() and not _alive(int(owner)):
            with suppress(FileNotFoundError):
                os.unlink(path)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
