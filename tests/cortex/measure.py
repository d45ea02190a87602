"""Measuring the conflict detector on the labelled pairs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from engrambus.knowledge.cortex import contradicts

PAIRS = Path(__file__).with_name("pairs.tsv")


class Pair(NamedTuple):
    """Two statements and what a person says of them."""

    half: str
    """Which pairs the rules were made looking at, and which not.

    `tuned` and `later`: their mistakes were looked at. `held`: not, but they are of the same hand and time as `tuned`.
    `unseen`: written before the rules were last changed. `last`: written when they were done. Of these two no mistake
    was looked at: they say what to expect.
    """
    label: str
    one: str
    other: str

    @property
    def found(self) -> bool:
        """Whether the detector warns."""
        return contradicts(self.one, self.other) != "clean"


class Measured(NamedTuple):
    """What the detector makes of pairs."""

    right: int
    """Contradictions it warns of."""
    wrong: int
    """Warnings about pairs that do not contradict each other."""
    missed: int

    @property
    def precision(self) -> float:
        """The share of warnings that are right."""
        return self.right / (self.right + self.wrong)

    @property
    def recall(self) -> float:
        """The share of contradictions that are found."""
        return self.right / (self.right + self.missed)


def pairs(half: str | None = None) -> Iterator[Pair]:
    """The labelled pairs, all or those of one half."""
    for line in PAIRS.read_text("utf-8").splitlines()[1:]:
        pair = Pair(*line.split("\t"))
        if half in (None, pair.half):
            yield pair


def measure(half: str | None = None) -> Measured:
    """How well the detector does."""
    right = wrong = missed = 0
    for pair in pairs(half):
        right += pair.found and pair.label == "contradiction"
        wrong += pair.found and pair.label != "contradiction"
        missed += not pair.found and pair.label == "contradiction"
    return Measured(right, wrong, missed)
