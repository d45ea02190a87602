"""Made-up engrams that behave like real ones: few words are common, most are rare, names look like code."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path

_VERBS = ("reserves", "drops", "retries", "caches", "validates", "leaks", "blocks", "skips", "logs", "rejects")
_THINGS = ("budget", "lease", "token", "index", "journal", "request", "cursor", "session", "queue", "digest")
_AREAS = ("gateway", "ledger", "scheduler", "resolver", "catalog", "worker", "billing", "auth", "search", "export")
KINDS = ("fact", "decision", "risk", "todo", "constraint", "perf", "policy")
FILES = 200
LINES = 400


class Corpus:
    """Claims and questions, the same on every run."""

    def __init__(self, seed: int = 7, vocabulary: int = 20_000) -> None:
        self._random = random.Random(seed)
        stems = [f"{area}{thing.title()}{number}" for number in range(200) for area in _AREAS for thing in _THINGS]
        self._names = stems[:vocabulary]
        self._weights = list(accumulate(1 / (rank + 1) for rank in range(len(self._names))))

    def claim(self) -> str:
        """One claim of eight to sixteen words."""
        pick = self._random.choice
        first, second, third = self._random.choices(self._names, cum_weights=self._weights, k=3)
        return (
            f"The {pick(_AREAS)} {pick(_VERBS)} the {pick(_THINGS)} in {first} before {second} "
            f"and {pick(_VERBS)} {third} after {self._random.randrange(1000)} ms."
        )

    def question(self) -> str:
        """What an agent would ask: a few words, some of them names."""
        pick = self._random.choice
        first, second = self._random.choices(self._names, cum_weights=self._weights, k=2)
        return f"which {pick(_AREAS)} {pick(_VERBS)} the {pick(_THINGS)} in {first} or {second}"

    def common_question(self) -> str:
        """A question of six words that a tenth of all engrams have."""
        chosen = [word for words in (_AREAS, _VERBS, _THINGS) for word in self._random.sample(words, 2)]
        return " ".join(chosen)

    def drafts(self, count: int, refs: list[str]) -> Iterator[dict[str, object]]:
        """Engrams as their authors would send them."""
        for _ in range(count):
            ref = self._random.choice(refs)
            yield {
                "claim": self.claim(),
                "kind": self._random.choice(KINDS),
                "pointers": [{"type": "repo", "ref": ref}],
            }


def make_repository(folder: Path) -> list[str]:
    """A git repository of two hundred files, and refs to spans of twenty lines in it."""
    folder.mkdir(parents=True)
    for number in range(FILES):
        place = folder / f"src/part{number % 20}/module_{number}.py"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("".join(f"value_{number}_{line} = {line} * {number}\n" for line in range(LINES)))
    who = ["-c", "user.name=bench", "-c", "user.email=bench@example.invalid"]
    for command in (["init", "-q"], ["add", "."], [*who, "commit", "-q", "-m", "bench"]):
        subprocess.run(["git", *command], cwd=folder, check=True)
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=folder, check=True, capture_output=True, text=True)
    sha = head.stdout.strip()
    return [
        f"repo:src/part{number % 20}/module_{number}.py#L{start}-L{start + 19}@{sha}"
        for number in range(FILES)
        for start in range(1, LINES - 20, 60)
    ]
