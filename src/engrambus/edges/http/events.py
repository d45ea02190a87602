"""`GET /events`: the events of the project as a stream, or the latest ones as a page of JSON.

A stream has no final answer, so it is not an operation and exists on HTTP alone. A reader resumes with `Last-Event-ID`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from typing import NamedTuple

import anyio
import msgspec
from starlette.types import Receive, Scope, Send

from engrambus.edges.http.call_log import name_call
from engrambus.edges.http.callers import HttpCaller, session_caller, token_caller
from engrambus.edges.http.requests import bearer_token, header, list_header, read_body, read_query
from engrambus.edges.http.responses import StaticResponse
from engrambus.edges.http.server_limits import DEFAULT_LIMITS
from engrambus.edges.http.sessions import BrowserSession, BrowserSessions, session_secret
from engrambus.edges.http.streams import OpenStreams, Stream, StreamEndpoint, StreamLimits
from engrambus.errors import EngramBusError, FieldUnknown, FieldValue
from engrambus.gateway import Credential, Gateway
from engrambus.gateway.events import (
    EVENT_TYPES,
    Event,
    EventFilter,
    Follower,
    FollowerPosition,
    ResumePoint,
    events_after,
    newest_events,
    parse_resume_point,
)
from engrambus.visible_text import make_json_visible

EVENT_LIMITS = StreamLimits(max_open=DEFAULT_LIMITS.streams)
TOKEN_CHECK_SECONDS = 2.0
"""Time between two checks that the tokens of all readers are still valid."""
RETRY_MS = 2000
WRITE_EVENTS = 64
"""Number of events sent in one write."""
ROUND_SECONDS = 0.2
"""Duration of a round, for any number of readers; events that happen during a round are sent in the next one."""
NOTIFY_STREAMS = 4
"""Number of streams notified at one moment; calls are answered in between."""
CACHED_BATCHES = 64

PAGE_EVENTS = 100
MAX_PAGE_EVENTS = 500

_PARAMETERS = frozenset({"after", "type", "as", "limit"})


class EventsEndpoint(StreamEndpoint):
    """Serves every reader of the project's events."""

    def __init__(
        self, gateway: Gateway, limits: StreamLimits = EVENT_LIMITS, *, sessions: BrowserSessions | None = None
    ) -> None:
        super().__init__(gateway, limits)
        self._sessions = sessions or BrowserSessions()
        self._rounds = _Rounds(gateway, self._streams, self._heartbeat_seconds, self._sessions)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one reader until it disconnects or stalls, its token expires, or the server stops."""
        name_call(scope, "events")
        session, token, caller = self._identify(scope)
        values = read_query(scope, _PARAMETERS, frozenset({"type"}))
        types, after = _parse_types(values.get("type", [])), _parse_after(scope, values.get("after"))
        await read_body(scope, receive, 0)
        credential = Credential(token=token, local_admin=session is not None, speak_as=values.get("as"))
        if _wants_page(scope):
            limit = _parse_limit(values.get("limit"))
            page = await self._streams.run_in_thread(partial(self._page, credential, types, after, limit))
            await page(scope, receive, send)
            return
        if "limit" in values:
            raise FieldUnknown(
                "A stream has no limit.", field="limit", hint="For a page, send 'Accept: application/json'."
            )
        event_filter = await self._streams.run_in_thread(partial(self._gateway.event_filter, credential, types))
        with self._streams.open(scope, receive, send, caller) as stream, self._ending_with(session, stream):
            reader = _Reader(self._rounds, stream, credential, event_filter, session)
            self._rounds.add(reader)
            try:
                await self._streams.run_in_thread(partial(reader.start, self._gateway, after))
                await stream.run(reader.write_events)
            finally:
                self._rounds.remove(reader)

    def _identify(self, scope: Scope) -> tuple[BrowserSession | None, str | None, HttpCaller]:
        """Return the session of the page that a request carries, or else its bearer token, and whose it is."""
        # decision 64: besides the page itself, only this address accepts a session.
        secret = session_secret(scope)
        if secret is not None:
            session = self._sessions.check(secret)
            caller = session_caller(scope, session.id)
            name_call(scope, "events", caller.name)
            return session, None, caller
        token = bearer_token(scope)
        claims = self._gateway.key.check(token, project=self._gateway.store.project, now_us=0)
        caller = token_caller(scope, claims)
        name_call(scope, "events", caller.name)
        return None, token, caller

    def _ending_with(self, session: BrowserSession | None, stream: Stream) -> AbstractContextManager[None]:
        """End a stream as soon as its session does."""
        if session is None:
            return nullcontext()
        loop = asyncio.get_running_loop()
        return self._sessions.calling_on_end(session, lambda: _call_in(loop, stream.end))

    def _page(
        self, credential: Credential, types: frozenset[str], after: ResumePoint | None, limit: int
    ) -> StaticResponse:
        """Return a page of events and where it ends; its bytes, and so its ETag, change only with new events."""
        log, matches = self._gateway.event_log, self._gateway.event_filter(credential, types).matches
        page = newest_events(log, limit, matches) if after is None else events_after(log, after, limit, matches)
        body = {"id": str(page.end), "more": page.has_more, "events": [event.to_wire() for event in page.events]}
        vary = (b"vary", b"accept, authorization, engrambus-session")
        return StaticResponse(_encode(body), "application/json", [vary])


class _Batch(NamedTuple):
    """The next events for all readers at the same position with the same filter."""

    texts: list[bytes]
    position: FollowerPosition
    """Position after these events."""
    may_have_more: bool


class _Rounds:
    """Notifies all readers of new events, sends heartbeats, and ends streams whose tokens are no longer valid."""

    # decision 29: one task notifies all readers in rounds. What comes next depends only on a reader's position and
    # filter, so within a round it is read, filtered and encoded once for all readers in whom these are equal.

    def __init__(
        self, gateway: Gateway, streams: OpenStreams, heartbeat_seconds: float, sessions: BrowserSessions
    ) -> None:
        self._sessions = sessions
        self._readers: set[_Reader] = set()
        self._gateway = gateway
        self._run_in_thread = streams.run_in_thread
        self._idle_seconds = heartbeat_seconds / 4
        """Duration of a round without events."""
        self.quiet_seconds = heartbeat_seconds - self._idle_seconds
        """A stream that was quiet for this long gets a heartbeat, which is then in time."""
        self._has_news = asyncio.Event()
        self._is_awake = False
        self._loop: asyncio.AbstractEventLoop
        self._task: asyncio.Task[None] | None = None
        self._tokens_checked = 0.0
        self._checked_line = 0
        """Line of the journal up to which every reader's token was good."""
        self._checking = anyio.Lock()
        self._reading = anyio.Lock()
        self._batches: dict[tuple[FollowerPosition, EventFilter], _Batch] = {}

    def add(self, reader: _Reader) -> None:
        """Notify this reader from now on."""
        self._readers.add(reader)
        if self._task is None:
            self._loop = asyncio.get_running_loop()
            self._task = self._loop.create_task(self._run())

    def remove(self, reader: _Reader) -> None:
        """Stop notifying this reader."""
        reader.close()
        self._readers.discard(reader)
        if not self._readers:
            self._has_news.set()

    def wake(self) -> None:
        """Start the next round; may be called from any thread."""
        if not self._is_awake:  # one wake-up per round is enough
            self._is_awake = True
            _call_in(self._loop, self._has_news.set)

    async def next_batch(self, follower: Follower, event_filter: EventFilter) -> _Batch:
        """Return the next batch; concurrent readers at the same position share one read."""
        batch = self._cached_batch(follower, event_filter)
        if batch is None:
            async with self._reading:
                batch = self._cached_batch(follower, event_filter)
                if batch is None:
                    position = follower.position
                    batch = self._encode(position, event_filter, follower, await self._run_in_thread(follower.read))
        return batch

    def _cached_batch(self, follower: Follower, event_filter: EventFilter) -> _Batch | None:
        position = follower.position
        batch = self._batches.get((position, event_filter))
        if batch is not None:
            follower.position = batch.position
            return batch
        read = follower.read_cached()
        return None if read is None else self._encode(position, event_filter, follower, read)

    def _encode(
        self, position: FollowerPosition, event_filter: EventFilter, follower: Follower, read: tuple[list[Event], bool]
    ) -> _Batch:
        events, may_have_more = read
        parts = [events[start : start + WRITE_EVENTS] for start in range(0, len(events), WRITE_EVENTS)]
        texts = [b"".join(map(_encode_event, part)) for part in parts]
        if len(self._batches) >= CACHED_BATCHES:
            self._batches.clear()
        batch = self._batches[position, event_filter] = _Batch(texts, follower.position, may_have_more)
        return batch

    async def _run(self) -> None:
        try:
            while True:
                with anyio.move_on_after(self._idle_seconds):
                    await self._has_news.wait()
                if not self._readers:
                    return
                has_news = self._has_news.is_set()
                self._has_news.clear()
                self._is_awake = False  # before anything is read: an event from now on starts another round
                self._batches.clear()
                await self._check_tokens()
                await self._notify(has_news)
        finally:
            self._task = None
            for reader in self._readers:  # after an unexpected error no reader must wait forever
                reader.stream.end()

    async def _notify(self, has_news: bool) -> None:
        # decision 29: spread over the round, because many writes in a row hold the interpreter's lock for too long.
        readers = list(self._readers)
        for start in range(0, len(readers), NOTIFY_STREAMS):
            for reader in readers[start : start + NOTIFY_STREAMS]:
                if has_news or reader.stream.quiet_seconds >= self.quiet_seconds:
                    reader.notify()
            await anyio.sleep(ROUND_SECONDS * min(1.0, NOTIFY_STREAMS / len(readers)))

    async def _check_tokens(self) -> None:
        """End the streams whose tokens are no longer valid."""
        if time.monotonic() - self._tokens_checked >= TOKEN_CHECK_SECONDS:
            async with self._checking:
                await self._end_invalid()

    async def check_up_to(self, line: int) -> None:
        """End the streams whose tokens are no longer valid, before events up to this line are written."""
        # decision 69: what ends a reader is a line of the journal, and no reader is shown what came after it.
        if line > self._checked_line:
            async with self._checking:
                if line > self._checked_line:  # another reader has waited for the same check
                    await self._end_invalid()

    async def _end_invalid(self) -> None:
        self._tokens_checked = time.monotonic()
        filters = {reader.credential: reader.event_filter for reader in self._readers}
        valid, line = await self._run_in_thread(partial(self._valid_credentials, filters))
        self._checked_line = line
        for reader in self._readers:
            has_expired = reader.session is not None and not self._sessions.is_open(reader.session)
            if has_expired or (reader.credential in filters and reader.credential not in valid):
                reader.stream.end()  # when the reader connects again, the gateway tells it the reason

    def _valid_credentials(self, filters: dict[Credential, EventFilter]) -> tuple[set[Credential], int]:
        """Return the credentials that are valid and still give their bearer the same filter, and as of which line."""
        valid, line = set(), self._gateway.store.last_line()
        for credential, event_filter in filters.items():
            with suppress(EngramBusError):
                if self._gateway.event_filter(credential, event_filter.types) == event_filter:
                    valid.add(credential)
        return valid, line


