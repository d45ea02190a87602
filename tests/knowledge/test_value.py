"""The value of an engram as a number."""  # EB-28

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engrambus.knowledge.engrams import ValuedUse, value_in_space, value_of

COUNTS = st.integers(min_value=0, max_value=10**6)


@pytest.mark.parametrize(
    ("uses", "votes", "accepted", "value"),
    [
        (0, 0, 0, 0),
        (1, 0, 0, 1),
        (2, 0, 0, 2),
        (3, 0, 0, 2),
        (0, 1, 0, 2),
        (0, 0, 1, 3),
        (8, 0, 0, 4),
        (10_000, 0, 0, 4),
        (0, 10_000, 0, 5),
        (0, 0, 10_000, 6),
        (10_000, 10_000, 10_000, 7),
    ],
)
def test_the_value_grows_with_each_doubling(uses: int, votes: int, accepted: int, value: int) -> None:
    assert value_of(uses, votes, accepted) == value


@given(COUNTS, COUNTS, COUNTS)
def test_more_of_anything_never_lowers_the_value(uses: int, votes: int, accepted: int) -> None:
    value = value_of(uses, votes, accepted)
    assert 0 <= value <= 7
    for more in ((uses + 1, votes, accepted), (uses, votes + 1, accepted), (uses, votes, accepted + 1)):
        assert value <= value_of(*more) <= value + 3


def use(root: str, **more: bool) -> ValuedUse:
    """Return a use in run r2 that everybody in the project may know of."""
    return ValuedUse(root=root, run_space="r2", in_project=more.get("in_project", True), accepted=False)


@given(st.lists(st.sampled_from(["R/ada", "R/admin", "S/admin"])))
def test_no_number_of_own_uses_and_votes_adds_up(roots: list[str]) -> None:
    for author in ("R/ada", "T/admin"):
        own = [root for root in roots if root == author or (author == "T/admin" and root.endswith("/admin"))]
        assert value_in_space("p", author, [use(root) for root in own], own) == 0


def test_only_uses_inside_the_space_count() -> None:
    hidden, shown = use("S/eve", in_project=False), use("S/eve")
    assert [value_in_space(space, "R/ada", [hidden], []) for space in ("p", "r1", "r2", "m", "u", "cp")] == [
        0, 0, 1, 0, 0, 0,
    ]  # fmt: skip
    assert [value_in_space(space, "R/ada", [shown], ["S/eve"]) for space in ("p", "r2", "m", "u", "cp", "cr2")] == [
        2, 2, 2, 0, 0, 0,
    ]  # fmt: skip
