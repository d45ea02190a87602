"""What happened, told to whoever follows: ids and counts, never content."""

from typing import TYPE_CHECKING

from engrambus.lazy_imports import lazy_exports

if TYPE_CHECKING:
    from engrambus.gateway.events.feed import Feed, Follower, Reached
    from engrambus.gateway.events.page import Page, events_after, newest_events
    from engrambus.gateway.events.table import TYPES, event_of_call, events_of
    from engrambus.gateway.events.values import Event, Mark, Sight, read_mark, sight_of

# Below this line: generated from the imports above by tools/generate.py.
# fmt: off
if not TYPE_CHECKING:
    __getattr__ = lazy_exports(__name__, {
        "feed": "Feed Follower Reached",
        "page": "Page events_after newest_events",
        "table": "TYPES event_of_call events_of",
        "values": "Event Mark Sight read_mark sight_of",
    })

__all__ = [
    "TYPES", "Event", "Feed", "Follower", "Mark", "Page", "Reached", "Sight", "event_of_call", "events_after",
    "events_of", "newest_events", "read_mark", "sight_of",
]
