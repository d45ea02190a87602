"""The garbage-collection worker: it frees disk space when the disk is nearly full, and every night."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from types import TracebackType

from engrambus.core import SECOND_US, digest
from engrambus.errors import EngramBusError
from engrambus.space.tuples import GC_LANE, INTERNAL_AUTHORITY, INTERNAL_RUN, gc_draft, read_pattern
from engrambus.space.work.ports import Progress
from engrambus.space.work.worker import LaneWorkerPool
from engrambus.space.work.worker_dependencies import WorkerDependencies

MAX_SLEEP_SECONDS = 600.0
"""Time after which the clock is read again: the machine may have been suspended."""


class GcWorker:
    """Works on the garbage-collection lane in the background, and puts a tuple there every night."""

    def __init__(
        self,
        deps: WorkerDependencies,
        *,
        hour: int,
        on_progress: Callable[[Progress], None] = lambda progress: None,
    ) -> None:
        """`hour` is the local hour of the nightly collection."""
        self._deps = deps
        self._hour = hour
        lane = read_pattern({"lane": GC_LANE})
        self._pool = LaneWorkerPool(deps, lane, concurrency=1, on_progress=on_progress, under_pressure=True)
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=self._pool.run, name="gc-worker", daemon=True),
            threading.Thread(target=self._put_every_night, name="gc-nightly", daemon=True),
        ]

    def __enter__(self) -> GcWorker:
        """Start; a collection that was missed last night is done now."""
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop, and release a tuple that is being worked on."""
        self._stopping.set()
        self._pool.stop(at_once=True)
        for thread in self._threads:
            thread.join()

    def put_nightly(self) -> bool:
        """Put the tuple of the last night; return False if it is there already."""
        night = last_night(self._deps.clock.now(), self._hour)
        # The idempotency key is the date: of many workers, one collects (decision 28).
        key = f"nightly {night:%Y-%m-%d}"
        draft = gc_draft()
        (put,) = self._deps.space.out(
            draft, authority=INTERNAL_AUTHORITY, run=INTERNAL_RUN, idempotency=(key, digest(key.encode())), trusted=True
        )
        return put.new

    def _put_every_night(self) -> None:
        while not self._stopping.is_set():
            with suppress(EngramBusError):  # a full disk or lane: tried again, and a full disk collects anyway
                self.put_nightly()
            now_us = self._deps.clock.now()
            due = last_night(now_us, self._hour) + timedelta(days=1)
            self._stopping.wait(min(MAX_SLEEP_SECONDS, max(1.0, due.timestamp() - now_us / SECOND_US)))


def last_night(now_us: int, hour: int) -> datetime:
    """Return the latest time, not after now, at which the nightly collection was due; in local time."""
    now = datetime.fromtimestamp(now_us / SECOND_US).astimezone()
    due = now.replace(hour=hour, minute=0, second=0, microsecond=0)
    return due if due <= now else due - timedelta(days=1)
