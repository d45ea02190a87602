"""Bearer tokens: a signed statement of who the bearer is. Only this project's gateway holds the key.

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

from engrambus.core import canonical, print_time
from engrambus.errors import TokenExpired, TokenInvalid
from engrambus.policy.key_files import PROJECT_KEY_FILE, load_secret
from engrambus.policy.marks import MarkKey

_SCHEME = "engrambus1"
MAX_TOKEN_CHARS = 2048


class TokenClaims(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The signed content of a token."""

    agent: str
    role: str
    parent: str | None
    project: str
    run: str
    expires_us: int = msgspec.field(name="expires_at")
    id: str | None = None
    """Its id in the list of tokens; None for an admin, and in tokens of earlier versions."""
    first_us: int | None = msgspec.field(name="first_at", default=None)
    """When somebody else than the agent issued the first token of this chain of renewals."""
    person: bool = False
    """True if the bearer is a person; tells clients what to expect, and decides nothing here."""


_decoder = msgspec.json.Decoder(TokenClaims)


class TokenKey:
    """Signs and checks tokens."""

    # decision 4: HMAC, because the gateway that signs a token is the only one that checks it
    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    @classmethod
    def load(cls, folder: Path) -> TokenKey:
        """Load the key from a folder that only its owner can read; create it on first use."""
        return cls(load_secret(folder, PROJECT_KEY_FILE))

    @property
    def mark_key(self) -> MarkKey:
        """The key of the marks that clients' hooks set."""
        return MarkKey(self._secret)

    def keyed_digest(self, purpose: str, text: str) -> str:
        """Return a digest that only a holder of the key can compare with a guess; another purpose gives another one."""
        key = hmac.digest(self._secret, f"engrambus {purpose}".encode(), hashlib.sha256)
        return hmac.digest(key, text.encode(), hashlib.sha256).hex()

    def sign(self, claims: TokenClaims) -> str:
        """Return a token for these claims."""
        head = f"{_SCHEME}.{encode_part(canonical(msgspec.to_builtins(claims)))}"
        return f"{head}.{encode_part(self._mac(head))}"

    def check(self, token: str, *, project: str, now_us: int) -> TokenClaims:
        """Return the claims of a token that this key signed for this project and that has not expired."""
        head, mac = split_token(token)
        if not hmac.compare_digest(self._mac(head), mac):
            raise TokenInvalid
        try:
            claims = _decoder.decode(_decode(head.partition(".")[2]))
        except msgspec.MsgspecError:
            raise TokenInvalid from None
        if claims.project != project:
            raise TokenInvalid
        # Last, so that only the bearer of a genuine token learns that it expired.
        if claims.expires_us <= now_us:
            raise TokenExpired(limit=print_time(claims.expires_us), hint="Get another: engrambus agent token NAME.")
        return claims

    def mac_of(self, head: str) -> bytes:
        """Return the MAC of a token's head, which is all that makes a token of it: never send it to anybody."""
        # The key also makes the keys of other purposes; nothing but the head of a token may be given to it here.
        split_token(f"{head}.")
        return self._mac(head)

    def _mac(self, head: str) -> bytes:
        return hmac.digest(self._secret, head.encode("ascii"), hashlib.sha256)


def split_token(token: str) -> tuple[str, bytes]:
    """Return the head of a token, `engrambus1.<payload>`, and its MAC; neither is checked."""
    head, _, mac = token.rpartition(".")
    scheme, _, payload = head.partition(".")
    if len(token) > MAX_TOKEN_CHARS or scheme != _SCHEME or not payload:
        raise TokenInvalid
    _decode(payload)
    return head, _decode(mac)


def is_persons_token(token: str) -> bool:
    """True if a token says that its bearer is a person; it is not checked here."""
    try:
        return _decoder.decode(_decode(split_token(token)[0].partition(".")[2])).person
    except (TokenInvalid, msgspec.MsgspecError):
        return False


def encode_part(data: bytes) -> str:
    """Return bytes as a part of a token: base64url without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def _decode(text: str) -> bytes:
    try:
        data = base64.b64decode(text.encode("ascii") + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, UnicodeEncodeError):
        raise TokenInvalid from None
    if encode_part(data) != text:  # a second spelling of the same bytes would be a second valid token
        raise TokenInvalid
    return data
