"""Signatures of a token are verified once; its limits are checked every time."""  # EB-11

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engrambus.errors import GrantForeign, GrantTooDeep
from engrambus.policy.grants import GrantKey, attenuate
from engrambus.policy.grants.tokens import read_token
from tests.grants.samples import HOUR, KEY, LINEAGES, NOON, address, make_token, refusal_code, verify

CHAIN = attenuate(attenuate(make_token(), uses=2), cap_tokens=200)


def test_a_remembered_token_has_the_same_content() -> None:
    fresh = GrantKey(bytes(range(32)))
    assert read_token(fresh, CHAIN) == read_token(fresh, CHAIN) == read_token(KEY, CHAIN)


def test_a_remembered_token_is_still_refused_for_every_reason() -> None:
    assert refusal_code(CHAIN) is None
    reasons: dict[str, dict[str, Any]] = {
        "GRANT_EXPIRED": {"now_us": NOON + HOUR},
        "GRANT_WRONG_CHILD": {"lineage": LINEAGES["tester"]},
        "GRANT_WRONG_POINTER": {"pointer": address("sam:decision:x@2026-01-08")},
        "GRANT_OVER_CAP": {"tokens": 201},
        "GRANT_FOREIGN": {"run": "01K0000000000000000000RVN2"},
    }
    for code, changes in reasons.items():
        assert refusal_code(CHAIN, **changes) == code
    with pytest.raises(GrantTooDeep):
        read_token(KEY, CHAIN, max_blocks=2)
    assert len(read_token(KEY, CHAIN).blocks) == 3


@given(st.integers(0, len(CHAIN) - 1), st.sampled_from("AZaz09_-.="))
def test_a_remembered_token_with_one_letter_changed_is_another_token(index: int, letter: str) -> None:
    verify(CHAIN)
    changed = CHAIN[:index] + letter + CHAIN[index + 1 :]
    assert (refusal_code(changed) is None) == (changed == CHAIN)


def test_keys_do_not_share_remembered_tokens() -> None:
    verify(CHAIN)
    with pytest.raises(GrantForeign):
        read_token(GrantKey(bytes(32)), CHAIN)
