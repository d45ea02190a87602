"""The little project's tests."""

from shop import total_cents


def test_a_discount_is_taken_off() -> None:
    assert total_cents([1000, 500], discount_pct=10) == 1350


def test_nothing_costs_nothing() -> None:
    assert total_cents([]) == 0
