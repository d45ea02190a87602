"""The key of a project's journals. What carries a MAC under it was written on a machine that holds it (decision 67)."""

from __future__ import annotations

import hashlib
import hmac

MAC_CHARS = 32


class JournalKey:
    """The secret of one project, and what is derived from it, each for one purpose."""

    __slots__ = ("_secret",)

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def line_key(self, *, kind: str, project: str) -> bytes:
        """Return the key for the lines of one journal: a MAC is worth nothing in any other journal."""
        return hmac.digest(self._secret, f"engrambus journal line\0{kind}\0{project}".encode(), hashlib.sha256)

    @property
    def derived_folder(self) -> str:
        """The name of the folder of files that are made from the journals, such as indexes.

        A repository cannot bring an index along: its author would have to know this name (decision 67).
        """
        return "derived-" + hmac.digest(self._secret, b"engrambus derived files", hashlib.sha256).hex()[:16]


def line_mac(line_key: bytes, previous: str, text: bytes) -> bytes:
    """Return the MAC of a line; `text` is the line up to its MAC, `previous` the checksum of the line before it."""
    return hmac.digest(line_key, previous.encode() + text, hashlib.sha256).hex()[:MAC_CHARS].encode()
