"""The result of a part of the torture, and the table of all parts."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from typing import NamedTuple

from tests.torture.notes import Problem

HEADINGS = ("part", "states tried", "acknowledged", "lost", "wrong answers", "tracebacks")


class CaseProblem(NamedTuple):
    """A problem, and the case that shows it again."""

    case: str
    problem: Problem


class Outcome:
    """Counts the cases of one part and collects their problems; shows progress on the way."""

    def __init__(self, part: str, *, shown: bool = True) -> None:
        self.part = part
        self.states = 0
        self.acknowledged = 0
        self.problems: list[CaseProblem] = []
        self._shown = shown
        self._began = time.monotonic()
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

    def count(self, kind: str) -> int:
        """Return the number of cases with a problem of a kind."""
        return sum(found.problem.kind == kind for found in self.problems)

    def row(self) -> tuple[str, ...]:
        """Return the cells of its row."""
        numbers = (self.states, self.acknowledged, *map(self.count, ("lost", "wrong", "traceback")))
        return (self.part, *(f"{number:,}" for number in numbers))

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
