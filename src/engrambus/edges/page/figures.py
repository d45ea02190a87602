"""The team's figures over time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from engrambus.core import parse_time
from engrambus.edges.page.desk import Desk

PARAMS = ("bucket",)
BUCKETS = {"PT1M": ("the last hour", 60), "PT1H": ("the last two days", 48), "P1D": ("the last month", 30)}
"""How long a point is, what all of them cover, and how many there are."""


class Plot(msgspec.Struct, frozen=True, kw_only=True):
    """One plot: lines over the same moments."""

    name: str
    title: str
    series: dict[str, str]
    """What each line is called, and the count it shows."""


PLOTS = (
    Plot(name="tokens", title="Tokens said and read",
         series={"inline": "inline_tokens", "dereferenced": "deref_tokens"}),
    Plot(name="reads", title="Dereferences and requests",
         series={"dereferences": "derefs", "requests": "requests", "grants": "grants"}),
    Plot(name="messages", title="Messages",
         series={"accepted": "messages", "sent back": "rejections", "sent again": "resends"}),
    Plot(name="engrams", title="Engrams put",
         series={"engrams": "engrams", "contradictions": "contradictions"}),
)  # fmt: skip


def load(desk: Desk, params: Mapping[str, str]) -> dict[str, Any]:
    """Every plot with its points."""
    bucket = params.get("bucket", "PT1M")
    answer = desk.ask("stats", bucket=bucket, last=BUCKETS.get(bucket, ("", 0))[1])
    points = answer.history.points
    plots = [
        {
            "plot": plot,
            "data": {
                "at": [parse_time(point.start) // 1_000_000 for point in points],
                "series": {
                    name: [getattr(point.team, field) for point in points] for name, field in plot.series.items()
                },
            },
            "rows": [
                (point.start, [getattr(point.team, field) for field in plot.series.values()])
                for point in reversed(points)
                if any(getattr(point.team, field) for field in plot.series.values())
            ],
        }
        for plot in PLOTS
    ]
    return {"answer": answer, "plots": plots, "bucket": bucket, "buckets": BUCKETS}
