"""Spans and metrics for OpenTelemetry, under the names its conventions for generative AI give.

The SDK is an extra, `engrambus[otel]`, and is loaded only when the environment says where to send what is gathered.
A span tells who did what to how many records, and how it ended; never a claim, a query, a reason or an excerpt.
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

MEASURED = ("gen_ai.operation.name", "gen_ai.tool.name", "error.type")
"""What durations are told apart by."""

PUBLISHED = {
    "inline_tokens_per_turn": ("{token}", "Inline tokens per turn, by role."),
    "derefs_per_turn": ("{dereference}", "Dereferences per turn, by role."),
    "contradiction_rate": ("1", "Contradictions per engram put, by role."),
    "resend_rate": ("1", "Resends per report or broadcast accepted, by role."),
}
KEPT_SECONDS = 1.0
"""How long figures that were read are good for: one export asks for them several times."""
_PROTOCOLS = {"grpc": "otlp_proto_grpc", "http/protobuf": "otlp_proto_http"}


class Exporting(NamedTuple):
    """Where spans and metrics go: what the SDK calls a processor and a reader."""

    processor: SpanProcessor | None = None
    reader: MetricReader | None = None
    service: str = "engrambus"


@contextmanager
def watch(gateway: Gateway, exports: Exports | Exporting) -> Iterator[None]:
    """Tell OpenTelemetry of every call of a gateway, and of the team's figures, for a while."""
    try:
        import opentelemetry.sdk  # noqa: F401
    except ImportError:
        log.warning(
            "OTEL_* variables ask for telemetry, but the package opentelemetry-sdk is not installed beside engrambus."
        )
        yield
        return
    where = exports if isinstance(exports, Exporting) else _where(exports)
    telling = Telling(gateway, where)
    leave = gateway.watch_calls(telling.told)
    try:
        yield
    finally:
        leave()
        telling.close()


class Telling:
    """Turns calls into spans and durations, through providers of its own: nothing is set for the whole process."""

    def __init__(self, gateway: Gateway, where: Exporting) -> None:
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        resource = Resource.create({"service.name": where.service, "service.version": __version__})
        self._gateway = gateway
        self._figures: tuple[float, StatsAnswer | None] = (0.0, None)
        self._own = threading.local()
        self._tracing = TracerProvider(resource=resource, shutdown_on_exit=False)
        if where.processor is not None:
            self._tracing.add_span_processor(where.processor)
        readers = [where.reader] if where.reader is not None else []
        self._metering = MeterProvider(readers, resource=resource, shutdown_on_exit=False)
        self._tracer = self._tracing.get_tracer("engrambus", __version__)
        self._propagator = TraceContextTextMapPropagator()
        meter = self._metering.get_meter("engrambus", __version__)
        self._duration = meter.create_histogram(
            "gen_ai.client.operation.duration", unit="s", description="How long an operation took."
        )
        for name, (unit, text) in PUBLISHED.items():
            meter.create_observable_gauge(f"engrambus.{name}", [self._read(name)], unit=unit, description=text)
        meter.create_observable_counter("engrambus.engrams", [self._kinds], unit="{engram}", description="Engrams put.")

    def told(self, call: Call) -> None:
        """A call is over; those made here, for the figures, are not told."""
        if getattr(self._own, "asking", False):
            return
        from opentelemetry.trace import SpanKind, Status, StatusCode

        about = attributes_of(call, self._gateway.store.project)
        ended = time.time_ns()
        parent = self._propagator.extract({"traceparent": call.trace}) if call.trace else None
        span = self._tracer.start_span(
            f"{about['gen_ai.operation.name']} {call.operation.title}",
            context=parent,
            kind=SpanKind.SERVER,
            attributes=about,
            start_time=ended - call.took_ns,
        )
        if call.code is not None:
            span.set_status(Status(StatusCode.ERROR))
        span.end(ended)
        self._duration.record(call.took_ns / 1e9, {name: about[name] for name in MEASURED if name in about})

    def close(self) -> None:
        """Send what is left."""
        self._tracing.shutdown()
        self._metering.shutdown()

    def _roles(self) -> list[RoleFigures]:
        """The project's figures by role."""
        read_at, answer = self._figures
        if answer is None or time.monotonic() - read_at > KEPT_SECONDS:
            stats = OPERATIONS["stats"]
            self._own.asking = True
            try:
                request = to_request({"over": "project", "last": 0}, stats.request)
                answer = self._gateway.call(stats, request, LOCAL_ADMIN)
            except EngramBusError:
                return []  # a project without a run has no figures yet; callers are told what else is wrong
            finally:
                self._own.asking = False
            self._figures = (time.monotonic(), answer)
        return answer.roles

    def _read(self, name: str) -> Callable[[CallbackOptions], Iterator[Observation]]:
        from opentelemetry.metrics import Observation

        def read(options: CallbackOptions) -> Iterator[Observation]:
            for row in self._roles():
                yield Observation(getattr(row.figures, name), {"engrambus.role": row.role})

        return read

    def _kinds(self, options: CallbackOptions) -> Iterator[Observation]:
        from opentelemetry.metrics import Observation

        for row in self._roles():
            for kind, count in row.figures.kinds.items():
                yield Observation(count, {"engrambus.role": row.role, "engrambus.engram.kind": kind})


def attributes_of(call: Call, project: str) -> dict[str, str | int]:
    """What a span says of a call."""
    span = call.operation.span
    about: dict[str, str | int] = {"gen_ai.operation.name": span}
    if span.endswith("_memory"):
        about["gen_ai.memory.store.id"] = project
        about |= _records(call.answer)
    about["gen_ai.tool.name"] = call.operation.tool_name
    if call.caller is not None:
        about["gen_ai.agent.id"] = call.caller.full_name
        about["gen_ai.agent.name"] = call.caller.name
        about["gen_ai.conversation.id"] = call.caller.run.run_id
        about["engrambus.role"] = call.caller.role
    if call.code is not None:
        about["error.type"] = call.code
    return about


def _records(answer: Any) -> dict[str, str | int]:
    """Which engram an answer is about, or how many."""
    if isinstance(record := getattr(answer, "id", None), str):
        return {"gen_ai.memory.record.id": record, "gen_ai.memory.record.count": 1}
    many = getattr(answer, "ids", None) or getattr(answer, "engrams", None)
    return {"gen_ai.memory.record.count": len(many)} if isinstance(many, list) else {}


def _where(exports: Exports) -> Exporting:
    """The processor and the reader for what the environment names."""
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    spans = _exporter("opentelemetry_traces_exporter", exports.traces, exports.protocol)
    metrics = _exporter("opentelemetry_metrics_exporter", exports.metrics, exports.protocol)
    return Exporting(
        processor=BatchSpanProcessor(spans) if spans is not None else None,
        reader=PeriodicExportingMetricReader(metrics) if metrics is not None else None,
        service=exports.service,
    )


def _exporter(group: str, name: str | None, protocol: str | None) -> Any:
    """The exporter of that name, as installed packages offer it; none, and a word in the log, when none does."""
    if name is None:
        return None
    names = [name]
    if name == "otlp":
        names = [_PROTOCOLS[protocol]] if protocol in _PROTOCOLS else list(_PROTOCOLS.values())
    for each in names:
        for found in entry_points(group=group, name=each):
            try:
                make = found.load()
            except ImportError:
                continue
            return make(out=sys.stderr) if name == "console" else make()  # stdout belongs to answers
    log.warning("No OpenTelemetry exporter named '%s' is installed", name)
    return None
