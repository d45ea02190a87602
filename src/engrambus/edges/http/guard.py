"""The outermost layer: who may speak to this server at all, and what becomes of every refusal."""

from __future__ import annotations

import logging

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from engrambus.edges.http.answers import send_problem
from engrambus.edges.http.refusals import log_refusal
from engrambus.edges.http.requests import ClientGone, header
from engrambus.errors import (
    BadText,
    EngramBusError,
    HostForbidden,
    Internal,
    MethodNotAllowed,
    OriginForbidden,
    RouteNotFound,
)

log = logging.getLogger(__name__)

_NAMES = ("127.0.0.1", "localhost", "[::1]")


class Guard:
    """Lets through what is meant for this server, and turns every exception into a problem."""

    def __init__(self, app: ASGIApp, *, port: int) -> None:
        self._app = app
        hosts = [f"{name}:{port}" for name in _NAMES] + ([*_NAMES] if port == 80 else [])
        self._hosts = frozenset(host.encode() for host in hosts)
        self._origins = frozenset(f"http://{host}".encode() for host in hosts)
        self._shown = ", ".join(hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection's scope."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = False

        async def noting(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        refusal: EngramBusError
        try:
            self._check(scope)
            await self._app(scope, receive, noting)
            return
        except ClientGone:
            return
        except EngramBusError as error:
            refusal = error
        except Exception:
            log.exception("%s %s failed", scope["method"], scope["path"])
            refusal = Internal()
        log_refusal(scope, refusal)
        if not started:
            await send_problem(scope, receive, send, refusal)

    def _check(self, scope: Scope) -> None:
        host = (header(scope, b"host") or b"").lower()
        if host not in self._hosts:
            raise HostForbidden(field="Host", limit=self._shown, used=host.decode("latin-1")[:80])
        origin = header(scope, b"origin")
        if origin is not None and origin not in self._origins:
            raise OriginForbidden(field="Origin", used=origin.decode("latin-1")[:80])
        path = scope["path"]
        if "\ufffd" in path:
            raise BadText("The address is not UTF-8.")
        if not path.isprintable():
            raise RouteNotFound


class Place:
    """One address, and what each method does there."""

    def __init__(self, methods: dict[str, ASGIApp]) -> None:
        self._methods = dict(methods)
        if "GET" in methods:
            self._methods["HEAD"] = methods["GET"]
        self._allowed = ", ".join(sorted(self._methods))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Do what the method asks for."""
        endpoint = self._methods.get(scope["method"])
        if endpoint is None:
            raise MethodNotAllowed(limit=self._allowed, used=scope["method"][:20])
        await endpoint(scope, receive, send)


async def nothing_here(scope: Scope, receive: Receive, send: Send) -> None:
    """The place of every address that is none."""
    raise RouteNotFound
