"""Events a page at a time, for those who ask now and then instead of following."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from engrambus.gateway.events.feed import LINES, Feed, Told, was_told
from engrambus.gateway.events.values import Event, Mark, read_mark

PAGE_LINES = 2048
"""How many lines are looked through for one page."""


class Page(NamedTuple):
    """Some events, oldest first."""

    events: list[Event]
    mark: Mark
    """Where the page ends."""
    more: bool
    """Whether there is more behind it."""


def events_after(feed: Feed, mark: Mark, limit: int, sees: Callable[[Event], bool]) -> Page:
    """The next events after a mark; a mark beyond the end is taken as the end."""
    last = feed.last_line()
    mark = mark if mark.seq <= last else Mark(last)
    found: list[Event] = []
    reached = mark
    for line in _lines(feed, mark.seq if mark.fact is None else max(0, mark.seq - 1), PAGE_LINES):
        known = mark.fact if line.seq == mark.seq else None
        for event in line.events:
            if not sees(event) or was_told(event, known):
                continue
            if len(found) == limit:
                return Page(found, read_mark(str(found[-1].id), "id"), more=True)
            found.append(event)
        reached = Mark(line.seq)
    return Page(found, reached, more=reached.seq < last)


def newest_events(feed: Feed, limit: int, sees: Callable[[Event], bool]) -> Page:
    """The newest events, as far as the last lines hold so many."""
    last = feed.last_line()
    lines = LINES
    while True:
        start = max(0, last - lines)
        found = [event for line in _lines(feed, start, last - start) for event in line.events if sees(event)]
        if len(found) >= limit or start == 0 or lines >= PAGE_LINES:
            return Page(found[-limit:], Mark(last), more=False)
        lines *= 4


def _lines(feed: Feed, seq: int, most: int) -> Iterator[Told]:
    """The lines after a number, at most so many."""
    while most > 0 and (lines := feed.lines_after(seq)[:most]):
        yield from lines
        seq, most = lines[-1].seq, most - len(lines)
