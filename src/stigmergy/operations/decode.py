"""From a stranger's JSON value to a request, or to a refusal that names the field."""

from __future__ import annotations

import re
from typing import Any, TypeVar

import msgspec

from stigmergy.errors import FieldMissing, FieldRefusal, FieldType, FieldUnknown, FieldValue

T = TypeVar("T")

_LIMIT = re.compile(r"[<>]= ([0-9]+)\Z")


def to_request(value: Any, kind: type[T], *, lax: bool = False) -> T:
    """The request a JSON value says; `lax` reads numbers and booleans from text, for query strings."""
    try:
        return msgspec.convert(value, kind, strict=not lax)
    except msgspec.ValidationError as problem:
        raise _refusal(str(problem)) from None


def _refusal(message: str) -> FieldRefusal:
    said, _, path = message.partition(" - at `")
    where = path.removesuffix("`").removeprefix("$").removeprefix(".")
    named = said.split("`")
    if "unknown field" in said:
        return FieldUnknown(f"The field '{named[1][:80]}' is not known here.", field=_join(where, named[1]))
    if "missing required field" in said:
        return FieldMissing(f"The field '{named[1]}' is required.", field=_join(where, named[1]))
    kind = FieldType if ", got" in said else FieldValue
    limit = _LIMIT.search(said)
    return kind(f"{said}.", field=where or None, limit=int(limit[1]) if limit else None)


def _join(where: str, name: str) -> str:
    return f"{where}.{name}"[:120] if where else name[:120]
