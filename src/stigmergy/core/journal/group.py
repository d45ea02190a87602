"""Group commit: callers that arrive while the disk is busy share its next sync."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

Work = TypeVar("Work")
Result = TypeVar("Result")

MAX_BATCH = 64


class Ticket(Generic[Work, Result]):
    """One caller's piece of work, and later its outcome."""

    __slots__ = ("_called", "error", "leads", "result", "work")

    def __init__(self, work: Work) -> None:
        self.work = work
        self.result: Result | None = None
        self.error: BaseException | None = None
        self.leads = False
        self._called = threading.Lock()
        self._called.acquire()

    def wait(self) -> None:
        """Sleep until the work is done or it is this caller's turn to lead."""
        self._called.acquire()

    def wake(self) -> None:
        """Let the caller go on."""
        self._called.release()


class GroupCommit(Generic[Work, Result]):
    """Runs work in batches. One caller leads at a time and runs everyone's work that is waiting; then the next leads,
    so nobody works for others for ever. `run` must set a result or an error on every ticket of its batch."""

    def __init__(self, run: Callable[[list[Ticket[Work, Result]]], None]) -> None:
        self._run = run
        self._mutex = threading.Lock()
        self._waiting: list[Ticket[Work, Result]] = []
        self._led = False

    def submit(self, work: Work) -> Result:
        """Have the work done; returns its result or raises its error."""
        ticket: Ticket[Work, Result] = Ticket(work)
        with self._mutex:
            self._waiting.append(ticket)
            ticket.leads = not self._led
            self._led = True
        if not ticket.leads:
            ticket.wait()
        if ticket.leads:
            self._lead(ticket)
        if ticket.error is not None:
            raise ticket.error
        return ticket.result  # type: ignore[return-value]  # run() has set it

    def _lead(self, own: Ticket[Work, Result]) -> None:
        with self._mutex:
            batch, self._waiting = self._waiting[:MAX_BATCH], self._waiting[MAX_BATCH:]
        try:
            self._run(batch)
        except BaseException as problem:
            for ticket in batch:
                ticket.error = ticket.error or problem
        with self._mutex:
            following = self._waiting[0] if self._waiting else None
            self._led = following is not None
        if following is not None:
            following.leads = True
            following.wake()
        for ticket in batch:
            if ticket is not own:
                ticket.wake()
