"""Pages on the web, when an admin has switched them on: few hosts, public addresses, a digest, and limits on all."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from engrambus.errors import DigestMismatch, UrlRefused, UrlsOff
from engrambus.evidence.pointers.addresses import UrlAddress
from engrambus.evidence.pointers.resolve import Content

if TYPE_CHECKING:
    from engrambus.evidence.pointers.fetch import Connect, Lookup


class UrlSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What an admin allows."""

    hosts: frozenset[str]
    """Host names that may be read, in lower case; a port other than 443 is part of the name."""
    max_bytes: int = 1024 * 1024
    max_seconds: float = 10.0


class UrlResolver:
    """Reads `url:` addresses by the settings in force at that moment; without settings every one is refused."""

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

    def resolve(self, address: UrlAddress) -> Content:
        """The page, if its bytes have the digest the address carries."""
        settings = self._settings()
        if settings is None:
            raise UrlsOff(hint="An admin can switch them on in the project's policy.")
        parts = urlsplit(address.url)
        if parts.scheme != "https" or parts.netloc not in settings.hosts:
            raise UrlRefused("The host is not on this project's list.", limit=", ".join(sorted(settings.hosts)))

        from engrambus.evidence.pointers.fetch import fetch

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
            raise DigestMismatch("The page has changed since it was pinned.", limit=content.digest, used=address.digest)
        return content
