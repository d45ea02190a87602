"""Serving HTTP on a loopback socket until a signal stops it."""

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
from engrambus.edges.http.events import EventsEndpoint
from engrambus.edges.http.sessions import SignInCodes
from engrambus.edges.http.streams import ABORT_CONNECTION, LongLived
from engrambus.edges.http.tuple_events import TupleEventsEndpoint
from engrambus.gateway import Gateway

DRAIN_SECONDS = 5
LINGER_SECONDS = 2
"""Time at shutdown in which clients may still read what was sent to them."""


class Server(uvicorn.Server):
    """A uvicorn server that reports when it is ready, and stops without raising the signal again."""

    def __init__(
        self, config: uvicorn.Config, on_ready: Callable[[], None] | None, long_lived: Iterable[LongLived]
    ) -> None:
        super().__init__(config)
        self._on_ready = on_ready
        self._long_lived = long_lived

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to listen, then call `on_ready`."""
        await super().startup(sockets)
        if self.started and self._on_ready is not None:
            self._on_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End streams and sessions, and finish the requests that are being answered."""
        for endpoint in self._long_lived:
            endpoint.close()
        abort_timer = asyncio.get_running_loop().call_later(LINGER_SECONDS, self._abort_unread)
        try:
            await super().shutdown(sockets)
        finally:
            abort_timer.cancel()

    def _abort_unread(self) -> None:
        """Abort the connections whose clients do not read the end of their response."""
        for connection in list(self.server_state.connections):
            if isinstance(connection, AbortableConnection) and connection.waits_for_client:
                connection.transport.abort()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Finish open requests on the first signal; stop at once on the second."""
        # uvicorn would raise the signal again after the shutdown, and the process would end with an error.
        self.force_exit = self.should_exit
        self.should_exit = True


class AbortableConnection(H11Protocol):
    """A connection that can be aborted."""

    # Closing a connection normally waits until the client has read everything, which a stalled client never does.

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.app = self._with_abort(self.app)

    @property
    def waits_for_client(self) -> bool:
        """True if only the client, by reading, can finish the response."""
        return self.transport.is_closing() or self.flow.write_paused

    def _with_abort(self, app: ASGIApp) -> ASGIApp:
        async def call(scope: Scope, receive: Receive, send: Send) -> None:
            scope[ABORT_CONNECTION] = self.transport.abort
            await app(scope, receive, send)

        return call


def make_server(
    gateway: Gateway,
    sock: socket.socket,
    on_ready: Callable[[], None] | None = None,
    *,
    codes: SignInCodes | None = None,
    events: EventsEndpoint | None = None,
    tuple_events: TupleEventsEndpoint | None = None,
) -> Server:
    """Return a server for a socket that is bound to a loopback address."""
    address, port = sock.getsockname()[:2]
    if not ip_address(address).is_loopback:
        raise ValueError(f"{address} is not a loopback address")
    app = create_app(gateway, port=port, codes=codes, events=events, tuple_events=tuple_events)
    config = uvicorn.Config(
        app,
        loop="uvloop",
        http=AbortableConnection,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=DRAIN_SECONDS,
    )
    return Server(config, on_ready, app.state.long_lived)


def serve(
    gateway: Gateway,
    sock: socket.socket,
    on_ready: Callable[[], None] | None = None,
    *,
    codes: SignInCodes | None = None,
) -> None:
    """Serve a project until SIGINT or SIGTERM; `codes` lets the caller make links to the page."""
    make_server(gateway, sock, on_ready, codes=codes).run(sockets=[sock])
