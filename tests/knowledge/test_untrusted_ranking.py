"""Untrusted engrams in an answer: they change no order among the project's own and never push them out."""  # EB-29

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from engrambus.testing import ManualClock
from engrambus.testing.client import GatewayClient
from engrambus.testing.conformance.adoption import Adopting, foreign_engram
from tests.harness.stores import MemoryHarness

WORDS = ("ledger", "lease", "parser", "refund", "router", "gateway")
claims = st.lists(
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=5).map(lambda words: " ".join(words).capitalize() + "."),
    max_size=12,
    unique=True,
)


@settings(max_examples=60)
@given(
    own=claims, foreign=claims, question=st.lists(st.sampled_from(WORDS), min_size=1, max_size=4), k=st.integers(1, 12)
)
def test_adopting_neither_reorders_nor_removes_what_the_project_knows(
    own: list[str], foreign: list[str], question: list[str], k: int
) -> None:
    harness = MemoryHarness(ManualClock())
    client, project = GatewayClient(harness), Adopting(harness)
    for claim in own:
        client.put(claim)
    before = client.query_claims(" ".join(question), k=k)
    project.adopt(*(foreign_engram(claim, f"01KDVP9R00FQREJGN0000{n:05d}") for n, claim in enumerate(foreign)))
    found = client.query(" ".join(question), k=k)
    trusted = [engram.claim for engram in found.engrams if found.about[engram.id].untrusted is None]
    assert trusted == before[: len(trusted)]
    assert len(trusted) >= min(len(before), k - k // 2)
    assert len(found.engrams) <= k
    harness.close()
