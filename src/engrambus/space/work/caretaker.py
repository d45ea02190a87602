"""The caretaker of a worker: carries out what makes room, when the disk is short of it and every night."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from types import TracebackType

from engrambus.core import SECOND, digest
from engrambus.errors import EngramBusError
from engrambus.space.tuples import GC_LANE, INTERNAL_AUTHORITY, gc_draft, read_pattern
from engrambus.space.work.ports import Progress
from engrambus.space.work.worker import LaneWorkerPool
from engrambus.space.work.workshop import Workshop

LONGEST_SLEEP = 600.0
"""Seconds after which the clock is looked at again: a machine may have slept meanwhile."""


class Caretaker:
    """Works on the lane of what makes room, beside a worker of another lane; and puts a tuple there every night."""

    def __init__(
        self, shop: Workshop, *, run: str, hour: int, told: Callable[[Progress], None] = lambda progress: None
    ) -> None:
        self._shop = shop
        self._run = run
        self._hour = hour
        lane = read_pattern({"lane": GC_LANE})
        self._pool = LaneWorkerPool(shop, lane, concurrency=1, told=told, under_pressure=True)
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=self._pool.run, name="caretaker", daemon=True),
            threading.Thread(target=self._nightly, name="nightly", daemon=True),
        ]

    def __enter__(self) -> Caretaker:
        """Begin; last night's work is made up for if nobody did it."""
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop, giving back what is under way."""
        self._stopping.set()
        self._pool.stop(at_once=True)
        for thread in self._threads:
            thread.join()

    def put_nightly(self) -> bool:
        """Put the tuple of the last night, unless somebody has; whether it is new."""
        night = last_night(self._shop.clock.now(), self._hour)
        key = f"nightly {night:%Y-%m-%d}"
        draft = gc_draft()
        (put,) = self._shop.space.out(
            draft, authority=INTERNAL_AUTHORITY, run=self._run, idempotency=(key, digest(key.encode())), trusted=True
        )
        return put.new

    def _nightly(self) -> None:
        while not self._stopping.is_set():
            with suppress(EngramBusError):  # a full disk or lane: the next look, and the breaker, see to it
                self.put_nightly()
            now = self._shop.clock.now()
            due = last_night(now, self._hour) + timedelta(days=1)
            self._stopping.wait(min(LONGEST_SLEEP, max(1.0, due.timestamp() - now / SECOND)))


def last_night(now: int, hour: int) -> datetime:
    """The last moment at which the night's work was due, by the machine's clock."""
    here = datetime.fromtimestamp(now / SECOND).astimezone()
    due = here.replace(hour=hour, minute=0, second=0, microsecond=0)
    return due if due <= here else due - timedelta(days=1)
