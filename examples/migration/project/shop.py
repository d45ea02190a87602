"""A little project for the orchestrator to check."""


def total_cents(prices: list[int], discount_pct: int = 0) -> int:
    """Return the sum of prices, less a discount."""
    # TODO: round half to even
    return sum(prices) * (100 - discount_pct) // 100
