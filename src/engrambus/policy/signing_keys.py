"""Ed25519 keys that sign what is exported through git, and the public keys that a project knows (decision 119).

A signing key belongs to one project on one machine. It lies with the project's other keys, outside the repository. The
public ones that people vouch for are listed by name in `project.yaml`, which is committed and reviewed.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from pathlib import Path

from engrambus.errors import PublicKeyInvalid
from engrambus.policy.key_files import create_secret, read_secret

SIGNING_KEY_FILE = "signing.key"
PUBLIC_PREFIX = "ed25519:"
MAX_KEY_NAME_CHARS = 64
MAX_KNOWN_KEYS = 1000
_PUBLIC_BYTES, _SIGNATURE_BYTES = 32, 64
_PUBLIC = re.compile(rf"{PUBLIC_PREFIX}[A-Za-z0-9_-]{{43}}")
_NAME = re.compile(rf"[^\W_](?:[\w .@()+-]{{0,{MAX_KEY_NAME_CHARS - 2}}}[\w.)])?")


class SigningKey:
    """The private key of one author of exported events."""

    def __init__(self, secret: bytes) -> None:
        # Slow to import, and only what is shared through git needs it.
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        self._key = Ed25519PrivateKey.from_private_bytes(secret)
        self.public = PUBLIC_PREFIX + _print(self._key.public_key().public_bytes_raw())
        """The public key, as events and `project.yaml` name it."""

    def sign(self, message: bytes) -> str:
        """Return the signature of a message; it is the same each time."""
        return _print(self._key.sign(message))


def create_signing_key(folder: Path) -> SigningKey:
    """Return the signing key in a project's folder of keys; the first process that needs it creates it."""
    create_secret(folder, SIGNING_KEY_FILE)
    key = load_signing_key(folder)
    assert key is not None  # noqa: S101 - it was created, or was there
    return key


def load_signing_key(folder: Path) -> SigningKey | None:
    """Return the signing key in a project's folder of keys; None if nothing was exported from this machine."""
    path = folder / SIGNING_KEY_FILE
    if not path.exists():
        return None
    return SigningKey(read_secret(path, "Put it back from a backup (engrambus keys import FILE), or delete it."))


class SignatureChecker:
    """Checks signatures; each public key is decoded once."""

    def __init__(self) -> None:
        self._keys: dict[str, object] = {}

    def is_signed(self, message: bytes, public: str, signature: str) -> bool:
        """True if the owner of a public key signed this message."""
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        try:
            key = self._keys.get(public)
            if key is None:
                key = self._keys[public] = Ed25519PublicKey.from_public_bytes(_public_bytes(public))
            assert isinstance(key, Ed25519PublicKey)  # noqa: S101 - the only type that is stored
            key.verify(_read(signature, _SIGNATURE_BYTES), message)
        except (InvalidSignature, ValueError):
            return False
        return True


def check_public_key(text: object, field: str = "key") -> str:
    """Return a public key as it is written, or refuse what is none."""
    try:
        return PUBLIC_PREFIX + _print(_public_bytes(text if isinstance(text, str) else ""))
    except ValueError:
        raise PublicKeyInvalid(
            "That is not a public key.",
            field=field,
            limit=f"{PUBLIC_PREFIX} and 43 characters",
            used=str(text)[:80],
            hint="Its owner prints it: engrambus keys show.",
        ) from None


def check_key_name(name: object, field: str = "name") -> str:
    """Return a name for a public key, or refuse one that a list could not show on a line."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise PublicKeyInvalid(
            "That is not a name for a key: letters, digits, spaces and . @ ( ) + - _",
            field=field,
            limit=MAX_KEY_NAME_CHARS,
            used=str(name)[:80],
        )
    return name


def _public_bytes(text: str) -> bytes:
    if not _PUBLIC.fullmatch(text):
        raise ValueError
    return _read(text.removeprefix(PUBLIC_PREFIX), _PUBLIC_BYTES)


def _print(value: bytes) -> str:
    return urlsafe_b64encode(value).rstrip(b"=").decode()


def _read(text: str, size: int) -> bytes:
    """Decode base64url of exactly this many bytes; one value has one spelling."""
    value = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if len(value) != size or _print(value) != text:
        raise ValueError
    return value
