"""Base64 and hex taken off a value, so that what is inside can be looked at."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from functools import cache

_LEAST = 16
_CONTROL = bytes(c for c in range(32) if c not in b"\t\n\r\f\x1b") + b"\x7f"
_HEX = b"0123456789abcdefABCDEF"
_GAPS = rb"[^A-Za-z0-9+/=_-]+"
_PARTS = rb"[A-Za-z0-9+]{16,}+={0,2}"


@cache
def block() -> re.Pattern[bytes]:
    """Base64 broken into lines."""
    line = rb" ?\r? ?\n[ \t>#*\"']{0,40}+[A-Za-z0-9+/_-]"
    return re.compile(
        rb"[A-Za-z0-9+/_-]{40,}+(?P<full>"
        + line
        + rb"{40,}+){0,4000}+(?:"
        + line
        + rb"{2,}+={0,2}(?=[ \t\r]*+(?:[\n\"'`<-]|\Z)))?"
    )


def unwrap(span: bytes) -> Iterator[bytes]:
    """Each text the span could be a wrapping of: as a whole, then between slashes, underscores and hyphens."""
    whole = re.sub(_GAPS, b"", span) if b"\n" in span else span
    opened = False
    for plain in _open(whole):
        opened = True
        yield plain
    if not opened and (b"/" in whole or b"-" in whole or b"_" in whole):
        for part in re.findall(_PARTS, whole):
            yield from _open(part)


def _open(wrapped: bytes) -> Iterator[bytes]:
    body = wrapped[2:] if wrapped[:2] in (b"0x", b"0X") else wrapped
    if len(body) >= 2 * _LEAST and not body.translate(None, _HEX):
        plain = _text(binascii.unhexlify(body[: len(body) & ~1]))
        if plain is not None:
            yield plain
            return
    if wrapped.islower() or wrapped.isupper():
        return  # base64 of a text of this length always mixes the cases
    bare = wrapped.rstrip(b"=").replace(b"-", b"+").replace(b"_", b"/")
    if len(bare) % 4 == 1:
        bare = bare[:-1]
    try:
        raw = base64.b64decode(bare + b"=" * (-len(bare) % 4))
    except (binascii.Error, ValueError):
        return
    if is_private_der(raw):
        yield b"-----BEGIN PRIVATE KEY-----\n" + bare[:64]
        return
    plain = _text(raw)
    if plain is not None:
        yield plain


def _text(raw: bytes) -> bytes | None:
    """The bytes as a text with one byte a character, if they are a text."""
    if len(raw) < 6:
        return None
    if len(raw) >= 16 and raw[1::2].count(0) * 10 >= len(raw[1::2]) * 8:
        raw = raw[::2]  # UTF-16, as PowerShell wraps its commands
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


def is_private_der(raw: bytes) -> bool:
    """Whether these bytes begin as a private key does: an outer sequence whose first member is a small version number.

    Certificates, requests and public keys begin with another sequence instead.
    """
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
