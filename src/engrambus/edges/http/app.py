"""The HTTP application: a route for each operation, the streams, the page, MCP and the metrics."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import Route
from starlette.types import ASGIApp

from engrambus.edges.http.callers import CallThreads
from engrambus.edges.http.endpoints import MetricsEndpoint, OperationEndpoint, route_of, send_health
from engrambus.edges.http.events import EVENT_LIMITS, EventsEndpoint
from engrambus.edges.http.exposure import Exposure
from engrambus.edges.http.guard import Guard, MethodRouter, route_not_found
from engrambus.edges.http.mirror import mirror_routes
from engrambus.edges.http.openapi import openapi
from engrambus.edges.http.proof import PROOF_PATH, ProofEndpoint
from engrambus.edges.http.responses import StaticResponse
from engrambus.edges.http.server_limits import DEFAULT_LIMITS, ServerLimits
from engrambus.edges.http.sessions import BrowserSessions, SignInCodes, session_operations
from engrambus.edges.http.streams import LongLived
from engrambus.edges.http.tuple_events import TupleEventsEndpoint
from engrambus.edges.mcp import MCP_METHODS, McpEndpoint
from engrambus.edges.page import page_routes
from engrambus.edges.telemetry import Metrics
from engrambus.evidence.pointers.mirror import MirrorLimits
from engrambus.gateway import Gateway
from engrambus.knowledge.engrams import schema_bytes, schema_names
from engrambus.operations import OPERATIONS

Endpoints = dict[str, dict[str, ASGIApp]]
"""Endpoints by path and method."""


def create_app(
    gateway: Gateway,
    *,
    port: int,
    codes: SignInCodes | None = None,
    events: EventsEndpoint | None = None,
    tuple_events: TupleEventsEndpoint | None = None,
    limits: ServerLimits = DEFAULT_LIMITS,
    exposures: Mapping[int, Exposure] | None = None,
    mirror: MirrorLimits | None = None,
) -> Starlette:
    """Return the application that serves a project on a port of this machine, or on ports with these exposures.

    With a `mirror`, it takes commits that are pushed. `app.state.codes` makes codes for the page;
    `app.state.long_lived` holds the endpoints to close at shutdown.
    """
    gateway.start_read_ahead()
    codes = codes or SignInCodes()
    sessions = BrowserSessions(is_good=gateway.is_good)
    threads = CallThreads(limits)
    mcp = McpEndpoint(gateway, threads, limits)
    stream_limits = EVENT_LIMITS._replace(
        max_open=limits.streams, max_per_agent=limits.agent_streams, max_per_person=limits.person_streams
    )
    endpoints: Endpoints = {
        **_operation_endpoints(gateway, codes, sessions, threads),
        **page_routes(gateway, codes, sessions),
        "/events": {"GET": events or EventsEndpoint(gateway, stream_limits, sessions=sessions)},
        "/tuple/{id}/events": {"GET": tuple_events or TupleEventsEndpoint(gateway)},
        "/mcp": dict.fromkeys(MCP_METHODS, mcp),
        "/metrics": {"GET": MetricsEndpoint(gateway, Metrics(gateway), threads)},
        "/healthz": {"GET": send_health},
        PROOF_PATH: {"POST": ProofEndpoint(gateway)},
        **(mirror_routes(gateway, mirror, limits) if mirror is not None else {}),
    }
    # Paths without a field come first: /engram/query is not the engram named "query".
    paths = sorted(endpoints, key=lambda path: (path.count("{"), path))
    app = Starlette(
        routes=[Route(path, MethodRouter(endpoints[path])) for path in paths],
        middleware=[Middleware(Guard, exposures=exposures or {port: Exposure()}, limits=limits)],
        lifespan=mcp.running,
    )
    app.router.redirect_slashes = False
    app.router.default = route_not_found
    app.state.codes = codes
    every_endpoint = (endpoint for by_method in endpoints.values() for endpoint in by_method.values())
    app.state.long_lived = {endpoint for endpoint in every_endpoint if isinstance(endpoint, LongLived)}
    return app


def _operation_endpoints(
    gateway: Gateway, codes: SignInCodes, sessions: BrowserSessions, threads: CallThreads
) -> Endpoints:
    """Return the endpoints of all operations, of the OpenAPI document and of the published schemas."""
    of_this_server = msgspec.structs.astuple(session_operations(codes, sessions))
    operations = [*(operation for operation in OPERATIONS.values() if operation.route), *of_this_server]
    endpoints: Endpoints = {}
    for operation in operations:
        route = route_of(operation)
        endpoint = OperationEndpoint(gateway, operation, threads)
        path = route.path
        for field in operation.agent_fields:
            # A full name has a slash: /agent/<run>/<name>/token.
            path = path.replace(f"{{{field}}}", f"{{{field}:path}}")
        endpoints.setdefault(path, {})[route.method] = endpoint
    endpoints["/openapi.json"] = {"GET": StaticResponse(openapi(operations), "application/json")}
    for name in schema_names():
        endpoints[f"/schemas/{name}"] = {"GET": StaticResponse(schema_bytes(name), "application/schema+json")}
    return endpoints
