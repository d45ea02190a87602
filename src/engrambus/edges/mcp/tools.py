"""The tools and resources that MCP clients see, made from the declared operations.

An agent pays for every word of the list of tools, in every conversation (decision 15). A field with a good default is
accepted but not shown, a name that is clear is not explained, and a limit is named only when a call exceeds it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import msgspec
from mcp.types import Tool, ToolAnnotations

from engrambus.errors import EngramBusError, FieldValue, ToolNotFound
from engrambus.gateway import Operation
from engrambus.gateway.declare import Resource
from engrambus.gateway.declare import Tool as DeclaredTool
from engrambus.operations import OPERATIONS

SPEAK_AS = "as"
FULL = "full"
MAX_NAME_CHARS = 80
ACTION = "action"
"""Argument of a tool of several operations: which of them to call."""
# `as` and `full` are arguments of every tool; the server's instructions name them once instead of every schema.

_OMITTED_KEYS = frozenset(
    {"title", "default", "additionalProperties", "minLength", "maxLength", "maxItems", "minimum", "maximum"}
)
"""Parts of a schema that agents do not need: the gateway checks them and names them in its errors."""

_REF = "#/$defs/"


@cache
def tool_parts() -> dict[str, dict[str, Operation[Any, Any]]]:
    """Return the operations of each tool by its name, in alphabetical order, and by their action, the default first.

    A tool of one operation has the action "".
    """
    operations = [operation for operation in OPERATIONS.values() if operation.tool]
    operations.sort(
        key=lambda operation: (
            operation.tool_name,
            bool(operation.tool and operation.tool.part_of),
            operation.is_guarded,
        )
    )
    parts: dict[str, dict[str, Operation[Any, Any]]] = {}
    for operation in operations:
        action = operation.tool.action if operation.tool else None
        parts.setdefault(operation.tool_name, {})[action or ""] = operation
    return parts


def _listing_order(operation: Operation[Any, Any]) -> tuple[str, bool, bool]:
    return operation.tool_name, bool(operation.tool and operation.tool.part_of), operation.is_guarded


def take_operation(name: str, arguments: dict[str, Any]) -> Operation[Any, Any]:
    """Return the operation that a call is for, and remove the argument that chooses one of several."""
    parts = tool_parts().get(name)
    if parts is None:
        raise _tool_not_found(name)
    if "" in parts:
        return parts[""]
    action = arguments.pop(ACTION, next(iter(parts)))
    if not isinstance(action, str) or action not in parts:
        raise FieldValue(f"{name} has no such action.", field=ACTION, used=str(action)[:80], limit=", ".join(parts))
    return parts[action]


def operation_of(name: str, arguments: Mapping[str, Any]) -> Operation[Any, Any] | None:
    """Return the operation that a call is for; None for one that will be refused."""
    try:
        return take_operation(name, dict(arguments))
    except EngramBusError:
        return None


def _tool_not_found(name: str) -> ToolNotFound:
    from difflib import get_close_matches

    similar = get_close_matches(name[:MAX_NAME_CHARS], tool_parts(), n=1)
    return ToolNotFound(
        f"There is no tool '{name[:MAX_NAME_CHARS]}'.",
        field="name",
        limit=", ".join(tool_parts()),
        hint=f"Did you mean {similar[0]}?" if similar else None,
    )


@cache
def tools() -> dict[str, Tool]:
    """Return the tools by name, always in the same order."""
    return {name: _tool(name, list(parts.values())) for name, parts in tool_parts().items()}


def listed_tools(*, has_yools: bool) -> list[Tool]:
    """Return the tools to list: those for work only in a project that has yools. All of them can be called."""
    # decision 54: an agent pays for the list in every conversation
    return [
        tool
        for name, tool in tools().items()
        if has_yools or not all(part.tool and part.tool.needs_yools for part in tool_parts()[name].values())
    ]


def _tool(name: str, parts: Sequence[Operation[Any, Any]]) -> Tool:
    first = parts[0]
    return Tool(
        # decision 113: no title, which would only repeat the name with a dot
        name=name,
        description=(first.tool and first.tool.about) or first.summary,
        input_schema=_input_schema(first) if len(parts) == 1 else _joint_schema(parts),
        annotations=_annotations(parts),
    )


def _annotations(parts: Sequence[Operation[Any, Any]]) -> ToolAnnotations:
    """Return the hints that differ from the protocol's defaults: writes, destroys, is not idempotent, open world."""
    methods = {operation.route.method if operation.route else None for operation in parts}
    # decision 15: a GET on HTTP is a read here too, although a brief stores the version it returned.
    if methods == {"GET"} or not any(
        operation.writes or (operation.tool and operation.tool.writes_files) for operation in parts
    ):
        return ToolAnnotations(read_only_hint=True, open_world_hint=False)
    deletes, writes = "DELETE" in methods, any(operation.writes for operation in parts)
    return ToolAnnotations(
        destructive_hint=None if deletes else False,
        idempotent_hint=True if deletes or not writes else None,
        open_world_hint=False,
    )


