"""How `GET /events` is described in the OpenAPI document."""

from __future__ import annotations

from typing import Any

from engrambus.edges.http.events import MOST_PAGE_EVENTS, PAGE_EVENTS
from engrambus.edges.http.openapi import ETAG, IF_NONE_MATCH
from engrambus.gateway.events import TYPES

_PAGE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "description": "Where the page ends; give it as `after` for the next"},
        "more": {"type": "boolean", "description": "Whether there is more already"},
        "events": {"type": "array", "items": {"type": "object"}, "description": "Oldest first"},
    },
    "required": ["id", "more", "events"],
}

EVENTS: dict[str, Any] = {
    "operationId": "events",
    "summary": "Follow what happens: ids and counts as server-sent events, never content.",
    "parameters": [
        {
            "name": "after",
            "in": "query",
            "description": "The id of the last event known; 0 for all from the beginning. Without it, from now on",
            "schema": {"type": "string", "pattern": r"^[0-9]{1,15}(\.[0-9]{1,9})?$"},
        },
        {
            "name": "Last-Event-ID",
            "in": "header",
            "description": "The same, as browsers send it; it comes before `after`",
            "schema": {"type": "string", "pattern": r"^[0-9]{1,15}(\.[0-9]{1,9})?$"},
        },
        {
            "name": "type",
            "in": "query",
            "description": "Only events of these types",
            "style": "form",
            "explode": False,
            "schema": {"type": "array", "items": {"type": "string", "enum": sorted(TYPES)}},
        },
        {
            "name": "limit",
            "in": "query",
            "description": "How many events at the most; only of a page",
            "schema": {"type": "integer", "minimum": 1, "maximum": MOST_PAGE_EVENTS, "default": PAGE_EVENTS},
        },
        {
            "name": "as",
            "in": "query",
            "description": "The descendant in whose name to act",
            "schema": {"type": "string", "minLength": 1, "maxLength": 64},
        },
        IF_NONE_MATCH,
    ],
    "responses": {
        "200": {
            "description": "A stream that goes on until either side ends it, or a page with an ETag.",
            "headers": ETAG,
            "content": {
                "text/event-stream": {"schema": {"type": "string"}},
                "application/json": {"schema": _PAGE},
            },
        },
        "304": {"description": "There is nothing new since the page with that ETag.", "headers": ETAG},
        "default": {"$ref": "#/components/responses/Refused"},
    },
}
"""The entry of the OpenAPI document."""
