"""Watching for work that no running worker can run: an alarm tuple follows once it has waited long enough."""

from __future__ import annotations

import time

from engrambus.core import SECOND_US
from engrambus.space.work.worker_dependencies import WorkerDependencies

MAX_PAUSE_SECONDS = 10.0
"""Longest time between two looks."""


class UnclaimedWatch:
    """Looks now and then, for one worker, whether tuples wait that no running worker can run."""

    # decision 100: work counts only from when this worker first saw that nobody can run it. A worker that is replaced
    # leaves a lane alone for a moment, and its tuples may have waited long before.

    def __init__(self, deps: WorkerDependencies) -> None:
        self._deps = deps
        self._wait_seconds = deps.space.settings.alarm_wait_us / SECOND_US
        self._first_seen: dict[tuple[str, str], float] = {}
        self._next_look = 0.0

    def look(self) -> None:
        """Put an alarm for each lane and yool that was found without a worker for long enough."""
        now = time.monotonic()
        if now < self._next_look:
            return
        self._next_look = now + min(MAX_PAUSE_SECONDS, self._wait_seconds)
        unclaimed = {(work.lane, work.yool): work for work in self._deps.space.unclaimed_work(self._deps.catalog())}
        self._first_seen = {key: self._first_seen.get(key, now) for key in unclaimed}
        for key, work in unclaimed.items():
            if now - self._first_seen[key] >= self._wait_seconds:
                self._deps.space.raise_unclaimed_alarm(work)
