"""The OpenAPI document: everything HTTP offers, said by the declarations and the published schemas alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from engrambus.edges.http.calls import SPEAK_AS, list_fields, path_fields, route_of
from engrambus.gateway import Operation
from engrambus.knowledge.engrams import schema_bytes
from engrambus.version import __version__

Schema = dict[str, Any]

_REF = "#/components/schemas/"
_PUBLISHED = {"PutEngram": "engram.v0.1.json", "Engram": "engram.v0.1.json", "Pointer": "pointer.v0.1.json"}
"""Values whose rules stand in a published schema, checked by the rooms under codes of their own."""
_LIMITS = ("maxLength", "maxItems", "minimum", "maximum", "format", "enum")

_PROBLEM: Schema = {
    "title": "Problem",
    "description": "A refusal (RFC 9457): a stable code, the field, the limit. Nothing was changed.",
    "type": "object",
    "required": ["type", "title", "status", "code"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "code": {"type": "string"},
        "detail": {"type": "string"},
        "field": {"type": "string"},
        "line": {"type": "integer"},
        "limit": {"type": ["string", "number"]},
        "used": {"type": ["string", "number"]},
        "hint": {"type": "string"},
        "exceeded": {"type": "array", "items": {"type": "object"}},
        "resend": {"type": "string"},
    },
}

IF_NONE_MATCH: Schema = {
    "name": "If-None-Match",
    "in": "header",
    "description": "ETags of answers that are known already",
    "schema": {"type": "string"},
}
ETAG: Schema = {"ETag": {"description": "What this answer is known by", "schema": {"type": "string"}}}


def openapi(
    operations: Iterable[Operation[Any, Any]], public: frozenset[str], besides: dict[str, Schema] | None = None
) -> bytes:
    """The document for these operations and the paths besides them; those named `public` need no token."""
    offered = list(operations)
    types = [kind for operation in offered for kind in (operation.request, operation.response)]
    _, components = msgspec.json.schema_components(types, ref_template=_REF + "{name}")
    for name, published in _PUBLISHED.items():
        if name in components:
            _show_limits(components[name], msgspec.json.decode(schema_bytes(published)))
    paths: dict[str, Schema] = dict(besides or {})
    for operation in offered:
        route = route_of(operation)
        entry = _entry(operation, components[operation.request.__name__], operation.name in public)
        paths.setdefault(route.path, {})[route.method.lower()] = entry
    bodies = {operation.request.__name__ for operation in offered if _sends_whole(operation)}
    for operation in offered:
        if operation.request.__name__ not in bodies:
            components.pop(operation.request.__name__, None)  # its fields are shown where they are sent
    document = {
        "openapi": "3.1.0",
        "info": {
            "title": "Engram Bus",
            "version": __version__,
            "summary": "Shared memory and coordination bus for teams of AI agents.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": {**components, "Problem": _PROBLEM},
            "responses": {
                "Refused": {
                    "description": "Refused; nothing was changed.",
                    "content": {"application/problem+json": {"schema": {"$ref": f"{_REF}Problem"}}},
                }
            },
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"bearer": []}],
    }
    return msgspec.json.encode(document)


def _entry(operation: Operation[Any, Any], request: Schema, public: bool) -> Schema:
    route = route_of(operation)
    in_path = path_fields(route)
    has_body = route.method == "POST"
    parameters = [
        _parameter(operation, name, schema, name in in_path, request)
        for name, schema in request["properties"].items()
        if name in in_path or not has_body
    ]
    if not public:
        parameters.append(_text(SPEAK_AS, "query", "The descendant in whose name to act", 64))
    if operation.writes:
        parameters.append(_text("Idempotency-Key", "header", "Repeats under the same key are done once", 128))
    entry: Schema = {
        "operationId": operation.name,
        "summary": operation.summary,
        "parameters": parameters,
        "responses": {
            "200": {
                "description": "Done.",
                "content": {"application/json": {"schema": {"$ref": _REF + operation.response.__name__}}},
            },
            "default": {"$ref": "#/components/responses/Refused"},
        },
    }
    if route.conditional:
        parameters.append(IF_NONE_MATCH)
        entry["responses"]["200"]["headers"] = ETAG
        entry["responses"]["304"] = {"description": "It would be answered what is known already.", "headers": ETAG}
    if has_body:
        entry["requestBody"] = _body(operation, request, in_path)
    if public:
        entry["security"] = []
    return entry


def _sends_whole(operation: Operation[Any, Any]) -> bool:
    route = route_of(operation)
    return route.method == "POST" and not path_fields(route)


def _parameter(operation: Operation[Any, Any], name: str, schema: Schema, in_path: bool, request: Schema) -> Schema:
    shown = _without_null(schema)
    parameter: Schema = {"name": name, "in": "path" if in_path else "query", "schema": shown}
    if "description" in shown:
        parameter["description"] = shown.pop("description")
    if in_path or name in request["required"]:
        parameter["required"] = True
    if name in list_fields(operation):
        parameter |= {"style": "form", "explode": False}
    if shown.get("type") == "string" and parameter.get("required"):
        shown.setdefault("minLength", 1)
    return parameter


def _text(name: str, place: str, description: str, longest: int) -> Schema:
    schema = {"type": "string", "minLength": 1, "maxLength": longest}
    return {"name": name, "in": place, "description": description, "schema": schema}


def _body(operation: Operation[Any, Any], request: Schema, in_path: frozenset[str]) -> Schema:
    schema: Schema = {"$ref": _REF + operation.request.__name__}
    if not _sends_whole(operation):
        fields = {name: field for name, field in request["properties"].items() if name not in in_path}
        required = [name for name in request["required"] if name not in in_path]
        schema = {"type": "object", "properties": fields, "required": required, "additionalProperties": False}
    needed = schema.get("required", request["required"])
    return {"required": bool(needed), "content": {"application/json": {"schema": schema}}}


def _without_null(schema: Schema) -> Schema:
    """A query string has no null: a field that may be null is one that may be left out."""
    shown = {name: value for name, value in schema.items() if name != "default" or value is not None}
    choices = [choice for choice in shown.get("anyOf", ()) if choice != {"type": "null"}]
    if len(choices) == 1:
        del shown["anyOf"]
        shown = {**choices[0], **shown}
    return shown


def _show_limits(schema: Schema, published: Schema) -> None:
    """Write a published schema's limits into one made from a type; what is required is the type's to say."""
    for limit in _LIMITS:
        if limit in published:
            schema.setdefault(limit, published[limit])
    for name, field in schema.get("properties", {}).items():
        if name in published.get("properties", {}):
            _show_limits(field, published["properties"][name])
    if "items" in schema and "$ref" not in schema["items"]:
        _show_limits(schema["items"], published.get("items", {}))
