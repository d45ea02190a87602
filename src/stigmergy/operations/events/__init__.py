"""What happened, told to whoever follows: ids and counts, never content."""

from stigmergy.operations.events.feed import Feed, Follower
from stigmergy.operations.events.page import Page, events_after, newest_events
from stigmergy.operations.events.table import TYPES, event_of_call, events_of
from stigmergy.operations.events.values import Event, Mark, may_see, read_mark

__all__ = [
    "TYPES",
    "Event",
    "Feed",
    "Follower",
    "Mark",
    "Page",
    "event_of_call",
    "events_after",
    "events_of",
    "may_see",
    "newest_events",
    "read_mark",
]
