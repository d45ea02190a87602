"""The exposure of a server: the address it listens on, the names it answers to, and how its connections are protected.

decision 120: beyond this machine nothing is served in the clear; TLS ends here, or at a proxy whose address is named.
"""

from __future__ import annotations

import re
import ssl
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import NamedTuple

from engrambus.errors import CertificateInvalid, FieldValue, ServerExposed

LOOPBACK = "127.0.0.1"
LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")
_NAME = re.compile(
    r"(?P<host>(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?|\[[0-9a-f:.]+\])"
    r"(?::(?P<port>[0-9]{1,5}))?"
)


class Exposure(NamedTuple):
    """The addresses and names by which a server can be reached."""

    host: str = LOOPBACK
    """The address it listens on."""
    names: tuple[str, ...] = ()
    """The names that clients call it by, each with or without a port."""
    certificate: Path | None = None
    key: Path | None = None
    proxy: IPv4Network | IPv6Network | None = None
    """The addresses from which a proxy that ends TLS connects; None if there is no proxy."""

    @property
    def is_local(self) -> bool:
        """True if only this machine can reach the server, by itself or through a proxy on it."""
        return ip_address(self.host).is_loopback and self.proxy is None and not self.names

    @property
    def scheme(self) -> str:
        """The scheme of the addresses that clients use."""
        return "https" if self.certificate is not None or self.proxy is not None else "http"

    def hosts(self, port: int) -> list[str]:
        """Return the values of the header Host that are meant for this server."""
        default_port = 443 if self.scheme == "https" else 80
        # Behind a proxy the port is the proxy's, which clients name in their own way or not at all.
        names = [name for name in self.names if ":" in name.rpartition("]")[2]]
        bare = [name for name in self.names if name not in names]
        listed = [f"{name}:{port}" for name in (*LOOPBACK_NAMES, *bare)] + names
        if port == default_port or self.proxy is not None:
            listed += [*LOOPBACK_NAMES, *bare]
        return listed

    def url(self, port: int) -> str:
        """Return the address to give to the people of the team."""
        name = self.names[0] if self.names else LOOPBACK
        default_port = 443 if self.scheme == "https" else 80
        has_port = ":" in name.rpartition("]")[2] or port == default_port or self.proxy is not None
        return f"{self.scheme}://{name}" if has_port else f"{self.scheme}://{name}:{port}"

    def tls(self) -> ssl.SSLContext | None:
        """Return the context of TLS with the server's certificate; None if the server speaks plain HTTP."""
        if self.certificate is None:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # A client that may ask for another handshake at will makes the server work for nothing.
        context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
        context.set_alpn_protocols(["http/1.1"])
        try:
            context.load_cert_chain(self.certificate, self.key, password="")
        except (OSError, ssl.SSLError, ValueError) as problem:
            raise CertificateInvalid(
                f"The certificate {self.certificate} with the key {self.key} cannot be used: {problem}.",
                field="tls_cert",
                hint="Both files are PEM; the certificate is followed by those that signed it, and the key has no "
                "password.",
            ) from None
        return context


def check_exposure(
    host: str,
    names: tuple[str, ...],
    certificate: Path | None,
    key: Path | None,
    proxy: str | None,
) -> Exposure:
    """Return the exposure that an operator asks for; refuse one that would send tokens in the clear."""
    try:
        address = ip_address(host)
    except ValueError:
        raise FieldValue(
            "The address to listen on is an IP address.", field="host", used=host[:80], hint="All of them: 0.0.0.0"
        ) from None
    if (certificate is None) != (key is None):
        raise ServerExposed(
            "A certificate and its key are given together.",
            field="tls_cert" if certificate is None else "tls_key",
            hint="--tls-cert FILE --tls-key FILE",
        )
    if certificate is not None and proxy is not None:
        raise ServerExposed(
            "TLS ends at a proxy or here, not at both.", field="behind_proxy", hint="Leave one of them out."
        )
    allowed = _check_names(names)
    network = _check_proxy(proxy)
    if not address.is_loopback:
        if certificate is None and network is None:
            raise ServerExposed(
                f"On {host} other machines reach the server, and tokens would cross the network in the clear.",
                field="host",
                hint="Give a certificate with --tls-cert and --tls-key, or name the proxy that ends TLS: "
                "--behind-proxy ADDRESS.",
            )
        if not allowed and address.is_unspecified:
            raise ServerExposed(
                "The server must know the names that clients call it by: it answers to no others.",
                field="allow_host",
                hint="--allow-host bus.example",
            )
    if not allowed and not address.is_loopback:
        allowed = (f"[{host}]" if ":" in host else host,)
    return Exposure(host, allowed, certificate, key, network)


def _check_names(names: tuple[str, ...]) -> tuple[str, ...]:
    checked = tuple(name.lower().rstrip(".") for name in names)
    for name in checked:
        match = _NAME.fullmatch(name)
        if match is None or len(name) > 253 or not 0 < int(match["port"] or 1) < 65_536:
            raise FieldValue(
                "A host is a name or an address, with a port if clients use another than the server's.",
                field="allow_host",
                used=name[:80],
                hint="--allow-host bus.example, or bus.example:8443",
            )
    return checked


def _check_proxy(proxy: str | None) -> IPv4Network | IPv6Network | None:
    if proxy is None:
        return None
    try:
        return ip_network(proxy)
    except ValueError:
        raise FieldValue(
            "A proxy is named by the address it connects from, or by its network.",
            field="behind_proxy",
            used=proxy[:80],
            hint="--behind-proxy 127.0.0.1, or 172.18.0.0/16",
        ) from None
