"""The three nearest earlier claims: measured on pairs that nothing was tuned on."""

from __future__ import annotations

from engrambus.knowledge.cortex.nearest import EarlierClaim, nearest_claims
from engrambus.knowledge.cortex.values import NearClaim
from tests.cortex.measure import measure_nearest


def _claims(*texts: str) -> list[EarlierClaim]:
    return [
        EarlierClaim(near=NearClaim(id=str(number), kind="decision", claim=text), pointers=())
        for number, text in enumerate(texts)
    ]


def test_the_contradicted_claim_is_nearly_always_among_the_three_nearest() -> None:  # EB-24 SC-05
    few = measure_nearest(crowded=False)
    assert few.shown / few.contradictions >= 0.9
    assert few.disturbed / few.others <= 0.15
    crowded = measure_nearest(crowded=True)
    assert crowded.shown / crowded.contradictions >= 0.8
    # the reason why the nearest are shown: the rules alone find less than half
    assert few.by_rules / few.contradictions < 0.5


def test_the_rules_only_sort() -> None:  # EB-24
    claims = _claims(
        "The rate limit of the API is described on the page about limits.",
        "The rate limit is 100 requests per minute.",
        "Invoices are sent on Mondays.",
    )
    near = nearest_claims("The rate limit is 600 requests per minute.", claims)
    assert near[0].near.id == "1"
    assert [claim.near.verdict for claim in near] == ["conflict", *["clean"] * (len(near) - 1)]
    assert "2" not in [claim.near.id for claim in near]


def test_a_long_memory_is_near_by_one_of_its_sentences() -> None:  # EB-24
    filler = " ".join(f"Point {number} is about something else entirely." for number in range(12))
    (near,) = nearest_claims("Backups are deleted after a week.", _claims(f"{filler} Backups are kept for 30 days."))
    assert near.near.id == "0"
    assert nearest_claims("Tooltips vanish.", _claims(filler)) == []


def test_at_most_three_are_shown() -> None:  # EB-24
    claims = _claims(*(f"The limit of lane {number} is {number} tuples." for number in range(1, 9)))
    assert len(nearest_claims("The limit of lane 3 is 40 tuples.", claims)) == 3
