"""Paths of the OpenAPI document that are not operations: streams, metrics, the health check, MCP and the schemas."""

from __future__ import annotations

from typing import Any

from engrambus.edges.http.endpoints import SPEAK_AS
from engrambus.edges.http.events import MAX_PAGE_EVENTS, PAGE_EVENTS
from engrambus.edges.http.openapi_errors import responses_for, stream_responses
from engrambus.edges.http.proof import PROOF_PATH
from engrambus.errors import (
    BadJson,
    BodyRefusal,
    BodyTooLarge,
    BodyTooSlow,
    ContentType,
    FieldRefusal,
    HostForbidden,
    NumberRange,
    OriginForbidden,
    SessionInvalid,
    TooManySessions,
    TooManyStreams,
    TupleNotFound,
)
from engrambus.gateway.events import EVENT_TYPES
from engrambus.knowledge.engrams import schema_names
from engrambus.policy import MAX_TOKEN_CHARS, NONCE_CHARS

Schema = dict[str, Any]

IF_NONE_MATCH: Schema = {
    "name": "If-None-Match",
    "in": "header",
    "description": "ETags of answers that the client already has",
    "schema": {"type": "string"},
}
ETAG: Schema = {"ETag": {"description": "Identifies this answer", "schema": {"type": "string"}}}
ERROR: Schema = {"$ref": "#/components/responses/Refused"}
"""The response for errors of later versions."""
_EVENT_ID: Schema = {"type": "string", "pattern": r"^[0-9]{1,15}(\.[0-9]{1,9})?$"}


def text_property(description: str, max_length: int) -> Schema:
    """Return the schema of a text in a body."""
    return {"type": "string", "minLength": 1, "maxLength": max_length, "description": description}


def text_parameter(name: str, location: str, description: str, max_length: int) -> Schema:
    schema = {"type": "string", "minLength": 1, "maxLength": max_length}
    return {"name": name, "in": location, "description": description, "schema": schema}


SPEAK_AS_PARAMETER = text_parameter(SPEAK_AS, "query", "The descendant in whose name to act", 64)

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
        SPEAK_AS_PARAMETER,
        IF_NONE_MATCH,
    ],
    "responses": {
        "200": {
            "description": "A stream that goes on until either side ends it, or a page with an ETag.",
            "headers": ETAG,
            "content": {
                "text/event-stream": {"schema": {"type": "string"}},
                "application/json": {"schema": _EVENT_PAGE},
            },
        },
        "304": {"description": "There are no new events since the page with that ETag.", "headers": ETAG},
        **stream_responses(TooManyStreams, SessionInvalid),
        "default": ERROR,
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
        SPEAK_AS_PARAMETER,
    ],
    "responses": {
        "200": {
            "description": "A stream that ends with the tuple.",
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
        },
        **stream_responses(TooManyStreams, TupleNotFound),
        "default": ERROR,
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
        **stream_responses(),
        "default": ERROR,
    },
}

_HEALTH: Schema = {
    "operationId": "health",
    "summary": "Say that the server runs, and its version.",
    "security": [],
    "responses": {
        "200": {
            "description": "It runs.",
            "content": {
                "application/json": {
                    "schema": {
                        "type": "object",
                        "properties": {"status": {"const": "ok"}, "version": {"type": "string"}},
                        "required": ["status", "version"],
                    }
                }
            },
        },
        "default": ERROR,
    },
}

_PROOF: Schema = {
    "operationId": "proof",
    "summary": "Prove that this is the gateway of a token's project, before a client sends the token.",
    "description": "The proof is base64url(HMAC-SHA256(M, T)): M is the MAC at the end of the token; T is 'engrambus "
    "listener 1', the nonce, the address that the client has connected to as `127.0.0.1|7171`, and the head, joined by "
    "NUL characters.",
    "security": [],
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "properties": {
                        "head": text_property("The token up to its last dot, without its MAC", MAX_TOKEN_CHARS),
                        "nonce": text_property("32 random bytes as base64url", NONCE_CHARS),
                    },
                    "required": ["head", "nonce"],
                    "additionalProperties": False,
                }
            }
        },
    },
    "responses": {
        "200": {
            "description": "The proof.",
            "content": {
                "application/json": {
                    "schema": {
                        "type": "object",
                        "properties": {"proof": {"type": "string"}},
                        "required": ["proof"],
                    }
                }
            },
        },
        **responses_for((HostForbidden, OriginForbidden, BodyRefusal, FieldRefusal)),
        "default": ERROR,
    },
}

_JSON_RPC: Schema = {"application/json": {"schema": {"type": "object", "required": ["jsonrpc"]}}}
_MCP_SUMMARIES = {
    "post": "Send a message of the Model Context Protocol (streamable HTTP); the tools are those of `engrambus mcp`.",
    "get": "Open the stream of an MCP session, for clients of protocol revisions that have sessions.",
    "delete": "End an MCP session.",
}


def _mcp(method: str) -> Schema:
    entry: Schema = {
        "operationId": f"mcp_{method}",
        "summary": _MCP_SUMMARIES[method],
        "responses": {
            "200": {
                "description": "The answer, as JSON or as a stream.",
                "content": {**_JSON_RPC, "text/event-stream": {"schema": {"type": "string"}}},
            },
            "202": {"description": "Accepted; there is no answer."},
            "400": {"description": "Not a message of the protocol.", "content": _JSON_RPC},
            **stream_responses(BodyTooLarge, BodyTooSlow, ContentType, NumberRange, BadJson, TooManySessions),
            "default": ERROR,
        },
    }
    if method == "post":
        entry["requestBody"] = {"required": True, "content": _JSON_RPC}
    return entry


def _static(operation_id: str, summary: str, media_type: str) -> Schema:
    return {
        "operationId": operation_id,
        "summary": summary,
        "security": [],
        "parameters": [IF_NONE_MATCH],
        "responses": {
            "200": {
                "description": "The document.",
                "headers": ETAG,
                "content": {media_type: {"schema": {"type": "object"}}},
            },
            "304": {"description": "The client has it already.", "headers": ETAG},
            **responses_for((HostForbidden, OriginForbidden)),
            "default": ERROR,
        },
    }


def _schema_id(name: str) -> str:
    """Return the operation id of a published schema: `less/engram.v0.1.json` is `schema_less_engram`."""
    return "schema_" + name.partition(".")[0].replace("/", "_")


OTHER_PATHS: dict[str, Schema] = {
    "/events": {"get": _EVENTS},
    "/metrics": {"get": _METRICS},
    "/tuple/{id}/events": {"get": _TUPLE_EVENTS},
    "/healthz": {"get": _HEALTH},
    PROOF_PATH: {"post": _PROOF},
    "/mcp": {method: _mcp(method) for method in _MCP_SUMMARIES},
    "/openapi.json": {"get": _static("openapi", "Describe this interface.", "application/json")},
    **{
        f"/schemas/{name}": {
            "get": _static(_schema_id(name), f"Return the published schema {name}.", "application/schema+json")
        }
        for name in schema_names()
    },
}
"""Paths that are not operations: streams have no final answer, metrics are not JSON, documents never change."""
