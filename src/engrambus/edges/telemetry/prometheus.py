"""Metrics for Prometheus: the team's figures by role, read at each scrape, and the durations of calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from engrambus.gateway import Call, Credential, Gateway, to_request
from engrambus.operations import OPERATIONS
from engrambus.operations.stats import Figures, StatsAnswer

DURATION_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)

COUNTERS = {
    "turns": "Turns in which an agent read or sent something.",
    "inline_tokens": "Tokens of accepted reports and broadcasts.",
    "messages": "Reports accepted.",
    "broadcasts": "Broadcasts accepted.",
    "rejections": "Reports and broadcasts rejected because they were over budget.",
    "resends": "Reports and broadcasts accepted in place of a rejected one.",
    "derefs": "Pointers read.",
    "deref_tokens": "Tokens read from pointers.",
    "requests": "Requests to read more than a turn allows.",
    "grants": "Grants issued.",
    "contradictions": "Engrams of kind risk that point at two sources, not at two spans of one.",
    "pointed_tokens": "Tokens of the content behind pointers that messages brought to agents, once for each agent.",
    "pointed_read_tokens": "Tokens that these agents then read of that content, at most its size.",
    "denials": "Calls refused by a limit, a role or a grant.",
    "warnings": "Exceeded limits that the policy only warns about.",
    "rejected_tokens": "Tokens of refused texts.",
}
RATES = {
    "inline_tokens_per_turn": "Inline tokens per turn.",
    "derefs_per_turn": "Pointers read per turn.",
    "contradiction_rate": "Contradictions per engram added.",
    "resend_rate": "Resends per report or broadcast accepted.",
    "tokens_not_copied": "Tokens behind pointers that messages brought to agents, minus what they read of them.",
}


class Metrics:
    """The metrics of one gateway."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._durations = Histogram(
            "engrambus_operation_duration_seconds",
            "Duration of calls in this process, by operation and error code.",
            ["operation", "code"],
            registry=None,
            buckets=DURATION_BUCKETS,
        )
        gateway.watch_calls(self._record)

    def scrape(self, credential: Credential, accept: str = "") -> tuple[bytes, str]:
        """Return all metrics and their content type, if the caller may see the figures of the whole project."""
        stats = OPERATIONS["stats"]
        request = to_request({"over": "project", "last": 0}, stats.request)
        answer: StatsAnswer = self._gateway.call(stats, request, credential)
        # A registry per scrape: the figures are those that this caller asked for.
        registry = CollectorRegistry()
        registry.register(self._durations)
        registry.register(_FigureCollector(answer, self._gateway.unidentified_denials))
        encode, content_type = choose_encoder(accept)
        return encode(registry), content_type

    def _record(self, call: Call) -> None:
        self._durations.labels(call.operation.name, call.code or "ok").observe(call.took_ns / 1e9)


class _FigureCollector(Collector):
    def __init__(self, answer: StatsAnswer, unidentified: Mapping[str, int]) -> None:
        self._answer = answer
        self._unidentified = unidentified

    def collect(self) -> Iterator[Metric]:
        yield from _families(self._answer)
        strangers = CounterMetricFamily(
            "engrambus_unidentified_denials", "Calls to this server without a valid token.", labels=["code"]
        )
        for code, count in self._unidentified.items():
            strangers.add_metric([code], count)
        yield strangers


def _families(answer: StatsAnswer) -> Iterator[Metric]:
    roles: list[tuple[str, Figures]] = [(row.role, row.figures) for row in answer.roles]
    for name, text in COUNTERS.items():
        counter = CounterMetricFamily(f"engrambus_{name}", text, labels=["role"])
        for role, figures in roles:
            counter.add_metric([role], getattr(figures, name))
        yield counter
    for name, text in RATES.items():
        gauge = GaugeMetricFamily(f"engrambus_{name}", text, labels=["role"])
        for role, figures in roles:
            gauge.add_metric([role], getattr(figures, name))
        yield gauge
    added = CounterMetricFamily("engrambus_engrams", "Engrams added, by kind.", labels=["role", "kind"])
    for role, figures in roles:
        for kind, count in figures.kinds.items():
            added.add_metric([role, kind], count)
    yield added
    denied = CounterMetricFamily("engrambus_denials_by_code", "Calls refused, by error code.", labels=["role", "code"])
    for role, figures in roles:
        for code, count in figures.denial_codes.items():
            denied.add_metric([role, code], count)
    yield denied
    current = GaugeMetricFamily("engrambus_engrams_held", "Current engrams, by kind.", labels=["kind"])
    for kind, count in answer.held.kinds.items():
        current.add_metric([kind], count)
    yield current
