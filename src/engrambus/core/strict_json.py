"""Strict JSON: bounded before it is parsed, and refused where two readers could understand it differently."""

from __future__ import annotations

import json
import re
from typing import Any

from engrambus.core.canonical_json import MAX_INTEGER
from engrambus.errors import BadJson, BadText, BodyTooLarge, DuplicateKey, NumberRange, TooDeep

MAX_BYTES = 1_048_576
MAX_DEPTH = 32
MAX_FIELD_CHARS = 200
"""Fields with longer names get no line number: deeply nested long names would take more memory than the text."""
MAX_KEY_CHARS = 80
MAX_NUMBER_CHARS = 40

# The groups are atomic and possessive, so that no input makes the scan take more than linear time.
_STRINGS = re.compile(rb'"(?>[^"\\]+|\\.)*+"?', re.DOTALL)
_NOT_BRACKETS = re.compile(rb"[^\[\]{}]+")
_TOKENS = re.compile(r'"(?>[^"\\]+|\\.)*+"?|[\[\]{},:\n]|[^\s"\[\]{},:]+', re.DOTALL)


def read_json(body: bytes, *, max_bytes: int = MAX_BYTES, max_depth: int = MAX_DEPTH, first_line: int = 1) -> Any:
    """Parse a JSON body, or refuse it and say why.

    `first_line` is the line number of the body's first line, for a body that is part of a larger file.
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
        raise _not_json(problem, text, first_line) from None
    except NumberRange as problem:
        # The decoder does not say where it stands; only a refused body pays for a second reading.
        field, line = _Lines(text).literals.get(str(problem.used), ("", 1))
        problem.field = field[:MAX_FIELD_CHARS] or None
        problem.line = first_line - 1 + line
        raise
    if "\\u" in text and _has_lone_surrogate(value):
        raise BadText("A text contains half of a surrogate pair.")
    return value


def _not_json(problem: json.JSONDecodeError, text: str, first_line: int) -> BadJson:
    # The decoder reports an unexpected end after the last line feed, on a line that the file does not have.
    position = problem.pos if text[problem.pos :].strip() else len(text.rstrip())
    line = first_line + text.count("\n", 0, position)
    column = position - text.rfind("\n", 0, position)
    return BadJson(f"The body is not JSON: {problem.msg} at line {line}, column {column}.", line=line)


def read_json_with_lines(
    text: str, *, max_bytes: int = MAX_BYTES, max_depth: int = MAX_DEPTH
) -> tuple[Any, dict[str, int]]:
    """Parse a JSON text; return its value and the line of every field: `""`, `a`, `a.b`, `a.b[2]`."""
    try:
        body = text.encode()
    except UnicodeEncodeError:
        raise BadText("The text contains half of a surrogate pair.") from None
    try:
        value = read_json(body, max_bytes=max_bytes, max_depth=max_depth)
    except DuplicateKey as problem:
        problem.field, problem.line = _Lines(text).repeated_key or (problem.field, None)
        raise
    return value, _Lines(text).fields


class _Lines:
    """The line numbers of a JSON text that `read_json` has parsed, or refused for a key or a number."""

    def __init__(self, text: str) -> None:
        self.fields: dict[str, int] = {}
        self.literals: dict[str, tuple[str, int]] = {}
        """Field and line of the first of equal numbers and constants, by their first characters."""
        self.repeated_key: tuple[str, int] | None = None
        line = 1
        open_fields: list[str] = []
        steps: list[int | str | None] = []  # for each open bracket: the index, or the key once it was read
        expects_key = False
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
                expects_key = bool(steps) and not isinstance(steps[-1], int)
            elif piece == ":":
                expects_key = False
            elif expects_key:
                key = _decode_key(piece)
                steps[-1] = key
                field = _field_name(open_fields, steps)
                if field in self.fields and self.repeated_key is None:
                    self.repeated_key = (key, line)
                self._add(field, line)
            else:
                field = _field_name(open_fields, steps)
                if field not in self.fields:
                    self._add(field, line)
                if piece in ("[", "{"):
                    open_fields.append(field)
                    steps.append(0 if piece == "[" else None)
                    expects_key = piece == "{"
                elif piece[0] != '"':
                    self.literals.setdefault(piece[:MAX_NUMBER_CHARS], (field, line))

    def _add(self, field: str, line: int) -> None:
        if len(field) <= MAX_FIELD_CHARS:
            self.fields[field] = line


def _decode_key(piece: str) -> str:
    try:
        return str(json.loads(piece, strict=False))[:MAX_KEY_CHARS]
    except ValueError:  # the text was refused before this key
        return piece[:MAX_KEY_CHARS]


def _field_name(open_fields: list[str], steps: list[int | str | None]) -> str:
    if not open_fields:
        return ""
    step = steps[-1]
    if isinstance(step, int):
        return f"{open_fields[-1]}[{step}]"
    return f"{open_fields[-1]}.{step}" if open_fields[-1] else str(step)


def check_depth(body: bytes, max_depth: int) -> None:
    """Refuse a body that is nested too deeply, without parsing it."""
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


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise DuplicateKey(field=key[:MAX_KEY_CHARS])
            seen.add(key)
    return value


def _parse_integer(digits: str) -> int:
    if len(digits) <= 17:
        value = int(digits)
        if -MAX_INTEGER <= value <= MAX_INTEGER:
            return value
    raise NumberRange(limit=MAX_INTEGER, used=digits[:MAX_NUMBER_CHARS])


def _parse_float(digits: str) -> float:
    value = float(digits)
    if value - value != 0.0:  # an infinity
        raise NumberRange(used=digits[:MAX_NUMBER_CHARS])
    return value


def _refuse_constant(name: str) -> Any:
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


_DECODER = json.JSONDecoder(
    object_pairs_hook=_unique_keys,
    parse_int=_parse_integer,
    parse_float=_parse_float,
    parse_constant=_refuse_constant,
)
