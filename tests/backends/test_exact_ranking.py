"""Answers are those of a plain search that scores every visible engram, at sizes where lists are in blocks. # EB-13"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from engrambus.backends.sql.knowledge import postings
from engrambus.knowledge.engrams import Engram, query_keys
from engrambus.knowledge.engrams.weights import list_weight
from engrambus.testing import ManualClock
from engrambus.testing.client import GatewayClient, ref_to_test
from tests.harness.stores import SqliteHarness

WORDS = [f"word{chr(97 + number // 26)}{chr(97 + number % 26)}" for number in range(300)]
RARITY = [1 / (rank + 2) for rank in range(len(WORDS))]
SIZE = 2600
"""More than the tail holds, so that some are in blocks, some in the tail and some pending."""


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[GatewayClient, list[Engram]]]:
    """A store with engrams of frequent and rare words, and others in a run that nobody else sees."""
    folder: Path = tmp_path_factory.mktemp("ranking")
    harness = SqliteHarness(folder / "catalog", ManualClock())
    client = GatewayClient(harness)
    chance = random.Random(7)
    ids: list[str] = []
    for batch in range(SIZE // 50):
        harness.clock.advance(seconds=batch % 2)
        drafts = [
            {
                "claim": " ".join(chance.choices(WORDS, RARITY, k=9)),
                "kind": chance.choice(("fact", "risk", "todo")),
                "confidence": chance.choice((0.5, 0.8, 0.9)),
                "pointers": [{"type": "test", "ref": ref_to_test(f"case{batch * 50 + number}.py")}],
            }
            for number in range(50)
        ]
        ids += client.call("put_engrams", engrams=drafts).ids
    forgotten = ids[100:140]
    for engram_id in forgotten:
        client.call("forget_engram", id=engram_id)
    client.open_run("Somebody else's")
    client.put_many([" ".join(chance.choices(WORDS, k=9)) for _ in range(300)], scope="run")
    client.open_run("Back to work")
    stored = [
        client.call("get_engram", id=engram_id) for engram_id in dict.fromkeys(ids) if engram_id not in ids[100:140]
    ]
    assert postings.MAX_TAIL < SIZE
    yield client, stored
    harness.close()


def plain_search(engrams: Sequence[Engram], question: str, k: int, kind: str | None) -> list[str]:
    """Score every engram and sort them all."""
    keys = query_keys(question)
    held = [set(engram.hash_keys) for engram in engrams]
    counts = {key: sum(key in keys_of for keys_of in held) for key in keys}
    rows = []
    for engram, keys_of in zip(engrams, held, strict=True):
        score = sum(list_weight(key, counts[key], len(engrams)) for key in keys if key in keys_of)
        if score and kind in (None, engram.kind):
            second = engram.provenance.created_at[:19]
            rows.append((-score, tuple(-ord(sign) for sign in second), -engram.confidence, engram.id))
    return [row[-1] for row in sorted(rows)[:k]]


@pytest.mark.parametrize("seed", range(40))
def test_an_answer_is_that_of_a_search_of_everything(client: tuple[GatewayClient, list[Engram]], seed: int) -> None:
    bus, engrams = client
    chance = random.Random(seed)
    words = chance.choices(WORDS, RARITY if seed % 2 else None, k=chance.randint(1, 6))
    kind = chance.choice((None, None, "risk"))
    k = chance.choice((1, 12, 100))
    answer = bus.query(" ".join(words), k=k, kind=kind)
    assert [engram.id for engram in answer.engrams] == plain_search(engrams, " ".join(words), k, kind)
