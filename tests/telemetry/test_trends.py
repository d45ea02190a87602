"""Whether an agent's messages are rejected less often than before."""  # EB-34

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engrambus.gateway.tallies import LEAST_FOR_TREND, message_trend


@given(st.text("ars", max_size=60))
def test_a_trend_has_rates_between_none_and_all_and_the_direction_between_them(outcomes: str) -> None:
    trend = message_trend(outcomes)
    assert (trend is None) == (len(outcomes) < LEAST_FOR_TREND)
    if trend is None:
        return
    rates = (trend.earlier_rejection_rate, trend.later_rejection_rate)
    assert all(0 <= rate <= 1 for rate in (*rates, trend.earlier_resend_rate, trend.later_resend_rate))
    assert (trend.direction == "falling") == (rates[0] > rates[1])
    assert (trend.direction == "level") == (rates[0] == rates[1])


@pytest.mark.parametrize(("outcomes", "direction"), [("rsaa", "falling"), ("aars", "rising"), ("raar", "level")])
def test_the_direction_of_some_trends(outcomes: str, direction: str) -> None:
    trend = message_trend(outcomes)
    assert trend is not None
    assert trend.direction == direction