class _Reader:
    """One reader of the stream, at its own pace."""

    def __init__(
        self,
        rounds: _Rounds,
        stream: Stream,
        credential: Credential,
        event_filter: EventFilter,
        session: BrowserSession | None,
    ) -> None:
        self.stream = stream
        self.session = session
        self.credential = credential
        self.event_filter = event_filter
        self._rounds = rounds
        self._notified = asyncio.Event()
        self._follower: Follower | None = None

    def start(self, gateway: Gateway, after: ResumePoint | None) -> None:
        """Begin to follow the event log."""
        self._follower = gateway.event_log.follow(after, matches=self.event_filter.matches, wake=self._rounds.wake)

    def close(self) -> None:
        """Stop following the event log."""
        if self._follower is not None:
            self._follower.close()

    def notify(self) -> None:
        """Let the reader look for new events."""
        self._notified.set()

    async def write_events(self, stream: Stream) -> None:
        """Write all events after the starting point, then each new one as it happens."""
        follower = self._follower
        if follower is None:
            raise RuntimeError("start() was not called")
        await stream.write(b"retry: %d\nid: %s\n\n" % (RETRY_MS, str(follower.position.journal).encode()))
        may_have_more = True
        while True:
            if not may_have_more:
                await self._notified.wait()
            self._notified.clear()
            try:
                texts, _, may_have_more = await self._rounds.next_batch(follower, self.event_filter)
            except EngramBusError:
                break  # the store fails: when the reader connects again, the gateway tells it the reason
            if texts:
                await self._rounds.check_up_to(follower.position.journal.line)
            if stream.has_ended:
                break
            for text in texts:
                await stream.write(text)
            if not may_have_more and stream.quiet_seconds >= self._rounds.quiet_seconds:
                # The id moves on although the reader sees no events, so that it resumes from there.
                await stream.write(b":\nid: %s\n\n" % str(follower.position.journal).encode())


