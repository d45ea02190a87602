"""Canonical JSON, the same bytes for the same value on every machine, and digests of it.

The form is `json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)` in UTF-8. Values that would
make it ambiguous are refused: NaN and infinities, integers beyond 2^53, lone surrogates, keys that are not strings.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable
from typing import Any

import msgspec

from engrambus.errors import BadText, FieldType, NumberRange, TooDeep

MAX_INTEGER = 2**53
MAX_DEPTH = 128
"""Nesting of lists and objects. Hashed values are also written, and readers with a limit must be able to read them."""
MAX_PATH_CHARS = 200
DIGEST_PREFIX = "sha256:"

_reference = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
_fast = msgspec.json.Encoder(order="sorted")
_HEX = frozenset("0123456789abcdef")
_match_digest = re.compile(DIGEST_PREFIX + "[0-9a-f]{64}").fullmatch


def canonical(value: Any, *, max_depth: int = MAX_DEPTH) -> bytes:
    """Return the canonical bytes of a JSON value."""
    try:
        use_fast = _is_simple(value, max_depth) or _check(value, "", max_depth)
    except TooDeep as refusal:
        refusal.limit = max_depth
        raise
    return _fast.encode(value) if use_fast else _reference.encode(value).encode()


def canonical_reference(value: Any) -> bytes:
    """Return the same bytes by the definition alone; the property tests compare `canonical` with it."""
    _check(value, "", MAX_DEPTH)
    return _reference.encode(value).encode()


def digest(content: bytes) -> str:
    """Return `sha256:` and 64 lower-case hex digits."""
    return DIGEST_PREFIX + hashlib.sha256(content).hexdigest()


def digest_of(value: Any) -> str:
    """Return the digest of the canonical form of a JSON value."""
    return digest(canonical(value))


def is_digest(text: str) -> bool:
    """True if `text` is a digest as `digest` writes it."""
    return _match_digest(text) is not None


def is_hex(text: str, *lengths: int) -> bool:
    """True if `text` is lower-case hex of one of these lengths."""
    return len(text) in lengths and _HEX.issuperset(text)


def _is_simple(value: Any, depth: int) -> bool:
    """True if a list or object holds only values that need no closer check: most do, and this is fast."""
    items: Iterable[Any]
    if not depth:
        return False
    if type(value) is dict:
        for key in value:
            if type(key) is not str or not key.isascii():
                return False
        items = value.values()
    elif type(value) is list or type(value) is tuple:
        items = value
    else:
        return False
    for item in items:
        kind = type(item)
        if kind is str:
            if not item.isascii():
                return False
        elif kind is int:
            if not -MAX_INTEGER <= item <= MAX_INTEGER:
                return False
        elif kind is dict or kind is list or kind is tuple:
            if (item or depth == 1) and not _is_simple(item, depth - 1):
                return False
        elif item is not None and kind is not bool:
            return False
    return True


def _check(value: Any, path: str, depth: int) -> bool:
    """Refuse a value without a canonical form; return True if the fast encoder prints it as the definition does.

    The two encoders differ only in floats with an exponent (`1e16` against `1e+16`).
    """
    kind = type(value)
    if kind is str:
        if not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError:
                raise BadText(field=path or None) from None
        return True
    if not depth and kind in (dict, list, tuple):
        raise TooDeep("A value is nested too deeply.", field=path[:MAX_PATH_CHARS] or None)
    if kind is dict:
        use_fast = True
        for key, item in value.items():
            if type(key) is not str:
                raise FieldType("A key of a hashed object is not a string.", field=path or None)
            if not key.isascii():
                _check(key, path, depth)
            use_fast &= _check(item, f"{path}.{key}" if path else key, depth - 1)
        return use_fast
    if kind is list or kind is tuple:
        use_fast = True
        for index, item in enumerate(value):
            use_fast &= _check(item, f"{path}[{index}]", depth - 1)
        return use_fast
    if kind is int:
        if -MAX_INTEGER <= value <= MAX_INTEGER:
            return True
        raise NumberRange(field=path or None, limit=MAX_INTEGER)
    if kind is float:
        if not math.isfinite(value):
            raise NumberRange(field=path or None)
        return "e" not in repr(value)
    if value is None or kind is bool:
        return True
    raise FieldType(f"A {kind.__name__} has no canonical form.", field=path or None)
