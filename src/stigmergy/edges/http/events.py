"""`GET /events`: what happens, as server-sent events; or, for who asks for JSON, what happened last.

A stream is no operation: it has no answer that ends, so it stands beside them, like `/healthz`, on HTTP alone. The
reader resumes with `Last-Event-ID`; whoever takes nothing for a while is cut off, and finds everything again that way.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import TypeVar

import anyio
import msgspec
from anyio import to_thread
from starlette.types import Receive, Scope, Send

from stigmergy.edges.http.answers import File
from stigmergy.edges.http.refusals import call_named
from stigmergy.edges.http.requests import bearer, header, read_body, read_query
from stigmergy.edges.http.sessions import session_token
from stigmergy.errors import FieldUnknown, FieldValue, StigmergyError, TooManyStreams
from stigmergy.operations import Credential, Gateway
from stigmergy.operations.events import (
    TYPES,
    Event,
    Follower,
    Mark,
    events_after,
    may_see,
    newest_events,
    read_mark,
)
from stigmergy.policy import Caller

T = TypeVar("T")

MOST_STREAMS = 256
HEARTBEAT_SECONDS = 15.0
STALL_SECONDS = 10.0
"""How long a reader may take nothing before it is cut off."""
CHECK_SECONDS = 2.0
"""How often, while there is something to tell, a stream asks whether its token still holds."""
RETRY_MILLISECONDS = 2000
THREADS = 4
"""How many threads all streams together read with: calls have their own."""
WRITE_AT_ONCE = 64
PRINTED = 4096
"""How many printed events are kept for the next stream."""
PACE_SECONDS = 0.2
"""How long a stream waits, more or less, after it told something: what comes meanwhile is told together."""
CROWD = 40
"""With more streams than this, each waits longer: so many times as they are too many."""

PAGE_EVENTS = 100
MOST_PAGE_EVENTS = 500

HANG_UP = "stigmergy.hang_up"
"""In the scope: cuts the connection at once, whatever is left to send."""

_HEADERS = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-accel-buffering", b"no"),
]
_PARAMETERS = frozenset({"after", "type", "as", "limit"})


class EventStreams:
    """Everyone who follows the project over HTTP."""

    def __init__(
        self,
        gateway: Gateway,
        *,
        most: int = MOST_STREAMS,
        heartbeat_seconds: float = HEARTBEAT_SECONDS,
        stall_seconds: float = STALL_SECONDS,
    ) -> None:
        self._gateway = gateway
        self._most = most
        self._heartbeat_seconds = heartbeat_seconds
        self._stall_seconds = stall_seconds
        self._open: set[_Stream] = set()
        self._closing = False
        self._shared = _Shared()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one reader until it leaves, falls silent, or the server ends."""
        call_named(scope, "events")
        token = bearer(scope) if header(scope, b"authorization") else session_token(scope) or bearer(scope)
        claims = self._gateway.key.check(token, project=self._gateway.store.project, now=0)
        call_named(scope, "events", f"{claims.run}/{claims.agent}")
        values = read_query(scope, _PARAMETERS, frozenset({"type"}))
        types, mark = _read_types(values.get("type", [])), _read_mark(scope, values.get("after"))
        await read_body(scope, receive, 0)
        credential = Credential(token=token, speak_as=values.get("as"))
        if _wants_page(scope):
            limit = _read_limit(values.get("limit"))
            page = await self._shared.in_thread(partial(self._page, credential, types, mark, limit))
            await page(scope, receive, send)
            return
        if "limit" in values:
            raise FieldUnknown("A stream has no end, and so no limit.", field="limit", hint="Accept: application/json")
        stream = _Stream(self._gateway, credential, types, scope.get(HANG_UP), self._stall_seconds, self._shared)
        await self._shared.in_thread(stream.check)
        if self._closing or len(self._open) >= self._most:
            raise TooManyStreams(limit=self._most, hint="Close a stream, or try again later.")
        if scope["method"] == "HEAD":
            await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
            await send({"type": "http.response.body", "body": b""})
            return
        self._open.add(stream)
        self._shared.streams = len(self._open)
        try:
            await self._shared.in_thread(partial(stream.begin, mark, asyncio.get_running_loop()))
            await stream.run(receive, send, self._heartbeat_seconds)
        finally:
            self._open.discard(stream)
            self._shared.streams = len(self._open)
            stream.leave()

    def _page(self, credential: Credential, types: frozenset[str], mark: Mark | None, limit: int) -> File:
        """What a stream would have told, up to now, and where to go on; the same bytes until there is more."""
        caller, feed = self._gateway.who(credential), self._gateway.feed
        sees = partial(_sees, caller, types)
        page = newest_events(feed, limit, sees) if mark is None else events_after(feed, mark, limit, sees)
        body = {"id": str(page.mark), "more": page.more, "events": [event.shown() for event in page.events]}
        return File(msgspec.json.encode(body), "application/json", [(b"vary", b"accept, authorization")])

    def close(self) -> None:
        """End every stream, and open no more."""
        self._closing = True
        for stream in self._open:
            stream.end()


