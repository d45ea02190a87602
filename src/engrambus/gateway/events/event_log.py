"""The event log of a project: followers read the journal at their own pace and are woken when it grows."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import NamedTuple

import msgspec

from engrambus.core.journal import Line
from engrambus.errors import EngramBusError
from engrambus.gateway.events.activity import ActivityChannel
from engrambus.gateway.events.event_types import CALL_EVENTS, call_event, fact_events, work_event
from engrambus.gateway.events.values import Event, ResumePoint, parse_resume_point
from engrambus.gateway.ports import Store
from engrambus.policy import Caller

POLL_SECONDS = 0.1
BATCH_LINES = 128
"""Number of journal lines read at once."""
CACHED_LINES = 512
CACHED_EVENTS = 4096
"""Limits of the cache of the newest lines, so that readers who are up to date decode each line once."""
PENDING_EVENTS = 256
"""Number of events that are not journalled and are stored for readers; the oldest are dropped."""
PAGE_LINES = 2048
"""Number of journal lines searched for one page of events."""


class LineEvents(NamedTuple):
    """The events of one journal line."""

    line: int
    events: list[Event]


class FollowerPosition(NamedTuple):
    """The position of a follower. Followers at the same position with equal filters get the same events next."""

    journal: ResumePoint
    calls: int
    """Number of events that were not journalled and that it has passed."""
    work_line: int
    """Line of the journal of work."""


class EventPage(NamedTuple):
    """Some events, oldest first."""

    events: list[Event]
    end: ResumePoint
    has_more: bool


class EventLog:
    """The events of one project, read from its journal."""

    # The journal is the queue, so a slow reader holds up nothing. Commits of this process wake followers at once; for
    # those of other processes the number of the last line is polled, while there is at least one follower.
    # decision 22: work has a journal of its own. Only its growth is an event, and only the latest one matters.

    def __init__(
        self,
        store: Store,
        *,
        work_line: Callable[[], int] | None = None,
        activity: ActivityChannel | None = None,
        poll_seconds: float = POLL_SECONDS,
    ) -> None:
        self._store = store
        self._activity = activity
        """Brings the events of calls that other processes answer, while there is a follower."""
        self._work_line = work_line or (lambda: 0)
        self._work: tuple[int, Event | None] = (0, None)
        """Last known line of the journal of work, and its event."""
        self._poll_seconds = poll_seconds
        self._lock = threading.Lock()
        self._followers: tuple[Follower, ...] = ()
        self._cache: deque[LineEvents] = deque()
        self._cached_events = 0
        self._growths = 0
        """Number of notifications that the journal has grown."""
        self._end = (-1, 0)
        """Last line of the journal, and `_growths` at the time it was read."""
        self._call_events: deque[Event] = deque(maxlen=PENDING_EVENTS)
        self._call_count = 0
        """Number of events so far that are not journalled."""
        self._poller: threading.Thread | None = None
        self._stop = threading.Event()
        store.watch(self._on_growth)

    def follow(
        self, after: ResumePoint | None, *, matches: Callable[[Event], bool], wake: Callable[[], None]
    ) -> Follower:
        """Return a follower that starts after a point, or now; `wake` is called, from any thread, on new events.

        A point after the end of the journal, which can remain from a part that was cut off, counts as the end.
        """
        last = self._store.last_line()
        if after is None or after.line > last:
            after = ResumePoint(last)
        self._check_work()
        with self._lock:
            follower = Follower(self, FollowerPosition(after, self._call_count, self._work[0]), matches, wake)
            self._followers = (*self._followers, follower)
            if self._poller is None and not self._stop.is_set():
                if self._activity is not None:
                    self._activity.listen()
                self._poller = threading.Thread(target=self._poll, args=(last,), name="events", daemon=True)
                self._poller.start()
        return follower

    def remove(self, follower: Follower) -> None:
        """Stop waking a follower; polling ends with the last one."""
        with self._lock:
            self._followers = tuple(registered for registered in self._followers if registered is not follower)

    def add_call(self, operation: str, caller: Caller, now_us: int, request: object, answer: object) -> None:
        """Add the event of a call that leaves nothing in the journal, if it has one and a client follows."""
        if operation not in CALL_EVENTS:
            return
        make_event = partial(call_event, operation, caller, now_us, request, answer)
        if self._followers and (event := make_event()):
            self._add_call_events([event])
        if self._activity is not None:
            self._activity.publish(make_event)

    def _add_call_events(self, events: Sequence[Event]) -> None:
        with self._lock:
            self._call_events.extend(events)
            self._call_count += len(events)
        self._wake_followers()

    def calls_since(self, count: int) -> tuple[list[Event], int]:
        """Return the events of calls after the first `count`, and the number of all so far."""
        with self._lock:
            new = min(self._call_count - count, len(self._call_events))
            events = list(islice(self._call_events, len(self._call_events) - new, None)) if new else []
            return events, self._call_count

    def work_since(self, line: int) -> tuple[list[Event], int]:
        """Return the event that work has changed since a line of its journal, if it has, and the current line."""
        current, event = self._work
        return [] if event is None or current == line else [event], current

    def last_line(self) -> int:
        """Return the number of the journal's last line."""
        return self._store.last_line()

    def cached_after(self, line: int) -> list[LineEvents] | None:
        """Return the lines after a line without reading the store; None if the cache does not hold them."""
        with self._lock:
            if self._cache and self._cache[0].line <= line + 1 <= self._cache[-1].line:
                start = line + 1 - self._cache[0].line
                return list(islice(self._cache, start, start + BATCH_LINES))
            return [] if self._end == (line, self._growths) else None

    def lines_after(self, line: int) -> list[LineEvents]:
        """Return the next lines after a line, at most `BATCH_LINES`."""
        cached = self.cached_after(line)
        if cached is not None:
            return cached
        growths = self._growths  # read before the store, so that a commit in between is not missed
        lines = [self._decode(stored) for stored in self._store.lines_after(line, BATCH_LINES)]
        if lines:
            self._add_to_cache(lines)
        if len(lines) < BATCH_LINES:
            self._end = (lines[-1].line if lines else line, growths)
        return lines

    def close(self) -> None:
        """Stop polling, and wake every follower one last time."""
        self._stop.set()
        with self._lock:
            poller = self._poller
        if poller is not None:
            poller.join()
        if self._activity is not None:
            self._activity.close()
        self._wake_followers()

    def _decode(self, stored: Line) -> LineEvents:
        facts = msgspec.json.decode(stored.facts)
        return LineEvents(stored.seq, fact_events(stored.seq, stored.at_us, facts, project=self._store.project))

    def _add_to_cache(self, lines: list[LineEvents]) -> None:
        with self._lock:
            end = self._cache[-1].line if self._cache else 0
            new = [entry for entry in lines if entry.line > end]
            if not new:
                return  # a reader of old lines: the cache holds the newest
            if new[0].line != end + 1:
                self._clear_cache()
            self._cache.extend(new)
            self._cached_events += sum(len(entry.events) for entry in new)
            while len(self._cache) > CACHED_LINES or self._cached_events > CACHED_EVENTS:
                self._cached_events -= len(self._cache.popleft().events)

    def _clear_cache(self) -> None:
        self._cache.clear()
        self._cached_events = 0

    def _on_growth(self) -> None:
        with self._lock:
            self._growths += 1
        self._wake_followers()

    def _check_work(self) -> None:
        try:
            line = self._work_line()
            if line == self._work[0]:
                return
            with self._store.read() as view:
                self._work = line, work_event(line, view.as_of, project=self._store.project)
        except EngramBusError:
            return  # callers of the operations on work get the error
        self._wake_followers()

    def _wake_followers(self) -> None:
        for follower in self._followers:
            follower.wake()

    def _poll(self, last: int) -> None:
        while not self._stop.wait(self._poll_seconds):
            with self._lock:
                if not self._followers:
                    self._poller = None
                    if self._activity is not None:
                        self._activity.close()
                    return
            if self._activity is not None and (events := self._activity.read()):
                self._add_call_events(events)
            self._check_work()
            try:
                current = self._store.last_line()
            except EngramBusError:
                continue  # callers of the gateway get the error
            if current < last:  # the journal was cut
                with self._lock:
                    self._clear_cache()
            if current != last:
                self._on_growth()
            last = current


