"""Bearer tokens: who the bearer is, signed with a key that only this project's gateway holds.

`engrambus1.<payload>.<mac>`, both parts base64url: the payload is canonical JSON, the mac is HMAC-SHA256 over
`engrambus1.<payload>`.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from pathlib import Path

import msgspec

from engrambus.core import canonical
from engrambus.errors import TokenExpired, TokenInvalid
from engrambus.policy.keys import kept_secret

_SCHEME = "engrambus1"
MAX_TOKEN = 2048


class Claims(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a token says of its bearer."""

    agent: str
    role: str
    parent: str | None
    project: str
    run: str
    expires_at: int


_decoder = msgspec.json.Decoder(Claims)


class TokenKey:
    """Signs and checks tokens."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    @classmethod
    def at(cls, folder: Path) -> TokenKey:
        """The key kept in a folder only its owner can read; made on first use."""
        return cls(kept_secret(folder, "token.key"))

    def sign(self, claims: Claims) -> str:
        """A token for these claims."""
        head = f"{_SCHEME}.{_print(canonical(msgspec.to_builtins(claims)))}"
        return f"{head}.{_print(self._mac(head))}"

    def check(self, token: str, *, project: str, now: int) -> Claims:
        """The claims of a token this key signed for this project and whose time has not passed."""
        head, _, mac = token.rpartition(".")
        scheme, _, payload = head.partition(".")
        if len(token) > MAX_TOKEN or scheme != _SCHEME:
            raise TokenInvalid
        try:
            given = _parse(mac)
            if not hmac.compare_digest(self._mac(head), given):
                raise TokenInvalid
            claims = _decoder.decode(_parse(payload))
        except (binascii.Error, UnicodeEncodeError, msgspec.MsgspecError):
            raise TokenInvalid from None
        if claims.project != project:
            raise TokenInvalid
        if claims.expires_at <= now:
            raise TokenExpired(hint="Ask for another: engrambus agent token NAME.")
        return claims

    def _mac(self, head: str) -> bytes:
        return hmac.digest(self._secret, head.encode("ascii"), hashlib.sha256)


def _print(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def _parse(text: str) -> bytes:
    data = base64.b64decode(text.encode("ascii") + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
    if _print(data) != text:
        raise TokenInvalid
    return data
