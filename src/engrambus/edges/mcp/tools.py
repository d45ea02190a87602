"""The tools agents see: made from the declared operations, with schemas as small as they can be said.

An agent pays for every word of this list, in every conversation. A field that has a good default is taken but not
shown, a name that says enough is not explained, and a limit is named when something is refused for it.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec
from mcp.types import Tool, ToolAnnotations

from engrambus.gateway import Operation
from engrambus.gateway.declare import Tool as DeclaredTool
from engrambus.operations import OPERATIONS

SPEAK_AS = "as"

_SAYS_LITTLE = frozenset(
    {"title", "default", "additionalProperties", "minLength", "maxLength", "maxItems", "minimum", "maximum"}
)
"""What the gateway checks and names when it refuses."""

_REF = "#/$defs/"


@cache
def tool_operations() -> dict[str, Operation[Any, Any]]:
    """The operations agents get, by the name of their tool, in the order of these names."""
    offered = (operation for operation in OPERATIONS.values() if operation.tool)
    return {operation.tool_name: operation for operation in sorted(offered, key=lambda each: each.tool_name)}


@cache
def tools() -> dict[str, Tool]:
    """The tools by name, always in the same order."""
    return {name: _tool(operation) for name, operation in tool_operations().items()}


def _tool(operation: Operation[Any, Any]) -> Tool:
    return Tool(
        name=operation.tool_name,
        title=operation.title,
        description=operation.summary,
        input_schema=_input_schema(operation),
        annotations=_annotations(operation),
    )


def _annotations(operation: Operation[Any, Any]) -> ToolAnnotations:
    """What a tool does to the world, where it is not what the protocol assumes: writes, destroys, not idempotent, open.

    What HTTP offers as a GET is a read here too. Of a read, only that can be said.
    """
    method = operation.route.method if operation.route else None
    if method == "GET" or not (operation.writes or (operation.tool and operation.tool.writes_files)):
        return ToolAnnotations(read_only_hint=True, open_world_hint=False)
    return ToolAnnotations(
        destructive_hint=None if method == "DELETE" else False,
        idempotent_hint=True if method == "DELETE" or not operation.writes else None,
        open_world_hint=False,
    )


def _input_schema(operation: Operation[Any, Any]) -> dict[str, Any]:
    _, definitions = msgspec.json.schema_components([operation.request], ref_template=_REF + "{name}")
    whole = definitions[operation.request.__name__]
    tool = operation.tool or DeclaredTool()
    properties = {}
    for name, field in whole["properties"].items():
        if name not in tool.hidden:
            small = _small(field, definitions)
            dropped = {"description"} - ({"description"} if name in tool.explained else set())
            dropped |= {"enum"} - ({"enum"} if name in tool.listed else set())
            properties[name] = {key: value for key, value in small.items() if key not in dropped}
    schema: dict[str, Any] = {"type": "object", "properties": properties | {SPEAK_AS: {"type": "string"}}}
    if whole["required"]:
        schema["required"] = whole["required"]
    return schema


def _small(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """A schema without references and without what says little: of several forms the simplest, of an object inside
    only that it is one.
    """
    if "$ref" in schema:
        said = {"description": schema.get("description", "")}
        return _small({**definitions[schema["$ref"].removeprefix(_REF)], **said}, definitions)
    choices = [choice for choice in schema.get("anyOf", ()) if choice != {"type": "null"}]
    if choices:
        texts = [choice for choice in choices if choice.get("type") == "string"]
        rest = {name: value for name, value in schema.items() if name != "anyOf"}
        return _small({**(texts or choices)[0], **rest}, definitions)
    shown = {name: value for name, value in schema.items() if name not in _SAYS_LITTLE and value not in ("", [])}
    if "properties" in shown:
        return {name: shown[name] for name in ("type", "description") if name in shown}
    if "enum" in shown:
        shown["type"] = "string"  # some clients refuse a list of values that does not say it
    if "items" in shown:
        shown["items"] = _small(shown["items"], definitions)
    return shown
