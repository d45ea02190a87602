"""Recall on snippets and false positives on prose, by kind and by half."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache

from engrambus.knowledge.messages import count_code
from tests.code.paragraphs import prose
from tests.code.snippets import Sample, snippets


@dataclass(slots=True)
class Count:
    """Number of samples, and number of those that the detector called code."""

    samples: int = 0
    detected: int = 0
    wrong: list[Sample] = field(default_factory=list)

    @property
    def share(self) -> float:
        return self.detected / self.samples if self.samples else 0.0


def is_found(snippet: Sample) -> bool:
    """True if the detected code covers at least half of a snippet; any overlap would be too easy."""
    return count_code(snippet.text) * 2 >= len(snippet.text.strip())


def is_false_positive(paragraph: Sample) -> bool:
    return count_code(paragraph.text) > 0


@dataclass(slots=True)
class Measurement:
    """The results for one half of the corpus."""

    snippets: dict[str, Count] = field(default_factory=dict)
    prose: dict[str, Count] = field(default_factory=dict)

    @property
    def recall(self) -> float:
        return total(self.snippets.values()).share

    @property
    def false_positives(self) -> float:
        return total(self.prose.values()).share


def total(counts: Iterable[Count]) -> Count:
    summed = Count()
    for count in counts:
        summed.samples += count.samples
        summed.detected += count.detected
    return summed


@cache
def corpus() -> tuple[list[Sample], list[Sample]]:
    return snippets(), prose()


def measure(*, held_out: bool) -> Measurement:
    result = Measurement()
    for samples, counts, detect, expected in (
        (corpus()[0], result.snippets, is_found, True),
        (corpus()[1], result.prose, is_false_positive, False),
    ):
        for sample in samples:
            if sample.held_out != held_out:
                continue
            count = counts.setdefault(sample.kind, Count())
            detected = detect(sample)
            count.samples += 1
            count.detected += detected
            if detected is not expected:
                count.wrong.append(sample)
    return result
