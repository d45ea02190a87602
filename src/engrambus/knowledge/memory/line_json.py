"""The JSON of one line of a memory store: refused where two readers could understand it differently.

Duplicate keys, NaN, infinities and halves of surrogate pairs are refused wherever they stand. Values nest up to a limit
that does not depend on the interpreter: the standard library's decoder recurses, so that deep lines need another one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from engrambus.core import check_depth

MAX_FIELD_LEVELS = 1000
"""Levels of lists and objects in a field."""
RECURSION_LEVELS = 64
"""A line that could have more levels is not given to a decoder that recurses: it could exhaust the stack."""
MAX_INTEGER_DIGITS = 20
"""Longer integers are not converted: how many digits Python converts depends on its settings."""

_HALF_PAIR = re.compile(r"\\u[dD][89a-fA-F]")
_PIECE = re.compile(r'[ \t\r\n]*(?:([{}\[\],:]|"[^"\\]*+(?:\\.[^"\\]*+)*+"|[^\s{}\[\],:"]++)|$)', re.DOTALL)


def decode_line(line: bytes) -> Any:
    """Return the value of a line; raise ValueError, or TooDeep, if it has none."""
    text = line.decode()
    if line.count(b"[") + line.count(b"{") > RECURSION_LEVELS:
        check_depth(line, MAX_FIELD_LEVELS + 1)
        return _decode_deep(text)
    value = _DECODER.decode(text)
    if "\\u" in text and _HALF_PAIR.search(text):
        _check_pairs(value)
    return value


def _decode_deep(text: str) -> Any:
    """Decode a JSON text without recursion."""
    containers: list[Any] = []
    keys: list[str] = []
    expected = "value"
    result: Any = None
    for piece in _pieces(text):
        kind = type(containers[-1]) if containers else None
        if piece in ("[", "{") and expected in ("value", "first value"):
            containers.append([] if piece == "[" else {})
            expected = "first value" if piece == "[" else "first key"
            continue
        if piece == "," and expected == "comma" and kind is not None:
            expected = "value" if kind is list else "key"
            continue
        if piece == ":" and expected == "colon":
            expected = "value"
            continue
        if piece[0] == '"' and expected in ("key", "first key"):
            keys.append(_decode_scalar(piece))
            if keys[-1] in containers[-1]:
                raise ValueError("duplicate key")
            expected = "colon"
            continue
        if (piece, kind, expected) in _ENDS:
            value = containers.pop()
        elif expected in ("value", "first value"):
            value = _decode_scalar(piece)
        else:
            raise ValueError("not JSON")
        if not containers:
            result, expected = value, "end"
            continue
        if type(containers[-1]) is list:
            containers[-1].append(value)
        else:
            containers[-1][keys.pop()] = value
        expected = "comma"
    if expected != "end":
        raise ValueError("not JSON")
    return result


_ENDS = {
    ("]", list, "comma"),
    ("]", list, "first value"),
    ("}", dict, "comma"),
    ("}", dict, "first key"),
}
"""The marks that end a list or an object, and where they may stand."""


def _pieces(text: str) -> Iterator[str]:
    position = 0
    while position < len(text):
        match = _PIECE.match(text, position)
        if match is None:
            raise ValueError("not JSON")
        if match[1] is not None:
            yield match[1]
        position = max(match.end(), position + 1)


def _decode_scalar(piece: str) -> Any:
    value = _DECODER.decode(piece)
    if type(value) is str:
        value.encode()  # raises ValueError for half of a surrogate pair
    return value


def _check_pairs(value: Any) -> None:
    """Raise ValueError if a text or a key contains half of a surrogate pair."""
    if type(value) is str:
        value.encode()
    elif type(value) is list:
        for item in value:
            _check_pairs(item)
    elif type(value) is dict:
        for key, item in value.items():
            key.encode()
            _check_pairs(item)


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("duplicate key")
    return value


def _integer(digits: str) -> int:
    # A longer one is only compared with the limit of canonical JSON, which it exceeds by far.
    return int(digits[:MAX_INTEGER_DIGITS])


def _finite(digits: str) -> float:
    value = float(digits)
    if value - value != 0.0:
        raise ValueError("infinity")
    return value


def _refuse_constant(name: str) -> Any:
    raise ValueError(name)


_DECODER = json.JSONDecoder(
    object_pairs_hook=_unique_keys, parse_int=_integer, parse_float=_finite, parse_constant=_refuse_constant
)
