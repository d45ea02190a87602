"""What every stream of server-sent events has: a place among so many, and an end.

A stream ends when its reader leaves or takes nothing for a while, when there is nothing more to tell, or with the
server. Whoever offers one opens it here, so that none can be forgotten.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar, runtime_checkable

import anyio
from anyio import to_thread
from starlette.types import Message, Receive, Scope, Send

from engrambus.errors import TooManyStreams

T = TypeVar("T")

HEARTBEAT_SECONDS = 15.0
STALL_SECONDS = 10.0
"""How long a reader may take nothing before it is cut off."""
THREADS = 4
"""How many threads all streams of one kind together read with: calls have their own."""

HANG_UP = "engrambus.hang_up"
"""In the scope: cuts the connection at once, whatever is left to send."""

HEADERS = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-accel-buffering", b"no"),
]


@runtime_checkable
class Endless(Protocol):
    """Whoever gives answers that would not end by themselves."""

    def close(self) -> None:
        """End them all, and begin no more."""


class Stream:
    """One reader's stream."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, stall_seconds: float) -> None:
        self._only_head = scope["method"] == "HEAD"
        self._hang_up: Callable[[], None] = scope[HANG_UP]
        self._receive = receive
        self._send = send
        self._stall_seconds = stall_seconds
        self._following = anyio.CancelScope()
        self._writing = False
        self._told_at = time.monotonic()

    @property
    def quiet_seconds(self) -> float:
        """How long nothing has been told."""
        return time.monotonic() - self._told_at

    async def run(self, follow: Callable[[Stream], Awaitable[None]]) -> None:
        """Have `follow` write until it is done, or the stream is to end; then end it whole."""
        await self._say({"type": "http.response.start", "status": 200, "headers": HEADERS})
        async with anyio.create_task_group() as group:
            group.start_soon(self._until_gone, group.cancel_scope)
            with self._following:
                if not self._only_head:
                    await follow(self)
            await self._say({"type": "http.response.body", "body": b""})
            group.cancel_scope.cancel()

    async def write(self, text: bytes) -> None:
        """Tell the reader something."""
        await self._say({"type": "http.response.body", "body": text, "more_body": True})

    def end(self) -> None:
        """Have the stream end; a reader that is being waited for is cut off."""
        self._following.cancel()
        if self._writing:
            self._hang_up()

    async def _say(self, message: Message) -> None:
        self._writing = True
        self._told_at = time.monotonic()
        patience = asyncio.get_running_loop().call_later(self._stall_seconds, self.end)
        try:
            await self._send(message)
        finally:
            patience.cancel()
            self._writing = False

    async def _until_gone(self, cancel: anyio.CancelScope) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        cancel.cancel()


class Streams:
    """The open streams of one kind."""

    def __init__(self, most: int, stall_seconds: float = STALL_SECONDS) -> None:
        self._most = most
        self._stall_seconds = stall_seconds
        self._open: set[Stream] = set()
        self._closing = False
        self._threads = anyio.CapacityLimiter(THREADS)

    @contextmanager
    def opened(self, scope: Scope, receive: Receive, send: Send) -> Iterator[Stream]:
        """One stream more, if there may be one."""
        if self._closing or len(self._open) >= self._most:
            raise TooManyStreams(limit=self._most, hint="Close a stream, or try again later.")
        stream = Stream(scope, receive, send, self._stall_seconds)
        self._open.add(stream)
        try:
            yield stream
        finally:
            self._open.discard(stream)

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Do something that may have to wait for the store."""
        return await to_thread.run_sync(work, limiter=self._threads)

    def close(self) -> None:
        """End every stream, and open no more."""
        self._closing = True
        for stream in self._open:
            stream.end()
