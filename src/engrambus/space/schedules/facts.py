"""Facts of schedules, as they are written to `.catalog/tuples.jsonl`. Tags and field names never change."""

from __future__ import annotations

from typing import Any

import msgspec

from engrambus.space.schedules.values import CatchUp, Overlap, Timing


class _Fact(msgspec.Struct, frozen=True, kw_only=True, tag_field="fact", omit_defaults=True):
    name: str
    """Name of the schedule."""


class ScheduleAdded(_Fact, frozen=True, kw_only=True, tag="schedule.added"):
    """A schedule was added."""

    run: str
    added_by: str = msgspec.field(name="by")
    authority: dict[str, Any]
    timing: Timing
    template: dict[str, Any] = msgspec.field(name="tuple")
    catch_up: CatchUp = "one"
    overlap: Overlap = "skip"
    # decision 111: the next time is journalled, so that another release of the time zones changes no index.
    next_us: int = msgspec.field(name="next")


class ScheduleEmitted(_Fact, frozen=True, kw_only=True, tag="schedule.emitted"):
    """Tuples of a schedule were put, in the same commit."""

    due_us: int | None = msgspec.field(default=None, name="due")
    """Time for which the last of them was put; None if that was by hand."""
    tuples: list[str]
    missed: int = 0
    """Number of earlier times that are not caught up with."""
    next_us: int | None = msgspec.field(default=None, name="next")


class ScheduleSkipped(_Fact, frozen=True, kw_only=True, tag="schedule.skipped"):
    """Times of a schedule passed without a tuple."""

    due_us: int = msgspec.field(name="due")
    """The last of them."""
    reason: str = msgspec.field(name="why")
    """`overlap`: the previous tuple had not ended; `missed`: no one was there, and it does not catch up."""
    times: int = 1
    next_us: int | None = msgspec.field(default=None, name="next")


class ScheduleRefused(_Fact, frozen=True, kw_only=True, tag="schedule.refused"):
    """A tuple of a schedule was refused; it is tried again."""

    due_us: int = msgspec.field(name="due")
    code: str
    detail: str
    retry_us: int = msgspec.field(name="retry")


class SchedulePaused(_Fact, frozen=True, kw_only=True, tag="schedule.paused"):
    """A schedule was paused."""

    by: str


class ScheduleResumed(_Fact, frozen=True, kw_only=True, tag="schedule.resumed"):
    """A paused schedule goes on."""

    by: str
    next_us: int | None = msgspec.field(default=None, name="next")


class ScheduleMoved(_Fact, frozen=True, kw_only=True, tag="schedule.moved"):
    """The next time of a schedule was computed again, after a correction of the project's clock."""

    next_us: int | None = msgspec.field(default=None, name="next")
    start_us: int = msgspec.field(default=0, name="start")


class ScheduleRemoved(_Fact, frozen=True, kw_only=True, tag="schedule.removed"):
    """A schedule was removed."""

    by: str


ScheduleFact = (
    ScheduleAdded
    | ScheduleEmitted
    | ScheduleSkipped
    | ScheduleRefused
    | SchedulePaused
    | ScheduleResumed
    | ScheduleMoved
    | ScheduleRemoved
)
