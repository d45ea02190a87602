"""From a stranger's JSON value to a request, or to a refusal that names the field."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import msgspec
from msgspec import inspect

from engrambus.errors import FieldMissing, FieldRefusal, FieldType, FieldUnknown, FieldValue

T = TypeVar("T")

_LIMIT = re.compile(r"[<>]= ([0-9]+)\Z")


def to_request(value: Any, kind: type[T], *, lax: bool = False) -> T:
    """The request a JSON value says; `lax` reads numbers and booleans from text, for query strings."""
    try:
        return msgspec.convert(value, kind, strict=not lax)
    except msgspec.ValidationError as problem:
        raise _refusal(str(problem), kind) from None


def _refusal(message: str, kind: type) -> FieldRefusal:
    said, _, path = message.partition(" - at `")
    where = path.removesuffix("`").removeprefix("$").removeprefix(".")
    named = said.split("`")
    if "unknown field" in said:
        known = [
            field.encode_name
            for each in _expected(kind, where)
            if isinstance(each, inspect.StructType)
            for field in each.fields
        ]
        detail = f"The field '{named[1][:80]}' is not known here."
        return FieldUnknown(detail, field=_join(where, named[1]), limit=", ".join(known) or None)
    if "missing required field" in said:
        return FieldMissing(f"The field '{named[1]}' is required.", field=_join(where, named[1]))
    if ", got" in said:
        return FieldType(f"{said}.", field=where or None)
    choices = [str(value) for each in _expected(kind, where) for value in getattr(each, "values", ())]
    number = _LIMIT.search(said)
    limit = int(number[1]) if number else ", ".join(choices) or None
    return FieldValue(f"{said}.", field=where or None, limit=limit)


def _expected(kind: type, where: str) -> list[inspect.Type]:
    """What may stand at a place of a request, as in `payload[...].yool`; nothing when the place cannot be found."""
    types = list(_each([inspect.type_info(kind)]))
    for step in re.findall(r"\[[^\]]*\]|[^.\[\]]+", where):
        types = list(_each(inner for outer in types for inner in _inside(outer, step)))
    return types


def _each(types: Iterable[inspect.Type]) -> Iterator[inspect.Type]:
    for one in types:
        if isinstance(one, inspect.UnionType):
            yield from _each(one.types)
        elif isinstance(one, inspect.Metadata):
            yield from _each([one.type])
        else:
            yield one


def _inside(outer: inspect.Type, step: str) -> Iterator[inspect.Type]:
    if isinstance(outer, inspect.StructType):
        yield from (field.type for field in outer.fields if field.encode_name == step)
    elif isinstance(outer, inspect.DictType):
        yield outer.value_type
    elif isinstance(outer, (inspect.ListType, inspect.VarTupleType)):
        yield outer.item_type


def _join(where: str, name: str) -> str:
    return f"{where}.{name}"[:120] if where else name[:120]
