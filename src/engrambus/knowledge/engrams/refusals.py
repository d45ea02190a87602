"""Turning an error of the JSON Schema validator into a refusal with a code, a field and a limit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from engrambus.errors import (
    BadText,
    ClaimTooLong,
    ConfidenceRange,
    FieldMissing,
    FieldType,
    FieldUnknown,
    FieldValue,
    NoPointer,
    PointerTooLong,
    Refusal,
    TimeInvalid,
    TooManyPointers,
)

if TYPE_CHECKING:
    from jsonschema_rs import Draft202012Validator, ValidationError

MAX_VALUE_CHARS = 80
_NO_POINTER_HINT = "Name the lines that show it: `at` takes src/parser.py:10-20."

# fmt: off
_FIELDS = (
    "id", "kind", "claim", "pointers", "confidence", "ttl", "scope", "tags", "hash_keys", "embedding_ref", "provenance",
    "type", "ref", "digest", "span", "created_at", "created_by", "source",
)
# fmt: on
_POSITION = {name: position for position, name in enumerate(_FIELDS)}


def first_refusal(validator: Draft202012Validator, engram: dict[str, Any]) -> Refusal:
    """Return the refusal for the first error in an engram, in the order of the schema's fields."""
    engram = _in_order(engram)
    try:
        error = next(iter(validator.iter_errors(engram)), None)
    except UnicodeEncodeError:
        return BadText("A text contains half of a surrogate pair.")
    except ValueError as problem:
        return FieldType(f"This is not JSON: {str(problem)[:MAX_VALUE_CHARS]}.")
    if error is None:
        return FieldValue("The engram does not follow its schema.")
    return _refusal(error, engram)


def _refusal(error: ValidationError, engram: dict[str, Any]) -> Refusal:
    path = list(error.instance_path)
    details = error.kind.as_dict()
    value = _value_at(engram, path)
    field = print_field(path)
    match error.kind.name:
        case "required":
            return _missing(print_field([*path, details["property"]]))
        case "additionalProperties":
            return FieldUnknown(field=print_field([*path, str(details["unexpected"][0])]))
        case "type":
            return _wrong_type(field, value, " or ".join(details["types"]))
        case "enum":
            return _not_listed(field, value, details["options"])
        case "minimum" | "maximum":
            return ConfidenceRange(field=field, limit="0 to 1", used=_printable(value))
        case "minItems":
            return NoPointer(field=field, limit=details["limit"], used=0, hint=_NO_POINTER_HINT)
        case "maxItems":
            refusal = TooManyPointers if path == ["pointers"] else FieldValue
            return refusal(f"{field} has too many items.", field=field, limit=details["limit"], used=len(value))
        case "maxLength":
            return _too_long(field, path, limit=details["limit"], used=len(value))
        case "format":
            return TimeInvalid(field=field, used=_printable(value))
    return FieldValue("The engram does not follow its schema.", field=field)


def _in_order(engram: dict[str, Any]) -> dict[str, Any]:
    """Return the engram with its fields in the schema's order, so that the sender's order decides nothing."""

    def sort(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return dict(sorted(value.items(), key=lambda item: (_POSITION.get(item[0], len(_FIELDS)), str(item[0]))))

    ordered: dict[str, Any] = sort(engram)
    if isinstance(ordered.get("pointers"), list | tuple):
        ordered["pointers"] = [sort(pointer) for pointer in ordered["pointers"]]
    if "provenance" in ordered:
        ordered["provenance"] = sort(ordered["provenance"])
    return ordered


def _missing(field: str) -> Refusal:
    if field == "pointers":
        return NoPointer(field=field, limit=1, used=0, hint=_NO_POINTER_HINT)
    return FieldMissing(f"{field} is missing.", field=field)


def _wrong_type(field: str, value: Any, expected: str) -> Refusal:
    if field == "confidence" and isinstance(value, int | float):
        return ConfidenceRange(field=field, limit="0 to 1", used=_printable(value))
    return FieldType(f"{field} is not of type {expected}.", field=field, limit=expected)


def _not_listed(field: str, value: Any, options: Sequence[Any]) -> Refusal:
    if not isinstance(value, str):
        return FieldType(f"{field} is not of type string.", field=field, limit="string")
    listed = ", ".join(map(str, options))
    return FieldValue(f"{field} is not one of {listed}.", field=field, limit=listed, used=_printable(value))


def _too_long(field: str, path: list[str | int], *, limit: int, used: int) -> Refusal:
    if field == "claim":
        return ClaimTooLong(field=field, limit=limit, used=used)
    if path[0] == "pointers":
        return PointerTooLong(field=field, limit=limit, used=used)
    return FieldValue(f"{field} is too long.", field=field, limit=limit, used=used)


def print_field(path: Sequence[str | int]) -> str:
    """Return the name of a field as refusals write it: `pointers[2].ref`."""
    name = ""
    for step in path:
        if isinstance(step, int):
            name += f"[{step}]"
        else:
            name += f".{step}" if name else step
    return str(_printable(name))


def _value_at(value: Any, path: Sequence[str | int]) -> Any:
    for step in path:
        value = value[step]
    return value


def _printable(value: Any) -> Any:
    """Return a value short and finite enough to be part of a refusal."""
    if isinstance(value, str):
        return value[:MAX_VALUE_CHARS].encode("utf-8", "backslashreplace").decode()
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return value if abs(value) <= 2**53 else "an integer beyond 2^53"
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return type(value).__name__
