"""Reading JSON from strangers: bounded before it is parsed, and nothing in it may be read two ways."""

from __future__ import annotations

import json
import re
from typing import Any

from stigmergy.core.canonical import MAX_INTEGER
from stigmergy.errors import BadJson, BadText, BodyTooLarge, DuplicateKey, NumberRange, TooDeep

MAX_BYTES = 1_048_576
MAX_DEPTH = 32

# A string never spans a match twice: the group is atomic, so the scan is linear whatever the input.
_STRINGS = re.compile(rb'"(?>[^"\\]+|\\.)*+"?', re.DOTALL)
_NOT_BRACKETS = re.compile(rb"[^\[\]{}]+")


def read_json(body: bytes, *, max_bytes: int = MAX_BYTES, max_depth: int = MAX_DEPTH) -> Any:
    """The value of a JSON body, or a refusal that names what is wrong with it."""
    if len(body) > max_bytes:
        raise BodyTooLarge(limit=max_bytes, used=len(body))
    if body.count(b"[") + body.count(b"{") > max_depth:
        _check_depth(body, max_depth)
    try:
        text = body.decode()
    except UnicodeDecodeError as problem:
        raise BadText(f"The body is not UTF-8 at byte {problem.start}.") from None
    try:
        value = _DECODER.decode(text)
    except json.JSONDecodeError as problem:
        raise BadJson(
            f"The body is not JSON: {problem.msg} at line {problem.lineno}, column {problem.colno}."
        ) from None
    if "\\u" in text and _has_lone_surrogate(value):
        raise BadText("A text holds half of a surrogate pair.")
    return value


def _check_depth(body: bytes, max_depth: int) -> None:
    depth = 0
    for bracket in _NOT_BRACKETS.sub(b"", _STRINGS.sub(b"", body)):
        if bracket in b"[{":
            depth += 1
            if depth > max_depth:
                raise TooDeep(limit=max_depth)
        else:
            depth -= 1


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise DuplicateKey(field=key[:80])
            seen.add(key)
    return value


def _integer(digits: str) -> int:
    if len(digits) <= 17:
        value = int(digits)
        if -MAX_INTEGER <= value <= MAX_INTEGER:
            return value
    raise NumberRange(limit=MAX_INTEGER, used=digits[:40])


def _float(digits: str) -> float:
    value = float(digits)
    if value - value != 0.0:
        raise NumberRange(used=digits[:40])
    return value


def _constant(name: str) -> Any:
    raise NumberRange(used=name)


def _has_lone_surrogate(value: Any) -> bool:
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return True
        return False
    if isinstance(value, dict):
        return any(_has_lone_surrogate(key) or _has_lone_surrogate(item) for key, item in value.items())
    return isinstance(value, list) and any(map(_has_lone_surrogate, value))


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_int=_integer, parse_float=_float, parse_constant=_constant)
