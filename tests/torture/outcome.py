"""The result of a part of the torture, and the table of all parts."""

from __future__ import annotations

import itertools
import random
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from tests.torture.notes import Problem

HEADINGS = ("part", "states tried", "of", "acknowledged", "lost", "wrong answers", "tracebacks")
Case = TypeVar("Case")


class CaseProblem(NamedTuple):
    """A problem, and the case that shows it again."""

    case: str
    problem: Problem


class Outcome:
    """Counts the cases of one part and collects their problems; shows progress on the way."""

    def __init__(self, part: str, *, minutes: float | None = None, shown: bool = True) -> None:
        """`minutes` is how long the part may take; None for as long as it takes."""
        self.part = part
        self.states = 0
        self.possible = 0
        """Number of cases there are; 0 if there is no such number."""
        self.acknowledged = 0
        self.problems: list[CaseProblem] = []
        self._shown = shown
        self._began = time.monotonic()
        self._end = self._began + minutes * 60 if minutes is not None else float("inf")
        self._printed = 0.0

    def add(self, case: str, acknowledged: int, problems: Iterable[Problem]) -> None:
        """Count one case; several problems of one kind in one case count once."""
        self.states += 1
        self.acknowledged += acknowledged
        by_kind = {problem.kind: problem for problem in reversed(list(problems))}
        for problem in by_kind.values():
            self.problems.append(CaseProblem(case, problem))
            self._line(f"{self.part} {case}: {problem.kind}: {problem.text[:1500]}\n")
        self._progress(case)

    def choose(self, cases: Sequence[Case], rounds: int | None, seed: int) -> Iterator[Case]:
        """Yield `rounds` cases drawn by the seed in their order; without `rounds` all, drawn, until the time is up."""
        self.possible += len(cases)
        count = len(cases) if rounds is None else min(rounds, len(cases))
        drawn = random.Random(seed).sample(range(len(cases)), count)
        return self.until_over(cases[number] for number in (drawn if rounds is None else sorted(drawn)))

    def until_over(self, cases: Iterable[Case]) -> Iterator[Case]:
        """Yield cases until the part's time is up."""
        return itertools.takewhile(lambda _: time.monotonic() < self._end, cases)

    def count(self, kind: str) -> int:
        """Return the number of cases with a problem of a kind."""
        return sum(found.problem.kind == kind for found in self.problems)

    def row(self) -> tuple[str, ...]:
        """Return the cells of its row."""
        numbers = (self.acknowledged, *map(self.count, ("lost", "wrong", "traceback")))
        possible = f"{self.possible:,}" if self.possible else ""
        return (self.part, f"{self.states:,}", possible, *(f"{number:,}" for number in numbers))

    def _progress(self, case: str) -> None:
        now = time.monotonic()
        if now - self._printed > 1:
            self._printed = now
            self._line(
                f"{self.part}: {self.states:,} states, {len(self.problems)} problems, {now - self._began:.0f} s, {case}"
            )

    def _line(self, text: str) -> None:
        if self._shown:
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()


def markdown_table(outcomes: Iterable[Outcome]) -> str:
    """Return the table of all parts as Markdown."""
    lines = [HEADINGS, ("---",) + ("---:",) * (len(HEADINGS) - 1), *(outcome.row() for outcome in outcomes)]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)
