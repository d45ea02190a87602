"""Scores added up in a dictionary and in arrays are the same, and so are the best of them."""

from __future__ import annotations

from math import log2

from hypothesis import given
from hypothesis import strategies as st

from engrambus.knowledge.engrams.counting import ArrayScores, DictScores, WeightedList
from engrambus.knowledge.engrams.postings import BLOCK_ROWS, below, chunks_of, only, ordinals_of, without
from engrambus.knowledge.engrams.weights import STEPS, list_weight, rarity

ORDINALS = st.one_of(
    st.integers(0, 40), st.integers(BLOCK_ROWS - 20, BLOCK_ROWS + 20), st.integers(3 * BLOCK_ROWS, 3 * BLOCK_ROWS + 9)
)
LISTS = st.lists(st.tuples(st.integers(1, 5), st.sets(ORDINALS, max_size=60)), max_size=6)


def weighted(lists: list[tuple[int, set[int]]]) -> list[WeightedList]:
    return [WeightedList(f"k{index}", weight, chunks_of(rows)) for index, (weight, rows) in enumerate(lists)]


@given(
    LISTS,
    st.frozensets(ORDINALS, max_size=30),
    st.one_of(st.none(), st.sets(ORDINALS)),
    st.sets(ORDINALS),
    st.integers(1, 70),
)
def test_the_best_are_those_of_a_plain_sort(
    lists: list[tuple[int, set[int]]],
    last: frozenset[int],
    allowed: set[int] | None,
    halved: set[int],
    count: int,
) -> None:  # EB-13
    plain: dict[int, int] = {}
    for weight, rows in lists:
        for row in rows:
            if allowed is None or row in allowed:
                plain[row] = plain.get(row, 0) + weight
    plain = {row: (score + 1) // 2 if row in halved else score for row, score in plain.items()}
    expected = sorted(plain, key=lambda row: (-plain[row], row in last, -row))[:count]
    for scores_of in (DictScores, ArrayScores):
        scores = scores_of(weighted(lists), None if allowed is None else chunks_of(allowed), chunks_of(halved))
        assert [(c.score, c.ordinal) for c in scores.best(count, last)] == [(plain[row], row) for row in expected]


@given(LISTS, st.sets(ORDINALS, max_size=20))
def test_what_each_key_adds_is_the_score(lists: list[tuple[int, set[int]]], asked: set[int]) -> None:  # EB-13
    expected = {
        row: {f"k{index}": weight for index, (weight, rows) in enumerate(lists) if row in rows}
        for row in asked
        if any(row in rows for _, rows in lists)
    }
    for scores_of in (DictScores, ArrayScores):
        assert scores_of(weighted(lists)).by_key(asked) == expected


@given(st.sets(ORDINALS), st.sets(ORDINALS), ORDINALS)
def test_lists_are_cut_like_sets(rows: set[int], others: set[int], end: int) -> None:
    def rows_of(chunks: object) -> list[int]:
        return sorted(row for chunk in chunks for row in ordinals_of(chunk))  # type: ignore[attr-defined]

    chunks = chunks_of(rows)
    assert rows_of(chunks) == sorted(rows)
    assert rows_of(without(chunks, others)) == sorted(rows - others)
    assert rows_of(only(chunks, frozenset(others))) == sorted(rows & others)
    assert rows_of(below(chunks, end)) == sorted(row for row in rows if row < end)


@given(st.integers(1, 10**7), st.integers(0, 10**7))
def test_a_weight_is_the_logarithm_of_how_rare_a_key_is(frequency: int, more: int) -> None:  # EB-13
    total = frequency + more
    exact = STEPS * log2(1 + total / frequency)
    assert exact - 1.001 <= rarity(frequency, total) <= exact + 0.001
    assert rarity(frequency + 1, total + 1) <= rarity(frequency, total + 1)


def test_lines_weigh_less_than_claims_and_phrases_least() -> None:
    weights = [list_weight(key, 3, 1000) for key in ("ledger", "=ledger", "==ledger", "general+ledger")]
    assert weights == sorted(set(weights), reverse=True)
    assert weights[-1] > 0
