"""Reading ahead: what a parent points a child at is read in the background, before the child asks for it.

decision 89: only a process that goes on running does so. Nothing is charged and nothing is shown: what was read is a
cache behind the checks of every dereference. No call waits for it, and the reader gets the error of what fails.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from engrambus.errors import EngramBusError

if TYPE_CHECKING:
    from engrambus.evidence.pointers import Evidence, Pointer

MAX_WAITING = 64
"""Pointers that wait to be read; the oldest are dropped for newer ones."""
CLOSE_S = 5.0
"""Seconds in which the thread ends: as long as one comparison of lines may take, and a little more."""


class ReadAhead:
    """Reads pointers in a thread of its own, which runs while there are any. Safe to share between threads."""

    def __init__(self, evidence: Evidence, compare: Callable[[Sequence[Pointer]], object]) -> None:
        """`compare` works out the state of pointed lines, which a dereference tells as well."""
        self._evidence = evidence
        self._compare = compare
        self._waiting: OrderedDict[str, Pointer] = OrderedDict()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False

    def add(self, pointers: Iterable[Pointer]) -> None:
        """Let pointers be read soon; those that wait already are read once."""
        with self._changed:
            for pointer in pointers:
                self._waiting[pointer.ref] = pointer
                self._waiting.move_to_end(pointer.ref)
            while len(self._waiting) > MAX_WAITING:
                self._waiting.popitem(last=False)
            if not self._waiting or self._closed or (self._thread is not None and self._thread.is_alive()):
                return
            self._thread = threading.Thread(target=self._work, name="read-ahead", daemon=True)
            self._thread.start()

    def wait(self, timeout_s: float) -> bool:
        """Wait until nothing is left to read; return whether that was so in time."""
        with self._changed:
            return self._changed.wait_for(lambda: self._thread is None, timeout_s)

    def close(self) -> None:
        """Drop what waits, and wait for what is being read."""
        with self._changed:
            self._closed = True
            self._waiting.clear()
            thread = self._thread
        if thread is not None:
            thread.join(CLOSE_S)

    def _work(self) -> None:
        while True:
            with self._changed:
                if not self._waiting:
                    self._thread = None
                    self._changed.notify_all()
                    return
                _, pointer = self._waiting.popitem(last=False)
            try:
                if self._evidence.read_ahead(pointer):
                    self._compare([pointer])
            except (EngramBusError, OSError):
                continue  # who reads the pointer is told
