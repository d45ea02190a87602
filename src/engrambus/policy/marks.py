"""Marks: they tell an `as` that a client's hook has set from one that a model wrote (decision 44).

A marked `as` is `<name>~<place>.<client id>.<stamp>`. Place and client id say which agent calls, in the client's own
terms. The name is empty, or that of a descendant in whose name the agent acts. The stamp is the time of expiry and a
MAC over everything before it, as 22 characters of base64url. Only the standard library is loaded here: a client waits
for its hook at every tool call.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from pathlib import Path
from typing import NamedTuple

from engrambus.policy.key_files import PROJECT_KEY_FILE, load_secret

SIGN = "~"
"""Separates the name from the mark; no name contains it."""
LIFETIME_SECONDS = 12 * 3600
"""A permission prompt may wait this long for an answer; a call made again gets another mark."""

_TIME_BYTES = 4
_MAC_BYTES = 12


class Mark(NamedTuple):
    """The agent that made a call, as its client's hook knows it, and the descendant it named."""

    place: str
    """The session, or the id of the run that was chosen for it; empty in a session that has a token."""
    client_id: str
    """The agent's id within the place; empty for the agent whose token it is."""
    name: str = ""
    """The descendant that the agent acts for; empty if it acts for itself."""


class MarkKey:
    """Makes and checks marks."""

    def __init__(self, secret: bytes) -> None:
        """`secret` is the project's token key or a token; the key of marks is derived from it."""
        self._key = hmac.digest(secret, b"engrambus mark", hashlib.sha256)

    @classmethod
    def load(cls, folder: Path) -> MarkKey:
        """Load the key of a project from the folder of its keys."""
        return cls(load_secret(folder, PROJECT_KEY_FILE))

    @classmethod
    def of_token(cls, token: str) -> MarkKey:
        """Return the key of a session that has a token: its bearer may speak for the descendants of its agent."""
        return cls(token.encode(errors="replace"))

    def make(self, mark: Mark, now_us: int) -> str:
        """Return the value of `as` for a call."""
        text = f"{mark.name}{SIGN}{mark.place}.{mark.client_id}"
        expires = (now_us // 1_000_000 + LIFETIME_SECONDS).to_bytes(_TIME_BYTES, "big")
        return f"{text}.{_encode(expires + self._mac(text, expires))}"

    def check(self, text: str, now_us: int) -> Mark | None:
        """Return the mark in an `as` that this key made and that has not expired, otherwise None."""
        head, _, stamp = text.rpartition(".")
        try:
            data = base64.b64decode(stamp.encode("ascii") + b"==", altchars=b"-_", validate=True)
        except (binascii.Error, UnicodeEncodeError):
            return None
        expires = data[:_TIME_BYTES]
        # The stamp is compared as text, so that a second spelling of the same bytes is refused.
        genuine = hmac.compare_digest(_encode(expires + self._mac(head, expires)).encode(), stamp.encode())
        if not genuine or int.from_bytes(expires, "big") * 1_000_000 <= now_us:
            return None
        return read_mark(text)

    def _mac(self, text: str, expires: bytes) -> bytes:
        return hmac.digest(self._key, text.encode(errors="replace") + b"\0" + expires, hashlib.sha256)[:_MAC_BYTES]


def read_mark(text: str) -> Mark:
    """Return what a marked `as` says; only `MarkKey.check` tells whether it is true."""
    name, _, rest = text.partition(SIGN)
    place, _, client_id = rest.rpartition(".")[0].partition(".")
    return Mark(place, client_id, name)


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")
