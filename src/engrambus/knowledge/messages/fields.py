"""Readers of single message fields: strict about types, lenient where there is only one possible meaning."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from engrambus.core.canonical_json import MAX_INTEGER
from engrambus.errors import FieldMissing, FieldType, FieldUnknown, FieldValue, MessageUnfilled
from engrambus.evidence.pointers import Pointer, PointerCompleter, check_pointer

_POINTER_FIELDS = ("type", "ref", "digest", "span")
_UNFILLED = re.compile(r"[.\u2026\s]*[.\u2026][.\u2026\s]*")
"""Only dots: the place in a template where its author was to write."""
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def items(value: Any, field: str) -> list[tuple[str, Any]]:
    """Return the items of a list with their field names; a single value counts as a list of one, None as none."""
    if value is None:
        return []
    if isinstance(value, list):
        return [(f"{field}[{position}]", item) for position, item in enumerate(value)]
    return [(field, value)]


def mapping(value: Any, field: str, allowed: tuple[str, ...], required: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return an object that has all `required` fields and none but the `allowed` ones."""
    if not isinstance(value, dict):
        raise FieldType(f"{field} is not of type object.", field=field, limit="object")
    for name in value:
        if name not in allowed:
            short = name[:80]
            raise FieldUnknown(
                f"'{short}' is not a field of {field}.", field=f"{field}.{short}", limit=", ".join(allowed)
            )
    for name in required:
        if value.get(name) is None:
            raise FieldMissing(f"{name} is missing.", field=f"{field}.{name}")
    return value


def text(value: Any, field: str, *, max_chars: int | None = None) -> str:
    """Return a text without surrounding white space."""
    if not isinstance(value, str):
        raise FieldType(f"{field} is not of type string.", field=field, limit="string")
    cleaned: str = value.replace("\r\n", "\n")
    control = _CONTROL.search(cleaned)
    if control:
        raise FieldValue(f"{field} has the control character U+{ord(control.group()):04X}.", field=field)
    cleaned = cleaned.strip()
    if not cleaned:
        raise FieldValue(f"{field} is empty.", field=field)
    check_filled(cleaned, field)
    if max_chars is not None and len(cleaned) > max_chars:
        raise FieldValue(f"{field} is too long.", field=field, limit=max_chars, used=len(cleaned))
    return cleaned


def note_text(value: str) -> str:
    """Return the words of a note without surrounding white space."""
    return text(value, "text")


def check_filled(value: Any, field: str) -> None:
    """Refuse a text of dots only, which a template has where its author was to write."""
    if isinstance(value, str) and _UNFILLED.fullmatch(value):
        raise MessageUnfilled(f"{field} has only dots.", field=field)


def line_text(value: Any, field: str) -> str:
    """Return one text of a list of texts."""
    # YAML reads `- Goal: ship it` as a mapping; in a list of texts its author can only have meant a text.
    if isinstance(value, dict) and len(value) == 1:
        key, inner = next(iter(value.items()))
        value = f"{key}: {inner}" if isinstance(inner, str) else value
    return text(value, field)


def optional_text(value: Any, field: str) -> str | None:
    """Return a text, or None if the field is not set."""
    return None if value is None else text(value, field)


def count(value: Any, field: str, *, least: int = 0) -> int:
    """Return an integer of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise FieldType(f"{field} is not of type integer.", field=field, limit="integer")
    if not least <= value <= MAX_INTEGER:
        raise FieldValue(f"{field} is below {least}.", field=field, limit=least, used=value)
    return value


def pointer(value: Any, field: str, completer: PointerCompleter) -> Pointer:
    """Return a pointer in canonical form, from an object, from its ref alone or from `path:10-20`."""
    fields = mapping(_pointer_object(value, field, completer), field, _POINTER_FIELDS, ("ref",))
    for name, part in fields.items():
        if part is not None and not isinstance(part, str):
            raise FieldType(f"{name} is not of type string.", field=f"{field}.{name}", limit="string")
    checked, _ = check_pointer(Pointer(**fields), field)
    return checked


def _pointer_object(value: Any, field: str, completer: PointerCompleter) -> Any:
    """Return the object for a pointer given as text, or without its type; any other value unchanged."""
    if isinstance(value, str):
        full = completer.complete(value, field)
        return {"type": full.type, "ref": full.ref}
    if isinstance(value, dict) and isinstance(value.get("ref"), str) and isinstance(value.get("type", ""), str):
        full = completer.complete(Pointer(type=value.get("type", ""), ref=value["ref"]), field)
        return {**value, "type": full.type, "ref": full.ref}
    return value


def engram_object(value: Any, field: str, completer: PointerCompleter) -> Any:
    """Return an engram as its validation expects it: pointers and `at` as objects, the claim without outer spaces."""
    if not isinstance(value, Mapping):
        return value
    draft = dict(value)
    places = [(f"{field}.{name}", text(place, f"{field}.{name}")) for name, place in items(draft.pop("at", None), "at")]
    if isinstance(draft.get("pointers", []), list | str | dict):
        pointers = items(draft.get("pointers"), "pointers")
        draft["pointers"] = completer.merge(
            [_pointer_object(item, f"{field}.{name}", completer) for name, item in pointers],
            [_pointer_object(place, name, completer) for name, place in places],
            f"{field}.",
        )
    if isinstance(draft.get("claim"), str):
        draft["claim"] = draft["claim"].strip(" \n")
    return draft
