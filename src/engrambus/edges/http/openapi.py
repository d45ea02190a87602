"""The OpenAPI document, made from the declared operations and the published schemas."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from engrambus.edges.http.endpoints import list_fields, path_fields, query_fields, route_of
from engrambus.edges.http.openapi_errors import error_responses
from engrambus.edges.http.openapi_paths import (
    ERROR,
    ETAG,
    IF_NONE_MATCH,
    OTHER_PATHS,
    SPEAK_AS_PARAMETER,
    text_parameter,
)
from engrambus.gateway import HEAD_HEADER, Operation, find_pointer_fields
from engrambus.knowledge.engrams import schema_bytes
from engrambus.knowledge.messages import CHILD_SECTIONS, PARENT_SECTIONS
from engrambus.version import __version__

Schema = dict[str, Any]

_REF = "#/components/schemas/"
_PUBLISHED = {"PutEngram": "engram.v0.1.json", "Engram": "engram.v0.1.json", "Pointer": "pointer.v0.1.json"}
"""Types whose limits are in a published schema. The domain packages check them, each with its own error code."""
_LIMIT_KEYS = ("maxLength", "maxItems", "minimum", "maximum", "format", "enum")

_PROBLEM: Schema = {
    "title": "Problem",
    "description": "An error (RFC 9457): a stable code, the field, the limit. Nothing was changed.",
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

_TEXTS: Schema = {"type": "array", "items": {"type": "string"}}
_OBJECTS: Schema = {"type": "array", "items": {"type": ["object", "string"]}}
_SECTION_SCHEMAS: dict[str, Schema] = {
    "ROLE": {"type": "string"},
    "TASK_STATUS": {"type": "string"},
    "OUTPUT": {"type": ["object", "string"]},
    "BUDGETS": {"type": "object"},
    "SHARED_BRIEF_MICRO": _TEXTS,
    "INSTRUCTIONS": _TEXTS,
    "USED": _TEXTS,
    "BUDGET_TOKEN": {"type": "string"},
    "RESENDS": {"type": "string"},
}


def _message(description: str, sections: Iterable[str], required: list[str]) -> Schema:
    return {
        "description": description,
        "type": "object",
        "properties": {name: _SECTION_SCHEMAS.get(name, _OBJECTS) for name in sections},
        "required": required,
        "additionalProperties": False,
    }


_MESSAGES: dict[str, Schema] = {
    "MessageToParent": _message(
        "A report, in the sections of docs/messages.md.", CHILD_SECTIONS, ["ROLE", "TASK_STATUS", "OUTPUT"]
    ),
    "MessageToChildren": _message("A broadcast, in the sections of docs/messages.md.", PARENT_SECTIONS, ["ROLE"]),
}
_BODIES = {"send_message": ("MessageToParent",), "broadcast": ("MessageToChildren",)}
"""The messages that an operation takes as its body; the others take both."""


def openapi(operations: Iterable[Operation[Any, Any]]) -> bytes:
    """Return the document for these operations and the other paths."""
    operations = list(operations)
    types = [struct for operation in operations for struct in (operation.request, operation.response)]
    _, components = msgspec.json.schema_components(types, ref_template=_REF + "{name}")
    # The types hold no limits of these values; without this, clients would learn them only from errors.
    for name, published in _PUBLISHED.items():
        if name in components:
            _add_limits(components[name], msgspec.json.decode(schema_bytes(published)))
    paths: dict[str, Schema] = dict(OTHER_PATHS)
    for operation in operations:
        route = route_of(operation)
        entry = _entry(operation, components[operation.request.__name__])
        paths.setdefault(route.path, {})[route.method.lower()] = entry
    bodies = {operation.request.__name__ for operation in operations if _sends_request(operation)}
    for operation in operations:
        if operation.request.__name__ not in bodies:
            components.pop(operation.request.__name__, None)  # its fields appear as parameters instead
    shared = _share_responses(paths)
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
            "schemas": {**components, **_MESSAGES, "Problem": _PROBLEM},
            "responses": {
                "Refused": {
                    "description": "Refused; nothing was changed.",
                    "content": {"application/problem+json": {"schema": {"$ref": f"{_REF}Problem"}}},
                },
                **shared,
            },
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"bearer": []}],
    }
    return msgspec.json.encode(document)


def _share_responses(paths: dict[str, Schema]) -> dict[str, Schema]:
    """Replace equal error responses by references, and return them by name; written out, they are most of the text."""
    names: dict[bytes, str] = {}
    shared: dict[str, Schema] = {}
    numbers: dict[str, int] = {}
    for path, methods in paths.items():
        paths[path] = methods = {
            method: {**entry, "responses": dict(entry["responses"])} for method, entry in methods.items()
        }
        for entry in methods.values():
            for status, response in entry["responses"].items():
                if "application/problem+json" not in response.get("content", {}):
                    continue
                key = msgspec.json.encode(response)
                if key not in names:
                    numbers[status] = numbers.get(status, 0) + 1
                    names[key] = f"Refused{status}_{numbers[status]}"
                    shared[names[key]] = response
                entry["responses"][status] = {"$ref": f"#/components/responses/{names[key]}"}
    return shared


def _entry(operation: Operation[Any, Any], request: Schema) -> Schema:
    route = route_of(operation)
    names_in_path = path_fields(route)
    has_body, in_query = route.method == "POST", query_fields(operation)
    parameters = [
        _parameter(operation, name, schema, name in names_in_path, request)
        for name, schema in request["properties"].items()
        if name in names_in_path or name in in_query
    ]
    parameters.append(SPEAK_AS_PARAMETER)
    if operation.writes:
        description = "Requests with the same key are carried out once"
        parameters.append(text_parameter("Idempotency-Key", "header", description, 128))
    if operation.text_field is not None or find_pointer_fields(operation.request):
        description = "The full commit id that is checked out where the caller works, at which path:10-20 points"
        parameters.append(text_parameter(HEAD_HEADER, "header", description, 64))
    entry: Schema = {
        "operationId": operation.name,
        "summary": operation.summary,
        "parameters": parameters,
        "responses": {
            "200": {
                "description": "Done.",
                "content": {"application/json": {"schema": {"$ref": _REF + operation.response.__name__}}},
            },
            **error_responses(operation),
            "default": ERROR,
        },
    }
    if route.conditional:
        parameters.append(IF_NONE_MATCH)
        entry["responses"]["200"]["headers"] = ETAG
        entry["responses"]["304"] = {"description": "The answer has not changed.", "headers": ETAG}
    if has_body:
        entry["requestBody"] = _body(operation, request, names_in_path)
    return entry


def _sends_request(operation: Operation[Any, Any]) -> bool:
    route = route_of(operation)
    return route.method == "POST" and not path_fields(route)


def _parameter(operation: Operation[Any, Any], name: str, schema: Schema, in_path: bool, request: Schema) -> Schema:
    schema = _without_null(schema)
    parameter: Schema = {"name": name, "in": "path" if in_path else "query", "schema": schema}
    if "description" in schema:
        parameter["description"] = schema.pop("description")
    if in_path or name in request["required"]:
        parameter["required"] = True
    if name in list_fields(operation):
        parameter |= {"style": "form", "explode": False}
    if schema.get("type") == "string" and parameter.get("required"):
        schema.setdefault("minLength", 1)
    return parameter


def _body(operation: Operation[Any, Any], request: Schema, names_in_path: frozenset[str]) -> Schema:
    schema: Schema = {"$ref": _REF + operation.request.__name__}
    if not _sends_request(operation):
        fields = {name: field for name, field in request["properties"].items() if name not in names_in_path}
        schema = {
            "type": "object",
            "properties": fields,
            "required": [name for name in request["required"] if name not in names_in_path],
            "additionalProperties": False,
        }
    if operation.text_field is not None:
        return _text_body(operation, schema)
    required = schema.get("required", request["required"])
    return {"required": bool(required), "content": {"application/json": {"schema": schema}}}


def _text_body(operation: Operation[Any, Any], schema: Schema) -> Schema:
    """Return the body of an operation that takes a text: the text itself, as YAML or JSON, or an object with it."""
    messages = [{"$ref": _REF + name} for name in _BODIES.get(operation.name, _MESSAGES)]
    return {
        "required": True,
        "content": {
            "application/json": {"schema": {"anyOf": [schema, *messages]}},
            "application/yaml": {"schema": {"anyOf": [*messages, {"type": "string"}]}},
        },
    }


def _without_null(schema: Schema) -> Schema:
    """Return the schema of a query parameter: a query string has no null, a field that may be null may be left out."""
    result = {name: value for name, value in schema.items() if name != "default" or value is not None}
    choices = [choice for choice in result.get("anyOf", ()) if choice != {"type": "null"}]
    if len(choices) == 1:
        del result["anyOf"]
        result = {**choices[0], **result}
    return result


def _add_limits(schema: Schema, published: Schema) -> None:
    """Copy the limits of a published schema into one made from a type; which fields are required stays the type's."""
    for key in _LIMIT_KEYS:
        if key in published:
            schema.setdefault(key, published[key])
    for name, field in schema.get("properties", {}).items():
        if name in published.get("properties", {}):
            _add_limits(field, published["properties"][name])
    if "items" in schema and "$ref" not in schema["items"]:
        _add_limits(schema["items"], published.get("items", {}))
