"""What prompts get unasked, on the part of the labelled set that no threshold was chosen on."""  # BX-10

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engrambus.core import estimate_tokens
from engrambus.operations.recall import _answer, _Candidate
from tests.recall.measure import measure, read_rows


@pytest.mark.parametrize(("part", "precision", "recall"), [("tune", 0.9, 0.6), ("test", 0.85, 0.7)])
def test_what_is_shown_fits(part: str, precision: float, recall: float) -> None:
    measured = measure(part)
    assert measured.precision >= precision
    assert measured.recall >= recall
    assert measured.quiet == measured.without > 10, "where nothing is known, nothing is shown"


def test_no_prompt_is_in_both_parts() -> None:
    prompts = [row["prompt"] for row in read_rows("prompts.jsonl")]
    assert len(set(prompts)) == len(prompts)


claims = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=400), max_size=12)


@given(claims=claims, max_tokens=st.integers(min_value=1, max_value=300))
def test_an_answer_never_exceeds_its_limits(claims: list[str], max_tokens: int) -> None:
    candidates = [_Candidate(str(number), f"- {claim}", is_stale=False) for number, claim in enumerate(claims)]
    answer = _answer(candidates, max_tokens)
    assert len(answer.engrams) <= 5
    assert estimate_tokens("\n".join(answer.lines).encode("utf-8", "replace")) <= max_tokens
    assert bool(answer.lines) == bool(answer.engrams)
