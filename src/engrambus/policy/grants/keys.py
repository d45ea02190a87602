"""The key that signs a project's grants, and the container of a budget token.

`grant1.<public key>.<biscuit>`, both parts base64url. The public key travels with the token so that its holder can
narrow it without the gateway; the gateway trusts only its own key.
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
from engrambus.policy.key_files import load_secret

if TYPE_CHECKING:  # decision 11: biscuit_auth is loaded by the first grant; most commands never see one
    from biscuit_auth import Biscuit, PrivateKey, PublicKey

MAX_BUDGET_TOKEN_CHARS = 8192
MAX_BLOCKS = 8
MAX_VERIFIED_BLOCKS = 4096
"""Blocks, of all tokens together, whose verified signatures are remembered."""

_SCHEME = "grant1"
_TOKEN = re.compile(rf"{_SCHEME}\.([A-Za-z0-9_-]{{43}})\.([A-Za-z0-9_-]+={{0,2}})")


class GrantKey:
    """Signs grants and recognises its own."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self.verified: LruCache[bytes, Any] = LruCache(MAX_VERIFIED_BLOCKS)
        """SHA-256 of a token whose signatures were verified → its `Grant` (decision 14)."""

    @classmethod
    def load(cls, folder: Path) -> GrantKey:
        """Load the key from a folder that only its owner can read; create it on first use."""
        return cls(load_secret(folder, "grant.key"))

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
        """The Ed25519 key that verifies."""
        from biscuit_auth import KeyPair

        return KeyPair.from_private_key(self.private).public_key

    @cached_property
    def name(self) -> str:
        """The public key as it is written in a token."""
        return base64.urlsafe_b64encode(bytes(self.public.to_bytes())).rstrip(b"=").decode("ascii")


def join(name: str, biscuit: Biscuit) -> str:
    """Return the text of a budget token."""
    token = f"{_SCHEME}.{name}.{biscuit.to_base64()}"
    if len(token) > MAX_BUDGET_TOKEN_CHARS:
        raise GrantTooLong(field=FIELD, limit=MAX_BUDGET_TOKEN_CHARS, used=len(token))
    return token


def split(token: str) -> tuple[str, str]:
    """Return the key name and the Biscuit of a budget token, both unverified."""
    if len(token) > MAX_BUDGET_TOKEN_CHARS:
        raise GrantTooLong(field=FIELD, limit=MAX_BUDGET_TOKEN_CHARS, used=len(token))
    match = _TOKEN.fullmatch(token)
    if match is None:
        raise GrantForged("This is not a budget token.", field=FIELD)
    return match[1], match[2]


def key_from_name(name: str) -> PublicKey:
    """Return the public key that a token names."""
    import biscuit_auth

    library: Any = biscuit_auth
    try:
        key: PublicKey = library.PublicKey.from_bytes(base64.urlsafe_b64decode(f"{name}="), library.Algorithm.Ed25519)
    except ValueError:
        raise GrantForged(field=FIELD) from None
    return key


def open_biscuit(text: str, key: PublicKey, max_blocks: int) -> Biscuit:
    """Return the Biscuit with every signature verified."""
    from biscuit_auth import BiscuitValidationError, UnverifiedBiscuit

    try:
        unverified = UnverifiedBiscuit.from_base64(text)
        blocks = unverified.block_count()
        if blocks > max_blocks:  # checked first, because each block costs a signature check
            raise GrantTooDeep(field=FIELD, limit=max_blocks, used=blocks)
        return unverified.verify(key)
    except BiscuitValidationError:
        raise GrantForged(field=FIELD) from None
