"""Runs both use cases on the newest commits of repositories, and prints the medians as a Markdown table.

`python -m examples.use_cases.measure REPOSITORY… [--commits 10]` works in clones and changes nothing.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from statistics import median

from engrambus import Bus, Settings, init_project

from . import refactor, review
from .commits import History, clone, git
from .output import Output

Result = review.Result | refactor.Result

HEADINGS = (
    "repository", "commits", "bus, tokens", "files copied", "bus / files", "bus / functions", "bus / patch",
    "changed functions read",
)  # fmt: skip


def reviews(history: History, commits: int) -> Iterator[review.Result]:
    """Review the newest commits, each in a run of its own."""
    with tempfile.TemporaryDirectory() as scratch, _project(history, "HEAD", scratch) as bus:
        for reviewed in islice(review.reviewable(history), commits):
            bus.open_run(review.GOAL)
            yield review.review(bus, reviewed, history, Output(silent=True))


def refactorings(history: History, commits: int) -> Iterator[refactor.Result]:
    """Live through the newest refactorings, each in a project of its own."""
    for refactoring in islice(refactor.movable(history), commits):
        with tempfile.TemporaryDirectory() as scratch, _project(history, refactoring.commit.parent, scratch) as bus:
            bus.open_run(refactor.GOAL)
            yield refactor.refactor(bus, refactoring, history, Path(scratch) / "clone", Output(silent=True))


def _project(history: History, commit: str, scratch: str) -> Bus:
    sha = git(history.folder, "rev-parse", commit).strip()
    checkout = clone(history.folder, sha, Path(scratch))
    settings = Settings.from_environment({"HOME": scratch})
    init_project(checkout, settings)
    return Bus.open(checkout, settings=settings, on_warning=lambda _: None)


def row(name: str, results: Sequence[Result]) -> list[str]:
    """Return the medians over some commits, and the sum of the changed functions that were read."""
    tokens = [result.tokens for result in results]
    reached, changed = sum(result.reached for result in results), sum(result.changed for result in results)
    return [
        name,
        str(len(results)),
        f"{median(each.bus for each in tokens):,.0f}",
        f"{median(each.files for each in tokens):,.0f}",
        f"{median(each.bus / each.files for each in tokens):.0%}",
        f"{median(each.bus / each.functions for each in tokens):.0%}",
        f"{median(each.bus / each.patch for each in tokens):.0%}",
        f"{reached} of {changed}",
    ]


def main() -> None:
    """Print a table for each use case."""
    parser = argparse.ArgumentParser(description="Median tokens of both use cases on some repositories.")
    parser.add_argument("repositories", nargs="+", type=Path)
    parser.add_argument("--commits", type=int, default=10, help="at most this many commits of each; 10 by default")
    chosen = parser.parse_args()
    cases: tuple[tuple[str, Callable[[History, int], Iterator[Result]]], ...] = (
        ("review", reviews),
        ("refactoring", refactorings),
    )
    for title, run in cases:
        every: list[Result] = []
        print(f"\n| {title}: {' | '.join(HEADINGS)} |\n|{'---|' * len(HEADINGS)}")
        for repository in chosen.repositories:
            results = list(run(History(repository), chosen.commits))
            every += results
            if results:
                print(f"| {' | '.join(row(repository.absolute().name, results))} |", flush=True)
        if every:
            print(f"| {' | '.join(row('all', every))} |")
        led = [result for result in every if isinstance(result, refactor.Result)]
        if led:
            states = {
                state: sum(result.states.get(state, 0) for result in led) for state in ("moved", "changed", "gone")
            }
            print(f"\nclaims: {states}; right {sum(item.right for item in led)} of {sum(item.led for item in led)}")


if __name__ == "__main__":
    main()
