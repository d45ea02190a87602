"""Ports of schedules: what a back end of the work plane provides besides tuples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol, TypeVar

from engrambus.space.schedules.values import Schedule
from engrambus.space.tuples import Waiter, WaitKind, WorkView

T = TypeVar("T")


class SchedulePosition(NamedTuple):
    """The place of a schedule among all of them, in the order of their next look."""

    look_us: int
    name: str


class ScheduleView(WorkView, Protocol):
    """The tuples and schedules as of one moment."""

    def schedule(self, name: str) -> Schedule | None:
        """Return the schedule of that name."""
        ...

    def list_schedules(
        self,
        *,
        limit: int,
        run: str | None = None,
        added_by: str | None = None,
        after: SchedulePosition | None = None,
        until_us: int | None = None,
    ) -> list[Schedule]:
        """Return schedules by the time of their next look, then by name; paused and ended ones last.

        `after` is the position of the last one seen. With `until_us` only those to be looked at by then are returned.
        """
        ...

    def schedule_count(self, added_by: str | None = None) -> int:
        """Return the number of schedules, of someone or of all."""
        ...

    def next_look_us(self) -> int | None:
        """Return when a schedule has to be looked at next."""
        ...


ScheduleDecide = Callable[[ScheduleView], tuple[Sequence[Any], T]]
"""A decision: looks at a view under the write lock and returns the facts to journal, and an answer."""


class ScheduleStore(Protocol):
    """A work store with schedules."""

    def read(self) -> AbstractContextManager[ScheduleView]:
        """Return a view as of now."""
        ...

    def commit(self, decide: ScheduleDecide[T], *, synced: bool = True) -> T:
        """Apply a decision; return once its facts are synced to disk."""
        ...

    def wait_on(self, kind: WaitKind) -> AbstractContextManager[Waiter]:
        """Return a waiter that wakes up after every commit of any process that may be a change of this kind."""
        ...
