"""The HTTP application, made from the declared operations."""

from __future__ import annotations

import pkgutil
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from stigmergy.edges.http.answers import File, Headers, send_json
from stigmergy.edges.http.calls import Endpoint, route_of
from stigmergy.edges.http.events import EventStreams
from stigmergy.edges.http.events_entry import EVENTS
from stigmergy.edges.http.guard import Guard, Place, nothing_here
from stigmergy.edges.http.mcp import METHODS, McpEndpoint
from stigmergy.edges.http.openapi import openapi
from stigmergy.edges.http.sessions import Codes, session_operations
from stigmergy.knowledge.engrams import schema_bytes, schema_names
from stigmergy.operations import OPERATIONS, Gateway, Operation
from stigmergy.version import __version__

_HEALTH = msgspec.json.encode({"status": "ok", "version": __version__})

_PAGE = {
    "/": ("page.html", "text/html; charset=utf-8"),
    "/static/page.css": ("page.css", "text/css; charset=utf-8"),
    "/static/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/static/icon.svg": ("icon.svg", "image/svg+xml"),
}
_PAGE_HEADERS: Headers = [
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
]


def create_app(
    gateway: Gateway,
    *,
    port: int,
    codes: Codes | None = None,
    streams: EventStreams | None = None,
    mcp: McpEndpoint | None = None,
) -> Starlette:
    """The application that offers a project on a port of this machine; `app.state.codes` makes codes for the page."""
    codes = codes or Codes()
    session = session_operations(codes)
    public = frozenset({session[0].name})
    operations = [*(operation for operation in OPERATIONS.values() if operation.route), *session]
    methods: dict[str, dict[str, ASGIApp]] = {}
    for operation in operations:
        route = route_of(operation)
        endpoint = Endpoint(gateway, operation, public=operation.name in public)
        methods.setdefault(route.path, {})[route.method] = endpoint
    for path, file in _files(operations, public).items():
        methods[path] = {"GET": file}
    methods["/healthz"] = {"GET": _health}
    methods["/events"] = {"GET": streams or EventStreams(gateway)}
    mcp = mcp or McpEndpoint(gateway)
    methods["/mcp"] = dict.fromkeys(METHODS, mcp)
    # A fixed address comes before one with a field in it: /engram/query is not the engram named "query".
    paths = sorted(methods, key=lambda path: (path.count("{"), path))
    app = Starlette(
        routes=[Route(path, Place(methods[path])) for path in paths],
        middleware=[Middleware(Guard, port=port)],
        lifespan=mcp.running,
    )
    app.router.redirect_slashes = False
    app.router.default = nothing_here
    app.state.codes = codes
    return app


def _files(operations: list[Operation[Any, Any]], public: frozenset[str]) -> dict[str, File]:
    files = {"/openapi.json": File(openapi(operations, public, {"/events": {"get": EVENTS}}), "application/json")}
    for name in schema_names():
        files[f"/schemas/{name}"] = File(schema_bytes(name), "application/schema+json")
    for path, (name, content_type) in _PAGE.items():
        body = pkgutil.get_data(__package__, f"page/{name}")
        if body is None:
            raise FileNotFoundError(name)
        files[path] = File(body, content_type, _PAGE_HEADERS)
    return files


async def _health(scope: Scope, receive: Receive, send: Send) -> None:
    await send_json(send, _HEALTH)
