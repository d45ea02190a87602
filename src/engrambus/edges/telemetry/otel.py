"""Spans and metrics for OpenTelemetry, with the names of its conventions for generative AI.

The SDK is an optional dependency, `engrambus[otel]`, loaded only if the environment names an exporter. A span holds the
caller, the operation, the number of records and the outcome; never a claim, a query, a reason or an excerpt.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, NamedTuple

from engrambus.errors import EngramBusError
from engrambus.gateway import LOCAL_ADMIN, Call, Gateway, to_request
from engrambus.operations import OPERATIONS
from engrambus.operations.stats import RoleFigures, StatsAnswer
from engrambus.settings import Exports
from engrambus.version import __version__

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Observation
    from opentelemetry.sdk.metrics.export import MetricReader
    from opentelemetry.sdk.trace import SpanProcessor

log = logging.getLogger(__name__)

DURATION_ATTRIBUTES = ("gen_ai.operation.name", "gen_ai.tool.name", "error.type")
"""Attributes of the durations: few enough to give each combination a series of its own."""

GAUGES = {
    "inline_tokens_per_turn": ("{token}", "Tokens in messages per turn, by role."),
    "derefs_per_turn": ("{dereference}", "Pointers read per turn, by role."),
    "contradiction_rate": ("1", "Contradictions per engram added, by role."),
    "resend_rate": ("1", "Resends per report or broadcast accepted, by role."),
}
CACHE_SECONDS = 1.0
"""Time for which figures are cached: one export reads them several times."""
_PROTOCOLS = {"grpc": "otlp_proto_grpc", "http/protobuf": "otlp_proto_http"}


class ExportTargets(NamedTuple):
    """The destinations of spans and metrics, as the SDK's objects."""

    processor: SpanProcessor | None = None
    reader: MetricReader | None = None
    service: str = "engrambus"


@contextmanager
def export_telemetry(gateway: Gateway, exports: Exports | ExportTargets) -> Iterator[None]:
    """Export every call of a gateway, and the team's figures, while the context is open."""
    try:
        import opentelemetry.sdk  # noqa: F401
    except ImportError:
        log.warning(
            "OTEL_* variables ask for telemetry, but the package opentelemetry-sdk is not installed. "
            "It comes with the extra engrambus[otel]."
        )
        yield
        return
    exporter = CallExporter(gateway, exports if isinstance(exports, ExportTargets) else _make_targets(exports))
    unwatch = gateway.watch_calls(exporter.export)
    try:
        yield
    finally:
        unwatch()
        exporter.close()


