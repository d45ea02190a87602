"""Decoding: from a JSON value to a typed request, or to an error that names the field."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import msgspec
from msgspec import inspect

from engrambus.errors import FieldMissing, FieldRefusal, FieldType, FieldUnknown, FieldValue
from engrambus.policy.secrets import hide_secrets

T = TypeVar("T")

MAX_FIELD_NAME = 80
"""Characters of an unknown field's name that an error repeats."""
MAX_PATH = 120
"""Characters of the path of a field that an error repeats."""
_LIMIT = re.compile(r"[<>]= ([0-9]+)\Z")


def to_request(value: Any, kind: type[T], *, lax: bool = False) -> T:
    """Convert a JSON value to a request; `lax` reads numbers and booleans from text, for query strings."""
    try:
        return msgspec.convert(value, kind, strict=not lax)
    except msgspec.ValidationError as problem:
        # The name of an unknown field is the caller's; it is checked before it is shortened.
        raise _field_error(hide_secrets(str(problem)), kind) from None


def _field_error(message: str, kind: type) -> FieldRefusal:
    """Translate msgspec's message, which is the only place where it names the field and the limit."""
    text, _, place = message.partition(" - at `")
    path = place.removesuffix("`").removeprefix("$").removeprefix(".")
    quoted = text.split("`")
    if "unknown field" in text:
        allowed = [
            field.encode_name
            for expected in _types_at(kind, path)
            if isinstance(expected, inspect.StructType)
            for field in expected.fields
        ]
        detail = f"The field `{quoted[1][:MAX_FIELD_NAME]}` is not known here."
        return FieldUnknown(detail, field=_join(path, quoted[1]), limit=", ".join(allowed) or None)
    if "missing required field" in text:
        return FieldMissing(f"The field `{quoted[1]}` is required.", field=_join(path, quoted[1]))
    if ", got" in text:
        return FieldType(f"{text}.", field=path or None)  # "Expected `int`, got `str`" reads well as it is
    choices = [str(value) for expected in _types_at(kind, path) for value in getattr(expected, "values", ())]
    number = _LIMIT.search(text)
    limit = int(number[1]) if number else ", ".join(choices) or None
    return FieldValue(f"{text}.", field=path or None, limit=limit)


def _types_at(kind: type, path: str) -> list[inspect.Type]:
    """Return the types allowed at a path of a request, such as `payload[...].yool`; none if there is no such path."""
    types = list(_without_unions([inspect.type_info(kind)]))
    for step in re.findall(r"\[[^\]]*\]|[^.\[\]]+", path):
        types = list(_without_unions(inner for outer in types for inner in _inside(outer, step)))
    return types


def _without_unions(types: Iterable[inspect.Type]) -> Iterator[inspect.Type]:
    """Yield the types, each member of a union by itself and without annotations."""
    for member in types:
        if isinstance(member, inspect.UnionType):
            yield from _without_unions(member.types)
        elif isinstance(member, inspect.Metadata):
            yield from _without_unions([member.type])
        else:
            yield member


def _inside(outer: inspect.Type, step: str) -> Iterator[inspect.Type]:
    """Yield the types one step further down: a field of a struct, or an item of a mapping or a list."""
    if isinstance(outer, inspect.StructType):
        yield from (field.type for field in outer.fields if field.encode_name == step)
    elif isinstance(outer, inspect.DictType):
        yield outer.value_type
    elif isinstance(outer, (inspect.ListType, inspect.VarTupleType)):
        yield outer.item_type


def _join(path: str, name: str) -> str:
    return f"{path}.{name}"[:MAX_PATH] if path else name[:MAX_PATH]
