"""Values of schedules: when one is due, what it emits, and what has become of it so far."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from engrambus.core import SECOND_US

CatchUp = Literal["one", "all", "none"]
"""What is emitted of times that no one was there for: the newest, all of them up to MAX_CATCH_UP, or nothing."""
Overlap = Literal["skip", "queue"]
"""Whether a time is skipped while the previous tuple of the schedule has not ended, or its tuple waits as well."""

MAX_SCHEDULES = 10_000
MAX_SCHEDULES_OF_AGENT = 100
MAX_CATCH_UP = 100
"""Missed times that are caught up with, or counted, at once."""
GRACE_US = 60 * SECOND_US
"""How late an emission may be and still counts as on time, for schedules that do not catch up."""
NEVER_US = 1 << 62
"""Time at which no one looks at a schedule: it is paused or has ended."""
MAX_TEMPLATE_BYTES = 65_536


class Timing(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """When a schedule is due: by a cron expression, at an interval, or once."""

    cron: str | None = None
    """Cron expression of five fields."""
    zone: str = "UTC"
    """Time zone of the cron expression."""
    every_us: int | None = None
    """Interval."""
    start_us: int = 0
    """Time from which intervals are counted."""
    at_us: int | None = None
    """The only time."""


class LastRefusal(msgspec.Struct, frozen=True, kw_only=True):
    """Why the last try to emit was refused."""

    code: str
    detail: str
    at_us: int
    tries: int
    """Number of tries that were refused in a row."""


class ScheduleState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What has become of a schedule so far."""

    added_us: int
    due_us: int | None
    """Next time at which it is due; None if it has ended, or must be computed after a correction of the clock."""
    look_us: int
    """Time of the next look at it: when it is due, or later if a try was refused; NEVER_US for no look."""
    start_us: int = 0
    """Time from which intervals are counted, if a correction of the clock has moved it."""
    paused: bool = False
    last_due_us: int | None = None
    """Time for which a tuple was emitted last; None if that was by hand."""
    last_us: int | None = None
    """When a tuple was emitted last."""
    last_tuple: str | None = None
    """Id of that tuple."""
    emitted: int = 0
    """Number of tuples emitted."""
    skipped: int = 0
    """Number of times skipped because the previous tuple had not ended."""
    missed: int = 0
    """Number of times that no one was there for and that were not caught up with."""
    refusal: LastRefusal | None = None
    """Why the last try was refused; None once a later one was not."""


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """A rule that puts a tuple at certain times, with its state."""

    name: str
    run: str
    """Id of the run its tuples belong to."""
    added_by: str
    """Full name of who added it."""
    authority: dict[str, Any]
    """Authority stamped on its tuples."""
    timing: Timing
    template: dict[str, Any]
    """Fields of the tuples it emits."""
    catch_up: CatchUp
    overlap: Overlap
    state: ScheduleState

    @property
    def has_ended(self) -> bool:
        """True if its only time is past."""
        return self.state.due_us is None and self.state.look_us == NEVER_US and not self.state.paused


class Emission(msgspec.Struct, frozen=True, kw_only=True):
    """The tuples that one look at a schedule has put."""

    name: str
    tuples: tuple[str, ...]


class EmissionPass(msgspec.Struct, frozen=True, kw_only=True):
    """What one pass over the schedules that were due has done."""

    emissions: tuple[Emission, ...] = ()
    refused: tuple[str, ...] = ()
    """Names of the schedules of which the tuple was refused."""
    looked_at: int = 0
    next_us: int | None = None
    """Time of the next look at any schedule."""

    @property
    def ids(self) -> tuple[str, ...]:
        """Ids of all tuples put."""
        return tuple(tuple_id for emission in self.emissions for tuple_id in emission.tuples)
