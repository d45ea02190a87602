"""Telemetry for Prometheus and OpenTelemetry: names and counts, never content."""

from typing import TYPE_CHECKING

from engrambus.lazy_imports import lazy_exports

if TYPE_CHECKING:
    from engrambus.edges.telemetry.otel import ExportTargets, export_telemetry
    from engrambus.edges.telemetry.prometheus import Metrics

# Below this line: generated from the imports above by tools/generate.py.
# fmt: off
if not TYPE_CHECKING:
    __getattr__ = lazy_exports(__name__, {
        "otel": "ExportTargets export_telemetry",
        "prometheus": "Metrics",
    })

__all__ = [
    "ExportTargets", "Metrics", "export_telemetry",
]
