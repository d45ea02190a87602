"""The measurement: recall by kind, false positives by source, speed."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from typing import NamedTuple

from engrambus.policy.secrets import find_secrets
from tests.secrets.corpus import Sample, look_alikes, real_texts, secrets


class Recall(NamedTuple):
    """Numbers of searched and found secrets, by kind and by place."""

    tried: Counter[str]
    found: Counter[str]
    places_tried: Counter[str]
    places_found: Counter[str]
    missed: list[Sample]

    @property
    def overall(self) -> float:
        return self.found.total() / self.tried.total()


class Alarms(NamedTuple):
    """False positives by source, and the searched characters."""

    chars: Counter[str]
    alarms: Counter[str]
    examples: dict[str, list[tuple[str, str]]]

    @property
    def per_100_kb(self) -> float:
        return self.alarms.total() / (self.chars.total() / 100_000)


def measure_recall(seed: int, rounds: int) -> Recall:
    """Search every sample of the corpus; a secret counts as found if a span overlaps it."""
    recall = Recall(Counter(), Counter(), Counter(), Counter(), [])
    for sample in secrets(seed, rounds):
        recall.tried[sample.kind] += 1
        recall.places_tried[sample.place] += 1
        if any(span.start < sample.end and sample.start < span.end for span in find_secrets(sample.text)):
            recall.found[sample.kind] += 1
            recall.places_found[sample.place] += 1
        else:
            recall.missed.append(sample)
    return recall


def measure_alarms(seed: int, max_chars: int) -> Alarms:
    """Search every text without secrets, generated or from this machine."""
    result = Alarms(Counter(), Counter(), defaultdict(list))
    texts = [(f"generated {name}", text) for name, text in look_alikes(seed)]
    texts += [(f"real {path.suffix or 'LICENSE'}", text) for path, text in real_texts(seed, max_chars)]
    for source, text in texts:
        result.chars[source] += len(text)
        for secret in find_secrets(text):
            result.alarms[source] += 1
            result.examples[source].append((secret.kind, text[max(0, secret.start - 30) : secret.end][:160]))
    return result


def measure_speed(seed: int, max_chars: int) -> float:
    """Return megabytes per second of processor time over real texts, the best of three."""
    texts = [text for _, text in real_texts(seed, max_chars)]
    size = sum(len(text.encode()) for text in texts)
    best = float("inf")
    for _ in range(3):
        started = time.process_time()
        for text in texts:
            find_secrets(text)
        best = min(best, time.process_time() - started)
    return size / best / 1e6
