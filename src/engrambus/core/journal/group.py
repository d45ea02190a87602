"""Group commit: callers that arrive while the disk is busy share its next sync."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, TypeVar

Work = TypeVar("Work")
Result = TypeVar("Result")

MAX_BATCH = 64


class Ticket(Generic[Work, Result]):
    """One caller's piece of work, and later its outcome."""

    __slots__ = ("_called", "error", "result", "told", "work")

    def __init__(self, work: Work) -> None:
        self.work = work
        self.result: Result | None = None
        self.error: BaseException | None = None
        self.told = False
        self._called = threading.Lock()
        self._called.acquire()

    def wait(self) -> None:
        """Sleep until the work is done or it is this caller's turn to lead."""
        self._called.acquire()

    def wake(self) -> None:
        """Let the caller go on, if it was not told to before."""
        with suppress(RuntimeError):
            self._called.release()


class GroupCommit(Generic[Work, Result]):
    """Runs work in batches. One caller leads at a time and runs everyone's work that is waiting; then the next leads,
    so nobody works for others for ever. `run` must set a result or an error on every ticket of its batch.

    A caller may be interrupted (Ctrl-C) at any moment: it leaves, and whatever it led is led by another."""

    def __init__(self, run: Callable[[list[Ticket[Work, Result]]], None]) -> None:
        self._run = run
        self._mutex = threading.Lock()
        self._waiting: list[Ticket[Work, Result]] = []
        self._batch: list[Ticket[Work, Result]] = []
        """What is being run."""
        self._leader: Ticket[Work, Result] | None = None

    def submit(self, work: Work) -> Result:
        """Have the work done; returns its result or raises its error."""
        ticket: Ticket[Work, Result] = Ticket(work)
        try:
            with self._mutex:
                self._waiting.append(ticket)
                if self._leader is None:
                    self._leader = ticket
            if self._leader is not ticket:
                ticket.wait()
            if self._leader is ticket:
                self._lead()
        except BaseException as interrupt:
            self._leave(ticket, interrupt)
            raise
        if ticket.error is not None:
            raise ticket.error
        return ticket.result  # type: ignore[return-value]  # run() has set it

    def _lead(self) -> None:
        with self._mutex:
            self._batch, self._waiting = self._waiting[:MAX_BATCH], self._waiting[MAX_BATCH:]
        problem = None
        try:
            self._run(self._batch)
        except BaseException as raised:
            problem = raised
        with self._mutex:
            self._pass_on(problem)

    def _leave(self, ticket: Ticket[Work, Result], interrupt: BaseException) -> None:
        """Do without a caller, wherever it was. What it asked for is not done unless it was begun."""
        with self._mutex:
            if ticket in self._waiting:
                self._waiting.remove(ticket)
            if self._leader is ticket:
                self._pass_on(interrupt)
            elif self._leader is not None:
                self._leader.wake()  # which the interrupt may have come before

    def _pass_on(self, problem: BaseException | None) -> None:
        """Tell everyone of the batch and let the next one lead. Interrupted, it may be done again from the start."""
        for ticket in self._batch:
            ticket.error = ticket.error or problem
            ticket.told = True
            ticket.wake()
        self._batch = []
        while self._waiting and self._waiting[0].told:  # interrupted where it was taken into the batch
            self._waiting.pop(0)
        self._leader = self._waiting[0] if self._waiting else None
        if self._leader is not None:
            self._leader.wake()
