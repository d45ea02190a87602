"""Connections: how a request must be framed, how long each part of it may take, and how many may be open at once."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import h11
from h11._receivebuffer import ReceiveBuffer
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from engrambus.edges.http.requests import CONNECTION_LIMITS
from engrambus.edges.http.server_limits import ServerLimits

LINGER_SECONDS = 2.0
"""Time in which the rest of a body may arrive that the answer did not wait for."""

ABORT_CONNECTION = "engrambus.abort_connection"
"""Key in the scope of a function that closes the connection at once, with data still unsent."""
EXTEND_BODY = "engrambus.extend_body"
"""Key in the scope of a function that gives the body of this request more seconds."""
MARK_KNOWN = "engrambus.mark_known"
"""Key in the scope of a function to call when the caller has shown a token or a session."""

_BLANK_LINE = re.compile(rb"\n\r?\n")


class StrictBuffer(ReceiveBuffer):
    """Received bytes; headers that another reader of the same bytes could split differently are refused."""

    # decision 74: h11 accepts folded lines, lines without a carriage return, and Content-Length beside
    # Transfer-Encoding. A proxy in front that reads those differently would let a second request through unseen.

    def maybe_extract_lines(self) -> list[bytearray] | None:
        """Return the lines up to the blank one, if all of them have arrived."""
        if self._data[:2] == b"\r\n":
            self._extract(2)
            return []
        match = _BLANK_LINE.search(self._data, self._multiple_lines_search)
        if match is None:
            self._multiple_lines_search = max(0, len(self._data) - 2)
            return None
        block = self._extract(match.end())
        ends = block.count(b"\r\n")
        if not ends == block.count(b"\n") == block.count(b"\r"):
            raise h11.RemoteProtocolError("a line does not end with CR LF")
        if b"\r\n " in block or b"\r\n\t" in block:
            raise h11.RemoteProtocolError("a header line is folded")
        names = block.lower()
        if b"\r\ntransfer-encoding:" in names and b"\r\ncontent-length:" in names:
            raise h11.RemoteProtocolError("both Content-Length and Transfer-Encoding are sent")
        return block[:-4].split(b"\r\n")


class LimitedConnection(H11Protocol):
    """A connection that is aborted when its client is too slow, or when too many are open."""

    # Closing a connection normally waits until the client has read everything, which a stalled client never does.

    def __init__(self, *arguments: Any, watch: ConnectionWatch, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.app = self._with_connection(self.app)
        self.conn._receive_buffer = StrictBuffer()
        self.is_known = False
        """True once its client has shown a token or a session."""
        self._watch = watch
        self._limits = watch.limits
        self._began: float | None = None
        """Since when the present request, or the first one, is awaited."""
        self._has_bytes = False
        self._is_body = False
        self._body_seconds = watch.limits.body_seconds
        """Time that the body of the present request may take."""
        self._stalled: float | None = None
        """Since when the client has read nothing, or the connection is being closed."""
        self._answered: float | None = None
        """When an answer was complete that did not wait for the end of its request."""

    @property
    def waits_for_client(self) -> bool:
        """True if only the client, by reading, can finish the response."""
        return self.transport.is_closing() or self.flow.write_paused

    @property
    def is_busy(self) -> bool:
        """True if a complete request is being answered."""
        is_complete = self.conn.their_state not in (h11.IDLE, h11.SEND_BODY)
        return is_complete and self.cycle is not None and not self.cycle.response_complete

    def is_overdue(self, now: float) -> bool:
        """True if the client has used up its time."""
        limits = self._limits
        if self._stalled is None and self.transport.is_closing():
            self._stalled = now
        if self._stalled is not None and now - self._stalled > limits.stall_seconds:
            return True
        if self._answered is not None:
            return now - self._answered > LINGER_SECONDS
        if self._began is None:
            return False
        if self._is_body:
            # The answer that the body is too slow goes out first; this ends the connection of a client that ignores it.
            return now - self._began > self._body_seconds + LINGER_SECONDS
        return now - self._began > (limits.header_seconds if self._has_bytes else limits.idle_seconds)

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._began = self.loop.time()
        self._watch.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop watching the connection."""
        self._watch.remove(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take some bytes of a request; its time goes on from its first byte to the end of each part."""
        super().data_received(data)
        state = self.conn.their_state
        if state is h11.IDLE:
            if not self._has_bytes or self._began is None:
                self._began = self.loop.time()
            self._has_bytes, self._is_body, self._answered = True, False, None
        elif state is h11.SEND_BODY:
            if not self._is_body:
                self._began, self._is_body = self.loop.time(), True
                self._body_seconds = self._limits.body_seconds
        else:
            self._began, self._is_body = None, False

    def on_response_complete(self) -> None:
        """Wait for the next request, or for the end of a body that was not read."""
        super().on_response_complete()
        if self.conn.their_state is h11.SEND_BODY:
            self._answered = self.loop.time()
        elif self.conn.their_state is h11.IDLE:
            self._began = None  # until its first byte the keep-alive time counts

    def send_400_response(self, msg: str) -> None:
        """Refuse what cannot be a request; the answer to an earlier request on the connection is not sent any more."""
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True
            cycle.message_event.set()
            if cycle.response_started:
                self.transport.abort()
                return
        super().send_400_response(msg)

    def pause_writing(self) -> None:
        """Note that the client reads too slowly."""
        super().pause_writing()
        self._stalled = self.loop.time()

    def resume_writing(self) -> None:
        """Note that the client reads again."""
        super().resume_writing()
        self._stalled = None

    def _extend_body(self, seconds: float) -> None:
        self._body_seconds = seconds

    def _with_connection(self, app: ASGIApp) -> ASGIApp:
        async def call(scope: Scope, receive: Receive, send: Send) -> None:
            scope[ABORT_CONNECTION] = self.transport.abort
            scope[CONNECTION_LIMITS] = self._limits
            scope[EXTEND_BODY] = self._extend_body
            scope[MARK_KNOWN] = partial(self._watch.mark_known, self)
            await app(scope, receive, send)

        return call


class ConnectionWatch:
    """The open connections of a server."""

    def __init__(self, limits: ServerLimits, max_open: int) -> None:
        self.limits = limits
        self._unknown = 0
        """Number of connections whose clients have shown no token and no session."""
        self._max_open = max_open
        self._max_unknown = min(limits.unknown_connections, max(1, max_open * 3 // 4))
        self._open: dict[LimitedConnection, None] = {}
        """In the order in which they were opened."""

    def add(self, connection: LimitedConnection) -> None:
        """Watch a new connection; at the limit, abort the oldest that has not sent a complete request."""
        self._open[connection] = None
        self._unknown += 1
        if len(self._open) > self._max_open or self._unknown > self._max_unknown:
            self._abort_oldest()

    def remove(self, connection: LimitedConnection) -> None:
        """Stop watching a connection that has ended."""
        if connection in self._open:
            del self._open[connection]
            self._unknown -= not connection.is_known

    def mark_known(self, connection: LimitedConnection) -> None:
        """Note that the client of a connection has shown a token or a session."""
        if not connection.is_known:
            connection.is_known = True
            self._unknown -= connection in self._open

    def abort_overdue(self, now: float) -> None:
        """Abort the connections whose clients have used up their time."""
        for connection in [item for item in self._open if item.is_overdue(now)]:
            connection.transport.abort()

    def _abort_oldest(self) -> None:
        waiting = [item for item in self._open if not item.is_busy]
        victim = next((item for item in waiting if not item.is_known), None)
        if victim is None and len(self._open) > self._max_open:
            victim = next(iter(waiting), None)
        if victim is not None:
            self.remove(victim)  # now: the transport reports the loss only later, and more may connect before
            victim.transport.abort()
