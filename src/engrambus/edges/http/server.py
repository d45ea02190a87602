"""Serving HTTP on a loopback socket until told to stop."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterable
from ipaddress import ip_address
from types import FrameType
from typing import Any

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from engrambus.edges.http.app import create_app
from engrambus.edges.http.events import EventStreams
from engrambus.edges.http.sessions import Codes
from engrambus.edges.http.streams import HANG_UP, Endless
from engrambus.edges.http.tuple_events import TupleStreams
from engrambus.gateway import Gateway

DRAIN_SECONDS = 5
LINGER_SECONDS = 2
"""How long, at the end, a reader may leave what was sent to it untaken."""


class Server(uvicorn.Server):
    """A server that tells when it takes requests, and ends without raising the signal that ended it."""

    def __init__(self, config: uvicorn.Config, on_ready: Callable[[], None] | None, endless: Iterable[Endless]) -> None:
        super().__init__(config)
        self._on_ready = on_ready
        self._endless = endless

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen."""
        await super().startup(sockets)
        if self.started and self._on_ready is not None:
            self._on_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let what would not end by itself end, and finish what is under way."""
        for each in self._endless:
            each.close()
        cutting = asyncio.get_running_loop().call_later(LINGER_SECONDS, self._cut_off)
        try:
            await super().shutdown(sockets)
        finally:
            cutting.cancel()

    def _cut_off(self) -> None:
        """Cut the connections that only wait for their readers, who may never take what is left."""
        for connection in list(self.server_state.connections):
            if isinstance(connection, Connection) and connection.is_waited_for:
                connection.transport.abort()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Finish what is under way; asked a second time, stop at once."""
        self.force_exit = self.should_exit
        self.should_exit = True


class Connection(H11Protocol):
    """A connection that can be cut: closed, it would wait for a reader who may never take what is left to send."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.app = self._with_hang_up(self.app)

    @property
    def is_waited_for(self) -> bool:
        """Whether nothing is left to be done but for the reader to take what was sent."""
        return self.transport.is_closing() or self.flow.write_paused

    def _with_hang_up(self, app: ASGIApp) -> ASGIApp:
        async def call(scope: Scope, receive: Receive, send: Send) -> None:
            scope[HANG_UP] = self.transport.abort
            await app(scope, receive, send)

        return call


def make_server(
    gateway: Gateway,
    sock: socket.socket,
    on_ready: Callable[[], None] | None = None,
    *,
    codes: Codes | None = None,
    events: EventStreams | None = None,
    tuples: TupleStreams | None = None,
) -> Server:
    """A server for a socket that is bound to a loopback address."""
    address, port = sock.getsockname()[:2]
    if not ip_address(address).is_loopback:
        raise ValueError(f"{address} is not a loopback address")
    app = create_app(gateway, port=port, codes=codes, events=events, tuples=tuples)
    config = uvicorn.Config(
        app,
        loop="uvloop",
        http=Connection,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=DRAIN_SECONDS,
    )
    return Server(config, on_ready, app.state.endless)


def serve(
    gateway: Gateway, sock: socket.socket, on_ready: Callable[[], None] | None = None, *, codes: Codes | None = None
) -> None:
    """Serve a project until SIGINT or SIGTERM; `codes` lets the caller make links into the page."""
    make_server(gateway, sock, on_ready, codes=codes).run(sockets=[sock])