class _Shared:
    """What all streams have in common: their threads, one turn at the journal, and how each event is printed."""

    def __init__(self) -> None:
        self.reading = anyio.Lock()
        self.streams = 0
        self._threads = anyio.CapacityLimiter(THREADS)
        self._printed: dict[int, tuple[Event, bytes]] = {}

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Do something that may have to wait for the store."""
        return await to_thread.run_sync(work, limiter=self._threads)

    def print(self, event: Event) -> bytes:
        """An event as every stream sends it; printed once for all who are up to date."""
        kept = self._printed.get(id(event))
        if kept is None:
            if len(self._printed) >= PRINTED:
                self._printed.clear()
            kept = self._printed[id(event)] = (event, _print(event))
        return kept[1]


class _Stream:
    """One reader's stream."""

    def __init__(
        self,
        gateway: Gateway,
        credential: Credential,
        types: frozenset[str],
        hang_up: Callable[[], None] | None,
        stall_seconds: float,
        shared: _Shared,
    ) -> None:
        self._gateway = gateway
        self._credential = credential
        self._types = types
        self._hang_up = hang_up
        self._stall_seconds = stall_seconds
        self._shared = shared
        self._pace = PACE_SECONDS * random.uniform(0.75, 1.25)  # noqa: S311  # so that not all write at one moment
        self._told_at = 0.0
        self._awake = False
        self._woken = asyncio.Event()
        self._ended = asyncio.Event()
        self._writing = False
        self._checked_at = 0.0
        self._follower: Follower | None = None
        self._caller: Caller

    def check(self) -> None:
        """Find out who reads; raises when the token holds no more."""
        self._caller = self._gateway.who(self._credential)
        self._checked_at = time.monotonic()

    def begin(self, mark: Mark | None, loop: asyncio.AbstractEventLoop) -> None:
        """Take the place to follow from."""

        def wake() -> None:
            if not self._awake:  # once is enough, however much happens until the stream looks
                self._awake = True
                with suppress(RuntimeError):  # the server's loop has ended
                    loop.call_soon_threadsafe(self._woken.set)

        self._follower = self._gateway.feed.follow(mark, sees=self._sees, wake=wake)

    def leave(self) -> None:
        """Follow no more."""
        if self._follower is not None:
            self._follower.leave()

    def end(self) -> None:
        """Have the stream end; a reader that is being waited for is cut off."""
        self._ended.set()
        self._woken.set()
        if self._writing and self._hang_up is not None:
            self._hang_up()

    async def run(self, receive: Receive, send: Send, heartbeat_seconds: float) -> None:
        """Write to the reader until it leaves or the stream ends."""
        async with anyio.create_task_group() as group:

            async def until_gone() -> None:
                while (await receive())["type"] != "http.disconnect":
                    pass
                group.cancel_scope.cancel()

            group.start_soon(until_gone)
            await self._write_all(send, heartbeat_seconds)
            group.cancel_scope.cancel()

    async def _write_all(self, send: Send, heartbeat_seconds: float) -> None:
        follower = self._follower
        if follower is None:
            raise RuntimeError("a stream is begun before it is run")
        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        await self._write(send, b"retry: %d\nid: %s\n\n" % (RETRY_MILLISECONDS, str(follower.mark).encode()))
        more = True
        while not self._ended.is_set():
            if not more:
                # Counted from what was told last: things happen that this reader may not see.
                with anyio.move_on_after(max(0.0, self._told_at + heartbeat_seconds - time.monotonic())) as waiting:
                    await self._woken.wait()
                if waiting.cancelled_caught:
                    await self._write(send, b":\nid: %s\n\n" % str(follower.mark).encode())
                else:
                    pace = self._pace * max(1.0, self._shared.streams / CROWD)
                    await anyio.sleep(max(0.0, self._told_at + pace - time.monotonic()))
            self._woken.clear()
            self._awake = False
            if self._ended.is_set():
                break
            try:
                events, more = await self._take(follower)
            except StigmergyError:
                break  # the token holds no more, or the store is in trouble: asked again, the gateway says which
            for start in range(0, len(events), WRITE_AT_ONCE):
                await self._write(send, b"".join(map(self._shared.print, events[start : start + WRITE_AT_ONCE])))
        await self._write(send, b"", more=False)

    async def _take(self, follower: Follower) -> tuple[list[Event], bool]:
        """The next events. Only who needs what nobody has read yet reads it, one at a time; the others find it read."""
        if time.monotonic() - self._checked_at > CHECK_SECONDS:
            await self._shared.in_thread(self.check)
        ready = follower.take_ready()
        if ready is None:
            async with self._shared.reading:
                ready = follower.take_ready()
                if ready is None:
                    ready = await self._shared.in_thread(follower.take)
        return ready

    def _sees(self, event: Event) -> bool:
        return _sees(self._caller, self._types, event)

    async def _write(self, send: Send, text: bytes, *, more: bool = True) -> None:
        self._writing = True
        self._told_at = time.monotonic()
        with anyio.move_on_after(self._stall_seconds) as waiting:
            await send({"type": "http.response.body", "body": text, "more_body": more})
        self._writing = False
        if not waiting.cancelled_caught:
            return
        self._ended.set()
        if self._hang_up is not None:
            self._hang_up()
            await anyio.sleep_forever()  # until it is noticed that the reader is gone


