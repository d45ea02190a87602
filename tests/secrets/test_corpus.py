"""SC-06: the detector on the held-out half of the corpus. `python -m tests.secrets` prints the full table."""

from __future__ import annotations

import pytest

from tests.secrets.corpus import HELD_OUT
from tests.secrets.measure import measure_alarms, measure_recall, measure_unseen
from tests.secrets.unseen import PARTS


def test_recall_overall_and_by_kind() -> None:
    recall = measure_recall(HELD_OUT, rounds=2)
    assert len(recall.tried) >= 40
    assert recall.overall >= 0.98
    assert not [kind for kind in recall.tried if recall.found[kind] / recall.tried[kind] < 0.8]
    assert not [place for place, tried in recall.places_tried.items() if recall.places_found[place] / tried < 0.95]


def test_false_positives_are_rare() -> None:
    alarms = measure_alarms(HELD_OUT, max_chars=4_000_000)
    assert alarms.per_100_kb <= 1
    assert not [source for source in alarms.alarms if source.startswith("generated")]


@pytest.mark.parametrize("part", PARTS)
def test_every_part_of_the_second_corpus(part: int) -> None:
    unseen = measure_unseen(part, rounds=2)
    assert unseen.overall >= 0.98
    assert all(recall >= 0.98 for recall in unseen.families().values())
    assert unseen.accused == 0
