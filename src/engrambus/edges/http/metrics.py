"""`GET /metrics`: how the bus does, as Prometheus reads it. Like every call it needs a token."""

from __future__ import annotations

from typing import Any

from anyio import to_thread
from starlette.types import Receive, Scope, Send

from engrambus.edges.http.answers import send_plain
from engrambus.edges.http.refusals import call_named
from engrambus.edges.http.requests import bearer, listed, read_query
from engrambus.edges.telemetry import Metrics
from engrambus.gateway import Credential

METRICS: dict[str, Any] = {
    "operationId": "metrics",
    "summary": "How the bus does, as Prometheus reads it: for admins and tools they added.",
    "responses": {
        "200": {
            "description": "The metrics, in Prometheus's text format or OpenMetrics.",
            "content": {"text/plain": {"schema": {"type": "string"}}},
        },
        "default": {"$ref": "#/components/responses/Refused"},
    },
}
"""The entry of the OpenAPI document."""


class MetricsPage:
    """Offers a gateway's metrics."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send everything, to whoever may see it."""
        call_named(scope, "metrics")
        credential = Credential(token=bearer(scope))
        read_query(scope, frozenset(), frozenset())
        accept = b",".join(listed(scope, b"accept")).decode("latin-1")
        body, content_type = await to_thread.run_sync(self._metrics.scrape, credential, accept)
        await send_plain(send, body, content_type)
