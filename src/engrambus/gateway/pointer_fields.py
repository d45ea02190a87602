"""The fields of requests that hold pointers, found by their types, and completed before an operation sees them.

decision 57: an operation declares its fields as `PointerOrRef` or `Place` and gets full pointers; it cannot forget it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta

from engrambus.evidence.pointers import Pointer, PointerCompleter

T = TypeVar("T", bound=msgspec.Struct)
_Convert = Callable[[Any, str, PointerCompleter], Any]
"""Completes a value of a field: the value, the name of the field, the completer."""

_IS_PLACE = {"pointer": True}

PointerOrRef = Annotated[Pointer | str, Meta(description="path:10-20, a pointer, or its ref")]
Place = Annotated[str, Meta(extra=_IS_PLACE)]
"""A pointer as one text: `path:10-20`, or a ref."""
AT, POINTERS = "at", "pointers"
"""Two fields for the same: places and pointers. An operation that takes both gets all of them as pointers."""
SNAPSHOT = "snapshot"
"""The field that makes places mean the files as they are on disk."""


_FIELDS: dict[type[msgspec.Struct], dict[str, _Convert]] = {}
"""The pointer fields of each type of request that was asked for."""


def complete_pointers(request: T, completer: PointerCompleter) -> T:
    """Return the request with every pointer in its full form, and places moved from `at` to `pointers`."""
    return cast("T", _complete_struct(request, "", completer))


def complete_fields(
    kind: type[msgspec.Struct], fields: Mapping[str, Any], completer: PointerCompleter
) -> dict[str, Any]:
    """Return the fields of a request that is not decoded yet, with every pointer in its full form."""
    converters = find_pointer_fields(kind)
    completer.on_disk = bool(fields.get(SNAPSHOT))
    return {
        name: converters[name](value, name, completer) if name in converters else value
        for name, value in fields.items()
    }


def _complete_struct(value: msgspec.Struct, owner: str, completer: PointerCompleter) -> msgspec.Struct:
    converters = find_pointer_fields(type(value))
    was_on_disk, completer.on_disk = completer.on_disk, completer.on_disk or getattr(value, SNAPSHOT, False)
    changes = {
        name: convert(given, f"{owner}{name}", completer)
        for name, convert in converters.items()
        if (given := getattr(value, name))
    }
    completer.on_disk = was_on_disk
    if changes.get(AT) and POINTERS in converters:
        places = [Pointer(type=ref.partition(":")[0], ref=ref) for ref in changes[AT]]
        changes |= {POINTERS: completer.merge(changes.get(POINTERS, ()), places, owner), AT: []}
    return msgspec.structs.replace(value, **changes) if changes else value


def find_pointer_fields(kind: type[msgspec.Struct]) -> dict[str, _Convert]:
    """Return the fields of a request that hold pointers, or objects with pointers, and how to complete each."""
    fields = _FIELDS.get(kind)
    if fields is None:
        hints = get_type_hints(kind, include_extras=True)
        found = {name: _converter(hint) for name, hint in hints.items()}
        fields = _FIELDS[kind] = {name: convert for name, convert in found.items() if convert is not None}
    return fields


def _converter(hint: Any) -> _Convert | None:
    """Return what completes a value of this type; None if it holds no pointer."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        if any(isinstance(meta, Meta) and meta.extra == _IS_PLACE for meta in arguments[1:]):
            return _complete_place
        return _converter(arguments[0])
    if hint is Pointer or (origin in (Union, UnionType) and Pointer in arguments):
        return _complete_pointer
    inner = next(filter(None, map(_converter, arguments)), None)
    if origin in (Union, UnionType):
        return inner
    if origin in (list, tuple):
        return _complete_items(inner) if inner is not None else None
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct) and find_pointer_fields(hint):
        return _complete_object
    return None


def _complete_object(value: Any, field: str, completer: PointerCompleter) -> Any:
    return _complete_struct(value, f"{field}.", completer) if isinstance(value, msgspec.Struct) else value


def _complete_place(value: str, field: str, completer: PointerCompleter) -> str:
    return completer.complete(value, field).ref if isinstance(value, str) else value


def _complete_pointer(value: Any, field: str, completer: PointerCompleter) -> Any:
    return completer.complete(value, field) if isinstance(value, Pointer | str) else value


def _complete_items(convert: _Convert) -> _Convert:
    def complete(value: Any, field: str, completer: PointerCompleter) -> Any:
        if not isinstance(value, list | tuple):
            return value
        return type(value)(convert(item, f"{field}[{index}]", completer) for index, item in enumerate(value))

    return complete
