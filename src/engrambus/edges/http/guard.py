"""The outermost layer: which requests are served at all, and what is sent for each error."""

from __future__ import annotations

import logging

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from engrambus.core.disk_errors import disk_problem
from engrambus.edges.http.call_log import log_refusal
from engrambus.edges.http.requests import ClientGone, header
from engrambus.edges.http.responses import send_problem
from engrambus.errors import (
    BadText,
    EngramBusError,
    HostForbidden,
    Internal,
    MethodNotAllowed,
    OriginForbidden,
    RouteNotFound,
)
from engrambus.gateway import hide_secrets_in, hide_secrets_in_faults

log = logging.getLogger(__name__)
log.addFilter(hide_secrets_in_faults)

_HOST_NAMES = ("127.0.0.1", "localhost", "[::1]")


class Guard:
    """Middleware that refuses foreign hosts and origins, and turns every exception into a problem response."""

    # Host and Origin are checked so that a web site cannot use the server through a browser on this machine.

    def __init__(self, app: ASGIApp, *, port: int) -> None:
        self._app = app
        hosts = [f"{name}:{port}" for name in _HOST_NAMES] + ([*_HOST_NAMES] if port == 80 else [])
        self._hosts = frozenset(host.encode() for host in hosts)
        self._origins = frozenset(f"http://{host}".encode() for host in hosts)
        self._host_list = ", ".join(hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        response_started = False

        async def send_and_note(message: Message) -> None:
            nonlocal response_started
            response_started = True
            await send(message)

        refusal: EngramBusError
        try:
            self._check(scope)
            await self._app(scope, receive, send_and_note)
            return
        except ClientGone:
            return
        except EngramBusError as error:
            refusal = error
        except Exception as problem:
            refusal = disk_problem(problem) or Internal()
            if refusal.code == Internal.code:
                log.exception("%s %s failed", scope["method"], scope["path"])
        log_refusal(scope, hide_secrets_in(refusal))
        if not response_started:
            await send_problem(scope, receive, send, refusal)

    def _check(self, scope: Scope) -> None:
        host = (header(scope, b"host") or b"").lower()
        if host not in self._hosts:
            raise HostForbidden(field="Host", limit=self._host_list, used=host.decode("latin-1")[:80])
        origin = header(scope, b"origin")
        if origin is not None and origin not in self._origins:
            raise OriginForbidden(field="Origin", used=origin.decode("latin-1")[:80])
        path = scope["path"]
        if "\ufffd" in path:
            raise BadText("The address is not UTF-8.")
        if not path.isprintable():
            raise RouteNotFound


class MethodRouter:
    """The endpoints of one path, by method."""

    def __init__(self, endpoints: dict[str, ASGIApp]) -> None:
        self._endpoints = dict(endpoints)
        if "GET" in endpoints:
            self._endpoints["HEAD"] = endpoints["GET"]
        self._allowed = ", ".join(sorted(self._endpoints))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the endpoint of the request's method."""
        endpoint = self._endpoints.get(scope["method"])
        if endpoint is None:
            raise MethodNotAllowed(limit=self._allowed, used=scope["method"][:20])
        await endpoint(scope, receive, send)


async def route_not_found(scope: Scope, receive: Receive, send: Send) -> None:
    """Refuse a path that has no endpoint."""
    raise RouteNotFound
