"""From what a JSON Schema says about an engram to a refusal with a code, a field and a limit."""

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

MAX_SHOWN = 80

_FIELDS = (
    *(
        "id",
        "kind",
        "claim",
        "pointers",
        "confidence",
        "ttl",
        "scope",
        "tags",
        "hash_keys",
        "embedding_ref",
        "provenance",
    ),
    *("type", "ref", "digest", "span", "created_at", "created_by", "source"),
)
_POSITION = {name: position for position, name in enumerate(_FIELDS)}


def first_refusal(validator: Draft202012Validator, engram: dict[str, Any]) -> Refusal:
    """The first thing wrong with an engram, in the order the schema speaks of it."""
    engram = _in_order(engram)
    try:
        problem = next(iter(validator.iter_errors(engram)), None)
    except UnicodeEncodeError:
        return BadText("A text holds half of a surrogate pair.")
    except ValueError as trouble:
        return FieldType(f"This is not JSON: {str(trouble)[:MAX_SHOWN]}.")
    if problem is None:
        return FieldValue("The engram does not follow its schema.")
    return _refusal(problem, engram)


def _refusal(problem: ValidationError, engram: dict[str, Any]) -> Refusal:
    path = list(problem.instance_path)
    said = problem.kind.as_dict()
    value = _value_at(engram, path)
    field = print_field(path)
    match problem.kind.name:
        case "required":
            return _missing(print_field([*path, said["property"]]))
        case "additionalProperties":
            return FieldUnknown(field=print_field([*path, str(said["unexpected"][0])]))
        case "type":
            return _wrong_type(field, value, " or ".join(said["types"]))
        case "enum":
            return _not_listed(field, value, said["options"])
        case "minimum" | "maximum":
            return ConfidenceRange(field=field, limit="0 to 1", used=_shown(value))
        case "minItems":
            return NoPointer(field=field, limit=said["limit"], used=0)
        case "maxItems":
            refused = TooManyPointers if path == ["pointers"] else FieldValue
            return refused(f"{field} has too many items.", field=field, limit=said["limit"], used=len(value))
        case "maxLength":
            return _too_long(field, path, limit=said["limit"], used=len(value))
        case "format":
            return TimeInvalid(field=field, used=_shown(value))
    return FieldValue("The engram does not follow its schema.", field=field)


def _in_order(engram: dict[str, Any]) -> dict[str, Any]:
    """The same engram with its fields in the schema's order, so that the order they were sent in decides nothing."""

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
        return NoPointer(field=field, limit=1, used=0)
    return FieldMissing(f"{field} is missing.", field=field)


def _wrong_type(field: str, value: Any, wanted: str) -> Refusal:
    if field == "confidence" and isinstance(value, int | float):
        return ConfidenceRange(field=field, limit="0 to 1", used=_shown(value))
    return FieldType(f"{field} is not of type {wanted}.", field=field, limit=wanted)


def _not_listed(field: str, value: Any, options: Sequence[Any]) -> Refusal:
    if not isinstance(value, str):
        return FieldType(f"{field} is not of type string.", field=field, limit="string")
    listed = ", ".join(map(str, options))
    return FieldValue(f"{field} is not one of {listed}.", field=field, limit=listed, used=_shown(value))


def _too_long(field: str, path: list[str | int], *, limit: int, used: int) -> Refusal:
    if field == "claim":
        return ClaimTooLong(field=field, limit=limit, used=used)
    if path[0] == "pointers":
        return PointerTooLong(field=field, limit=limit, used=used)
    return FieldValue(f"{field} is too long.", field=field, limit=limit, used=used)


def print_field(path: Sequence[str | int]) -> str:
    """The name of a field as refusals write it: `pointers[2].ref`."""
    name = ""
    for step in path:
        if isinstance(step, int):
            name += f"[{step}]"
        else:
            name += f".{step}" if name else step
    return str(_shown(name))


def _value_at(value: Any, path: Sequence[str | int]) -> Any:
    for step in path:
        value = value[step]
    return value


def _shown(value: Any) -> Any:
    """A value short enough, and finite enough, to be part of a refusal."""
    if isinstance(value, str):
        return value[:MAX_SHOWN].encode("utf-8", "backslashreplace").decode()
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return value if abs(value) <= 2**53 else "an integer beyond 2^53"
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return type(value).__name__