class Follower:
    """One reader of the event log, with its position and its filter."""

    def __init__(
        self,
        log: EventLog,
        position: FollowerPosition,
        matches: Callable[[Event], bool],
        wake: Callable[[], None],
    ) -> None:
        self.position = position
        """May be moved on by a caller that already has the events up to there."""
        self.wake = wake
        self._log = log
        self._matches = matches

    def read(self) -> tuple[list[Event], bool]:
        """Return the next events, and whether to read again at once because there may be more."""
        return self._advance(self._log.lines_after(self.position.journal.last_complete_line))

    def read_cached(self) -> tuple[list[Event], bool] | None:
        """Do the same without reading the store; return None if the cache does not hold the next lines."""
        lines = self._log.cached_after(self.position.journal.last_complete_line)
        return None if lines is None else self._advance(lines)

    def close(self) -> None:
        """Stop following."""
        self._log.remove(self)

    def _advance(self, lines: list[LineEvents]) -> tuple[list[Event], bool]:
        events: list[Event] = []
        point = self.position.journal
        for entry in lines:
            events += _unseen_events(entry, point, self._matches)
            point = ResumePoint(entry.line)
        call_events, call_count = self._log.calls_since(self.position.calls)
        work_events, work_line = self._log.work_since(self.position.work_line)
        self.position = FollowerPosition(point, call_count, work_line)
        events += filter(self._matches, call_events + work_events)
        if call_events or work_events:
            events.sort(key=lambda event: event.time)
        return events, bool(lines)


