"""What prompts get unasked, on the part of the labelled set that no threshold was chosen on."""  # BX-10

from __future__ import annotations

import pytest

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
