"""Serving HTTP or HTTPS on a socket until a signal stops it."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from ipaddress import ip_address
from types import FrameType
from typing import Any

import uvicorn

from engrambus.edges.http.app import create_app
from engrambus.edges.http.connections import ConnectionWatch, LimitedConnection
from engrambus.edges.http.events import EventsEndpoint
from engrambus.edges.http.exposure import Exposure
from engrambus.edges.http.server_limits import DEFAULT_LIMITS, ServerLimits, connection_limit
from engrambus.edges.http.sessions import SignInCodes
from engrambus.edges.http.streams import LongLived
from engrambus.edges.http.tuple_events import TupleEventsEndpoint
from engrambus.evidence.pointers.mirror import MirrorLimits
from engrambus.gateway import Gateway

DRAIN_SECONDS = 5
LINGER_SECONDS = 2
"""Time at shutdown in which clients may still read what was sent to them."""
TICKS_PER_SWEEP = 3
"""Tenths of a second between two looks for clients that are too slow."""


class Server(uvicorn.Server):
    """A uvicorn server that reports when it is ready, and stops without raising the signal again."""

    def __init__(
        self,
        config: uvicorn.Config,
        on_ready: Callable[[], None] | None,
        long_lived: Iterable[LongLived],
        watch: ConnectionWatch,
        encrypted: Mapping[int, ssl.SSLContext],
        handshake_seconds: float = DEFAULT_LIMITS.handshake_seconds,
    ) -> None:
        """`encrypted` holds the contexts of TLS of those ports that speak it."""
        super().__init__(config)
        self._encrypted = encrypted
        self._handshake_seconds = handshake_seconds
        self._on_ready = on_ready
        self._long_lived = long_lived
        self._watch = watch

    async def on_tick(self, counter: int) -> bool:
        """Disconnect clients that are too slow; called ten times a second."""
        if counter % TICKS_PER_SWEEP == 0:
            self._watch.abort_overdue(asyncio.get_running_loop().time())
        return await super().on_tick(counter)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to listen, then call `on_ready`."""
        # uvicorn does not let a handshake be limited in time, so it listens here where there is one.
        by_port = {sock.getsockname()[1]: sock for sock in sockets or []}
        await super().startup([sock for port, sock in by_port.items() if port not in self._encrypted])
        if self.started:
            for port, tls in self._encrypted.items():
                await self._listen_with_tls(by_port[port], tls)
        if self.started and self._on_ready is not None:
            self._on_ready()

    async def _listen_with_tls(self, sock: socket.socket, tls: ssl.SSLContext) -> None:
        loop = asyncio.get_running_loop()

        def make_protocol() -> asyncio.Protocol:
            return self.config.http_protocol_class(  # type: ignore[call-arg]
                config=self.config, server_state=self.server_state, app_state=self.lifespan.state, _loop=loop
            )

        server = await loop.create_server(
            make_protocol,
            sock=sock,
            ssl=tls,
            ssl_handshake_timeout=self._handshake_seconds,
            backlog=self.config.backlog,
        )
        self.servers.append(server)

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
            if isinstance(connection, LimitedConnection) and connection.waits_for_client:
                connection.transport.abort()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Finish open requests on the first signal; stop at once on the second."""
        # uvicorn would raise the signal again after the shutdown, and the process would end with an error.
        self.force_exit = self.should_exit
        self.should_exit = True


def make_server(
    gateway: Gateway,
    sock: socket.socket,
    on_ready: Callable[[], None] | None = None,
    *,
    codes: SignInCodes | None = None,
    events: EventsEndpoint | None = None,
    tuple_events: TupleEventsEndpoint | None = None,
    limits: ServerLimits = DEFAULT_LIMITS,
    exposure: Exposure = Exposure(),  # noqa: B008 - it is immutable
    local: socket.socket | None = None,
    mirror: MirrorLimits | None = None,
) -> Server:
    """Return a server for a socket that is bound; beyond loopback addresses only with TLS, here or at a proxy.

    `local` is a second socket, on a loopback address, for the commands of the account that runs the server. With a
    `mirror`, commits can be pushed to the project's repository.
    """
    exposures = {_check_address(sock, exposure): exposure}
    if local is not None:
        exposures[_check_address(local, Exposure())] = Exposure()
    port, tls = sock.getsockname()[1], exposure.tls()
    app = create_app(
        gateway,
        port=port,
        codes=codes,
        events=events,
        tuple_events=tuple_events,
        limits=limits,
        exposures=exposures,
        mirror=mirror,
    )
    watch = ConnectionWatch(limits, connection_limit(limits))
    protocol: Any = partial(LimitedConnection, watch=watch)
    config = uvicorn.Config(
        app,
        loop="uvloop",
        http=protocol,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=limits.keep_alive_seconds,
        timeout_graceful_shutdown=DRAIN_SECONDS,
    )
    encrypted = {port: tls} if tls is not None else {}
    return Server(config, on_ready, app.state.long_lived, watch, encrypted, limits.handshake_seconds)


def _check_address(sock: socket.socket, exposure: Exposure) -> int:
    """Return the port of a socket; refuse one that others reach without protection."""
    address, port = sock.getsockname()[:2]
    if not ip_address(address).is_loopback and exposure.scheme != "https":
        raise ValueError(f"{address} is not a loopback address, and nothing protects its connections")
    return int(port)


def serve(
    gateway: Gateway,
    sock: socket.socket,
    on_ready: Callable[[], None] | None = None,
    *,
    codes: SignInCodes | None = None,
    limits: ServerLimits = DEFAULT_LIMITS,
    exposure: Exposure = Exposure(),  # noqa: B008 - it is immutable
    local: socket.socket | None = None,
    mirror: MirrorLimits | None = None,
) -> None:
    """Serve a project until SIGINT or SIGTERM; `codes` lets the caller make links to the page."""
    server = make_server(
        gateway, sock, on_ready, codes=codes, limits=limits, exposure=exposure, local=local, mirror=mirror
    )
    server.run(sockets=[sock] if local is None else [sock, local])
