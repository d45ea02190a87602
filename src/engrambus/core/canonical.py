"""Canonical JSON: one value, one sequence of bytes, the same on every machine.

The form is `json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)` in UTF-8. What could make
it ambiguous is refused: NaN and infinities, integers beyond 2^53, lone surrogates, keys that are not strings. So is
what is nested so deeply that a reader might not take it: what is hashed here is written, and must be read again.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any

import msgspec

from engrambus.errors import BadText, FieldType, NumberRange, TooDeep

MAX_INTEGER = 2**53
MAX_NESTED = 128
"""How deeply lists and objects may lie in each other, where nobody asks for less."""
MAX_PATH = 200

_reference = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
_fast = msgspec.json.Encoder(order="sorted")


def canonical(value: Any, *, max_depth: int = MAX_NESTED) -> bytes:
    """The canonical bytes of a JSON value."""
    try:
        plain = _simple(value, max_depth) or _plain(value, "", max_depth)
    except TooDeep as refusal:
        refusal.limit = max_depth
        raise
    return _fast.encode(value) if plain else _reference.encode(value).encode()


def canonical_reference(value: Any) -> bytes:
    """The same bytes by the definition alone; the property tests hold `canonical` against it."""
    _plain(value, "", MAX_NESTED)
    return _reference.encode(value).encode()


def _simple(value: Any, left: int) -> bool:
    """Whether a value holds only what needs no closer look: most do, and this tells it in less time."""
    items: Iterable[Any]
    if not left:
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
            if (item or left == 1) and not _simple(item, left - 1):
                return False
        elif item is not None and kind is not bool:
            return False
    return True


def _plain(value: Any, where: str, left: int) -> bool:
    """Refuse what has no canonical form; tell whether the fast encoder prints the rest as the definition does.

    The two differ only in floats written with an exponent (`1e16` against `1e+16`).
    """
    kind = type(value)
    if kind is str:
        if not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError:
                raise BadText(field=where or None) from None
        return True
    if not left and kind in (dict, list, tuple):
        raise TooDeep("A value is nested too deeply.", field=where[:MAX_PATH] or None)
    if kind is dict:
        plain = True
        for key, item in value.items():
            if type(key) is not str:
                raise FieldType("A key of a hashed object is not a string.", field=where or None)
            if not key.isascii():
                _plain(key, where, left)
            plain &= _plain(item, f"{where}.{key}" if where else key, left - 1)
        return plain
    if kind is list or kind is tuple:
        plain = True
        for position, item in enumerate(value):
            plain &= _plain(item, f"{where}[{position}]", left - 1)
        return plain
    if kind is int:
        if -MAX_INTEGER <= value <= MAX_INTEGER:
            return True
        raise NumberRange(field=where or None, limit=MAX_INTEGER)
    if kind is float:
        if not math.isfinite(value):
            raise NumberRange(field=where or None)
        return "e" not in repr(value)
    if value is None or kind is bool:
        return True
    raise FieldType(f"A {kind.__name__} has no canonical form.", field=where or None)
