"""Samples, percentiles and the result table."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple


class Row(NamedTuple):
    """One line of the table."""

    path: str
    measured: str
    figure: str
    comparison: str
    """The raw limit or the peer, measured in the same run."""
    ratio: str
    bar: str
    met: bool | None


def sample(calls: Iterable[Callable[[], object]], warm_up: Iterable[Callable[[], object]] = ()) -> list[float]:
    """Return the sorted durations of the calls in microseconds; the `warm_up` calls are not counted."""
    for call in warm_up:
        call()
    times = []
    for call in calls:
        start = time.perf_counter()
        call()
        times.append((time.perf_counter() - start) * 1e6)
    return sorted(times)


def in_turns(*series: Sequence[Callable[[], object]]) -> list[list[float]]:
    """Sample several series in rotation, one call of each in turn, so that a busy moment affects all of them."""
    times: list[list[float]] = [[] for _ in series]
    for calls in zip(*series, strict=True):
        for call, durations in zip(calls, times, strict=True):
            start = time.perf_counter()
            call()
            durations.append((time.perf_counter() - start) * 1e6)
    return [sorted(durations) for durations in times]


def percentile(times: list[float], share: float) -> float:
    """Return a percentile of sorted samples."""
    return times[min(len(times) - 1, int(len(times) * share))]


def rate(count: int, work: Callable[[], object]) -> float:
    """Return operations per second."""
    start = time.perf_counter()
    work()
    return count / (time.perf_counter() - start)


def at_most(ratio: float, bar: float) -> tuple[str, str, bool]:
    """Format a ratio that must not exceed its bar."""
    return f"{ratio:.2f} ×", f"≤ {bar:g} ×", ratio <= bar


def at_least(ratio: float, bar: float) -> tuple[str, str, bool]:
    """Format a ratio that must reach its bar."""
    return f"{ratio:.2f} ×", f"≥ {bar:g} ×", ratio >= bar


def microseconds(value: float) -> str:
    return f"{value / 1000:.2f} ms" if value >= 1000 else f"{value:.0f} µs"


def per_second(value: float) -> str:
    return f"{value:,.0f}/s"


def markdown(rows: list[Row]) -> str:
    """Return the table as Markdown."""
    lines = [
        "| path | measured | ours | compared with | ratio | bar | met |",
        "|---|---|---|---|---|---|---|",
    ]
    marks = {True: "yes", False: "**no**", None: "–"}
    lines += [
        f"| {' | '.join((row.path, row.measured, row.figure, row.comparison, row.ratio, row.bar, marks[row.met]))} |"
        for row in rows
    ]
    return "\n".join(lines)


def show(rows: list[Row]) -> None:
    """Print the table."""
    from rich.console import Console
    from rich.table import Table

    table = Table(show_edge=False)
    for heading in ("path", "measured", "ours", "compared with", "ratio", "bar", "met"):
        table.add_column(heading)
    marks = {True: "[green]yes[/]", False: "[red]no[/]", None: "–"}
    for row in rows:
        table.add_row(*row[:-1], marks[row.met])
    Console().print(table)
