"""What `GET /metrics` says: the team's figures by role, read when asked, and how long this process's calls took."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from engrambus.gateway import Call, Credential, Gateway, to_request
from engrambus.operations import OPERATIONS
from engrambus.operations.stats import Figures, StatsAnswer

SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)

COUNTERS = {
    "turns": "Turns in which an agent read or said something.",
    "inline_tokens": "Tokens of accepted reports and broadcasts, as they were sent.",
    "messages": "Reports accepted.",
    "broadcasts": "Broadcasts accepted.",
    "rejections": "Reports and broadcasts sent back for their size.",
    "resends": "Reports and broadcasts accepted in place of one that was sent back.",
    "derefs": "Dereferences.",
    "deref_tokens": "Tokens that dereferences gave.",
    "requests": "Times more was asked for than a turn allows.",
    "grants": "Grants issued.",
    "contradictions": "Risks put that point at two sources.",
    "pointed_tokens": "Tokens behind the pointers that were handed on, once for each reader.",
}
RATES = {
    "inline_tokens_per_turn": "Inline tokens per turn.",
    "derefs_per_turn": "Dereferences per turn.",
    "contradiction_rate": "Contradictions per engram put.",
    "resend_rate": "Resends per report or broadcast accepted.",
    "tokens_not_copied": "Tokens behind pointers handed on, less those pulled.",
}


class Metrics:
    """The metrics of one gateway, in registries of their own."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._took = Histogram(
            "engrambus_operation_duration_seconds",
            "How long calls took in this process, by operation and by the code they ended with.",
            ["operation", "code"],
            registry=None,
            buckets=SECONDS,
        )
        gateway.watch_calls(self._note)

    def scrape(self, credential: Credential, accept: str = "") -> tuple[bytes, str]:
        """Everything, and its content type; for those who may see the figures of the whole project."""
        stats = OPERATIONS["stats"]
        request = to_request({"over": "project", "last": 0}, stats.request)
        answer: StatsAnswer = self._gateway.call(stats, request, credential)
        registry = CollectorRegistry()
        registry.register(self._took)
        registry.register(_Collected(lambda: _families(answer)))
        encode, content_type = choose_encoder(accept)
        return encode(registry), content_type

    def _note(self, call: Call) -> None:
        self._took.labels(call.operation.name, call.code or "ok").observe(call.took_ns / 1e9)


class _Collected(Collector):
    def __init__(self, families: Callable[[], Iterator[Metric]]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        """The families."""
        return self._families()


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
    put = CounterMetricFamily("engrambus_engrams", "Engrams put, by kind.", labels=["role", "kind"])
    for role, figures in roles:
        for kind, count in figures.kinds.items():
            put.add_metric([role, kind], count)
    yield put
    held = GaugeMetricFamily("engrambus_engrams_held", "Live engrams, by kind.", labels=["kind"])
    for kind, count in answer.held.kinds.items():
        held.add_metric([kind], count)
    yield held
