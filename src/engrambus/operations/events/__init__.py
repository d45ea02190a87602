"""What happened, told to whoever follows: ids and counts, never content."""

from typing import TYPE_CHECKING

from engrambus.doors import opened_late

if TYPE_CHECKING:
    from engrambus.operations.events.feed import Feed, Follower, Reached
    from engrambus.operations.events.page import Page, events_after, newest_events
    from engrambus.operations.events.table import TYPES, event_of_call, events_of
    from engrambus.operations.events.values import Event, Mark, Sight, read_mark, sight_of
else:
    __getattr__ = opened_late(
        __name__,
        {
            "feed": "Feed Follower Reached",
            "page": "Page events_after newest_events",
            "table": "TYPES event_of_call events_of",
            "values": "Event Mark Sight read_mark sight_of",
        },
    )

__all__ = [
    "TYPES",
    "Event",
    "Feed",
    "Follower",
    "Mark",
    "Page",
    "Reached",
    "Sight",
    "event_of_call",
    "events_after",
    "events_of",
    "newest_events",
    "read_mark",
    "sight_of",
]
