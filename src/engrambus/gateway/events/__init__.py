"""Events of a project, for readers that follow it: ids and counts, never content."""

from typing import TYPE_CHECKING

from engrambus.lazy_imports import lazy_exports

if TYPE_CHECKING:
    from engrambus.gateway.events.activity import ActivityChannel
    from engrambus.gateway.events.event_log import (
        EventLog,
        Follower,
        FollowerPosition,
        events_after,
        newest_events,
    )
    from engrambus.gateway.events.event_types import EVENT_TYPES
    from engrambus.gateway.events.values import Event, EventFilter, ResumePoint, filter_for, parse_resume_point

# Below this line: generated from the imports above by tools/generate.py.
# fmt: off
if not TYPE_CHECKING:
    __getattr__ = lazy_exports(__name__, {
        "activity": "ActivityChannel",
        "event_log": "EventLog Follower FollowerPosition events_after newest_events",
        "event_types": "EVENT_TYPES",
        "values": "Event EventFilter ResumePoint filter_for parse_resume_point",
    })

__all__ = [
    "EVENT_TYPES", "ActivityChannel", "Event", "EventFilter", "EventLog", "Follower", "FollowerPosition", "ResumePoint",
    "events_after", "filter_for", "newest_events", "parse_resume_point",
]
