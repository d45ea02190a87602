"""Waking workers of other hosts: NOTIFY is a hint, and whoever waits looks again every second all the same.

Who waits holds an advisory lock in common with others who do. A commit tries to take that lock alone: if it gets it,
nobody waits, and it sends nothing. For a commit that notifies waits for every other one in the database that does.
"""

from __future__ import annotations

import os
import select
import threading
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg

from engrambus.backends.postgres.connections import Database
from engrambus.errors import EngramBusError

KINDS = ("work", "room", "any", "schedules")
LOCK_SPACE = 0x776F_0000
"""First numbers of the advisory locks: one for each kind."""
RECONNECT_SECONDS = 1.0


class PostgresWaiter:
    """One caller that waits."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._changed = threading.Event()

    def notify(self) -> None:
        """End its sleep."""
        self._changed.set()

    def wait(self, seconds: float) -> None:
        """Sleep until something may have changed, or for that long."""
        self._changed.wait(max(0.0, seconds))
        self._changed.clear()


class HostWakeups:
    """The waiters of this process, and the connection over which others wake them."""

    def __init__(self, database: Database, project: int) -> None:
        self._database = database
        self._project = project
        self._channel = f"engrambus_work_{project}"
        self._lock = threading.Lock()
        self._waiters: list[PostgresWaiter] = []
        self._listener: _Listener | None = None

    @contextmanager
    def wait_on(self, kind: str) -> Iterator[PostgresWaiter]:
        """Open a waiter for the length of a block; commits that come later wake it."""
        waiter = PostgresWaiter(kind)
        with self._lock:
            self._waiters.append(waiter)
            if self._listener is None or not self._listener.is_alive():
                self._listener = _Listener(self._database, self._project, self._channel, self.notify_here)
                self._listener.start()
            listener = self._listener
        listener.expect(kind)
        try:
            yield waiter
        finally:
            listener.forget(kind)
            with self._lock:
                self._waiters.remove(waiter)

    def notification(self, kinds: Collection[str]) -> tuple[str, list[int], list[str]]:
        """Return what a commit notifies of its kinds: the channel, the locks of those who wait, and the kinds."""
        wanted = [kind for kind in KINDS if kind in kinds]
        return self._channel, [LOCK_SPACE + KINDS.index(kind) for kind in wanted], wanted

    def notify_here(self, kinds: Collection[str]) -> None:
        """Wake the waiters of this process."""
        with self._lock:
            waiters = [waiter for waiter in self._waiters if waiter.kind in kinds]
        for waiter in waiters:
            waiter.notify()

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            listener, self._listener = self._listener, None
        if listener is not None:
            listener.stop()


class _Listener(threading.Thread):
    """Listens on a connection of its own, and holds a lock in common for each kind that is waited for."""

    def __init__(self, database: Database, project: int, channel: str, notify_here: Any) -> None:
        super().__init__(name="engrambus-wakeups", daemon=True)
        self._database = database
        self._project = project
        self._channel = channel
        self._notify_here = notify_here
        self._wanted: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._held: set[str] = set()
        self._settled = threading.Condition(self._lock)
        self._is_lost = True
        self._stopping = False
        self._read_end, self._write_end = os.pipe()

    def expect(self, kind: str) -> None:
        """Return once commits will notify a kind; at once if the server cannot be reached."""
        with self._lock:
            self._wanted[kind] += 1
            if kind in self._held:
                return
            self._poke()
            self._settled.wait_for(lambda: kind in self._held or self._stopping, RECONNECT_SECONDS)

    def forget(self, kind: str) -> None:
        """Note that a waiter has gone; its lock is kept for the next one until the connection closes."""
        with self._lock:
            self._wanted[kind] -= 1

    def stop(self) -> None:
        """End the thread."""
        with self._lock:
            self._stopping = True
            self._settled.notify_all()
            self._poke()
        self.join(5.0)
        for end in (self._read_end, self._write_end):
            os.close(end)

    def run(self) -> None:
        """Listen until it is stopped; after a failure connect again."""
        while not self._stopping:
            with suppress(psycopg.Error, EngramBusError, OSError), self._database.connect() as connection:
                connection.execute(f"LISTEN {self._channel}")  # a number of ours
                self._listen(connection)
            with self._lock:
                self._held.clear()
            self._notify_here(KINDS)  # what was committed meanwhile was not heard
            if not self._stopping:
                select.select([self._read_end], [], [], RECONNECT_SECONDS)

    def _listen(self, connection: psycopg.Connection[Any]) -> None:
        while not self._stopping:
            with self._lock:
                missing = [kind for kind in self._wanted if self._wanted[kind] > 0 and kind not in self._held]
            for kind in missing:
                lock = LOCK_SPACE + KINDS.index(kind)
                connection.execute("SELECT pg_advisory_lock_shared(%s::int, %s::int)", (self._project, lock))
            if missing:
                with self._lock:
                    self._held.update(missing)
                    self._settled.notify_all()
            for notification in connection.notifies(timeout=0):
                self._notify_here(notification.payload.split(","))
            ready, _, _ = select.select([connection.fileno(), self._read_end], [], [], 60.0)
            if self._read_end in ready:
                os.read(self._read_end, 4096)
            for notification in connection.notifies(timeout=0):
                self._notify_here(notification.payload.split(","))

    def _poke(self) -> None:
        os.write(self._write_end, b"\0")
