"""Measures the contradiction detector on labelled pairs of statements."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from engrambus.knowledge.cortex.contradiction import contradicts

PAIRS = Path(__file__).with_name("pairs.tsv")


class Pair(NamedTuple):
    """Two statements with a label written by a person."""

    group: str
    """The part of the set, by how it was used while the rules were written.

    `tuned` and `later`: mistakes in these pairs were inspected. `held`: not inspected, but written together with
    `tuned`. `unseen`: written before the last change of the rules. `last`: written after it. No mistakes in the last
    two were inspected, so they show how the detector performs on new statements.
    """
    label: str
    first: str
    second: str

    @property
    def is_flagged(self) -> bool:
        """True if the detector warns about the pair."""
        return contradicts(self.first, self.second) != "clean"


class Measured(NamedTuple):
    """The result of the detector on some pairs."""

    right: int
    """Contradictions that were flagged."""
    wrong: int
    """Flagged pairs that are no contradictions."""
    missed: int

    @property
    def precision(self) -> float:
        """The share of warnings that are right."""
        return self.right / (self.right + self.wrong)

    @property
    def recall(self) -> float:
        """The share of contradictions that are found."""
        return self.right / (self.right + self.missed)


def pairs(group: str | None = None) -> Iterator[Pair]:
    """Yield the labelled pairs, all or those of one group."""
    for line in PAIRS.read_text("utf-8").splitlines()[1:]:
        pair = Pair(*line.split("\t"))
        if group in (None, pair.group):
            yield pair


def measure(group: str | None = None) -> Measured:
    """Run the detector on all pairs or on one group."""
    right = wrong = missed = 0
    for pair in pairs(group):
        right += pair.is_flagged and pair.label == "contradiction"
        wrong += pair.is_flagged and pair.label != "contradiction"
        missed += not pair.is_flagged and pair.label == "contradiction"
    return Measured(right, wrong, missed)
