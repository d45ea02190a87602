"""The order by words and meaning together is a function of its input, in whole numbers."""  # EB-14

from __future__ import annotations

from fractions import Fraction
from math import isqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engrambus.knowledge.engrams.semantic_rerank import UNIT_BITS, ComparedItem, rerank, standard_scores

scores = st.integers(0, 10**9)
similarities = st.integers(-1_000_000, 1_000_000)
recalled = st.lists(st.tuples(scores, similarities), max_size=40).map(
    lambda rows: [ComparedItem(index, score, similarity) for index, (score, similarity) in enumerate(rows)]
)


@given(recalled)
def test_every_candidate_is_returned_once(candidates: list[ComparedItem[int]]) -> None:
    ordered = rerank(candidates)
    assert sorted(candidate.item for candidate in ordered) == list(range(len(candidates)))
    assert rerank(candidates) == ordered


@given(recalled)
def test_better_by_words_and_by_meaning_comes_first(candidates: list[ComparedItem[int]]) -> None:
    places = {candidate.item: place for place, candidate in enumerate(rerank(candidates))}
    for first in candidates:
        for second in candidates:
            at_least = first.score >= second.score and first.similarity >= second.similarity
            if at_least and (first.score, first.similarity) != (second.score, second.similarity):
                # Differences below 2^-32 of a deviation are ties, which keep the order by words.
                assert places[first.item] < places[second.item] or _is_tie(candidates, first, second)


def _is_tie(candidates: list[ComparedItem[int]], first: ComparedItem[int], second: ComparedItem[int]) -> bool:
    by_words = standard_scores([candidate.score for candidate in candidates])
    by_meaning = standard_scores([candidate.similarity for candidate in candidates])
    sums = [words + meaning for words, meaning in zip(by_words, by_meaning, strict=True)]
    return sums[first.item] == sums[second.item]


@given(recalled, similarities)
def test_equal_similarities_keep_the_order_by_words(candidates: list[ComparedItem[int]], similarity: int) -> None:
    equal = [candidate._replace(similarity=similarity) for candidate in candidates]
    in_order = sorted(equal, key=lambda candidate: -candidate.score)
    assert [candidate.score for candidate in rerank(equal)] == [candidate.score for candidate in in_order]


@given(recalled, scores)
def test_equal_scores_leave_the_order_to_meaning(candidates: list[ComparedItem[int]], score: int) -> None:
    equal = [candidate._replace(score=score) for candidate in candidates]
    expected = sorted(equal, key=lambda candidate: -candidate.similarity)
    assert rerank(equal) == expected  # both sorts are stable


@given(st.lists(scores, min_size=2, max_size=40))
def test_standard_scores_have_mean_0_and_deviation_1(values: list[int]) -> None:
    scaled = standard_scores(values)
    unit = 1 << UNIT_BITS
    assert abs(sum(scaled)) <= len(values)
    if len(set(values)) > 1:
        deviation = isqrt(sum(score * score for score in scaled) // len(values))
        assert abs(Fraction(deviation, unit) - 1) < Fraction(1, 1000)
    else:
        assert scaled == [0] * len(values)


def test_meaning_weighs_as_much_as_words() -> None:
    """A candidate two deviations ahead in one and one behind in the other is ahead."""
    candidates = [
        ComparedItem("by words", 100, 0),
        ComparedItem("by meaning", 0, 900_000),
        ComparedItem("by both", 90, 800_000),
        *(ComparedItem(f"neither {number}", 0, 0) for number in range(5)),
    ]
    assert rerank(candidates)[0].item == "by both"


@pytest.mark.parametrize("values", [[], [5]])
def test_few_candidates(values: list[int]) -> None:
    assert standard_scores(values) == [0] * len(values)
