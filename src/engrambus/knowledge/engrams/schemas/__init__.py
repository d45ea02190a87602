"""The published JSON Schemas of engrams and pointers, in both families of `$id`, and their validators."""

from __future__ import annotations

import pkgutil
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from jsonschema_rs import Draft202012Validator

__all__ = ["ENGRAM", "LESS_ENGRAM", "schema_bytes", "schema_names", "validator"]

ENGRAM = "engram.v0.1.json"
LESS_ENGRAM = "less/engram.v0.1.json"

_IDS = {
    ENGRAM: "verdict://schemas/engram.v0.1.json",
    "pointer.v0.1.json": "verdict://schemas/pointer.v0.1.json",
    LESS_ENGRAM: "verdict://skills/less/schemas/engram.v0.1.json",
    "less/pointer.v0.1.json": "verdict://skills/less/schemas/pointer.v0.1.json",
}
_NAMES = {schema_id: name for name, schema_id in _IDS.items()}


def schema_names() -> tuple[str, ...]:
    """Return the names the schemas are served under; each is the end of its `$id`."""
    return tuple(_IDS)


@cache
def schema_bytes(name: str) -> bytes:
    """Return one published schema; raise KeyError if there is none of that name."""
    if name not in _IDS:
        raise KeyError(name)
    content = pkgutil.get_data(__name__, name)
    if content is None:
        raise KeyError(name)
    return content


@cache
def validator(name: str = ENGRAM) -> Draft202012Validator:
    """Return a validator that checks formats too; references resolve to the schemas of this package only."""
    import jsonschema_rs  # takes 38 ms, which only a check of an engram should pay

    schema: dict[str, Any] = msgspec.json.decode(schema_bytes(name))
    return jsonschema_rs.Draft202012Validator(schema, validate_formats=True, retriever=_retrieve)


def _retrieve(uri: str) -> dict[str, Any]:
    if uri not in _NAMES:
        raise LookupError(f"{uri} is not a schema of this package")
    schema: dict[str, Any] = msgspec.json.decode(schema_bytes(_NAMES[uri]))
    return schema
