"""The measurement: recall by kind, false positives by source, speed."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from typing import NamedTuple

from engrambus.policy.secrets import find_secrets
from tests.secrets.corpus import Sample, look_alikes, real_texts, secrets


class Recall(NamedTuple):
    """How many of the secrets were found, by kind and by place."""

    tried: Counter[str]
    found: Counter[str]
    places_tried: Counter[str]
    places_found: Counter[str]
    missed: list[Sample]

    @property
    def overall(self) -> float:
        return self.found.total() / self.tried.total()


class Alarms(NamedTuple):
    """False positives by source, with the characters looked at."""

    chars: Counter[str]
    alarms: Counter[str]
    shown: dict[str, list[tuple[str, str]]]

    @property
    def per_100_kb(self) -> float:
        return self.alarms.total() / (self.chars.total() / 100_000)


def measure_recall(seed: int, rounds: int) -> Recall:
    """Every sample of the corpus: found if a finding overlaps the place of the secret."""
    recall = Recall(Counter(), Counter(), Counter(), Counter(), [])
    for sample in secrets(seed, rounds):
        recall.tried[sample.kind] += 1
        recall.places_tried[sample.place] += 1
        if any(found.start < sample.end and sample.start < found.end for found in find_secrets(sample.text)):
            recall.found[sample.kind] += 1
            recall.places_found[sample.place] += 1
        else:
            recall.missed.append(sample)
    return recall


def measure_alarms(seed: int, most: int) -> Alarms:
    """Every innocent text, generated or found on this machine."""
    counted = Alarms(Counter(), Counter(), defaultdict(list))
    texts = [(f"generated {name}", text) for name, text in look_alikes(seed)]
    texts += [(f"real {path.suffix or 'LICENSE'}", text) for path, text in real_texts(seed, most)]
    for source, text in texts:
        counted.chars[source] += len(text)
        for found in find_secrets(text):
            counted.alarms[source] += 1
            counted.shown[source].append((found.kind, text[max(0, found.start - 30) : found.end][:160]))
    return counted


def measure_speed(seed: int, most: int) -> float:
    """Megabytes a second of processor time over real texts, the best of three."""
    texts = [text for _, text in real_texts(seed, most)]
    size = sum(len(text.encode()) for text in texts)
    best = float("inf")
    for _ in range(3):
        begun = time.process_time()
        for text in texts:
            find_secrets(text)
        best = min(best, time.process_time() - begun)
    return size / best / 1e6
