"""The outermost layer: which requests are served at all, and what is sent for each error."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import NamedTuple

import anyio
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from engrambus.core.disk_errors import disk_problem
from engrambus.edges.http.call_log import log_refusal
from engrambus.edges.http.callers import CallRates
from engrambus.edges.http.exposure import Exposure
from engrambus.edges.http.requests import ClientGone, header, list_header
from engrambus.edges.http.responses import send_problem
from engrambus.edges.http.server_limits import DEFAULT_LIMITS, ServerLimits
from engrambus.errors import (
    BadText,
    EngramBusError,
    HostForbidden,
    Internal,
    MethodNotAllowed,
    OriginForbidden,
    ProxyForbidden,
    RouteNotFound,
    TooManyFailures,
    Unauthorized,
)
from engrambus.gateway import hide_secrets_in, hide_secrets_in_faults

log = logging.getLogger(__name__)
log.addFilter(hide_secrets_in_faults)

FORWARDED_PROTOCOL, FORWARDED_ADDRESS = b"x-forwarded-proto", b"x-forwarded-for"
"""Headers that a proxy sets: the scheme that the client used, and the client's address as the last one of a list."""
MAX_ADDRESS_CHARS = 64
HEALTH_PATH = "/healthz"


class Guard:
    """Middleware that refuses foreign hosts and origins, and turns every exception into a problem response."""

    # Host and Origin are checked so that a web site cannot use the server through a browser on this machine.

    def __init__(
        self,
        app: ASGIApp,
        *,
        exposures: Mapping[int, Exposure],
        limits: ServerLimits = DEFAULT_LIMITS,
    ) -> None:
        """`exposures` says how each port that the server listens on is reached."""
        self._app = app
        self._by_port = {port: Entrance.of(exposure, port) for port, exposure in exposures.items()}
        self._failures = CallRates(limits.failures_per_minute)
        self._delay_seconds = limits.failure_delay_seconds

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
        entrance = self._by_port[scope["server"][1]]
        try:
            check_request(scope, entrance)
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
        address = None if entrance.exposure.is_local else client_address(scope, entrance.exposure)
        if isinstance(refusal, Unauthorized) and address is not None and not response_started:
            refusal = await self._slow_down(address, refusal)
        log_refusal(scope, hide_secrets_in(refusal), address)
        if not response_started:
            await send_problem(scope, receive, send, refusal)

    async def _slow_down(self, address: str, refusal: Unauthorized) -> EngramBusError:
        """Return the refusal of a caller without a valid token, later and with 429 if its address has had many."""
        # decision 120: only calls that fail are slowed down, so that nobody can keep others at its address out
        seconds = self._failures.seconds_to_wait(address)
        if not seconds:
            return refusal
        await anyio.sleep(self._delay_seconds)
        late = TooManyFailures(hint=f"Try again in {seconds} s with a valid token; an admin issues one.")
        late.retry_after_seconds = seconds
        return late


class Entrance(NamedTuple):
    """One port of the server: which requests are meant for it."""

    exposure: Exposure
    hosts: frozenset[bytes]
    origins: frozenset[bytes]

    @classmethod
    def of(cls, exposure: Exposure, port: int) -> Entrance:
        """Return what a port accepts."""
        hosts = exposure.hosts(port)
        origins = frozenset(f"{exposure.scheme}://{host}".encode() for host in hosts)
        return cls(exposure, frozenset(host.encode() for host in hosts), origins)

    @property
    def host_list(self) -> str | None:
        """The hosts for an error; who calls from elsewhere by another name does not learn them."""
        return ", ".join(sorted(host.decode() for host in self.hosts)) if self.exposure.is_local else None


def client_address(scope: Scope, exposure: Exposure) -> str:
    """Return the address of a request's client, as the proxy tells it if there is one."""
    client = scope.get("client")
    address = str(client[0]) if client else ""
    if exposure.proxy is None:
        return address
    # The last entry is the proxy's own; those before it are what the client claims.
    forwarded = list_header(scope, FORWARDED_ADDRESS)
    return forwarded[-1].decode("latin-1")[:MAX_ADDRESS_CHARS] if forwarded else address


def check_request(scope: Scope, entrance: Entrance) -> None:
    """Refuse a request that is not meant for this server."""
    if entrance.exposure.proxy is not None and scope["path"] != HEALTH_PATH:
        _check_proxy(scope, entrance.exposure.proxy)
    host = (header(scope, b"host") or b"").lower()
    if host not in entrance.hosts:
        raise HostForbidden(field="Host", limit=entrance.host_list, used=host.decode("latin-1")[:80])
    origin = header(scope, b"origin")
    if origin is not None and origin not in entrance.origins:
        raise OriginForbidden(field="Origin", used=origin.decode("latin-1")[:80])
    path = scope["path"]
    if "\ufffd" in path:
        raise BadText("The address is not UTF-8.")
    if not path.isprintable():
        raise RouteNotFound


def _check_proxy(scope: Scope, proxy: IPv4Network | IPv6Network) -> None:
    """Refuse what did not come through the proxy, or reached the proxy in the clear."""
    client = scope.get("client")
    try:
        came_from_proxy = client is not None and _plain_address(client[0]) in proxy
    except ValueError:
        came_from_proxy = False
    if not came_from_proxy:
        raise ProxyForbidden("This server answers its proxy only.", field="client")
    if header(scope, FORWARDED_PROTOCOL) != b"https":
        raise ProxyForbidden(
            "The proxy did not say that the client used https.",
            field="X-Forwarded-Proto",
            limit="https",
            hint="Let the proxy set X-Forwarded-Proto to the scheme of the client's request.",
        )


def _plain_address(text: str) -> IPv4Address | IPv6Address:
    """Return an address; an IPv4 address that a socket for both reports as IPv6 is one of IPv4."""
    address = ip_address(text.partition("%")[0])
    return getattr(address, "ipv4_mapped", None) or address


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
