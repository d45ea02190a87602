"""The measures, against values computed by hand. BX-08"""

from __future__ import annotations

import pytest
from eval.metrics import bootstrap, difference, recall_at, reciprocal_rank


def test_recall_is_the_share_of_the_correct_names_among_the_first_distinct_ones() -> None:
    ranked = ["a", "b", "a", "c", "d"]
    assert recall_at(ranked, {"c", "x"}, 3) == 0.5  # the second a takes no place
    assert recall_at(ranked, {"c", "x"}, 2) == 0
    assert recall_at(ranked, {"a", "b", "c", "d"}, 2) == 0.5
    assert recall_at([], {"a"}, 10) == 0


def test_recall_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="nothing"):
        recall_at(["a"], set(), 5)


def test_the_reciprocal_rank_counts_distinct_names() -> None:
    assert reciprocal_rank(["a", "a", "b", "c"], {"b", "c"}) == 1 / 2
    assert reciprocal_rank(["a"], {"b"}) == 0


def test_an_interval_contains_the_mean_and_is_the_same_for_a_seed() -> None:
    values = [0.0, 1.0] * 50
    interval = bootstrap(values, seed=3)
    assert interval.mean == 0.5
    assert 0.38 < interval.low < 0.5 < interval.high < 0.62  # 0.5 ± 1.96 × 0.05, with some room
    assert bootstrap(values, seed=3) == interval
    assert bootstrap([0.25] * 9) == (0.25, 0.25, 0.25)
    assert bootstrap([]) == (0, 0, 0)


def test_a_difference_is_taken_question_by_question() -> None:
    ours, theirs = [1.0, 0.5, 0.0, 1.0], [0.75, 0.25, -0.25, 0.75]
    assert difference(ours, theirs) == (0.25, 0.25, 0.25)
