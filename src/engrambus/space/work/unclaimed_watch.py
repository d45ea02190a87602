"""Watching for work that no running worker can run: an alarm tuple follows once it has waited long enough."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from engrambus.core import SECOND_US
from engrambus.errors import EngramBusError
from engrambus.space.catalog import Catalog
from engrambus.space.tuples import TupleSpace

MAX_PAUSE_SECONDS = 10.0
"""Longest time between two looks."""
_TICK_SECONDS = 1.0
_STOP_SECONDS = 5.0


class UnclaimedWatch:
    """Looks now and then, for a worker or a gateway, whether tuples wait that no running worker can run."""

    # decision 100: work counts only from when this process first saw that nobody can run it. A worker that is replaced
    # leaves a lane alone for a moment, and its tuples may have waited long before.

    def __init__(self, space: TupleSpace, read_catalog: Callable[[], Catalog]) -> None:
        self._space = space
        self._read_catalog = read_catalog
        self._wait_seconds = space.settings.alarm_wait_us / SECOND_US
        self._first_seen: dict[tuple[str, str], float] = {}
        self._next_look = 0.0

    def look(self) -> None:
        """Put an alarm for each lane and yool that was found without a worker for long enough."""
        now = time.monotonic()
        if now < self._next_look:
            return
        self._next_look = now + min(MAX_PAUSE_SECONDS, self._wait_seconds)
        unclaimed = {(work.lane, work.yool): work for work in self._space.unclaimed_work(self._read_catalog())}
        self._first_seen = {key: self._first_seen.get(key, now) for key in unclaimed}
        for key, work in unclaimed.items():
            if now - self._first_seen[key] >= self._wait_seconds:
                self._space.raise_unclaimed_alarm(work)


@contextmanager
def watch_unclaimed(find_space: Callable[[], TupleSpace | None], read_catalog: Callable[[], Catalog]) -> Iterator[None]:
    """Look in a thread of its own while the block runs, so that a lane without any worker is noticed, too.

    `find_space` returns None while there is no work, so that a project without any does not open a journal for it.
    """
    stop = threading.Event()

    def look_until_stopped() -> None:
        watch: UnclaimedWatch | None = None
        while not stop.wait(_TICK_SECONDS):
            with suppress(EngramBusError, OSError):  # a store that is busy, damaged or gone is told to callers
                space = find_space() if watch is None else None
                if space is not None:
                    watch = UnclaimedWatch(space, read_catalog)
                if watch is not None:
                    watch.look()

    thread = threading.Thread(target=look_until_stopped, name="unclaimed-work", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(_STOP_SECONDS)
