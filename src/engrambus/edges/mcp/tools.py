"""The tools and resources that MCP clients see, made from the declared operations.

An agent pays for every word of the list of tools, in every conversation (decision 15). A field with a good default is
accepted but not shown, a name that is clear is not explained, and a limit is named only when a call exceeds it.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import msgspec
from mcp.types import Tool, ToolAnnotations

from engrambus.errors import FieldValue
from engrambus.gateway import Operation
from engrambus.gateway.declare import Resource
from engrambus.gateway.declare import Tool as DeclaredTool
from engrambus.operations import OPERATIONS

SPEAK_AS = "as"
FULL = "full"
"""Argument of every tool that asks for its JSON; the server's instructions name it once instead of every schema."""

_OMITTED_KEYS = frozenset(
    {"title", "default", "additionalProperties", "minLength", "maxLength", "maxItems", "minimum", "maximum"}
)
"""Parts of a schema that agents do not need: the gateway checks them and names them in its errors."""

_REF = "#/$defs/"


@cache
def tool_operations() -> dict[str, Operation[Any, Any]]:
    """Return the operations that agents get as tools, by the name of the tool, in alphabetical order."""
    operations = (operation for operation in OPERATIONS.values() if operation.tool)
    return {operation.tool_name: operation for operation in sorted(operations, key=lambda tool: tool.tool_name)}


@cache
def tools() -> dict[str, Tool]:
    """Return the tools by name, always in the same order."""
    return {name: _tool(operation) for name, operation in tool_operations().items()}


def listed_tools(*, has_yools: bool) -> list[Tool]:
    """Return the tools to list: those for work only in a project that has yools. All of them can be called."""
    # decision 54: an agent pays for the list in every conversation
    return [
        tool
        for name, tool in tools().items()
        if has_yools or not ((declared := tool_operations()[name].tool) and declared.needs_yools)
    ]


def _tool(operation: Operation[Any, Any]) -> Tool:
    return Tool(
        name=operation.tool_name,
        title=operation.title,
        description=operation.summary,
        input_schema=_input_schema(operation),
        annotations=_annotations(operation),
    )


def _annotations(operation: Operation[Any, Any]) -> ToolAnnotations:
    """Return the hints that differ from the protocol's defaults: writes, destroys, is not idempotent, open world."""
    method = operation.route.method if operation.route else None
    # decision 15: a GET on HTTP is a read here too, although a brief stores the version it returned.
    if method == "GET" or not (operation.writes or (operation.tool and operation.tool.writes_files)):
        return ToolAnnotations(read_only_hint=True, open_world_hint=False)
    return ToolAnnotations(
        destructive_hint=None if method == "DELETE" else False,
        idempotent_hint=True if method == "DELETE" or not operation.writes else None,
        open_world_hint=False,
    )


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
    schema = {"type": "object", "properties": properties | {SPEAK_AS: {"type": "string"}}}
    if request["required"]:
        schema["required"] = request["required"]
    return schema


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
