"""Following a project: every reader goes through the journal at its own pace, and is woken when there is more.

The journal is the queue, so a slow reader costs nobody anything. What this process commits wakes the readers at once;
what others commit is noticed by asking for the last line's number now and then, only while somebody reads.

Work has a journal of its own. Of that only its growth is told: the last event of it is all there is to know.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import NamedTuple

import msgspec

from engrambus.core.journal import Line
from engrambus.errors import EngramBusError
from engrambus.gateway.events.table import event_of_call, event_of_work, events_of
from engrambus.gateway.events.values import Event, Mark
from engrambus.gateway.ports import Store
from engrambus.policy import Caller

POLL_SECONDS = 0.1
LINES = 128
"""How many lines are read at once."""
RECENT_LINES = 512
RECENT_EVENTS = 4096
"""How much of what was read last is kept, so that readers who are up to date decode it once."""
PASSING = 256
"""How many events that are not journalled wait for readers; the oldest are let go."""


class Told(NamedTuple):
    """The events of one line."""

    seq: int
    events: list[Event]


class Reached(NamedTuple):
    """How far a reader has come; two who have come as far are told the same next, if they see the same."""

    mark: Mark
    """In the journal."""
    passed: int
    """Of the events that are not journalled, by their count."""
    work: int
    """In the journal of work, by its line."""


class Feed:
    """One project's events."""

    def __init__(
        self, store: Store, *, work_line: Callable[[], int] | None = None, poll_seconds: float = POLL_SECONDS
    ) -> None:
        self._store = store
        self._work_line = work_line or (lambda: 0)
        self._work: tuple[int, Event | None] = (0, None)
        """The last line of work that was seen, and the event that tells of it."""
        self._poll_seconds = poll_seconds
        self._lock = threading.Lock()
        self._followers: tuple[Follower, ...] = ()
        self._recent: deque[Told] = deque()
        self._recent_events = 0
        self._growths = 0
        """How often there was news of more lines."""
        self._end = (-1, 0)
        """The last line there was when the store was asked, after so many news."""
        self._passing: deque[Event] = deque(maxlen=PASSING)
        self._passed = 0
        """How many events that are not journalled there were."""
        self._poller: threading.Thread | None = None
        self._stop = threading.Event()
        store.watch(self._has_grown)

    def follow(self, after: Mark | None, *, sees: Callable[[Event], bool], wake: Callable[[], None]) -> Follower:
        """Begin to follow, from a mark or from now; `wake` is called, from any thread, when there may be more.

        A mark beyond the journal's end, which is of a part that was cut away, is taken as the end.
        """
        last = self._store.last_line()
        if after is None or after.seq > last:
            after = Mark(last)
        self._look_at_work()
        with self._lock:
            follower = Follower(self, Reached(after, self._passed, self._work[0]), sees, wake)
            self._followers = (*self._followers, follower)
            if self._poller is None and not self._stop.is_set():
                self._poller = threading.Thread(target=self._poll, args=(last,), name="events", daemon=True)
                self._poller.start()
        return follower

    def last_line(self) -> int:
        """The number of the last line."""
        return self._store.last_line()

    def leave(self, follower: Follower) -> None:
        """Follow no more; the last to leave ends the asking."""
        with self._lock:
            self._followers = tuple(each for each in self._followers if each is not follower)

    def answered(self, operation: str, caller: Caller, at: int, request: object, answer: object) -> None:
        """Tell of a call that leaves nothing in the journal."""
        if self._followers and (event := event_of_call(operation, caller, at, request, answer)):
            with self._lock:
                self._passing.append(event)
                self._passed += 1
            self._wake()

    def passed_since(self, number: int) -> tuple[list[Event], int]:
        """The events that are not journalled since there were so many of them, and how many there are now."""
        with self._lock:
            new = min(self._passed - number, len(self._passing))
            return list(islice(self._passing, len(self._passing) - new, None)) if new else [], self._passed

    def work_since(self, line: int) -> tuple[list[Event], int]:
        """That work went on since that line of its journal, if it did, and the line it is at now."""
        now, event = self._work
        return [] if event is None or now == line else [event], now

    def ready_after(self, seq: int) -> list[Told] | None:
        """What the lines after that number tell of, if that is known without asking the store; none if it is not."""
        with self._lock:
            if self._recent and self._recent[0].seq <= seq + 1 <= self._recent[-1].seq:
                begin = seq + 1 - self._recent[0].seq
                return list(islice(self._recent, begin, begin + LINES))
            return [] if self._end == (seq, self._growths) else None

    def lines_after(self, seq: int) -> list[Told]:
        """What the lines after that number tell of."""
        ready = self.ready_after(seq)
        if ready is not None:
            return ready
        growths = self._growths  # before the store is asked: what is committed from now on is news
        told = [self._tell(line) for line in self._store.lines_after(seq, LINES)]
        if told:
            self._keep(told)
        if len(told) < LINES:
            self._end = (told[-1].seq if told else seq, growths)
        return told

    def close(self) -> None:
        """Ask no more; whoever still follows is woken one last time."""
        self._stop.set()
        with self._lock:
            poller = self._poller
        if poller is not None:
            poller.join()
        self._wake()

    def _tell(self, line: Line) -> Told:
        facts = msgspec.json.decode(line.facts)
        return Told(line.seq, events_of(line.seq, line.at_us, facts, project=self._store.project))

    def _keep(self, told: list[Told]) -> None:
        with self._lock:
            end = self._recent[-1].seq if self._recent else 0
            fresh = [each for each in told if each.seq > end]
            if not fresh:
                return  # somebody reads what is long past
            if fresh[0].seq != end + 1:
                self._forget()
            self._recent.extend(fresh)
            self._recent_events += sum(len(each.events) for each in fresh)
            while len(self._recent) > RECENT_LINES or self._recent_events > RECENT_EVENTS:
                self._recent_events -= len(self._recent.popleft().events)

    def _forget(self) -> None:
        self._recent.clear()
        self._recent_events = 0

    def _has_grown(self) -> None:
        with self._lock:
            self._growths += 1
        self._wake()

    def _look_at_work(self) -> None:
        try:
            line = self._work_line()
            if line == self._work[0]:
                return
            with self._store.read() as view:
                self._work = line, event_of_work(line, view.as_of, project=self._store.project)
        except EngramBusError:
            return  # whoever asks for the work is told what is wrong
        self._wake()

    def _wake(self) -> None:
        for follower in self._followers:
            follower.wake()

    def _poll(self, last: int) -> None:
        while not self._stop.wait(self._poll_seconds):
            with self._lock:
                if not self._followers:
                    self._poller = None
                    return
            self._look_at_work()
            try:
                now = self._store.last_line()
            except EngramBusError:
                continue  # whoever calls the gateway is told what is wrong
            if now < last:  # the journal was cut
                with self._lock:
                    self._forget()
            if now != last:
                self._has_grown()
            last = now


