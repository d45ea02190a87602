"""The measurement: recall by kind, false positives by source, speed."""

from __future__ import annotations

import re
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import NamedTuple

from engrambus.policy.secrets import find_secrets, redact
from tests.secrets.corpus import Sample, look_alikes, real_texts, secrets
from tests.secrets.innocents import innocent_texts
from tests.secrets.unseen import UnseenSecret, unseen_secrets

PIECE_CHARS = 10
"""A piece of a secret that may not stay in clear."""
MIN_TEXT_CHARS = 40


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


class Unseen(NamedTuple):
    """Numbers of secrets that were tried and hidden by family and kind, and of harmless texts that were accused."""

    tried: Counter[tuple[str, str]]
    hidden: Counter[tuple[str, str]]
    texts: int
    accused: int

    @property
    def overall(self) -> float:
        return self.hidden.total() / self.tried.total()

    def families(self) -> dict[str, float]:
        """Return the recall of each family."""
        families = dict.fromkeys(family for family, _ in self.tried)
        return {family: _share(self.hidden, self.tried, family) for family in families}


def _share(found: Counter[tuple[str, str]], tried: Counter[tuple[str, str]], family: str) -> float:
    kinds = [key for key in tried if key[0] == family]
    return sum(found[key] for key in kinds) / sum(tried[key] for key in kinds)


def is_hidden(sample: UnseenSecret) -> bool:
    """True if redaction leaves no piece of a secret in clear, not only if something of it was found."""
    clean, _ = redact(sample.text)
    for part in sample.parts:
        size = min(len(part), PIECE_CHARS)
        if any(part[index : index + size] in clean for index in range(len(part) - size + 1)):
            return False
    return True


def measure_unseen(part: int, rounds: int) -> Unseen:
    """Redact every text of a part, and search every harmless one."""
    tried: Counter[tuple[str, str]] = Counter()
    hidden: Counter[tuple[str, str]] = Counter()
    for sample in unseen_secrets(part, rounds):
        tried[sample.family, sample.kind] += 1
        hidden[sample.family, sample.kind] += is_hidden(sample)
    texts = [text for _, text in innocent_texts(part)]
    return Unseen(tried, hidden, len(texts), sum(bool(find_secrets(text)) for text in texts))


def measure_texts(folder: Path) -> dict[str, tuple[int, int]]:
    """Return by kind of file the number of texts in a folder and of those that are accused.

    A text is a paragraph of prose, or 25 lines of anything else: about what an agent puts or sends.
    """
    counts: dict[str, tuple[int, int]] = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and path.stat().st_size < 400_000):
        try:
            text = path.read_text("utf-8")
        except UnicodeDecodeError:
            continue
        is_prose = path.suffix in (".md", ".rst", ".txt", ".adoc", ".mdx")
        lines = text.split("\n")
        pages = ("\n".join(lines[index : index + 25]) for index in range(0, len(lines), 25))
        texts = re.split(r"\n\s*\n", text) if is_prose else list(pages)
        for part in texts:
            if len(part.strip()) >= MIN_TEXT_CHARS:
                tried, accused = counts.get("prose" if is_prose else "other", (0, 0))
                counts["prose" if is_prose else "other"] = tried + 1, accused + bool(find_secrets(part[:4000]))
    return counts
