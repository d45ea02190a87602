"""How the bus does, for machines that watch: Prometheus and OpenTelemetry. Names and counts, never content."""

from engrambus.edges.telemetry.otel import Exporting, watch
from engrambus.edges.telemetry.prometheus import Metrics

__all__ = ["Exporting", "Metrics", "watch"]
