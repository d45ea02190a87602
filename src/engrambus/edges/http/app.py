"""The HTTP application, made from the declared operations."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from engrambus.edges.http.answers import File, send_json
from engrambus.edges.http.calls import Endpoint, route_of
from engrambus.edges.http.events import EventStreams
from engrambus.edges.http.events_entry import EVENTS
from engrambus.edges.http.guard import Guard, Place, nothing_here
from engrambus.edges.http.mcp import METHODS, McpEndpoint
from engrambus.edges.http.metrics import METRICS, MetricsPage
from engrambus.edges.http.openapi import openapi
from engrambus.edges.http.page import PAGE_HEADERS, PageDoor
from engrambus.edges.http.sessions import Codes, session_operations
from engrambus.edges.http.streams import Endless
from engrambus.edges.http.tuple_events import TUPLE_EVENTS, TupleStreams
from engrambus.edges.page import static_files
from engrambus.edges.telemetry import Metrics
from engrambus.gateway import Gateway, Operation
from engrambus.knowledge.engrams import schema_bytes, schema_names
from engrambus.operations import OPERATIONS
from engrambus.version import __version__

_HEALTH = msgspec.json.encode({"status": "ok", "version": __version__})

_BESIDE = {
    "/events": {"get": EVENTS},
    "/metrics": {"get": METRICS},
    "/tuple/{id}/events": {"get": TUPLE_EVENTS},
}
"""What HTTP offers beside the operations."""


def create_app(
    gateway: Gateway,
    *,
    port: int,
    codes: Codes | None = None,
    events: EventStreams | None = None,
    tuples: TupleStreams | None = None,
) -> Starlette:
    """The application that offers a project on a port of this machine.

    `app.state.codes` makes codes for the page; `app.state.endless` holds whoever gives answers that would not end by
    themselves.
    """
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
    page = PageDoor(gateway, codes)
    methods["/"] = methods["/page/{panel}"] = {"GET": page.view}
    methods["/page/do/{action}"] = {"POST": page.act}
    methods["/page/open"] = {"POST": page.enter}
    methods["/page/theme"] = {"POST": page.theme}
    methods["/healthz"] = {"GET": _health}
    methods["/events"] = {"GET": events or EventStreams(gateway)}
    methods["/tuple/{id}/events"] = {"GET": tuples or TupleStreams(gateway)}
    mcp = McpEndpoint(gateway)
    methods["/mcp"] = dict.fromkeys(METHODS, mcp)
    methods["/metrics"] = {"GET": MetricsPage(Metrics(gateway))}
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
    app.state.endless = {each for here in methods.values() for each in here.values() if isinstance(each, Endless)}
    return app


def _files(operations: list[Operation[Any, Any]], public: frozenset[str]) -> dict[str, File]:
    files = {"/openapi.json": File(openapi(operations, public, _BESIDE), "application/json")}
    for name in schema_names():
        files[f"/schemas/{name}"] = File(schema_bytes(name), "application/schema+json")
    for path, (body, content_type) in static_files().items():
        files[path] = File(body, content_type, PAGE_HEADERS)
    return files


async def _health(scope: Scope, receive: Receive, send: Send) -> None:
    await send_json(send, _HEALTH)
