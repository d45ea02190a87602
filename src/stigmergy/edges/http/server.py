"""Serving HTTP on a loopback socket until told to stop."""

from __future__ import annotations

import socket
from collections.abc import Callable
from ipaddress import ip_address
from types import FrameType

import uvicorn

from stigmergy.edges.http.app import create_app
from stigmergy.edges.http.sessions import Codes
from stigmergy.operations import Gateway

DRAIN_SECONDS = 5


class Server(uvicorn.Server):
    """A server that tells when it takes requests, and ends without raising the signal that ended it."""

    def __init__(self, config: uvicorn.Config, on_ready: Callable[[], None] | None) -> None:
        super().__init__(config)
        self._on_ready = on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen."""
        await super().startup(sockets)
        if self.started and self._on_ready is not None:
            self._on_ready()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Finish what is under way; asked a second time, stop at once."""
        self.force_exit = self.should_exit
        self.should_exit = True


def make_server(
    gateway: Gateway, sock: socket.socket, on_ready: Callable[[], None] | None = None, *, codes: Codes | None = None
) -> Server:
    """A server for a socket that is bound to a loopback address."""
    address, port = sock.getsockname()[:2]
    if not ip_address(address).is_loopback:
        raise ValueError(f"{address} is not a loopback address")
    config = uvicorn.Config(
        create_app(gateway, port=port, codes=codes),
        loop="uvloop",
        http="h11",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=DRAIN_SECONDS,
    )
    return Server(config, on_ready)


def serve(
    gateway: Gateway, sock: socket.socket, on_ready: Callable[[], None] | None = None, *, codes: Codes | None = None
) -> None:
    """Serve a project until SIGINT or SIGTERM; `codes` lets the caller make links into the page."""
    make_server(gateway, sock, on_ready, codes=codes).run(sockets=[sock])
