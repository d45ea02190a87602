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

    def line_key(self, *, kind: str, project: str) -> LineKey:
        """Return the key for the lines of one journal: a MAC is worth nothing in any other journal."""
        purpose = f"engrambus journal line\0{kind}\0{project}"
        return LineKey(hmac.digest(self._secret, purpose.encode(), hashlib.sha256))

    @property
    def derived_folder(self) -> str:
        """The name of the folder of files that are made from the journals, such as indexes.

        A repository cannot bring an index along: its author would have to know this name (decision 67).
        """
        return "derived-" + hmac.digest(self._secret, b"engrambus derived files", hashlib.sha256).hex()[:16]


class LineKey:
    """Makes the MACs of the lines of one journal."""

    __slots__ = ("_inner", "_outer")

    def __init__(self, key: bytes) -> None:
        # HMAC by its definition: from the two prepared hashes a MAC takes 2 µs, through the `hmac` module 6.
        block = key.ljust(hashlib.sha256().block_size, b"\0")
        self._inner = hashlib.sha256(bytes(byte ^ 0x36 for byte in block))
        self._outer = hashlib.sha256(bytes(byte ^ 0x5C for byte in block))

    def mac(self, previous: str, text: bytes) -> bytes:
        """Return the MAC of a line; `text` is the line up to it, `previous` the checksum of the line before."""
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(previous.encode() + text)
        outer.update(inner.digest())
        return outer.hexdigest()[:MAC_CHARS].encode()
