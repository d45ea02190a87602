"""Measures the contradiction detector on labelled pairs of statements."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from engrambus.knowledge.cortex.contradiction import contradicts
from engrambus.knowledge.cortex.nearest import EarlierClaim, nearest_claims
from engrambus.knowledge.cortex.values import NearClaim

PAIRS = Path(__file__).with_name("pairs.tsv")
NEAR_PAIRS = Path(__file__).with_name("near_pairs.tsv")
"""New claims, each with the earlier claim that it contradicts, or with none.

Nothing was tuned on them: the threshold is the highest share that loses none of the `tuned` pairs.
"""


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


class NearMeasured(NamedTuple):
    """How often the earlier claim that a new one contradicts is shown."""

    contradictions: int
    shown: int
    """Contradictions whose earlier claim is among the three that are shown."""
    by_rules: int
    """Contradictions that the rules alone find."""
    others: int
    """New claims that contradict nothing."""
    disturbed: int
    """Of these, those that are shown with an earlier claim all the same."""


def measure_nearest(*, crowded: bool) -> NearMeasured:
    """Measure which earlier claims are shown; `crowded` adds the claims of all other pairs to the earlier ones."""
    rows = [line.split("\t") for line in NEAR_PAIRS.read_text("utf-8").splitlines()[1:]]
    contradictions = [(earlier, new) for label, earlier, new in rows if label == "contradiction"]
    others = [new for label, _, new in rows if label == "new"]
    texts = [earlier for earlier, _ in contradictions] + ([pair.first for pair in pairs()] if crowded else [])
    claims = [
        EarlierClaim(near=NearClaim(id=str(number), kind="decision", claim=text), pointers=())
        for number, text in enumerate(dict.fromkeys(texts))
    ]

    def shown(text: str) -> list[str]:
        return [claim.near.claim for claim in nearest_claims(text, claims)]

    return NearMeasured(
        contradictions=len(contradictions),
        shown=sum(earlier in shown(new) for earlier, new in contradictions),
        by_rules=sum(contradicts(new, earlier) != "clean" for earlier, new in contradictions),
        others=len(others),
        disturbed=sum(bool(shown(new)) for new in others),
    )
