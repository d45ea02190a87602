"""How many engrams an agent, and an agent with all its descendants, may put in any 60 seconds.

The window slides: it ends now, not at the next full minute. Puts are counted by author and second, and a second counts
until its last put is 60 seconds old, so never more than the limit are put in any 60 seconds (decision 45).
"""

from __future__ import annotations

from collections.abc import Sequence

from engrambus.core import SECOND_US
from engrambus.errors import RateLimited
from engrambus.knowledge.engrams.ports import EngramView, RecentPuts
from engrambus.policy import ADMIN, Caller, LimitChecks, Policy, lineage_of

WINDOW_US = 60 * SECOND_US


def check_rate(view: EngramView, caller: Caller, policy: Policy, limits: LimitChecks, count: int) -> str:
    """Report `count` puts beyond the rate of the caller or of its lineage; return the name of the lineage's root."""
    if caller.role == ADMIN:  # bulk imports are the admin's
        return ADMIN
    root = lineage_of(view, caller)[-1]
    recent = view.recent_puts(f"{caller.run.run_id}/{root}", view.as_of - WINDOW_US)
    by_caller = [puts for puts in recent if puts.author == caller.full_name]
    for key, limit, who, puts in (
        ("engrams_per_minute", policy.engrams_per_minute, f"'{caller.name}'", by_caller),
        ("lineage_engrams_per_minute", policy.lineage_rate, f"'{root}' with all its descendants", recent),
    ):
        used = sum(row.engrams for row in puts)
        if used + count > limit:
            limits.exceeded("put_rate", _refusal(key, limit, who, puts, count, view.as_of))
    return root


def rate_left(view: EngramView, caller: Caller, policy: Policy) -> tuple[str, int]:
    """Return the root of the caller's lineage, and how many engrams the caller may put now without exceeding a rate."""
    root = lineage_of(view, caller)[-1]
    recent = view.recent_puts(f"{caller.run.run_id}/{root}", view.as_of - WINDOW_US)
    by_caller = sum(puts.engrams for puts in recent if puts.author == caller.full_name)
    left = min(policy.engrams_per_minute - by_caller, policy.lineage_rate - sum(puts.engrams for puts in recent))
    return root, max(0, left)


def _refusal(key: str, limit: int, who: str, puts: Sequence[RecentPuts], count: int, now_us: int) -> RateLimited:
    used = sum(row.engrams for row in puts)
    if count > limit:
        return RateLimited(
            f"{count} engrams at once never fit: {who} may put {limit} in 60 seconds.",
            field=key,
            limit=limit,
            used=used + count,
            hint=f"Send at most {limit} at a time; a person (admin) has no rate.",
        )
    seconds = _wait_seconds(limit - count, puts, now_us)
    refusal = RateLimited(
        f"{who} may put {limit} engrams in 60 seconds, and has put {used}.",
        field=key,
        limit=limit,
        used=used,
        hint=f"Try again in {seconds} s.",
    )
    refusal.retry_after_seconds = seconds
    return refusal


def _wait_seconds(most: int, puts: Sequence[RecentPuts], now_us: int) -> int:
    """Return how long until no more than `most` puts are in the window, in whole seconds."""
    left = sum(row.engrams for row in puts)
    for row in puts:
        left -= row.engrams
        if left <= most:
            return max(1, -(-(row.last_us + WINDOW_US - now_us) // SECOND_US))
    return 1
