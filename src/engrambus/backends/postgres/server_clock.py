"""The clock of the database server, which is the clock of every host that uses it (decision 123)."""

from __future__ import annotations

import time

from engrambus.core.clock import BootTime


class ServerClock:
    """The server's clock as the last transaction saw it, and the time that has passed here since then."""

    def __init__(self) -> None:
        self._seen: tuple[int, int] = time.time_ns() // 1000, self.monotonic()
        self.timeline = ""
        """Number of the server's timeline, which changes when it is failed over; empty before the first look."""

    def observe(self, server_us: int, timeline: str) -> None:
        """Note the server's time and timeline now."""
        self._seen = server_us, self.monotonic()
        self.timeline = timeline

    def now(self) -> int:
        """Return the microseconds since 1970-01-01T00:00:00Z."""
        server_us, seen_us = self._seen
        return server_us + self.monotonic() - seen_us

    def monotonic(self) -> int:
        """Return the microseconds since an arbitrary moment."""
        return time.monotonic_ns() // 1000

    def since_boot(self) -> BootTime:
        """Return no boot: hosts have different ones, and a server says nothing of its own."""
        return BootTime("", 0)
