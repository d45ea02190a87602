"""Schedules: rules that put tuples at certain times, by a cron expression, at an interval or once."""

from typing import TYPE_CHECKING

from engrambus.lazy_imports import lazy_exports

if TYPE_CHECKING:
    from engrambus.space.schedules.emitter import emit_schedules
    from engrambus.space.schedules.facts import (
        ScheduleAdded,
        ScheduleEmitted,
        ScheduleFact,
        ScheduleMoved,
        SchedulePaused,
        ScheduleRefused,
        ScheduleRemoved,
        ScheduleResumed,
        ScheduleSkipped,
    )
    from engrambus.space.schedules.ports import ScheduleDecide, SchedulePosition, ScheduleView
    from engrambus.space.schedules.rules import upcoming
    from engrambus.space.schedules.schedules import Schedules
    from engrambus.space.schedules.timing import local_time, next_after, read_timing, times_until
    from engrambus.space.schedules.transitions import after_clock_corrected, after_fact, new_schedule
    from engrambus.space.schedules.values import (
        MAX_CATCH_UP,
        MAX_SCHEDULES,
        MAX_SCHEDULES_OF_AGENT,
        NEVER_US,
        Schedule,
        ScheduleState,
        Timing,
    )

# Below this line: generated from the imports above by tools/generate.py.
# fmt: off
if not TYPE_CHECKING:
    __getattr__ = lazy_exports(__name__, {
        "emitter": "emit_schedules",
        "facts": (
            "ScheduleAdded ScheduleEmitted ScheduleFact ScheduleMoved SchedulePaused ScheduleRefused "
            "ScheduleRemoved ScheduleResumed ScheduleSkipped "
        ),
        "ports": "ScheduleDecide SchedulePosition ScheduleView",
        "rules": "upcoming",
        "schedules": "Schedules",
        "timing": "local_time next_after read_timing times_until",
        "transitions": "after_clock_corrected after_fact new_schedule",
        "values": "MAX_CATCH_UP MAX_SCHEDULES MAX_SCHEDULES_OF_AGENT NEVER_US Schedule ScheduleState Timing",
    })

__all__ = [
    "MAX_CATCH_UP", "MAX_SCHEDULES", "MAX_SCHEDULES_OF_AGENT", "NEVER_US", "Schedule", "ScheduleAdded",
    "ScheduleDecide", "ScheduleEmitted", "ScheduleFact", "ScheduleMoved", "SchedulePaused", "SchedulePosition",
    "ScheduleRefused", "ScheduleRemoved", "ScheduleResumed", "ScheduleSkipped", "ScheduleState", "ScheduleView",
    "Schedules", "Timing", "after_clock_corrected", "after_fact", "emit_schedules", "local_time", "new_schedule",
    "next_after", "read_timing", "times_until", "upcoming",
]
