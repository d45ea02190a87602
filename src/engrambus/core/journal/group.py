"""Group commit: callers that arrive while the disk is busy share its next sync."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, TypeVar

from engrambus.errors import StoreBusy

Work = TypeVar("Work")
Result = TypeVar("Result")

MAX_BATCH = 64


class Ticket(Generic[Work, Result]):
    """One caller's work, and later its result or error."""

    __slots__ = ("_turn", "answered", "error", "result", "since", "work")

    def __init__(self, work: Work) -> None:
        self.work = work
        self.since = time.monotonic()
        """When it began to wait."""
        self.result: Result | None = None
        self.error: BaseException | None = None
        self.answered = False
        """True once its batch has run."""
        self._turn = threading.Lock()  # taken from the start, so that a wake before the wait is not lost
        self._turn.acquire()

    def wait(self, limit_seconds: float | None = None) -> bool:
        """Sleep until the work is done or this caller is to lead; return False if that takes longer than the limit."""
        return self._turn.acquire(timeout=-1 if limit_seconds is None else max(0.0, limit_seconds))

    def wake(self) -> None:
        """Let the caller continue; does nothing if it was woken before."""
        with suppress(RuntimeError):
            self._turn.release()


class GroupCommit(Generic[Work, Result]):
    """Runs work in batches. One caller leads at a time and runs the work of all that are waiting.

    Then the next caller leads, so that no caller works for others for ever. `run` sets a result or an error on every
    ticket of its batch. A caller may be interrupted (Ctrl-C) at any moment: it leaves, and another caller leads.

    Waiting has a limit for each caller (decision 92). A leader that `run` refuses StoreBusy has waited as long as it
    may; those of its batch that came later wait on behind the next leader. A caller that no leader has taken up within
    the limit is refused what `busy` returns.
    """

    def __init__(
        self,
        run: Callable[[list[Ticket[Work, Result]]], None],
        *,
        limit_seconds: float | None = None,
        busy: Callable[[], StoreBusy] = StoreBusy,
    ) -> None:
        self._run = run
        self._limit_seconds = limit_seconds
        self._busy = busy
        self._mutex = threading.Lock()
        self._waiting: list[Ticket[Work, Result]] = []
        self._batch: list[Ticket[Work, Result]] = []
        """Tickets that are being run."""
        self._leader: Ticket[Work, Result] | None = None

    def submit(self, work: Work) -> Result:
        """Run the work in some batch; return its result or raise its error."""
        ticket: Ticket[Work, Result] = Ticket(work)
        try:
            with self._mutex:
                self._waiting.append(ticket)
                if self._leader is None:
                    self._leader = ticket
            if self._leader is not ticket:
                self._wait(ticket)
            if self._leader is ticket:
                self._lead()
        except BaseException as interrupt:
            self._leave(ticket, interrupt)
            raise
        if ticket.error is not None:
            raise ticket.error
        return ticket.result  # type: ignore[return-value]  # run() has set it

    def _wait(self, ticket: Ticket[Work, Result]) -> None:
        """Sleep until the ticket's turn; leave if that does not come in time, unless its batch has begun."""
        limit = self._limit_seconds
        if ticket.wait(None if limit is None else ticket.since + limit - time.monotonic()):
            return
        with self._mutex:
            if ticket in self._waiting and self._leader is not ticket:
                self._waiting.remove(ticket)
                raise self._busy()
        ticket.wait()

    def _lead(self) -> None:
        with self._mutex:
            self._batch, self._waiting = self._waiting[:MAX_BATCH], self._waiting[MAX_BATCH:]
        problem = None
        try:
            self._run(self._batch)
        except BaseException as raised:
            problem = raised
        with self._mutex:
            self._end_batch(problem)

    def _leave(self, ticket: Ticket[Work, Result], interrupt: BaseException) -> None:
        """Remove an interrupted caller. Its work is not done unless its batch had begun."""
        with self._mutex:
            if ticket in self._waiting:
                self._waiting.remove(ticket)
            if self._leader is ticket:
                self._end_batch(interrupt)
            elif self._leader is not None:
                self._leader.wake()  # the interrupt may have come just before this wake-up

    def _end_batch(self, problem: BaseException | None) -> None:
        """Answer every ticket of the batch and appoint the next leader. Safe to repeat after an interrupt."""
        if isinstance(problem, StoreBusy):
            late = time.monotonic() - (self._limit_seconds or 0.0)
            self._waiting = [ticket for ticket in self._batch[1:] if ticket.since > late] + self._waiting
            self._batch = [ticket for ticket in self._batch if ticket not in self._waiting]
        for ticket in self._batch:
            ticket.error = ticket.error or problem
            ticket.answered = True
            ticket.wake()
        self._batch = []
        while self._waiting and self._waiting[0].answered:  # an interrupt came while the batch was formed
            self._waiting.pop(0)
        self._leader = self._waiting[0] if self._waiting else None
        if self._leader is not None:
            self._leader.wake()
