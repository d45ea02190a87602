"""Percent-encoding, with one canonical form: only what must be encoded is, in upper-case hex."""

from __future__ import annotations

from engrambus.errors import PointerPath, PointerSyntax

_HEX_DIGITS = frozenset("0123456789abcdefABCDEF")


def upper_escapes(text: str, field: str) -> str:
    """The text with its escapes in upper-case hex, none of them decoded."""
    if "%" not in text:
        return text
    head, *rest = text.split("%")
    for part in rest:
        _hex_pair(part, field)
    return head + "".join(f"%{part[:2].upper()}{part[2:]}" for part in rest)


def _hex_pair(part: str, field: str) -> int:
    pair = part[:2]
    if len(pair) < 2 or not _HEX_DIGITS.issuperset(pair):
        raise PointerSyntax("A % is followed by two hex digits.", field=field, hint="Write % itself as %25.")
    return int(pair, 16)


def decode(text: str, field: str, *, in_path: bool) -> str:
    """The text with its escapes decoded; a path may not smuggle a separator in by one."""
    if "%" not in text:
        return text
    head, *rest = text.split("%")
    raw = bytearray(head.encode())
    for part in rest:
        value = _hex_pair(part, field)
        if in_path and value in (0x00, 0x2F, 0x5C):
            raise PointerPath("A path holds no encoded slash, backslash or NUL.", field=field)
        raw.append(value)
        raw += part[2:].encode()
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise PointerSyntax("The percent-encoding is not UTF-8.", field=field) from None


def has_control(text: str) -> bool:
    """Whether the text holds a control character, newline and NUL among them."""
    return not text.isprintable() and any(char < " " or "\x7f" <= char <= "\x9f" for char in text)


def check_unicode(text: str, field: str) -> None:
    """Refuse half of a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise PointerSyntax("The text is not valid Unicode.", field=field) from None


def encode(text: str) -> str:
    """The text with `%`, `#`, `@`, spaces and control characters encoded."""
    return text.translate(_ENCODED)


_ENCODED = {
    code: "".join(f"%{byte:02X}" for byte in chr(code).encode())
    for code in (*range(0x21), *range(0x7F, 0xA0), ord("%"), ord("#"), ord("@"))
}
