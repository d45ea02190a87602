"""`GET /events`: what happens, as server-sent events; or, for who asks for JSON, what happened last.

A stream is no operation: it has no answer that ends, so it stands beside them, like `/healthz`, on HTTP alone. The
reader resumes with `Last-Event-ID`; whoever takes nothing for a while is cut off, and finds everything again that way.

Each reader has a stream of its own and goes at its own pace. One task rings them all when there is news, in rounds: in
a round those who have come as far and see the same are told the same, so it is read, chosen and printed once for them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from typing import NamedTuple

import anyio
import msgspec
from starlette.types import Receive, Scope, Send

from engrambus.edges.http.answers import File
from engrambus.edges.http.refusals import call_named
from engrambus.edges.http.requests import bearer, header, listed, read_body, read_query
from engrambus.edges.http.sessions import session_token
from engrambus.edges.http.streams import HEARTBEAT_SECONDS, STALL_SECONDS, Stream, Streams
from engrambus.errors import EngramBusError, FieldUnknown, FieldValue
from engrambus.gateway import Credential, Gateway
from engrambus.gateway.events import (
    TYPES,
    Event,
    Follower,
    Mark,
    Reached,
    Sight,
    events_after,
    newest_events,
    read_mark,
    sight_of,
)

MOST_STREAMS = 256
CHECK_SECONDS = 2.0
"""How often it is asked whether the tokens of those who read still hold."""
RETRY_MILLISECONDS = 2000
WRITE_AT_ONCE = 64
PACE_SECONDS = 0.2
"""How long a round takes, however few or many are rung in it: what happens meanwhile is told together, in the next."""
RING_AT_ONCE = 4
"""How many streams are rung in one moment: in between, calls are answered."""
BATCHES = 64
"""How many batches are kept, in a round, for the next who wants the same."""

PAGE_EVENTS = 100
MOST_PAGE_EVENTS = 500

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
        self._streams = Streams(most, stall_seconds)
        self._rounds = _Rounds(gateway, self._streams, heartbeat_seconds)

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
            page = await self._streams.in_thread(partial(self._page, credential, types, mark, limit))
            await page(scope, receive, send)
            return
        if "limit" in values:
            raise FieldUnknown("A stream has no end, and so no limit.", field="limit", hint="Accept: application/json")
        sight = sight_of(await self._streams.in_thread(partial(self._gateway.identify, credential)), types)
        with self._streams.opened(scope, receive, send) as stream:
            reader = _Reader(self._rounds, stream, credential, sight)
            self._rounds.enter(reader)
            try:
                await self._streams.in_thread(partial(reader.begin, self._gateway, mark))
                await stream.run(reader.follow)
            finally:
                self._rounds.leave(reader)

    def _page(self, credential: Credential, types: frozenset[str], mark: Mark | None, limit: int) -> File:
        """What a stream would have told, up to now, and where to go on; the same bytes until there is more."""
        feed, sees = self._gateway.feed, sight_of(self._gateway.identify(credential), types).sees
        page = newest_events(feed, limit, sees) if mark is None else events_after(feed, mark, limit, sees)
        body = {"id": str(page.mark), "more": page.more, "events": [event.shown() for event in page.events]}
        return File(msgspec.json.encode(body), "application/json", [(b"vary", b"accept, authorization")])

    def close(self) -> None:
        """End every stream, and open no more."""
        self._streams.close()


class _Batch(NamedTuple):
    """What is told next to those who have come equally far and see the same."""

    texts: list[bytes]
    reached: Reached
    """How far it brings them."""
    more: bool
    """Whether to ask again at once."""


class _Rounds:
    """Rings every reader when there is news, and looks after those where nothing moves."""

    def __init__(self, gateway: Gateway, streams: Streams, heartbeat_seconds: float) -> None:
        self._readers: set[_Reader] = set()
        self._gateway = gateway
        self._in_thread = streams.in_thread
        self._look_seconds = heartbeat_seconds / 4
        """How often one looks after the readers when there is no news."""
        self.quiet_seconds = heartbeat_seconds - self._look_seconds
        """After how long a stream that told nothing is kept alive, so that it is done in time."""
        self._news = asyncio.Event()
        self._awake = False
        self._loop: asyncio.AbstractEventLoop
        self._task: asyncio.Task[None] | None = None
        self._checked_at = 0.0
        self._reading = anyio.Lock()
        self._batches: dict[tuple[Reached, Sight], _Batch] = {}

    def enter(self, reader: _Reader) -> None:
        """Ring one more reader from now on."""
        self._readers.add(reader)
        if self._task is None:
            self._loop = asyncio.get_running_loop()
            self._task = self._loop.create_task(self._run())

    def leave(self, reader: _Reader) -> None:
        """Ring a reader no more."""
        reader.leave()
        self._readers.discard(reader)
        if not self._readers:
            self._news.set()

    def wake(self) -> None:
        """Have the next round begin; from any thread."""
        if not self._awake:  # once is enough, however much happens until then
            self._awake = True
            with suppress(RuntimeError):  # the server's loop has ended
                self._loop.call_soon_threadsafe(self._news.set)

    async def batch(self, follower: Follower, sight: Sight) -> _Batch:
        """What comes next. Only who needs what nobody has read yet reads it, one at a time; others find it read."""
        found = self._known(follower, sight)
        if found is None:
            async with self._reading:
                found = self._known(follower, sight)
                if found is None:
                    before = follower.reached
                    found = self._keep(before, sight, follower, await self._in_thread(follower.take))
        return found

    def _known(self, follower: Follower, sight: Sight) -> _Batch | None:
        before = follower.reached
        found = self._batches.get((before, sight))
        if found is not None:
            follower.reached = found.reached
            return found
        ready = follower.take_ready()
        return None if ready is None else self._keep(before, sight, follower, ready)

    def _keep(self, before: Reached, sight: Sight, follower: Follower, taken: tuple[list[Event], bool]) -> _Batch:
        events, more = taken
        pieces = [events[start : start + WRITE_AT_ONCE] for start in range(0, len(events), WRITE_AT_ONCE)]
        if len(self._batches) >= BATCHES:
            self._batches.clear()
        texts = [b"".join(map(_print, piece)) for piece in pieces]
        found = self._batches[before, sight] = _Batch(texts, follower.reached, more)
        return found

    async def _run(self) -> None:
        try:
            while True:
                with anyio.move_on_after(self._look_seconds):
                    await self._news.wait()
                if not self._readers:
                    return
                news = self._news.is_set()
                self._news.clear()
                self._awake = False  # before anything is taken: what happens from now on begins another round
                self._batches.clear()
                await self._check()
                await self._ring(news)
        finally:
            self._task = None
            for reader in self._readers:  # whatever happened here: nobody waits for a ring that never comes
                reader.stream.end()

    async def _ring(self, news: bool) -> None:
        readers = list(self._readers)
        for start in range(0, len(readers), RING_AT_ONCE):
            for reader in readers[start : start + RING_AT_ONCE]:
                if news or reader.stream.quiet_seconds >= self.quiet_seconds:
                    reader.ring()
            await anyio.sleep(PACE_SECONDS * min(1.0, RING_AT_ONCE / len(readers)))

    async def _check(self) -> None:
        """End the streams whose tokens hold no more."""
        if time.monotonic() - self._checked_at < CHECK_SECONDS:
            return
        self._checked_at = time.monotonic()
        asked = {reader.credential: reader.sight for reader in self._readers}
        held = await self._in_thread(partial(self._held, asked))
        for reader in self._readers:
            if reader.credential in asked and reader.credential not in held:
                reader.stream.end()  # or the store is in trouble: asked again, the gateway says which

    def _held(self, asked: dict[Credential, Sight]) -> set[Credential]:
        """The credentials that still show somebody who sees the same."""
        held = set()
        for credential, sight in asked.items():
            with suppress(EngramBusError):
                if sight_of(self._gateway.identify(credential), sight.types) == sight:
                    held.add(credential)
        return held


class _Reader:
    """One reader, at its own pace."""

    def __init__(self, rounds: _Rounds, stream: Stream, credential: Credential, sight: Sight) -> None:
        self.stream = stream
        self.credential = credential
        self.sight = sight
        self._rounds = rounds
        self._rung = asyncio.Event()
        self._follower: Follower | None = None

    def begin(self, gateway: Gateway, mark: Mark | None) -> None:
        """Take the place to follow from."""
        self._follower = gateway.feed.follow(mark, sees=self.sight.sees, wake=self._rounds.wake)

    def leave(self) -> None:
        """Follow no more."""
        if self._follower is not None:
            self._follower.leave()

    def ring(self) -> None:
        """Have the reader see whether there is something to tell."""
        self._rung.set()

    async def follow(self, stream: Stream) -> None:
        """Tell everything there is, and whatever comes."""
        follower = self._follower
        if follower is None:
            raise RuntimeError("a reader begins before it follows")
        await stream.write(b"retry: %d\nid: %s\n\n" % (RETRY_MILLISECONDS, str(follower.reached.mark).encode()))
        more = True
        while True:
            if not more:
                await self._rung.wait()
            self._rung.clear()
            try:
                texts, _, more = await self._rounds.batch(follower, self.sight)
            except EngramBusError:
                break  # the store is in trouble: asked again, the gateway says so
            for text in texts:
                await stream.write(text)
            if not more and stream.quiet_seconds >= self._rounds.quiet_seconds:
                # Things happen that this reader may not see: it is told how far it has come.
                await stream.write(b":\nid: %s\n\n" % str(follower.reached.mark).encode())


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
    accepted = b",".join(listed(scope, b"accept")).lower()
    return b"application/json" in accepted and b"text/event-stream" not in accepted


def _read_limit(given: str | None) -> int:
    if given is None:
        return PAGE_EVENTS
    # A number of few digits, and only then read as one: what is too long to be read is too large as well.
    small = given.isascii() and given.isdigit() and len(given) <= len(str(MOST_PAGE_EVENTS))
    if not small or not 1 <= int(given) <= MOST_PAGE_EVENTS:
        raise FieldValue(field="limit", limit=MOST_PAGE_EVENTS, used=given[:20])
    return int(given)


def _read_mark(scope: Scope, after: str | None) -> Mark | None:
    last = (header(scope, b"last-event-id") or b"").decode("latin-1").strip()
    if last:
        return read_mark(last, "Last-Event-ID")
    return read_mark(after, "after") if after else None