def _joint_schema(parts: Sequence[Operation[Any, Any]]) -> dict[str, Any]:
    """Return the schema of a tool of several operations: the action, and the fields of all of them."""
    actions = [operation.tool.action for operation in parts if operation.tool]
    properties: dict[str, Any] = {ACTION: {"type": "string", "enum": actions}}
    for operation in parts:
        properties |= _input_schema(operation)["properties"]
    return {"type": "object", "properties": properties}


def _input_schema(operation: Operation[Any, Any]) -> dict[str, Any]:
    _, definitions = msgspec.json.schema_components([operation.request], ref_template=_REF + "{name}")
    request = definitions[operation.request.__name__]
    tool = operation.tool or DeclaredTool()
    properties = {}
    for name, field in request["properties"].items():
        if name not in tool.hidden:
            schema = _short_schema(field, definitions)
            omitted = {"description"} - ({"description"} if name in tool.explained else set())
            omitted |= {"enum"} - ({"enum"} if name in tool.listed else set())
            properties[name] = {key: value for key, value in schema.items() if key not in omitted}
    required = {"required": request["required"]} if request["required"] else {}
    return {"type": "object", "properties": properties, **required}


def _short_schema(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """Return a schema without references and limits: the simplest of several types, nested objects without fields."""
    if "$ref" in schema:
        description = {"description": schema.get("description", "")}
        return _short_schema({**definitions[schema["$ref"].removeprefix(_REF)], **description}, definitions)
    choices = [choice for choice in schema.get("anyOf", ()) if choice != {"type": "null"}]
    if choices:
        texts = [choice for choice in choices if choice.get("type") == "string"]
        common = {name: value for name, value in schema.items() if name != "anyOf"}
        return _short_schema({**(texts or choices)[0], **common}, definitions)
    short = {name: value for name, value in schema.items() if name not in _OMITTED_KEYS and value not in ("", [])}
    if "properties" in short:
        return {name: short[name] for name in ("type", "description") if name in short}
    if "enum" in short:
        short["type"] = "string"  # some clients refuse an enum without a type
    if "items" in short:
        short["items"] = _short_schema(short["items"], definitions)
    return short


@cache
def resources() -> dict[str, Resource]:
    """Return every resource by the name of its operation. All of them depend on the caller, so none may be shared."""
    return {name: operation.resource for name, operation in OPERATIONS.items() if operation.resource is not None}


def find_resource(uri: str) -> tuple[Operation[Any, Any], Resource, dict[str, Any]]:
    """Return the operation and the resource at an address, and the request fields that the address holds."""
    for name, resource in resources().items():
        match = _uri_pattern(resource.uri).fullmatch(uri)
        if match:
            return OPERATIONS[name], resource, match.groupdict()
    raise FieldValue(
        "There is no such resource.",
        field="uri",
        used=uri[:120],
        limit=", ".join(resource.uri for resource in resources().values()),
    )


def _uri_pattern(uri: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[A-Za-z0-9:._-]{1,128})", re.escape(uri)))
