"""Spans and metrics as OpenTelemetry's own SDK exports them."""  # EB-26

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from engrambus.edges.telemetry import ExportTargets, export_telemetry
from engrambus.errors import EngramBusError
from engrambus.gateway import LOCAL_ADMIN, Credential, Gateway, to_request
from engrambus.operations import OPERATIONS
from engrambus.settings import Exports, Settings
from tests.cli.runner import COMMAND
from tests.http.running_server import run_server
from tests.projects import Repository

CLAIM = "A singular claim nobody else makes."
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Exported:
    """The exported spans and metrics."""

    def __init__(self) -> None:
        self.spans = InMemorySpanExporter()
        self.reader = InMemoryMetricReader()

    def finished(self) -> Sequence[ReadableSpan]:
        """Return all finished spans."""
        return self.spans.get_finished_spans()

    def points(self, name: str) -> list[Any]:
        """Return the data points of a metric."""
        data = self.reader.get_metrics_data()
        assert data is not None
        return [
            point
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
            for point in metric.data.data_points
        ]


@contextmanager
def exporting(gateway: Gateway) -> Iterator[Exported]:
    """Export the calls of a gateway into memory while the context is open."""
    exported = Exported()
    with export_telemetry(
        gateway, ExportTargets(processor=SimpleSpanProcessor(exported.spans), reader=exported.reader)
    ):
        yield exported


def call(gateway: Gateway, name: str, credential: Credential = LOCAL_ADMIN, /, **fields: Any) -> Any:
    """Call an operation; return None if it is refused."""
    declared = OPERATIONS[name]
    with suppress(EngramBusError):
        return gateway.call(declared, to_request(fields, declared.request), credential)


def test_each_call_is_a_span_with_the_names_of_the_conventions(gateway: Gateway) -> None:
    with exporting(gateway) as exported:
        engram = call(gateway, "put_engram", claim=CLAIM, at=["src/parser.py:1-2"])
        call(gateway, "query_engrams", q="singular claim")
        call(gateway, "confirm_engram", id=engram.id)
        call(gateway, "deref_pointer", pointer=engram.pointers[0].ref)
        call(gateway, "forget_engram", id=engram.id)
        spans = exported.finished()
    assert [span.name for span in spans] == [
        "create_memory less.put_engram",
        "search_memory less.query_engrams",
        "update_memory engram.confirm",
        "execute_tool less.deref_pointer",
        "delete_memory engram.forget",
    ]
    put, query = (dict(span.attributes or {}) for span in spans[:2])
    run = engram.provenance.created_by.partition("/")[0]
    assert put == {
        "gen_ai.operation.name": "create_memory",
        "gen_ai.memory.store.id": gateway.store.project,
        "gen_ai.memory.record.id": engram.id,
        "gen_ai.memory.record.count": 1,
        "gen_ai.tool.name": "less_put_engram",
        "gen_ai.agent.id": f"{run}/admin",
        "gen_ai.agent.name": "admin",
        "gen_ai.conversation.id": run,
        "engrambus.role": "admin",
    }
    assert query["gen_ai.memory.record.count"] == 1
    assert all(span.end_time > span.start_time for span in spans if span.end_time and span.start_time)
    assert all(span.status.is_unset for span in spans)


def test_spans_hold_no_content(gateway: Gateway) -> None:
    with exporting(gateway) as exported:
        call(gateway, "put_engram", claim=CLAIM, at=["src/parser.py:1-2"], tags=["peculiar"])
        call(gateway, "put_engram", claim="", at=["src/parser.py:1-2"])
        call(gateway, "query_engrams", q="singular peculiar")
        call(gateway, "get_engram", id="peculiar-id")
        call(gateway, "request_deref", pointer="src/parser.py:3", reason="A peculiar reason.")
        spans = json.dumps([json.loads(span.to_json()) for span in exported.finished()])
    assert len(json.loads(spans)) == 5
    for word in ("singular", "peculiar", "src/parser"):
        assert word not in spans


def test_a_refused_call_is_an_error_with_its_code(gateway: Gateway) -> None:
    with exporting(gateway) as exported:
        call(gateway, "get_engram", id="01K7Z3V5QX0000000000000000")
        call(gateway, "stats", Credential(token="nonsense"))
        not_found, unknown = exported.finished()
    assert (not_found.attributes or {})["error.type"] == "ENGRAM_NOT_FOUND"
    assert not not_found.status.is_ok
    assert not_found.status.description is None
    assert (unknown.attributes or {})["error.type"] == "TOKEN_INVALID"
    assert "gen_ai.agent.id" not in (unknown.attributes or {})


