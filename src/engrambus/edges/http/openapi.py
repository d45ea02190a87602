"""The OpenAPI document, made from the declared operations and the published schemas."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from engrambus.edges.http.endpoints import SPEAK_AS, list_fields, path_fields, query_fields, route_of
from engrambus.edges.http.events import MAX_PAGE_EVENTS, PAGE_EVENTS
from engrambus.gateway import Operation
from engrambus.gateway.events import EVENT_TYPES
from engrambus.knowledge.engrams import schema_bytes
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

_IF_NONE_MATCH: Schema = {
    "name": "If-None-Match",
    "in": "header",
    "description": "ETags of answers that the client already has",
    "schema": {"type": "string"},
}
_ETAG: Schema = {"ETag": {"description": "Identifies this answer", "schema": {"type": "string"}}}
_ERROR: Schema = {"$ref": "#/components/responses/Refused"}
_EVENT_ID: Schema = {"type": "string", "pattern": r"^[0-9]{1,15}(\.[0-9]{1,9})?$"}


def _text_parameter(name: str, location: str, description: str, max_length: int) -> Schema:
    schema = {"type": "string", "minLength": 1, "maxLength": max_length}
    return {"name": name, "in": location, "description": description, "schema": schema}


_SPEAK_AS = _text_parameter(SPEAK_AS, "query", "The descendant in whose name to act", 64)

_EVENT_PAGE: Schema = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "description": "End of this page; send it as `after` to get the next one"},
        "more": {"type": "boolean", "description": "True if there are more events already"},
        "events": {"type": "array", "items": {"type": "object"}, "description": "Oldest first"},
    },
    "required": ["id", "more", "events"],
}

_EVENTS: Schema = {
    "operationId": "events",
    "summary": "Follow the project's events: ids and counts, never content.",
    "parameters": [
        {
            "name": "after",
            "in": "query",
            "description": "Id of the last event you have; 0 for all events. Without it, the stream starts now",
            "schema": _EVENT_ID,
        },
        {
            "name": "Last-Event-ID",
            "in": "header",
            "description": "The same as `after`, as browsers send it; it takes precedence",
            "schema": _EVENT_ID,
        },
        {
            "name": "type",
            "in": "query",
            "description": "Only events of these types",
            "style": "form",
            "explode": False,
            "schema": {"type": "array", "items": {"type": "string", "enum": sorted(EVENT_TYPES)}},
        },
        {
            "name": "limit",
            "in": "query",
            "description": "Maximum number of events; only for a page",
            "schema": {"type": "integer", "minimum": 1, "maximum": MAX_PAGE_EVENTS, "default": PAGE_EVENTS},
        },
        _SPEAK_AS,
        _IF_NONE_MATCH,
    ],
    "responses": {
        "200": {
            "description": "A stream that goes on until either side ends it, or a page with an ETag.",
            "headers": _ETAG,
            "content": {
                "text/event-stream": {"schema": {"type": "string"}},
                "application/json": {"schema": _EVENT_PAGE},
            },
        },
        "304": {"description": "There are no new events since the page with that ETag.", "headers": _ETAG},
        "default": _ERROR,
    },
}

_TUPLE_EVENTS: Schema = {
    "operationId": "tuple_events",
    "summary": "Follow one tuple to its end: each event is the answer of GET /tuple/{id}, with its ETag as id.",
    "parameters": [
        {
            "name": "id",
            "in": "path",
            "required": True,
            "description": "The tuple's id",
            "schema": {"type": "string", "maxLength": 80},
        },
        {
            "name": "Last-Event-ID",
            "in": "header",
            "description": "Id of the last event you have",
            "schema": {"type": "string"},
        },
        _SPEAK_AS,
    ],
    "responses": {
        "200": {
            "description": "A stream that ends with the tuple.",
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
        },
        "default": _ERROR,
    },
}

_METRICS: Schema = {
    "operationId": "metrics",
    "summary": "Metrics for Prometheus; for admins, and for agents with the role tool that an admin added.",
    "responses": {
        "200": {
            "description": "The metrics, in Prometheus's text format or OpenMetrics.",
            "content": {"text/plain": {"schema": {"type": "string"}}},
        },
        "default": _ERROR,
    },
}

_OTHER_PATHS: dict[str, Schema] = {
    "/events": {"get": _EVENTS},
    "/metrics": {"get": _METRICS},
    "/tuple/{id}/events": {"get": _TUPLE_EVENTS},
}
"""Paths that are not operations: streams have no final answer, and metrics are not JSON."""


def openapi(operations: Iterable[Operation[Any, Any]], public: frozenset[str]) -> bytes:
    """Return the document for these operations and the other paths; operations named in `public` need no token."""
    operations = list(operations)
    types = [struct for operation in operations for struct in (operation.request, operation.response)]
    _, components = msgspec.json.schema_components(types, ref_template=_REF + "{name}")
    # The types hold no limits of these values; without this, clients would learn them only from errors.
    for name, published in _PUBLISHED.items():
        if name in components:
            _add_limits(components[name], msgspec.json.decode(schema_bytes(published)))
    paths: dict[str, Schema] = dict(_OTHER_PATHS)
    for operation in operations:
        route = route_of(operation)
        entry = _entry(operation, components[operation.request.__name__], operation.name in public)
        paths.setdefault(route.path, {})[route.method.lower()] = entry
    bodies = {operation.request.__name__ for operation in operations if _sends_request(operation)}
    for operation in operations:
        if operation.request.__name__ not in bodies:
            components.pop(operation.request.__name__, None)  # its fields appear as parameters instead
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
    names_in_path = path_fields(route)
    has_body, in_query = route.method == "POST", query_fields(operation)
    parameters = [
        _parameter(operation, name, schema, name in names_in_path, request)
        for name, schema in request["properties"].items()
        if name in names_in_path or name in in_query
    ]
    if not public:
        parameters.append(_SPEAK_AS)
    if operation.writes:
        description = "Requests with the same key are carried out once"
        parameters.append(_text_parameter("Idempotency-Key", "header", description, 128))
    entry: Schema = {
        "operationId": operation.name,
        "summary": operation.summary,
        "parameters": parameters,
        "responses": {
            "200": {
                "description": "Done.",
                "content": {"application/json": {"schema": {"$ref": _REF + operation.response.__name__}}},
            },
            "default": _ERROR,
        },
    }
    if route.conditional:
        parameters.append(_IF_NONE_MATCH)
        entry["responses"]["200"]["headers"] = _ETAG
        entry["responses"]["304"] = {"description": "The answer has not changed.", "headers": _ETAG}
    if has_body:
        entry["requestBody"] = _body(operation, request, names_in_path)
    if public:
        entry["security"] = []
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
    required = schema.get("required", request["required"])
    return {"required": bool(required), "content": {"application/json": {"schema": schema}}}


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
