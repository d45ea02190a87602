"""Samples, percentiles, and the table a reader wants."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple


class Row(NamedTuple):
    """One line of the table."""

    path: str
    what: str
    figure: str
    beside: str
    """The raw limit or the peer, measured in the same run."""
    ratio: str
    bar: str
    met: bool | None


def sample(calls: Iterable[Callable[[], object]], before: Iterable[Callable[[], object]] = ()) -> list[float]:
    """How long each call took, in microseconds, sorted; `before` warm up and are not counted."""
    for call in before:
        call()
    times = []
    for call in calls:
        start = time.perf_counter()
        call()
        times.append((time.perf_counter() - start) * 1e6)
    return sorted(times)


def in_turns(*series: Sequence[Callable[[], object]]) -> list[list[float]]:
    """The same for several series of as many calls, one call of each in turn: a busy moment hurts them all."""
    times: list[list[float]] = [[] for _ in series]
    for calls in zip(*series, strict=True):
        for call, taken in zip(calls, times, strict=True):
            start = time.perf_counter()
            call()
            taken.append((time.perf_counter() - start) * 1e6)
    return [sorted(taken) for taken in times]


def percentile(times: list[float], share: float) -> float:
    """The time that share of the sorted samples stays under."""
    return times[min(len(times) - 1, int(len(times) * share))]


def rate(count: int, work: Callable[[], object]) -> float:
    """How many a second."""
    start = time.perf_counter()
    work()
    return count / (time.perf_counter() - start)


def at_most(ratio: float, bar: float) -> tuple[str, str, bool]:
    """A ratio that should stay below its bar, ready for a row."""
    return f"{ratio:.2f} ×", f"≤ {bar:g} ×", ratio <= bar


def at_least(ratio: float, bar: float) -> tuple[str, str, bool]:
    """A ratio that should reach its bar, ready for a row."""
    return f"{ratio:.2f} ×", f"≥ {bar:g} ×", ratio >= bar


def microseconds(value: float) -> str:
    """A time a person can read."""
    return f"{value / 1000:.2f} ms" if value >= 1000 else f"{value:.0f} µs"


def per_second(value: float) -> str:
    """A rate a person can read."""
    return f"{value:,.0f}/s"


def markdown(rows: list[Row]) -> str:
    """The table as it stands in the documentation."""
    lines = [
        "| path | measured | ours | beside it | ratio | bar | met |",
        "|---|---|---|---|---|---|---|",
    ]
    marks = {True: "yes", False: "**no**", None: "–"}
    lines += [
        f"| {row.path} | {row.what} | {row.figure} | {row.beside} | {row.ratio} | {row.bar} | {marks[row.met]} |"
        for row in rows
    ]
    return "\n".join(lines)


def show(rows: list[Row]) -> None:
    """The table on a terminal."""
    from rich.console import Console
    from rich.table import Table

    table = Table(show_edge=False)
    for heading in ("path", "measured", "ours", "beside it", "ratio", "bar", "met"):
        table.add_column(heading)
    marks = {True: "[green]yes[/]", False: "[red]no[/]", None: "–"}
    for row in rows:
        table.add_row(*row[:-1], marks[row.met])
    Console().print(table)
