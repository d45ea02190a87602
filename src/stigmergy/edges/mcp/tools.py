"""The tools agents see: made from the declared operations, with schemas as small as they can be said."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec
from mcp.types import Tool, ToolAnnotations

from stigmergy.operations import OPERATIONS, Operation

SPEAK_AS = "as"

_NOT_SHOWN = {
    "put_engram": frozenset({"id", "provenance", "embedding_ref", "hash_keys"}),
    "query_engrams": frozenset({"scope", "cursor"}),
    "catalog_list_by_lane": frozenset({"cursor"}),
    "tuple_dispatch": frozenset(
        {
            "map_pos",
            "agent_terms",
            "src_ptr",
            "parent_id",
            "flags",
            "priority",
            "schema",
            "id",
            "authority",
            "receipts",
            "created_at",
        }
    ),
    "receipt_get": frozenset({"intoto"}),
}
"""Fields that are taken, or refused with a reason, but are not worth an agent's attention."""

_NAMED_WELL = frozenset({"kind", "scope", "q", "keys", "k", "tags", "max_tokens", "name", "lane", "id", SPEAK_AS})
"""Fields whose names say what an agent has to know; `as` is explained once, in the server's instructions."""

_SAYS_LITTLE = frozenset(
    {"title", "default", "additionalProperties", "minLength", "maxLength", "maxItems", "minimum", "maximum"}
)
"""What the gateway checks and names when it refuses; an agent pays for every word of a schema, every time."""

_REF = "#/$defs/"


@cache
def tool_operations() -> dict[str, Operation[Any, Any]]:
    """The operations agents get, by the name of their tool, in the order of these names."""
    offered = (operation for operation in OPERATIONS.values() if operation.tool)
    return {operation.tool_name: operation for operation in sorted(offered, key=lambda each: each.tool_name)}


@cache
def tools() -> tuple[Tool, ...]:
    """The tools, always in the same order."""
    return tuple(_tool(operation) for operation in tool_operations().values())


def _tool(operation: Operation[Any, Any]) -> Tool:
    return Tool(
        name=operation.tool_name,
        title=operation.title,
        description=operation.summary,
        input_schema=_input_schema(operation),
        annotations=_annotations(operation),
    )


def _annotations(operation: Operation[Any, Any]) -> ToolAnnotations:
    """Only what differs from the protocol's defaults, which are: writes, destroys, not idempotent, open world."""
    if not operation.writes:
        return ToolAnnotations(read_only_hint=True, open_world_hint=False)
    if operation.route is not None and operation.route.method == "DELETE":
        return ToolAnnotations(idempotent_hint=True, open_world_hint=False)
    return ToolAnnotations(destructive_hint=False, open_world_hint=False)


def _input_schema(operation: Operation[Any, Any]) -> dict[str, Any]:
    _, definitions = msgspec.json.schema_components([operation.request], ref_template=_REF + "{name}")
    whole = definitions[operation.request.__name__]
    hidden = _NOT_SHOWN.get(operation.name, frozenset())
    shown = {name: field for name, field in whole["properties"].items() if name not in hidden}
    properties = {name: _small(field, definitions) for name, field in shown.items()} | {SPEAK_AS: {"type": "string"}}
    for name in _NAMED_WELL & properties.keys():
        properties[name].pop("description", None)
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if whole["required"]:
        schema["required"] = whole["required"]
    return schema


def _small(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """A schema without references and without what says little: of several forms the simplest, of an object inside
    only what it needs.
    """
    if "$ref" in schema:
        return _small({**definitions[schema["$ref"].removeprefix(_REF)], "description": ""}, definitions)
    choices = [choice for choice in schema.get("anyOf", ()) if choice != {"type": "null"}]
    if choices:
        texts = [choice for choice in choices if choice.get("type") == "string"]
        rest = {name: value for name, value in schema.items() if name != "anyOf"}
        return _small({**(texts or choices)[0], **rest}, definitions)
    shown = {name: value for name, value in schema.items() if name not in _SAYS_LITTLE and value not in ("", [])}
    if "properties" in shown:
        needed = shown.pop("required", ())
        shown["properties"] = {name: _small(shown["properties"][name], definitions) for name in needed}
    if "enum" in shown:
        shown["type"] = "string"  # some clients refuse a list of values that does not say it
    if "items" in shown:
        shown["items"] = _small(shown["items"], definitions)
    return shown
