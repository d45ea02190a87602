"""Web pages, if an admin has enabled them: only listed hosts, only public addresses, a digest and limits."""

from __future__ import annotations

import http.client
import ipaddress
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

import msgspec

from engrambus.errors import ContentTooLarge, DigestMismatch, UrlRefused, UrlsOff, UrlTrouble
from engrambus.evidence.pointers.addresses import UrlAddress
from engrambus.evidence.pointers.resolve import Content

Lookup = Callable[[str, int], Sequence[str]]
"""Returns the numeric addresses of a host."""
Connect = Callable[[str, int, str, float], socket.socket]
"""Opens a TLS connection to a numeric address and port, the certificate checked for the host, within seconds."""

_CHUNK_BYTES = 65_536
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


class UrlSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The pages an admin allows to be read."""

    hosts: frozenset[str]
    """Host names that may be read, in lower case; a port other than 443 is part of the name."""
    max_bytes: int = 1024 * 1024
    max_seconds: float = 10.0


class UrlResolver:
    """Reads `url:` addresses under the current settings; without settings every one is refused."""

    def __init__(
        self,
        settings: Callable[[], UrlSettings | None],
        *,
        lookup: Lookup | None = None,
        connect: Connect | None = None,
    ) -> None:
        self._settings = settings
        self._lookup = lookup
        self._connect = connect

    def check_allowed(self, address: UrlAddress) -> UrlSettings:
        """Return the settings under which a page may be read, or refuse it; nothing is fetched."""
        settings = self._settings()
        if settings is None:
            raise UrlsOff(
                hint="An admin can enable them with `urls` in the policy; or store what the page says with "
                "`less.store_artifact` and point at that."
            )
        parts = urlsplit(address.url)
        if parts.scheme != "https" or parts.netloc not in settings.hosts:
            raise UrlRefused("The host is not on this project's list.", limit=", ".join(sorted(settings.hosts)))
        return settings

    def resolve(self, address: UrlAddress) -> Content:
        """Return the page, or refuse it if its bytes have another digest than the address."""
        settings = self.check_allowed(address)
        parts = urlsplit(address.url)
        data = fetch(
            parts.hostname or "",
            parts.port or 443,
            address.url.removeprefix(f"https://{parts.netloc}"),
            max_bytes=settings.max_bytes,
            max_seconds=settings.max_seconds,
            lookup=self._lookup,
            connect=self._connect,
        )
        content = Content.of(data)
        if content.digest != address.digest:
            raise DigestMismatch("The page has changed since it was pinned.", used=address.digest)
        return content


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
    """Return the bytes a host serves under a target; redirects are not followed, limits hold for the whole request."""
    deadline = time.monotonic() + max_seconds
    try:
        # Every address must be public, and the connection goes to an address that was checked: a second lookup could
        # lead into the local network (DNS rebinding).
        addresses = (lookup or look_up)(host, port)
        if not addresses or not all(map(is_public, addresses)):
            raise UrlRefused("The host's address is not public.")
        connection = (connect or connect_tls)(addresses[0], port, host, max_seconds)
        with connection, _closing_at(connection, deadline):
            data = _get(connection, target, host if port == 443 else f"{host}:{port}", max_bytes)
    except (OSError, http.client.HTTPException, ValueError) as problem:
        _check_time(deadline, max_seconds)
        raise UrlTrouble(f"The page could not be read: {type(problem).__name__}.") from None
    _check_time(deadline, max_seconds)
    return data


def is_public(address: str) -> bool:
    """True if a numeric address belongs to the public internet."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    if isinstance(parsed, ipaddress.IPv6Address):
        embedded = parsed.ipv4_mapped or parsed.sixtofour
        if embedded is None and parsed in _NAT64:
            embedded = ipaddress.IPv4Address(int(parsed) & 0xFFFF_FFFF)
        if embedded is not None:
            return is_public(str(embedded))
    return parsed.is_global and not (parsed.is_multicast or parsed.is_reserved or parsed.is_unspecified)


def look_up(host: str, port: int) -> list[str]:
    """Return every address the system's resolver gives for a host."""
    return [str(entry[4][0]) for entry in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]


def connect_tls(address: str, port: int, host: str, timeout_s: float) -> socket.socket:
    """Open a TLS connection to this address and check the certificate for the host."""
    return wrap_tls(socket.create_connection((address, port), timeout=timeout_s), host, ssl.create_default_context())


def wrap_tls(plain: socket.socket, host: str, context: ssl.SSLContext) -> ssl.SSLSocket:
    """Start TLS over a connected socket and check the certificate for the host."""
    try:
        return context.wrap_socket(plain, server_hostname=host)
    except BaseException:
        plain.close()
        raise


def _get(connection: socket.socket, target: str, netloc: str, max_bytes: int) -> bytes:
    request = f"GET {target} HTTP/1.1\r\nHost: {netloc}\r\nAccept-Encoding: identity\r\nConnection: close\r\n\r\n"
    connection.sendall(request.encode("ascii"))
    with http.client.HTTPResponse(connection, method="GET") as response:
        response.begin()
        if 300 <= response.status < 400:
            # Its target would have to be checked like the first address, and the pin names this URL.
            raise UrlRefused("The page redirects elsewhere.", used=response.status)
        if response.status != 200:
            raise UrlTrouble(f"The server answered {response.status}.", used=response.status)
        if response.getheader("Content-Encoding", "identity").lower() != "identity":
            raise UrlTrouble("The server compressed the page against the request.")
        parts, size_bytes = [], 0
        while chunk := response.read1(_CHUNK_BYTES):
            size_bytes += len(chunk)
            if size_bytes > max_bytes:
                raise ContentTooLarge(limit=max_bytes)
            parts.append(chunk)
        announced = response.getheader("Content-Length")
        if announced is not None and int(announced) != size_bytes:
            raise UrlTrouble("The page ended early.", limit=announced[:20], used=size_bytes)
        return b"".join(parts)


@contextmanager
def _closing_at(connection: socket.socket, deadline: float) -> Iterator[None]:
    """Close the connection at a deadline: a server that sends a byte now and then never trips the socket's timeout."""
    timer = threading.Timer(max(0.0, deadline - time.monotonic()), _shut_down, (connection,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _shut_down(connection: socket.socket) -> None:
    # The plain socket's method: a TLS shutdown would first wait for the server's answer.
    with suppress(OSError):
        socket.socket.shutdown(connection, socket.SHUT_RDWR)


def _check_time(deadline: float, max_seconds: float) -> None:
    if time.monotonic() >= deadline:
        raise UrlTrouble("The page took too long.", limit=f"{max_seconds:g} s")