def test_durations_and_figures_are_metrics(gateway: Gateway) -> None:
    with exporting(gateway) as exported:
        call(gateway, "put_engram", claim=CLAIM, at=["src/parser.py:1-2"])
        call(gateway, "get_engram", id="01K7Z3V5QX0000000000000000")
        points = exported.points("gen_ai.client.operation.duration")
        kinds = exported.points("engrambus.engrams")
        rates = exported.points("engrambus.contradiction_rate")
        assert len(exported.finished()) == 2, "reading the figures is not exported"
    outcomes = {
        (dict(point.attributes)["gen_ai.tool.name"], dict(point.attributes).get("error.type")) for point in points
    }
    assert outcomes == {("less_put_engram", None), ("engram_get", "ENGRAM_NOT_FOUND")}
    assert [(dict(point.attributes), point.value) for point in kinds] == [
        ({"engrambus.role": "admin", "engrambus.engram.kind": "fact"}, 1)
    ]
    assert [point.value for point in rates] == [0.0]


def test_a_span_is_part_of_the_callers_trace(gateway: Gateway, repository: Repository) -> None:
    with exporting(gateway) as exported, run_server(gateway, repository) as bus:
        assert bus.call("GET", "/agent", headers={"traceparent": PARENT}).status == 200
        assert bus.call("GET", "/agent", headers={"traceparent": "invalid"}).status == 200
        child, root = exported.finished()
    assert child.context is not None
    assert child.parent is not None
    assert f"{child.context.trace_id:032x}" == PARENT.split("-")[1]
    assert f"{child.parent.span_id:016x}" == PARENT.split("-")[2]
    assert root.parent is None


def test_an_mcp_call_is_part_of_the_clients_trace(gateway: Gateway, repository: Repository) -> None:
    """`engrambus mcp` exports spans when the standard environment variables ask for it."""
    initialize = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    call_params = {"name": "less_query_engrams", "arguments": {"q": "x"}, "_meta": {"traceparent": PARENT}}
    messages: list[dict[str, Any]] = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": initialize},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call_params},
    ]
    environment = {**os.environ, "HOME": str(repository.path.parent / "home"), "OTEL_TRACES_EXPORTER": "console"}
    with subprocess.Popen(
        [COMMAND, "mcp"],
        cwd=repository.path,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for message in messages:
            process.stdin.write(json.dumps(message) + "\n")
            process.stdin.flush()
            if "id" in message:
                assert json.loads(process.stdout.readline())["id"] == message["id"]
        out, err = process.communicate(timeout=60)
    assert out == ""
    assert f'"trace_id": "0x{PARENT.split("-")[1]}"' in err
    assert "search_memory less.query_engrams" in err


def test_nothing_is_exported_after_the_context_ends(gateway: Gateway) -> None:
    with exporting(gateway) as exported:
        pass
    call(gateway, "list_agents")
    assert exported.finished() == ()


@pytest.mark.parametrize(
    ("variables", "exports"),
    [
        ({}, None),
        ({"OTEL_TRACES_EXPORTER": "none"}, None),
        ({"OTEL_SERVICE_NAME": "x"}, None),
        ({"OTEL_TRACES_EXPORTER": "console"}, Exports(traces="console")),
        ({"OTEL_TRACES_EXPORTER": "console", "OTEL_SDK_DISABLED": "true"}, None),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4318"}, Exports(traces="otlp", metrics="otlp")),
        (
            {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://localhost:4318", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
            Exports(traces="otlp", protocol="grpc"),
        ),
        (
            {"OTEL_METRICS_EXPORTER": "console", "OTEL_SERVICE_NAME": "the-bus"},
            Exports(metrics="console", service="the-bus"),
        ),
    ],
)
def test_the_environment_names_the_exporters(variables: dict[str, str], exports: Exports | None) -> None:
    assert Settings.from_environment({"HOME": "/nowhere", **variables}).exports == exports


def test_the_named_exporters_are_used(gateway: Gateway, capfd: pytest.CaptureFixture[str]) -> None:
    with export_telemetry(gateway, Exports(traces="console", metrics="console", service="the-bus")):
        call(gateway, "list_agents")
    out, err = capfd.readouterr()
    assert out == ""
    assert "execute_tool agent.list" in err
    assert "the-bus" in err
    assert "gen_ai.client.operation.duration" in err


def test_an_exporter_that_is_not_installed_is_logged_and_calls_still_work(
    gateway: Gateway, caplog: pytest.LogCaptureFixture
) -> None:
    with export_telemetry(gateway, Exports(traces="nowhere")):
        assert call(gateway, "list_agents") is not None
    assert "nowhere" in caplog.text


WITHOUT = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "opentelemetry":
            raise ImportError(name)
sys.meta_path.insert(0, Absent())
from engrambus.edges.telemetry import export_telemetry
from engrambus.edges.http import serve
from engrambus.settings import Exports
with export_telemetry(None, Exports(traces="console")):
    print("still running")
"""


def test_without_the_extra_calls_work_and_a_warning_names_it() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "still running\n"), done.stderr
    assert "engrambus[otel]" in done.stderr


def test_the_sdk_is_not_loaded_unless_the_environment_asks_for_it() -> None:
    code = (
        "import sys\nfrom engrambus.edges.http import serve\nfrom engrambus.edges.telemetry import export_telemetry\n"
        "sys.exit(any(name.startswith('opentelemetry') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