def _sees(caller: Caller, types: frozenset[str], event: Event) -> bool:
    return (not types or event.type in types) and may_see(caller, event)


def _print(event: Event) -> bytes:
    mark = b"id: %s\n" % event.id.encode() if event.id else b""
    return b"%sevent: %s\ndata: %s\n\n" % (mark, event.type.encode(), msgspec.json.encode(event.shown()))


def _read_types(given: Iterable[str]) -> frozenset[str]:
    types = frozenset(given)
    for unknown in sorted(types - TYPES):
        raise FieldValue("There is no such type of event.", field="type", used=unknown[:80])
    return types


def _wants_page(scope: Scope) -> bool:
    """Whether a reader asked for JSON; who does not care gets a stream."""
    accepted = (header(scope, b"accept") or b"").lower()
    return b"application/json" in accepted and b"text/event-stream" not in accepted


def _read_limit(given: str | None) -> int:
    if given is None:
        return PAGE_EVENTS
    if not given.isascii() or not given.isdigit() or not 1 <= int(given[:6]) <= MOST_PAGE_EVENTS:
        raise FieldValue(field="limit", limit=MOST_PAGE_EVENTS, used=given[:20])
    return int(given)


def _read_mark(scope: Scope, after: str | None) -> Mark | None:
    last = (header(scope, b"last-event-id") or b"").decode("latin-1").strip()
    if last:
        return read_mark(last, "Last-Event-ID")
    return read_mark(after, "after") if after else None
