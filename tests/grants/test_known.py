"""A token whose signatures were checked once is known again; everything else is looked at every time."""  # EB-11

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engrambus.errors import GrantForeign, GrantTooDeep
from engrambus.policy.grants import GrantKey, attenuate, read
from tests.grants.tree import HOUR, KEY, LINEAGES, NOON, ask, at, make, refusal

CHAIN = attenuate(attenuate(make(), uses=2), cap_tokens=200)


def test_what_a_known_token_says_does_not_change() -> None:
    fresh = GrantKey(bytes(range(32)))
    assert read(fresh, CHAIN) == read(fresh, CHAIN) == read(KEY, CHAIN)


def test_a_known_token_is_still_refused_for_every_reason() -> None:
    assert refusal(CHAIN) is None
    reasons: dict[str, dict[str, Any]] = {
        "GRANT_EXPIRED": {"now": NOON + HOUR},
        "GRANT_WRONG_CHILD": {"lineage": LINEAGES["tester"]},
        "GRANT_WRONG_POINTER": {"pointer": at("sam:decision:x@2026-01-08")},
        "GRANT_OVER_CAP": {"tokens": 201},
        "GRANT_FOREIGN": {"run": "01K0000000000000000000RVN2"},
    }
    for code, changes in reasons.items():
        assert refusal(CHAIN, **changes) == code
    with pytest.raises(GrantTooDeep):
        read(KEY, CHAIN, max_depth=2)
    assert len(read(KEY, CHAIN).blocks) == 3


@given(st.integers(0, len(CHAIN) - 1), st.sampled_from("AZaz09_-.="))
def test_one_letter_of_a_known_token_changed_is_another_token(place: int, letter: str) -> None:
    ask(CHAIN)
    changed = CHAIN[:place] + letter + CHAIN[place + 1 :]
    assert (refusal(changed) is None) == (changed == CHAIN)


def test_what_one_key_knows_another_does_not() -> None:
    ask(CHAIN)
    with pytest.raises(GrantForeign):
        read(GrantKey(bytes(32)), CHAIN)
