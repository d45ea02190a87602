"""One GET over TLS to an address that was looked at first. Imported only when a page is read."""

from __future__ import annotations

import http.client
import ipaddress
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from engrambus.errors import ContentTooLarge, UrlRefused, UrlTrouble

Lookup = Callable[[str, int], Sequence[str]]
"""The numeric addresses of a host."""
Connect = Callable[[str, int, str, float], socket.socket]
"""A TLS connection to a numeric address and port, its certificate checked against the host's name, within seconds."""

_CHUNK = 65_536
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


def fetch(
    host: str,
    port: int,
    target: str,
    *,
    max_bytes: int,
    max_seconds: float,
    lookup: Lookup | None = None,
    connect: Connect | None = None,
) -> bytes:
    """The bytes a host serves under a target; no redirect is followed, and every limit holds for the whole."""
    deadline = time.monotonic() + max_seconds
    try:
        # Every address must be public, and the one that was checked is the one that is called.
        addresses = (lookup or look_up)(host, port)
        if not addresses or not all(map(is_public, addresses)):
            raise UrlRefused("The host's address is not public.")
        connection = (connect or connect_tls)(addresses[0], port, host, max_seconds)
        with connection, _hung_up_at(connection, deadline):
            data = _get(connection, target, host if port == 443 else f"{host}:{port}", max_bytes)
    except (OSError, http.client.HTTPException, ValueError) as problem:
        _check_time(deadline, max_seconds)
        raise UrlTrouble(f"The page could not be read: {type(problem).__name__}.") from None
    _check_time(deadline, max_seconds)
    return data


def is_public(address: str) -> bool:
    """Whether a numeric address belongs to the public internet."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    if isinstance(found, ipaddress.IPv6Address):
        inner = found.ipv4_mapped or found.sixtofour
        if inner is None and found in _NAT64:
            inner = ipaddress.IPv4Address(int(found) & 0xFFFF_FFFF)
        if inner is not None:
            return is_public(str(inner))
    return found.is_global and not (found.is_multicast or found.is_reserved or found.is_unspecified)


def look_up(host: str, port: int) -> list[str]:
    """Every address the system's resolver gives for a host."""
    return [str(entry[4][0]) for entry in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]


def connect_tls(address: str, port: int, host: str, seconds: float) -> socket.socket:
    """A TLS connection to this address, to a server that proves to be the host."""
    return wrap_tls(socket.create_connection((address, port), timeout=seconds), host, ssl.create_default_context())


def wrap_tls(plain: socket.socket, host: str, context: ssl.SSLContext) -> ssl.SSLSocket:
    """TLS over a connected socket, the certificate checked against the host's name."""
    try:
        return context.wrap_socket(plain, server_hostname=host)
    except BaseException:
        plain.close()
        raise


def _get(connection: socket.socket, target: str, netloc: str, limit: int) -> bytes:
    request = f"GET {target} HTTP/1.1\r\nHost: {netloc}\r\nAccept-Encoding: identity\r\nConnection: close\r\n\r\n"
    connection.sendall(request.encode("ascii"))
    with http.client.HTTPResponse(connection, method="GET") as response:
        response.begin()
        if 300 <= response.status < 400:
            raise UrlRefused("The page redirects elsewhere.", used=response.status)
        if response.status != 200:
            raise UrlTrouble(f"The server answered {response.status}.", used=response.status)
        if response.getheader("Content-Encoding", "identity").lower() != "identity":
            raise UrlTrouble("The server compressed the page, though it was asked not to.")
        parts, size = [], 0
        while chunk := response.read1(_CHUNK):
            size += len(chunk)
            if size > limit:
                raise ContentTooLarge(limit=limit)
            parts.append(chunk)
        announced = response.getheader("Content-Length")
        if announced is not None and int(announced) != size:
            raise UrlTrouble("The page ended early.", limit=announced[:20], used=size)
        return b"".join(parts)


@contextmanager
def _hung_up_at(connection: socket.socket, deadline: float) -> Iterator[None]:
    """A server that dribbles never trips a socket's timeout, so the whole conversation has one."""
    end = threading.Timer(max(0.0, deadline - time.monotonic()), _hang_up, (connection,))
    end.daemon = True
    end.start()
    try:
        yield
    finally:
        end.cancel()


def _hang_up(connection: socket.socket) -> None:
    # The plain socket's shutdown: TLS would want to say goodbye first.
    with suppress(OSError):
        socket.socket.shutdown(connection, socket.SHUT_RDWR)


def _check_time(deadline: float, seconds: float) -> None:
    if time.monotonic() >= deadline:
        raise UrlTrouble("The page took too long.", limit=f"{seconds:g} s")
