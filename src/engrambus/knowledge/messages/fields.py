"""Reading the fields of a message: strict about types, forgiving where there is only one way to read them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from engrambus.core.canonical_json import MAX_INTEGER
from engrambus.errors import FieldMissing, FieldType, FieldUnknown, FieldValue, PointerSyntax
from engrambus.evidence.pointers import TYPES, Pointer, check_pointer, parse_ref

_POINTER_FIELDS = ("type", "ref", "digest", "span")
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def items(value: Any, field: str) -> list[tuple[str, Any]]:
    """The items of a list with their names; one item may stand without a list, and nothing is an empty list."""
    if value is None:
        return []
    if isinstance(value, list):
        return [(f"{field}[{position}]", item) for position, item in enumerate(value)]
    return [(field, value)]


def mapping(value: Any, field: str, known: tuple[str, ...], required: tuple[str, ...] = ()) -> dict[str, Any]:
    """An object with these fields and no others."""
    if not isinstance(value, dict):
        raise FieldType(f"{field} is not of type object.", field=field, limit="object")
    for name in value:
        if name not in known:
            shown = name[:80]
            raise FieldUnknown(f"'{shown}' is not a field here.", field=f"{field}.{shown}", limit=", ".join(known))
    for name in required:
        if value.get(name) is None:
            raise FieldMissing(f"{name} is missing.", field=f"{field}.{name}")
    return value


def text(value: Any, field: str, *, longest: int | None = None) -> str:
    """A text without the white space around it."""
    if not isinstance(value, str):
        raise FieldType(f"{field} is not of type string.", field=field, limit="string")
    cleaned: str = value.replace("\r\n", "\n")
    found = _CONTROL.search(cleaned)
    if found:
        raise FieldValue(f"{field} holds the control character U+{ord(found.group()):04X}.", field=field)
    cleaned = cleaned.strip()
    if not cleaned:
        raise FieldValue(f"{field} is empty.", field=field)
    if longest is not None and len(cleaned) > longest:
        raise FieldValue(f"{field} is too long.", field=field, limit=longest, used=len(cleaned))
    return cleaned


def line_text(value: Any, field: str) -> str:
    """A text in a list of texts, where `- Goal: ship it` is one too though YAML reads a pair."""
    if isinstance(value, dict) and len(value) == 1:
        key, rest = next(iter(value.items()))
        value = f"{key}: {rest}" if isinstance(rest, str) else value
    return text(value, field)


def optional_text(value: Any, field: str) -> str | None:
    """A text, or nothing."""
    return None if value is None else text(value, field)


def count(value: Any, field: str, *, least: int = 0) -> int:
    """A whole number that counts something."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise FieldType(f"{field} is not of type integer.", field=field, limit="integer")
    if not least <= value <= MAX_INTEGER:
        raise FieldValue(f"{field} is below {least}.", field=field, limit=least, used=value)
    return value


def pointer(value: Any, field: str) -> Pointer:
    """A pointer in canonical form, from an object or from its ref alone."""
    said = mapping(pointer_object(value, field), field, _POINTER_FIELDS, ("ref",))
    for name, part in said.items():
        if part is not None and not isinstance(part, str):
            raise FieldType(f"{name} is not of type string.", field=f"{field}.{name}", limit="string")
    checked, _ = check_pointer(Pointer(**said), field)
    return checked


def pointer_object(value: Any, field: str) -> Any:
    """The object a pointer's ref alone stands for; anything else as it is, its type filled in."""
    if isinstance(value, str):
        value = value.strip()
        return {"type": _type(value, field), "ref": value}
    if isinstance(value, dict) and "type" not in value and isinstance(value.get("ref"), str):
        return {"type": _type(value["ref"], f"{field}.ref"), **value}
    return value


def engram_object(value: Any) -> Any:
    """An engram as its rules take it: pointers as objects, and the claim without white space around it."""
    if not isinstance(value, Mapping):
        return value
    draft = dict(value)
    if "pointers" in draft and isinstance(draft["pointers"], list | str | dict):
        draft["pointers"] = [pointer_object(item, field) for field, item in items(draft["pointers"], "pointers")]
    if isinstance(draft.get("claim"), str):
        draft["claim"] = draft["claim"].strip(" \n")
    return draft


def _type(ref: str, field: str) -> str:
    scheme, colon, _ = ref.partition(":")
    if not colon or scheme not in TYPES:
        parse_ref(ref, field)
        raise PointerSyntax(field=field)
    return scheme
