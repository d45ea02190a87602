"""A process that emits schedules until it is killed: `python -m tests.crash.schedule_process FOLDER START_NS`."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from engrambus.backends.sqlite.work import SqliteWork
from engrambus.core import BootTime
from engrambus.space.schedules import Schedules, emit_schedules
from engrambus.space.tuples import TupleSpace
from engrambus.testing.clock import NEW_YEAR
from engrambus.testing.harness import KEY

SPEED = 100
"""How many seconds of the fast clock pass in one second."""


class FastClock:
    """A clock that all processes of a test share; it goes faster than the machine's."""

    def __init__(self, start_ns: int) -> None:
        self._start_ns = start_ns

    def now(self) -> int:
        """Return microseconds since 1970-01-01T00:00:00Z."""
        return NEW_YEAR + self.monotonic()

    def monotonic(self) -> int:
        """Return the microseconds since the test began."""
        return (time.monotonic_ns() - self._start_ns) * SPEED // 1000

    def since_boot(self) -> BootTime:
        """Return the time since the test began."""
        return BootTime("00000001", self.monotonic() // 1000)


def open_space(folder: Path, start_ns: int) -> TupleSpace:
    """Open the tuples of a folder with the fast clock."""
    return TupleSpace(SqliteWork(folder, KEY, FastClock(start_ns)), boot="first")


if __name__ == "__main__":
    space = open_space(Path(sys.argv[1]), int(sys.argv[2]))
    with emit_schedules(lambda: Schedules(space)):
        sys.stdout.write("emitting\n")
        sys.stdout.flush()
        time.sleep(600)
