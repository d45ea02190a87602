"""What every stream of server-sent events has: headers, a cap on how many are open, an end when its reader leaves."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
from starlette.types import Receive, Scope, Send

from stigmergy.errors import TooManyStreams

MOST_STREAMS = 64
HEARTBEAT_SECONDS = 15.0

HEADERS = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-accel-buffering", b"no"),
]


class Streams:
    """The open streams of one kind."""

    def __init__(self, most: int = MOST_STREAMS) -> None:
        self._most = most
        self._open = 0

    async def serve(self, scope: Scope, receive: Receive, send: Send, follow: Callable[[], Awaitable[None]]) -> None:
        """Have `follow` send until it is done or the reader has left."""
        if self._open >= self._most:
            raise too_many(self._most)
        await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
        if scope["method"] == "HEAD":
            await send({"type": "http.response.body", "body": b""})
            return
        self._open += 1
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(until_gone, receive, group.cancel_scope)
                await follow()
                await write(send, b"", more=False)
                group.cancel_scope.cancel()
        finally:
            self._open -= 1


def too_many(limit: int) -> TooManyStreams:
    """The refusal of one stream more."""
    return TooManyStreams(limit=limit, hint="Close a stream, or try again later.")


async def until_gone(receive: Receive, cancel: anyio.CancelScope) -> None:
    """Wait for the reader to leave, then end what is being sent."""
    while (await receive())["type"] != "http.disconnect":
        pass
    cancel.cancel()


async def write(send: Send, text: bytes, *, more: bool = True) -> None:
    """Send a piece of a stream."""
    await send({"type": "http.response.body", "body": text, "more_body": more})
