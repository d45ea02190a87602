"""Lifetimes: no chain of renewals outlives what somebody else allowed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engrambus.errors import LifetimeTooLong
from engrambus.policy.lifetimes import TokenLifetime, TokenSpan, end_of, fresh_span, renewed_span

DAY_US = 86_400_000_000
amounts = st.integers(1, 400 * DAY_US)
asked = st.one_of(st.none(), st.integers(1, 20_000 * DAY_US))


@given(amounts, amounts, asked, st.lists(st.tuples(st.floats(0, 1, exclude_max=True), asked), max_size=12))
def test_no_chain_of_renewals_outlives_the_ceiling_of_its_first_token(
    default_us: int, ceiling_us: int, first: int | None, renewals: list[tuple[float, int | None]]
) -> None:
    lifetime = TokenLifetime(default_us=default_us, ceiling_us=ceiling_us)
    issued_us = 1_000 * DAY_US
    try:
        span = fresh_span(lifetime, now_us=issued_us, asked_us=first)
    except LifetimeTooLong:
        assert first is not None
        assert first > ceiling_us
        return
    held, now_us = [span], issued_us
    for part, asked_us in renewals:
        # The agent waits as long as it likes while one of its tokens is good, and renews with any of them.
        newest = max(held, key=lambda token: token.expires_us)
        now_us += int((newest.expires_us - now_us) * part)
        try:
            held.append(renewed_span(lifetime, now_us=now_us, asked_us=asked_us, earlier=newest))
        except LifetimeTooLong:
            continue
    assert all(token.expires_us <= issued_us + ceiling_us for token in held)
    assert all(token.first_us == issued_us for token in held)


@given(amounts, amounts, amounts)
def test_a_lower_ceiling_is_felt_by_tokens_that_exist(expires_us: int, ceiling_us: int, lower_us: int) -> None:
    span = TokenSpan(first_us=0, expires_us=expires_us)
    assert end_of(span, min(ceiling_us, lower_us)) <= end_of(span, ceiling_us) <= expires_us


@given(amounts, amounts)
def test_without_a_wish_a_token_gets_the_default_or_what_is_left(default_us: int, ceiling_us: int) -> None:
    lifetime = TokenLifetime(default_us=default_us, ceiling_us=ceiling_us)
    span = fresh_span(lifetime, now_us=0, asked_us=None)
    assert span.expires_us == min(default_us, ceiling_us)
    half = span.expires_us // 2
    assert renewed_span(lifetime, now_us=half, asked_us=None, earlier=span).expires_us == min(
        half + default_us, ceiling_us
    )