def _unseen_events(entry: LineEvents, point: ResumePoint, matches: Callable[[Event], bool]) -> list[Event]:
    """Return the matching events of a line that come after a point."""
    events = entry.events
    if entry.line == point.line and point.fact is not None:
        fact = point.fact
        events = [event for event in events if int(str(event.id).partition(".")[2]) > fact]
    return [event for event in events if matches(event)]


def events_after(log: EventLog, point: ResumePoint, limit: int, matches: Callable[[Event], bool]) -> EventPage:
    """Return the page of events after a point; a point after the end of the journal counts as the end."""
    last = log.last_line()
    point = point if point.line <= last else ResumePoint(last)
    events: list[Event] = []
    end = point
    for entry in _lines_after(log, point.last_complete_line, PAGE_LINES):
        for event in _unseen_events(entry, point, matches):
            if len(events) == limit:
                return EventPage(events, parse_resume_point(str(events[-1].id), "id"), has_more=True)
            events.append(event)
        end = ResumePoint(entry.line)
    return EventPage(events, end, has_more=end.line < last)


def newest_events(log: EventLog, limit: int, matches: Callable[[Event], bool]) -> EventPage:
    """Return the newest events, up to `limit` and as far as the last `PAGE_LINES` lines hold them."""
    last = log.last_line()
    lines = BATCH_LINES
    while True:
        start = max(0, last - lines)
        events = [event for entry in _lines_after(log, start, last - start) for event in entry.events if matches(event)]
        if len(events) >= limit or start == 0 or lines >= PAGE_LINES:
            return EventPage(events[-limit:], ResumePoint(last), has_more=False)
        lines *= 4


def _lines_after(log: EventLog, line: int, limit: int) -> Iterator[LineEvents]:
    while limit > 0 and (lines := log.lines_after(line)[:limit]):
        yield from lines
        line, limit = lines[-1].line, limit - len(lines)