def _call_in(loop: asyncio.AbstractEventLoop, function: Callable[[], None]) -> None:
    """Call a function in the server's loop, from any thread."""
    with suppress(RuntimeError):  # the loop has ended
        loop.call_soon_threadsafe(function)


def _encode_event(event: Event) -> bytes:
    event_id = b"id: %s\n" % event.id.encode() if event.id else b""
    return b"%sevent: %s\ndata: %s\n\n" % (event_id, event.type.encode(), _encode(event.to_wire()))


def _encode(value: object) -> bytes:
    return make_json_visible(msgspec.json.encode(value))  # decision 72: old journals have invisible text


def _parse_types(values: Iterable[str]) -> frozenset[str]:
    types = frozenset(values)
    for unknown in sorted(types - EVENT_TYPES):
        raise FieldValue("There is no such type of event.", field="type", used=unknown[:80])
    return types


def _wants_page(scope: Scope) -> bool:
    """True if the reader accepts JSON and not a stream."""
    accepted = b",".join(list_header(scope, b"accept")).lower()
    return b"application/json" in accepted and b"text/event-stream" not in accepted


def _parse_limit(text: str | None) -> int:
    if text is None:
        return PAGE_EVENTS
    # The length is checked first: Python refuses to convert very long digit strings.
    is_short = text.isascii() and text.isdigit() and len(text) <= len(str(MAX_PAGE_EVENTS))
    if not is_short or not 1 <= int(text) <= MAX_PAGE_EVENTS:
        raise FieldValue(field="limit", limit=MAX_PAGE_EVENTS, used=text[:20])
    return int(text)


def _parse_after(scope: Scope, after: str | None) -> ResumePoint | None:
    last_id = (header(scope, b"last-event-id") or b"").decode("latin-1").strip()
    if last_id:
        return parse_resume_point(last_id, "Last-Event-ID")
    return parse_resume_point(after, "after") if after else None
