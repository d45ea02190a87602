"""Contradictions are found without a model: how many, and how often the warning is wrong."""  # SC-05

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engrambus.knowledge.cortex import contradicts, find_conflicts
from tests.cortex.measure import measure, pairs

SUBJECTS = ("the", "cache", "gateway", "port", "and", ",", ".")
PREDICATES = ("is", "not", "no", "enabled", "disabled", "before", "after", "than", "faster", "=")
EXPECTED = {"tuned": 0.95, "held": 0.95, "later": 0.65, "unseen": 0.6, "last": 0.5, None: 0.8}
"""The least recall of each part of the labelled pairs; a warning is right in nine of ten cases at the least."""
words = st.sampled_from([*SUBJECTS, *PREDICATES, "30", "seconds", "2.0", "80%"])
statements = st.lists(words, max_size=30).map(" ".join) | st.text(max_size=60)


def test_the_labelled_set_is_large_and_every_pair_stands_once() -> None:
    everything = [(pair.one, pair.other) for pair in pairs()]
    assert len(everything) >= 300
    assert len(set(everything)) == len(everything)
    labels = [pair.label for pair in pairs("held")]
    assert min(map(labels.count, ("contradiction", "agreement", "unrelated"))) >= 40


@pytest.mark.parametrize(("half", "recall"), EXPECTED.items())
def test_a_warning_is_nearly_always_right(half: str | None, recall: float) -> None:
    told = measure(half)
    assert told.precision >= 0.9
    assert told.recall >= recall


def test_it_does_not_matter_which_statement_came_first() -> None:
    for pair in pairs():
        assert contradicts(pair.one, pair.other) == contradicts(pair.other, pair.one), pair


@given(statements)
def test_nothing_contradicts_itself(text: str) -> None:
    assert contradicts(text, text) == "clean"


@given(statements, statements)
def test_any_two_texts_can_be_held_against_each_other(one: str, other: str) -> None:
    assert contradicts(one, other) in ("clean", "potential_conflict", "conflict")


def test_the_worst_verdict_counts_and_every_conflict_is_named() -> None:
    held = [
        ("a", "The gateway times out after 30 seconds."),
        ("b", "Webhooks are signed."),
        ("c", "Gateway timeout is 45 s in the old region."),
    ]
    assert find_conflicts("The gateway times out after 60 seconds.", held) == ("conflict", ("a", "c"))
    assert find_conflicts("The parser trusts its input.", held) == ("clean", ())


NEW = ("is by x, not by y, ", "not by a, ", "only b", "Xa ", "unaed", "every day ", "is held in A ")


@pytest.mark.parametrize("piece", ["/-", "1-", "a.", "not ", "the 3 ", "faster than, ", "1" * 40 + "x_", "a, ", *NEW])
def test_hostile_statements_take_no_longer_than_others(piece: str) -> None:
    """Were the time to grow with the square of the length, these would not end."""
    assert contradicts(piece * 50_000, piece * 49_999) == "clean"
