"""Texts that are encoded as base64 or hex, in either alphabet, and private keys without their first line."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator

_MIN_HEX_BYTES = 16
_CONTROL = bytes(c for c in range(32) if c not in b"\t\n\r\f\x1b") + b"\x7f"
_HEX = b"0123456789abcdefABCDEF"
_GAPS = rb"[^A-Za-z0-9+/=_-]+"
_PARTS = rb"[A-Za-z0-9+]{16,}+={0,2}"


def unwrap(span: bytes) -> Iterator[bytes]:
    """Yield each text that the span may encode: all of it, or else its parts between slashes, `_` and `-`."""
    joined = re.sub(_GAPS, b"", span) if b"\n" in span else span
    is_wrapped = False
    for plain in _decode(joined):
        is_wrapped = True
        yield plain
    if not is_wrapped and (b"/" in joined or b"-" in joined or b"_" in joined):
        for part in re.findall(_PARTS, joined):
            yield from _decode(part)


def _decode(wrapped: bytes) -> Iterator[bytes]:
    body = wrapped[2:] if wrapped[:2] in (b"0x", b"0X") else wrapped
    if len(body) >= 2 * _MIN_HEX_BYTES and not body.translate(None, _HEX):
        plain = _as_text(binascii.unhexlify(body[: len(body) & ~1]))
        if plain is not None:
            yield plain
            return
    if wrapped.islower():
        return  # base64 of a text of this length always has capitals
    base64_text = wrapped.rstrip(b"=").replace(b"-", b"+").replace(b"_", b"/")
    if len(base64_text) % 4 == 1:
        base64_text = base64_text[:-1]
    try:
        raw = base64.b64decode(base64_text + b"=" * (-len(base64_text) % 4))
    except (binascii.Error, ValueError):
        return
    if _is_private_der(raw):
        yield b"-----BEGIN PRIVATE KEY-----\n" + base64_text[:64]
        return
    plain = _as_text(raw)
    if plain is not None:
        yield plain


def _as_text(raw: bytes) -> bytes | None:
    """Return the bytes with one byte for each character if they are a text, else None."""
    if len(raw) < 6:
        return None
    if len(raw) >= 16 and raw[1::2].count(0) * 10 >= len(raw[1::2]) * 8:
        raw = raw[::2]  # UTF-16, as PowerShell encodes its commands
    if raw.translate(None, _CONTROL) != raw:
        return None
    if raw.isascii():
        return raw
    try:
        return raw.decode("utf-8").encode("ascii", "replace")
    except UnicodeDecodeError as error:
        if error.start < len(raw) - 3 or error.start < 6:
            return None
        return raw[: error.start].decode("utf-8").encode("ascii", "replace")


def _is_private_der(raw: bytes) -> bool:
    """True if these bytes begin like a private key: a sequence whose first member is a small version number."""
    # Certificates, requests and public keys begin with an inner sequence instead.
    if raw[:14] == b"openssh-key-v1":
        return True
    if len(raw) < 32 or raw[0] != 0x30:
        return False
    inner = raw[2 + (raw[1] & 0x7F) if raw[1] & 0x80 else 2 :]
    return (
        inner[:3] in (b"\x02\x01\x00", b"\x02\x01\x01")
        and inner[3:4] in (b"\x02", b"\x04", b"\x30")
        and len(inner) >= 28
    )
