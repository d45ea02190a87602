"""The contradiction detector: its precision and recall, and its behaviour on any text."""  # SC-05

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engrambus.knowledge.cortex.contradiction import contradicts, find_conflicts
from tests.cortex.measure import measure, pairs

SUBJECTS = ("the", "cache", "gateway", "port", "and", ",", ".")
PREDICATES = ("is", "not", "no", "enabled", "disabled", "before", "after", "than", "faster", "=")
MIN_RECALL = {"tuned": 0.95, "held": 0.95, "later": 0.65, "unseen": 0.6, "last": 0.5, None: 0.8}
"""Minimum recall in each group of the labelled pairs."""
MIN_PRECISION = 0.9
words = st.sampled_from([*SUBJECTS, *PREDICATES, "30", "seconds", "2.0", "80%"])
statements = st.lists(words, max_size=30).map(" ".join) | st.text(max_size=60)


def test_the_labelled_set_is_large_and_has_no_repeated_pair() -> None:
    statements = [(pair.first, pair.second) for pair in pairs()]
    assert len(statements) >= 300
    assert len(set(statements)) == len(statements)
    labels = [pair.label for pair in pairs("held")]
    assert min(map(labels.count, ("contradiction", "agreement", "unrelated"))) >= 40


@pytest.mark.parametrize(("group", "recall"), MIN_RECALL.items())
def test_precision_and_recall_are_high_enough(group: str | None, recall: float) -> None:
    result = measure(group)
    assert result.precision >= MIN_PRECISION
    assert result.recall >= recall


def test_the_order_of_the_statements_does_not_matter() -> None:
    for pair in pairs():
        assert contradicts(pair.first, pair.second) == contradicts(pair.second, pair.first), pair


@given(statements)
def test_no_statement_contradicts_itself(text: str) -> None:
    assert contradicts(text, text) == "clean"


@given(statements, statements)
def test_any_two_texts_can_be_compared(first: str, second: str) -> None:
    assert contradicts(first, second) in ("clean", "potential_conflict", "conflict")


def test_the_worst_verdict_counts_and_every_conflict_is_named() -> None:
    pins = [
        ("a", "The gateway times out after 30 seconds."),
        ("b", "Webhooks are signed."),
        ("c", "Gateway timeout is 45 s in the old region."),
    ]
    assert find_conflicts("The gateway times out after 60 seconds.", pins) == ("conflict", ("a", "c"))
    assert find_conflicts("The parser trusts its input.", pins) == ("clean", ())


MORE_PIECES = ("is by x, not by y, ", "not by a, ", "only b", "Xa ", "unaed", "every day ", "is held in A ")


@pytest.mark.parametrize(
    "piece", ["/-", "1-", "a.", "not ", "the 3 ", "faster than, ", "1" * 40 + "x_", "a, ", *MORE_PIECES]
)
def test_hostile_statements_take_linear_time(piece: str) -> None:
    """With quadratic time these would run into the timeout of the test."""
    assert contradicts(piece * 50_000, piece * 49_999) == "clean"