class Follower:
    """One reader: how far it has come, and what it may see."""

    def __init__(self, feed: Feed, reached: Reached, sees: Callable[[Event], bool], wake: Callable[[], None]) -> None:
        self.reached = reached
        """Whoever knows what comes next may move a reader on without taking it."""
        self.wake = wake
        self._feed = feed
        self._sees = sees

    def take(self) -> tuple[list[Event], bool]:
        """The next events, and whether to ask again at once: there may be more."""
        return self._take(self._feed.lines_after(self._behind()))

    def take_ready(self) -> tuple[list[Event], bool] | None:
        """The same as far as it is known already, without reading anything; none if it is not."""
        lines = self._feed.ready_after(self._behind())
        return None if lines is None else self._take(lines)

    def _behind(self) -> int:
        mark = self.reached.mark
        return mark.seq if mark.fact is None else max(0, mark.seq - 1)

    def _take(self, lines: list[Told]) -> tuple[list[Event], bool]:
        events: list[Event] = []
        mark = self.reached.mark
        for line in lines:
            known = mark.fact if line.seq == mark.seq else None
            events += [event for event in line.events if self._sees(event) and not was_told(event, known)]
            mark = Mark(line.seq)
        passed, number = self._feed.passed_since(self.reached.passed)
        worked, work = self._feed.work_since(self.reached.work)
        self.reached = Reached(mark, number, work)
        events += filter(self._sees, passed + worked)
        if passed or worked:
            events.sort(key=lambda event: event.time)
        return events, bool(lines)

    def leave(self) -> None:
        """Follow no more."""
        self._feed.leave(self)


def was_told(event: Event, known: int | None) -> bool:
    """Whether an event stands no further in its line than a fact that is known already."""
    return known is not None and event.id is not None and int(event.id.partition(".")[2]) <= known
