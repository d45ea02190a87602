"""How well the engrams fit that prompts get unasked, measured on a labelled set (docs/recall.md).

The engrams are statements about this repository: the decision records and the map of ARCHITECTURE.md, as they were when
the set was made. The prompts are written by hand, with the engrams that a reader would want to see; for a third of them
that is none. One person wrote prompts, labels and rules, and many prompts use words of the claims, so figures with
other people's prompts will be lower. Thresholds were chosen on the part `tune`, and are reported on `test`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from engrambus.operations.recall import RecallAnswer
from engrambus.testing.client import GatewayClient
from tests.harness.stores import MemoryHarness

FOLDER = Path(__file__).parent
REVISION = "5" * 40


class Measured(NamedTuple):
    """Counts over the prompts of a part."""

    prompts: int
    shown: int
    right: int
    """Engrams shown that were labelled as wanted."""
    wanted: int
    found: int
    """Wanted engrams that were shown."""
    quiet: int
    """Prompts without a wanted engram that got nothing."""
    without: int
    """Prompts without a wanted engram."""

    @property
    def precision(self) -> float:
        """Share of what was shown that was wanted."""
        return self.right / max(1, self.shown)

    @property
    def recall(self) -> float:
        """Share of what was wanted that was shown."""
        return self.found / max(1, self.wanted)


def read_rows(name: str) -> list[dict[str, Any]]:
    """Return the rows of a file of the labelled set."""
    return [json.loads(line) for line in (FOLDER / name).read_text("utf-8").splitlines()]


def fill(client: GatewayClient) -> dict[str, str]:
    """Put the engrams of the set; return their labels by id."""
    names = {}
    for row in read_rows("engrams.jsonl"):
        pointer = {"type": "repo", "ref": f"repo:{row['path']}#L1-L9@{REVISION}"}
        engram = client.call("put_engram", claim=row["claim"], kind="decision", pointers=[pointer])
        names[engram.id] = row["id"]
    return names


def measure(part: str, *, show: bool = False) -> Measured:
    """Ask for every prompt of a part what it would get; with `show`, print what was wrong or missed."""
    harness = MemoryHarness()
    client = GatewayClient(harness)
    names = fill(client)
    rows = [row for row in read_rows("prompts.jsonl") if row["part"] == part]
    shown = right = wanted = found = quiet = without = 0
    for row in rows:
        answer: RecallAnswer = client.call("recall", text=row["prompt"])
        ids, relevant = [names[engram_id] for engram_id in answer.engrams], set(row["relevant"])
        shown, right = shown + len(ids), right + len(relevant.intersection(ids))
        wanted, found = wanted + len(relevant), found + len(relevant.intersection(ids))
        without, quiet = without + (not relevant), quiet + (not relevant and not ids)
        if show and set(ids) != relevant:
            print(f"{row['prompt']}\n    shown {ids}, wanted {sorted(relevant)}")
    harness.close()
    return Measured(len(rows), shown, right, wanted, found, quiet, without)
