"""The key that signs a project's grants, and the outside of a budget token.

`grant1.<public key>.<biscuit>`, both parts base64url. The public key travels with the token so that its holder can
narrow it without asking anybody; the gateway trusts only its own.
"""

from __future__ import annotations

import base64
import re
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engrambus.core import LruCache
from engrambus.errors import GrantForged, GrantTooDeep, GrantTooLong
from engrambus.policy.grants.blocks import FIELD
from engrambus.policy.keys import kept_secret

if TYPE_CHECKING:  # biscuit_auth is loaded by the first grant: most commands never see one
    from biscuit_auth import Biscuit, PrivateKey, PublicKey

MAX_TOKEN = 8192
MAX_DEPTH = 8
MAX_KNOWN = 4096
"""Blocks of tokens, all together, that are known again without checking their signatures."""

_SCHEME = "grant1"
_TOKEN = re.compile(rf"{_SCHEME}\.([A-Za-z0-9_-]{{43}})\.([A-Za-z0-9_-]+={{0,2}})")


class GrantKey:
    """Signs grants and knows its own again."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self.known: LruCache[bytes, Any] = LruCache(MAX_KNOWN)
        """What tokens whose signatures were checked once say, by the digest of the token."""

    @classmethod
    def at(cls, folder: Path) -> GrantKey:
        """The key kept in a folder only its owner can read; made on first use."""
        return cls(kept_secret(folder, "grant.key"))

    @cached_property
    def private(self) -> PrivateKey:
        """The Ed25519 key that signs."""
        import biscuit_auth

        # The published type stubs lag behind: from_bytes also takes the algorithm, and needs it.
        library: Any = biscuit_auth
        private: PrivateKey = library.PrivateKey.from_bytes(self._secret, library.Algorithm.Ed25519)
        return private

    @cached_property
    def public(self) -> PublicKey:
        """The Ed25519 key that checks."""
        from biscuit_auth import KeyPair

        return KeyPair.from_private_key(self.private).public_key

    @cached_property
    def name(self) -> str:
        """The public key as it stands in a token."""
        return base64.urlsafe_b64encode(bytes(self.public.to_bytes())).rstrip(b"=").decode("ascii")


def join(name: str, biscuit: Biscuit) -> str:
    """The text of a budget token."""
    token = f"{_SCHEME}.{name}.{biscuit.to_base64()}"
    if len(token) > MAX_TOKEN:
        raise GrantTooLong(field=FIELD, limit=MAX_TOKEN, used=len(token))
    return token


def split(token: str) -> tuple[str, str]:
    """The name of the key and the Biscuit of a budget token, neither of them believed yet."""
    if len(token) > MAX_TOKEN:
        raise GrantTooLong(field=FIELD, limit=MAX_TOKEN, used=len(token))
    found = _TOKEN.fullmatch(token)
    if found is None:
        raise GrantForged("This is not a budget token.", field=FIELD)
    return found[1], found[2]


def named_key(name: str) -> PublicKey:
    """The public key a token names."""
    import biscuit_auth

    library: Any = biscuit_auth
    try:
        key: PublicKey = library.PublicKey.from_bytes(base64.urlsafe_b64decode(f"{name}="), library.Algorithm.Ed25519)
    except ValueError:
        raise GrantForged(field=FIELD) from None
    return key


def open_biscuit(text: str, key: PublicKey, max_depth: int) -> Biscuit:
    """The Biscuit, every signature of it checked; how deep it is, is looked at first."""
    from biscuit_auth import BiscuitValidationError, UnverifiedBiscuit

    try:
        unverified = UnverifiedBiscuit.from_base64(text)
        depth = unverified.block_count()
        if depth > max_depth:
            raise GrantTooDeep(field=FIELD, limit=max_depth, used=depth)
        return unverified.verify(key)
    except BiscuitValidationError:
        raise GrantForged(field=FIELD) from None
