"""Emitting schedules in the background: workers and the gateway do it, and it does not matter how many of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from engrambus.core import SECOND_US
from engrambus.errors import EngramBusError
from engrambus.space.schedules.schedules import Schedules

MAX_SLEEP_SECONDS = 1.0
"""Longest time between two looks: a clock may be corrected, and a process die before it has woken others (decision 23).
A look without anything due reads one row."""
_STOP_SECONDS = 5.0


@contextmanager
def emit_schedules(find_schedules: Callable[[], Schedules | None]) -> Iterator[None]:
    """Emit what is due in a thread of its own while the block runs.

    `find_schedules` returns None while there is no work, so that a project without any does not open a journal for it.
    """
    stop = threading.Event()

    def emit_until_stopped() -> None:
        schedules: Schedules | None = None
        while not stop.is_set():
            with suppress(EngramBusError, OSError):  # a store that is busy, damaged or gone is told to callers
                schedules = find_schedules()
            if schedules is None:
                stop.wait(MAX_SLEEP_SECONDS)
                continue
            with suppress(EngramBusError, OSError):
                _emit_while_running(schedules, stop)
            stop.wait(MAX_SLEEP_SECONDS)

    thread = threading.Thread(target=emit_until_stopped, name="schedules", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(_STOP_SECONDS)


def _emit_while_running(schedules: Schedules, stop: threading.Event) -> None:
    """Look whenever a schedule is due or was changed, until stopped."""
    with schedules.store.wait_on("schedules") as waiter:
        while not stop.is_set():
            seconds = MAX_SLEEP_SECONDS
            with suppress(
                EngramBusError
            ):  # a full disk, or a clock that cannot be believed: nothing is lost by waiting
                next_us, now_us = schedules.next_look_us()
                if next_us is not None and next_us <= now_us:
                    next_us = schedules.emit_due().next_us
                if next_us is not None:
                    seconds = min(seconds, max(0.0, (next_us - now_us) / SECOND_US))
            waiter.wait(seconds)
