"""Server-sent event streams: the limit on open streams, cutting off stalled readers, and shutdown."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, Protocol, TypeVar, runtime_checkable

import anyio
from anyio import to_thread
from starlette.types import Message, Receive, Scope, Send

from engrambus.edges.http.callers import CallerCounts, HttpCaller
from engrambus.edges.http.connections import ABORT_CONNECTION
from engrambus.edges.http.server_limits import DEFAULT_LIMITS
from engrambus.errors import TooManyStreams
from engrambus.gateway import Gateway

T = TypeVar("T")

MAX_THREADS = 4
"""Number of threads shared by all streams of one endpoint, so that they take none from calls."""

_HEADERS = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-accel-buffering", b"no"),
]


class StreamLimits(NamedTuple):
    """The limits of one endpoint's streams."""

    max_open: int
    """Streams of all agents; people have as many of their own."""
    max_per_agent: int = DEFAULT_LIMITS.agent_streams
    max_per_person: int = DEFAULT_LIMITS.person_streams
    """Streams of one session of the page, or of the admin's token."""
    heartbeat_seconds: float = 15.0
    """Time after which something is sent even if nothing has happened."""
    stall_seconds: float = 10.0
    """Time after which a reader that accepts no data is cut off."""


@runtime_checkable
class LongLived(Protocol):
    """An endpoint whose responses do not end by themselves, so that shutdown has to end them."""

    def close(self) -> None:
        """End all responses, and start no new ones."""


class Stream:
    """One reader's stream of server-sent events."""

    # It ends when its reader disconnects or accepts no data, when there is nothing left to send, or at shutdown.

    def __init__(self, scope: Scope, receive: Receive, send: Send, stall_seconds: float) -> None:
        self._is_head = scope["method"] == "HEAD"
        self._abort_connection: Callable[[], None] = scope[ABORT_CONNECTION]
        self._receive = receive
        self._send = send
        self._stall_seconds = stall_seconds
        self._body_scope = anyio.CancelScope()
        self._is_sending = False
        self._last_sent = time.monotonic()

    @property
    def has_ended(self) -> bool:
        """True if nothing more may be written, although the writer does not know yet."""
        return self._body_scope.cancel_called

    @property
    def quiet_seconds(self) -> float:
        """Seconds since something was last sent."""
        return time.monotonic() - self._last_sent

    async def run(self, write_body: Callable[[Stream], Awaitable[None]]) -> None:
        """Send the headers, let `write_body` write until it returns or the stream ends, then finish the response."""
        await self._send_message({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        async with anyio.create_task_group() as group:
            group.start_soon(self._cancel_on_disconnect, group.cancel_scope)
            with self._body_scope:
                if not self._is_head:
                    await write_body(self)
            await self._send_message({"type": "http.response.body", "body": b""})
            group.cancel_scope.cancel()

    async def write(self, text: bytes) -> None:
        """Send a part of the body."""
        await self._send_message({"type": "http.response.body", "body": text, "more_body": True})

    def end(self) -> None:
        """End the stream; a reader that is not accepting data is disconnected."""
        self._body_scope.cancel()
        if self._is_sending:
            self._abort_connection()

    async def _send_message(self, message: Message) -> None:
        self._is_sending = True
        self._last_sent = time.monotonic()
        stall_timer = asyncio.get_running_loop().call_later(self._stall_seconds, self.end)
        try:
            await self._send(message)
        finally:
            stall_timer.cancel()
            self._is_sending = False

    async def _cancel_on_disconnect(self, scope: anyio.CancelScope) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        scope.cancel()


class OpenStreams:
    """The open streams of one endpoint."""

    def __init__(self, limits: StreamLimits) -> None:
        self._limits = limits
        self._streams: set[Stream] = set()
        self._counts = CallerCounts()
        self._is_closing = False
        self._threads = anyio.CapacityLimiter(MAX_THREADS)

    @contextmanager
    def open(self, scope: Scope, receive: Receive, send: Send, caller: HttpCaller) -> Iterator[Stream]:
        """Open a stream for a caller, or raise TooManyStreams."""
        self._check_room(caller)
        stream = Stream(scope, receive, send, self._limits.stall_seconds)
        self._streams.add(stream)
        try:
            with self._counts.holding(caller):
                yield stream
        finally:
            self._streams.discard(stream)

    def _check_room(self, caller: HttpCaller) -> None:
        # decision 74: people and agents are counted apart, so that agents never close the page out.
        limits = self._limits
        own = limits.max_per_person if caller.is_person else limits.max_per_agent
        if self._counts.of(caller) >= own:
            raise TooManyStreams(
                f"'{caller.name}' has {own} streams open.", limit=own, hint="Close one of your streams."
            )
        if self._is_closing or self._counts.total(people=caller.is_person) >= limits.max_open:
            raise TooManyStreams(limit=limits.max_open, hint="Close a stream, or try again later.")

    async def run_in_thread(self, work: Callable[[], T]) -> T:
        """Run a function that may block on the store in one of the endpoint's threads."""
        return await to_thread.run_sync(work, limiter=self._threads)

    def close(self) -> None:
        """End every stream, and open no more."""
        self._is_closing = True
        for stream in self._streams:
            stream.end()


class StreamEndpoint:
    """Base of the endpoints that respond with a stream."""

    def __init__(self, gateway: Gateway, limits: StreamLimits) -> None:
        self._gateway = gateway
        self._streams = OpenStreams(limits)
        self._heartbeat_seconds = limits.heartbeat_seconds

    def close(self) -> None:
        """End every stream, and open no more."""
        self._streams.close()
