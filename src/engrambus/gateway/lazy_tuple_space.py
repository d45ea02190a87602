"""A project's tuple space, opened at first use: most calls never need it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING

from engrambus.errors import NoTupleSpace

if TYPE_CHECKING:
    from engrambus.evidence.receipts import BodyStore
    from engrambus.space.schedules import Schedules
    from engrambus.space.tuples import TupleSpace
    from engrambus.space.work import GarbageCollector


CALLER: ContextVar[str] = ContextVar("caller", default="")
"""Full name of the caller whose operation runs in this thread, for the hooks of the tuple space."""


class LazyTupleSpace:
    """The tuple space, the stored bodies and the garbage collector of one project; a project may have none of them."""

    def __init__(
        self,
        open_space: Callable[[], TupleSpace] | None = None,
        bodies: BodyStore | None = None,
        *,
        ci: bool = False,
        open_collector: Callable[[TupleSpace], GarbageCollector] | None = None,
        on_progress: Callable[[int, int], None] | None = None,
        has_journal: Callable[[], bool] | None = None,
        has_run_ended: Callable[[str], bool] = lambda run: False,
    ) -> None:
        """`has_journal` tells whether anything was ever put, without opening the space, which would begin a journal.

        `has_run_ended` tells whether a run takes no more tuples.
        """
        self._open_space = open_space
        self._open_collector = open_collector
        self.on_progress = on_progress or (lambda done, total: None)
        """Called with the parts done and the total during long work."""
        self._bodies = bodies
        self._has_run_ended = has_run_ended
        self._has_journal = has_journal or (lambda: open_space is not None)
        self._space: TupleSpace | None = None
        self._lock = threading.Lock()
        self.ci = ci
        """True if the admin of this machine is a CI build and not a person."""

    @property
    def space(self) -> TupleSpace:
        """The tuple space, opened now if it is not open."""
        with self._lock:
            if self._space is None:
                if self._open_space is None:
                    raise NoTupleSpace
                self._space = self._open_space()
            return self._space

    @property
    def schedules(self) -> Schedules:
        """The schedules, which are kept with the tuples."""
        from engrambus.space.schedules import Schedules

        return Schedules(self.space, self._has_run_ended)

    @property
    def bodies(self) -> BodyStore:
        """The stored output and artifacts of steps."""
        if self._bodies is None:
            raise NoTupleSpace
        return self._bodies

    def has_journal(self) -> bool:
        """True if there is a journal of work; refuse if it is gone and what was made from it is there."""
        return self._has_journal()

    def commits(self) -> int:
        """Return the number of commits in the journal of work."""
        return self.space.store.last_line() if self._open_space is not None else 0

    @property
    def collector(self) -> GarbageCollector:
        """The garbage collector of bodies and receipts."""
        if self._open_collector is None:
            raise NoTupleSpace
        return self._open_collector(self.space)

    def close(self) -> None:
        with self._lock:
            if self._space is not None:
                self._space.close()
                self._space = None
