"""Reading JSON from strangers: bounded before it is parsed, and nothing in it may be read two ways."""

from __future__ import annotations

import json
import re
from typing import Any

from engrambus.core.canonical import MAX_INTEGER
from engrambus.errors import BadJson, BadText, BodyTooLarge, DuplicateKey, NumberRange, TooDeep

MAX_BYTES = 1_048_576
MAX_DEPTH = 32
MAX_FIELD = 200

# A string never spans a match twice: the group is atomic, so the scan is linear whatever the input.
_STRINGS = re.compile(rb'"(?>[^"\\]+|\\.)*+"?', re.DOTALL)
_NOT_BRACKETS = re.compile(rb"[^\[\]{}]+")
_TOKENS = re.compile(r'"(?>[^"\\]+|\\.)*+"?|[\[\]{},:\n]|[^\s"\[\]{},:]+', re.DOTALL)


def read_json(body: bytes, *, max_bytes: int = MAX_BYTES, max_depth: int = MAX_DEPTH, first_line: int = 1) -> Any:
    """Return the value of a JSON body, or refuse it with the line and column of the mistake.

    `first_line` is the line number of the body's first line, for one that is part of a larger file.
    """
    if len(body) > max_bytes:
        raise BodyTooLarge(limit=max_bytes, used=len(body))
    check_depth(body, max_depth)
    try:
        text = body.decode()
    except UnicodeDecodeError as problem:
        raise BadText(f"The body is not UTF-8 at byte {problem.start}.") from None
    try:
        value = _DECODER.decode(text)
    except json.JSONDecodeError as problem:
        line = first_line + problem.lineno - 1
        raise BadJson(
            f"The body is not JSON: {problem.msg} at line {line}, column {problem.colno}.", line=line
        ) from None
    if "\\u" in text and _has_lone_surrogate(value):
        raise BadText("A text holds half of a surrogate pair.")
    return value


def read_json_with_lines(
    text: str, *, max_bytes: int = MAX_BYTES, max_depth: int = MAX_DEPTH
) -> tuple[Any, dict[str, int]]:
    """The value of a JSON text, and the line of every field in it: `""`, `a`, `a.b`, `a.b[2]`."""
    try:
        body = text.encode()
    except UnicodeEncodeError:
        raise BadText("The text holds half of a surrogate pair.") from None
    try:
        value = read_json(body, max_bytes=max_bytes, max_depth=max_depth)
    except (DuplicateKey, NumberRange) as problem:
        places = _Places(text)
        if isinstance(problem, DuplicateKey):
            problem.field, problem.line = places.repeated or (problem.field, None)
        else:
            problem.line = places.words.get(str(problem.used))
        raise
    return value, _Places(text).lines


class _Places:
    """Where things stand in a JSON text that `read_json` has read, or refused for a key or a number."""

    def __init__(self, text: str) -> None:
        self.lines: dict[str, int] = {}
        self.words: dict[str, int] = {}
        """The line of each number and constant, by its first characters."""
        self.repeated: tuple[str, int] | None = None
        line = 1
        open_fields: list[str] = []
        steps: list[int | str | None] = []  # inside each bracket: the position, or the key once it was read
        at_key = False
        for piece in _TOKENS.findall(text):
            if piece == "\n":
                line += 1
            elif piece in ("]", "}"):
                if open_fields:
                    open_fields.pop()
                    steps.pop()
            elif piece == ",":
                if steps and isinstance(steps[-1], int):
                    steps[-1] += 1
                at_key = bool(steps) and not isinstance(steps[-1], int)
            elif piece == ":":
                at_key = False
            elif at_key:
                key = _key(piece)
                steps[-1] = key
                field = _field(open_fields, steps)
                if field in self.lines and self.repeated is None:
                    self.repeated = (key, line)
                self._note(field, line)
            else:
                field = _field(open_fields, steps)
                if field not in self.lines:
                    self._note(field, line)
                if piece in ("[", "{"):
                    open_fields.append(field)
                    steps.append(0 if piece == "[" else None)
                    at_key = piece == "{"
                elif piece[0] != '"':
                    self.words.setdefault(piece[:40], line)

    def _note(self, field: str, line: int) -> None:
        if len(field) <= MAX_FIELD:  # long names, nested, would take more room than the text itself
            self.lines[field] = line


def _key(piece: str) -> str:
    try:
        return str(json.loads(piece, strict=False))[:80]
    except ValueError:  # a text that was refused before this key was reached
        return piece[:80]


def _field(open_fields: list[str], steps: list[int | str | None]) -> str:
    if not open_fields:
        return ""
    step = steps[-1]
    if isinstance(step, int):
        return f"{open_fields[-1]}[{step}]"
    return f"{open_fields[-1]}.{step}" if open_fields[-1] else str(step)


def check_depth(body: bytes, max_depth: int) -> None:
    """Refuse a body that nests more deeply, without parsing it."""
    if body.count(b"[") + body.count(b"{") <= max_depth:
        return
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
