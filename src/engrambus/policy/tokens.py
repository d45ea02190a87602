"""Bearer tokens: a signed statement of who the bearer is. Only this project's gateway holds the key.

`engrambus1.<payload>.<mac>`, both parts base64url: the payload is canonical JSON, the mac is HMAC-SHA256 over
`engrambus1.<payload>`.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
from pathlib import Path

import msgspec

from engrambus.core import canonical
from engrambus.errors import FormatUnknown, TokenExpired, TokenInvalid

_SCHEME = "engrambus1"
MAX_TOKEN_CHARS = 2048
KEY_BYTES = 32


class TokenClaims(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The signed content of a token."""

    agent: str
    role: str
    parent: str | None
    project: str
    run: str
    expires_us: int = msgspec.field(name="expires_at")


_decoder = msgspec.json.Decoder(TokenClaims)


class TokenKey:
    """Signs and checks tokens."""

    # decision 4: HMAC, because the gateway that signs a token is the only one that checks it
    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    @classmethod
    def load(cls, folder: Path) -> TokenKey:
        """Load the key from a folder that only its owner can read; create it on first use."""
        return cls(load_secret(folder, "token.key"))

    def sign(self, claims: TokenClaims) -> str:
        """Return a token for these claims."""
        head = f"{_SCHEME}.{_encode(canonical(msgspec.to_builtins(claims)))}"
        return f"{head}.{_encode(self._mac(head))}"

    def check(self, token: str, *, project: str, now_us: int) -> TokenClaims:
        """Return the claims of a token that this key signed for this project and that has not expired."""
        head, _, mac = token.rpartition(".")
        scheme, _, payload = head.partition(".")
        if len(token) > MAX_TOKEN_CHARS or scheme != _SCHEME:
            raise TokenInvalid
        try:
            if not hmac.compare_digest(self._mac(head), _decode(mac)):
                raise TokenInvalid
            claims = _decoder.decode(_decode(payload))
        except (binascii.Error, UnicodeEncodeError, msgspec.MsgspecError):
            raise TokenInvalid from None
        if claims.project != project:
            raise TokenInvalid
        # Last, so that only the bearer of a genuine token learns that it expired.
        if claims.expires_us <= now_us:
            raise TokenExpired(hint="Get another: engrambus agent token NAME.")
        return claims

    def _mac(self, head: str) -> bytes:
        return hmac.digest(self._secret, head.encode("ascii"), hashlib.sha256)


def load_secret(folder: Path, name: str) -> bytes:
    """Return the 32 random bytes stored in a file; the first process that needs them creates it."""
    path = folder / name
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        draft = folder / f"{name}.{os.getpid()}.{os.urandom(4).hex()}.new"
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(os.urandom(KEY_BYTES))
                file.flush()
                os.fsync(file.fileno())
            # A link appears complete or not at all, and fails if another process was first: then its key is read.
            os.link(draft, path)
        except FileExistsError:
            pass
        finally:
            draft.unlink()
    secret = path.read_bytes()
    if len(secret) != KEY_BYTES:
        raise FormatUnknown(
            f"The key file {path} is not {KEY_BYTES} bytes long.",
            hint="Delete it: the next command creates another, and every agent needs a new token.",
        )
    return secret


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def _decode(text: str) -> bytes:
    data = base64.b64decode(text.encode("ascii") + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
    if _encode(data) != text:  # a second spelling of the same bytes would be a second valid token
        raise TokenInvalid
    return data
