"""Waking processes that wait: one FIFO per waiter, in a folder next to the journal (decision 23).

A waiter creates a FIFO, looks once more, and sleeps until a byte arrives. A process that has committed writes a byte
into every FIFO. A FIFO without a reader, because its process died, is deleted by the first process that finds it. No
process polls; if a writer dies between its commit and the wake-up, the waiter's own timeout makes up for it.

One byte of shared memory per kind of waiter says whether any process waits, so that a commit no one waits for makes no
system call. A waiter sets the byte before it looks for the last time; a notifier clears it before it writes.
"""

from __future__ import annotations

import errno
import mmap
import os
import select
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from engrambus.core import files
from engrambus.errors import Trouble

KINDS = ("work", "room", "any", "schedules")
FLAGS_FILE = "waiting"


class FifoWaiter:
    """One waiter's FIFO."""

    def __init__(self, path: str, expect: Callable[[], None]) -> None:
        files.make_fifo(path)
        self._path = path
        self.expect = expect
        """Sets the flag that a process waits; to be called before the last look."""
        # Open for writing too, so that it never reads as ended when a notifier has closed its end.
        self._descriptor = files.open_fifo(path, os.O_RDWR)
        self._poll = select.poll()  # takes any descriptor; `select` takes only the first 1024
        self._poll.register(self._descriptor, select.POLLIN)

    def wait(self, seconds: float) -> None:
        """Sleep until something may have changed, or for that long."""
        if self._poll.poll(max(0.0, seconds) * 1000):
            with suppress(BlockingIOError):
                os.read(self._descriptor, 4096)
        self.expect()

    def close(self) -> None:
        """Delete the FIFO."""
        files.remove(self._path)
        os.close(self._descriptor)


class Wakeups:
    """The FIFOs of all waiters of one work store."""

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)
        self._shared_flags: mmap.mmap | None = None

    def close(self) -> None:
        """Unmap the shared flags."""
        if self._shared_flags is not None:
            self._shared_flags.close()
            self._shared_flags = None

    @contextmanager
    def wait_on(self, kind: str) -> Iterator[FifoWaiter]:
        """Open a waiter of this kind for the length of a block."""
        try:
            waiter = self._new_waiter(kind)
        except FileNotFoundError:  # the folder was deleted
            self._shared_flags = None
            waiter = self._new_waiter(kind)
        waiter.expect()
        try:
            yield waiter
        finally:
            waiter.close()

    def notify(self, kinds: Collection[str]) -> None:
        """Wake every waiter of these kinds. It never fails: the commit has happened, and waiters have timeouts."""
        try:
            flags = self._flags()
        except (OSError, Trouble):
            return
        kinds_waiting = [kind for kind in kinds if flags[KINDS.index(kind)]]
        if not kinds_waiting:
            return
        for kind in kinds_waiting:
            flags[KINDS.index(kind)] = 0
        try:
            names = files.folder_names(self._folder)
        except FileNotFoundError:  # the folder was deleted; later waiters create another
            self._shared_flags = None
            return
        except OSError:  # too many open files: the next commit tries again
            for kind in kinds_waiting:
                flags[KINDS.index(kind)] = 1
            return
        for name in names:
            if name.partition(".")[0] in kinds_waiting:
                _wake(f"{self._folder}/{name}")

    def _flags(self) -> mmap.mmap:
        if self._shared_flags is None:
            files.make_folder(self._folder)
            file = files.open_file(f"{self._folder}/{FLAGS_FILE}", os.O_RDWR | os.O_CREAT)
            try:
                os.ftruncate(file, len(KINDS))
                self._shared_flags = mmap.mmap(file, len(KINDS))
            finally:
                os.close(file)
        return self._shared_flags

    def _new_waiter(self, kind: str) -> FifoWaiter:
        flags, index = self._flags(), KINDS.index(kind)

        def expect() -> None:
            flags[index] = 1

        return FifoWaiter(f"{self._folder}/{kind}.{os.getpid()}.{os.urandom(6).hex()}", expect)


def _wake(path: str) -> None:
    try:
        descriptor = files.open_fifo(path, os.O_WRONLY)
    except Trouble:  # something else is in its place
        return
    except OSError as problem:
        if problem.errno == errno.ENXIO:  # no reader: its process is gone, or has not opened it yet
            _delete_if_dead(path)
        return
    try:
        os.write(descriptor, b"\0")
    except OSError:
        pass  # full: it was woken often enough
    finally:
        os.close(descriptor)


def _delete_if_dead(path: str) -> None:
    owner = os.path.basename(path).split(".")[1]
    if owner.isdigit() and not _is_alive(int(owner)):
        files.remove(path)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