class CallExporter:
    """Turns finished calls into spans and durations."""

    # decision 20: a span is made after its call, with its start and end, so that operations need no code for it.

    def __init__(self, gateway: Gateway, targets: ExportTargets) -> None:
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        resource = Resource.create({"service.name": targets.service, "service.version": __version__})
        self._gateway = gateway
        self._figures: tuple[float, StatsAnswer | None] = (0.0, None)
        self._thread = threading.local()
        """`is_reading_figures` in the thread that reads them: that call is not exported."""
        # Providers of its own: nothing is registered for the whole process, which may have a telemetry set-up.
        self._tracing = TracerProvider(resource=resource, shutdown_on_exit=False)
        if targets.processor is not None:
            self._tracing.add_span_processor(targets.processor)
        readers = [targets.reader] if targets.reader is not None else []
        self._metering = MeterProvider(readers, resource=resource, shutdown_on_exit=False)
        self._tracer = self._tracing.get_tracer("engrambus", __version__)
        self._propagator = TraceContextTextMapPropagator()
        meter = self._metering.get_meter("engrambus", __version__)
        self._duration = meter.create_histogram(
            "gen_ai.client.operation.duration", unit="s", description="Duration of an operation."
        )
        for name, (unit, text) in GAUGES.items():
            meter.create_observable_gauge(f"engrambus.{name}", [self._gauge(name)], unit=unit, description=text)
        meter.create_observable_counter(
            "engrambus.engrams", [self._observe_kinds], unit="{engram}", description="Engrams added."
        )
        meter.create_observable_counter(
            "engrambus.denials", [self._observe_denials], unit="{call}", description="Calls refused, by error code."
        )

    def export(self, call: Call) -> None:
        """Export a finished call."""
        if getattr(self._thread, "is_reading_figures", False):
            return
        from opentelemetry.trace import SpanKind, Status, StatusCode

        attributes = span_attributes(call, self._gateway.store.project)
        end_ns = time.time_ns()
        parent = self._propagator.extract({"traceparent": call.trace}) if call.trace else None
        span = self._tracer.start_span(
            f"{attributes['gen_ai.operation.name']} {call.operation.title}",
            context=parent,
            kind=SpanKind.SERVER,
            attributes=attributes,
            start_time=end_ns - call.took_ns,
        )
        if call.code is not None:
            span.set_status(Status(StatusCode.ERROR))
        span.end(end_ns)
        labels = {name: attributes[name] for name in DURATION_ATTRIBUTES if name in attributes}
        self._duration.record(call.took_ns / 1e9, labels)

    def close(self) -> None:
        """Send what is still buffered, and stop."""
        self._tracing.shutdown()
        self._metering.shutdown()

    def _roles(self) -> list[RoleFigures]:
        """Return the project's figures by role."""
        read_at, answer = self._figures
        if answer is None or time.monotonic() - read_at > CACHE_SECONDS:
            stats = OPERATIONS["stats"]
            self._thread.is_reading_figures = True
            try:
                request = to_request({"over": "project", "last": 0}, stats.request)
                answer = self._gateway.call(stats, request, LOCAL_ADMIN)
            except EngramBusError:
                return []  # a project without a run has no figures yet; other errors reach the callers of operations
            finally:
                self._thread.is_reading_figures = False
            self._figures = (time.monotonic(), answer)
        return answer.roles

    def _gauge(self, name: str) -> Callable[[CallbackOptions], Iterator[Observation]]:
        from opentelemetry.metrics import Observation

        def observe(options: CallbackOptions) -> Iterator[Observation]:
            for row in self._roles():
                yield Observation(getattr(row.figures, name), {"engrambus.role": row.role})

        return observe

    def _observe_kinds(self, options: CallbackOptions) -> Iterator[Observation]:
        from opentelemetry.metrics import Observation

        for row in self._roles():
            for kind, count in row.figures.kinds.items():
                yield Observation(count, {"engrambus.role": row.role, "engrambus.engram.kind": kind})

    def _observe_denials(self, options: CallbackOptions) -> Iterator[Observation]:
        from opentelemetry.metrics import Observation

        for row in self._roles():
            for code, count in row.figures.denial_codes.items():
                yield Observation(count, {"engrambus.role": row.role, "error.type": code})
        for code, count in self._gateway.unidentified_denials.items():
            yield Observation(count, {"error.type": code})


def span_attributes(call: Call, project: str) -> dict[str, str | int]:
    """Return the attributes of a call's span."""
    span = call.operation.span
    attributes: dict[str, str | int] = {"gen_ai.operation.name": span}
    if span.endswith("_memory"):
        attributes["gen_ai.memory.store.id"] = project
        attributes |= _record_attributes(call.answer)
    attributes["gen_ai.tool.name"] = call.operation.tool_name
    if call.caller is not None:
        attributes["gen_ai.agent.id"] = call.caller.full_name
        attributes["gen_ai.agent.name"] = call.caller.name
        attributes["gen_ai.conversation.id"] = call.caller.run.run_id
        attributes["engrambus.role"] = call.caller.role
    if call.code is not None:
        attributes["error.type"] = call.code
    return attributes


def _record_attributes(answer: Any) -> dict[str, str | int]:
    """Return the id of the engram in an answer, or the number of engrams."""
    if isinstance(engram_id := getattr(answer, "id", None), str):
        return {"gen_ai.memory.record.id": engram_id, "gen_ai.memory.record.count": 1}
    engrams = getattr(answer, "ids", None) or getattr(answer, "engrams", None)
    return {"gen_ai.memory.record.count": len(engrams)} if isinstance(engrams, list) else {}


def _make_targets(exports: Exports) -> ExportTargets:
    """Return the processor and the reader for the exporters that the environment names."""
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    spans = _exporter("opentelemetry_traces_exporter", exports.traces, exports.protocol)
    metrics = _exporter("opentelemetry_metrics_exporter", exports.metrics, exports.protocol)
    return ExportTargets(
        processor=BatchSpanProcessor(spans) if spans is not None else None,
        reader=PeriodicExportingMetricReader(metrics) if metrics is not None else None,
        service=exports.service,
    )


def _exporter(group: str, name: str | None, protocol: str | None) -> Any:
    """Return the exporter that an installed package offers under this name; log a warning if there is none."""
    if name is None:
        return None
    names = [name]
    if name == "otlp":
        names = [_PROTOCOLS[protocol]] if protocol in _PROTOCOLS else list(_PROTOCOLS.values())
    for entry_name in names:
        for entry_point in entry_points(group=group, name=entry_name):
            try:
                make = entry_point.load()
            except ImportError:
                continue
            return make(out=sys.stderr) if name == "console" else make()  # stdout is for the commands' answers
    log.warning("No OpenTelemetry exporter named '%s' is installed", name)
    return None
