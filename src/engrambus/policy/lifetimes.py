"""Lifetimes: how long a token or a grant may live, and how far an agent may renew its own token (decision 69)."""

from __future__ import annotations

from functools import lru_cache

import msgspec

from engrambus.core import parse_duration, print_duration, print_time
from engrambus.errors import LifetimeTooLong

_FIELD = "expires_in"

duration_us = lru_cache(maxsize=64)(parse_duration)
"""The microseconds of a duration; remembered, because a token's ceiling is looked at with every call."""


class TokenLifetime(msgspec.Struct, frozen=True, kw_only=True):
    """The part of the policy that says how long tokens live."""

    default_us: int
    ceiling_us: int


class TokenSpan(msgspec.Struct, frozen=True, kw_only=True):
    """The time that a token belongs to."""

    first_us: int
    """When somebody else than the agent issued the first token of a chain of renewals."""
    expires_us: int


def fresh_span(lifetime: TokenLifetime, *, now_us: int, asked_us: int | None) -> TokenSpan:
    """Return the span of a token that a parent or an admin issues; refuse more than the ceiling."""
    lifetime_us = min(lifetime.default_us, lifetime.ceiling_us) if asked_us is None else asked_us
    check_lifetime(lifetime_us, lifetime.ceiling_us)
    return TokenSpan(first_us=now_us, expires_us=now_us + lifetime_us)


def renewed_span(lifetime: TokenLifetime, *, now_us: int, asked_us: int | None, earlier: TokenSpan) -> TokenSpan:
    """Return the span of a token with which an agent renews its own, which ends with `earlier`.

    No chain of renewals lives longer than its first token, which another caller issued, could have lived.
    """
    latest_us = end_of(earlier, lifetime.ceiling_us, renewable=True)
    expires_us = min(now_us + lifetime.default_us, latest_us) if asked_us is None else now_us + asked_us
    if expires_us > latest_us or expires_us <= now_us:
        raise LifetimeTooLong(
            "An agent renews its own token only up to the ceiling of the one that was issued to it.",
            field=_FIELD,
            limit=print_time(latest_us),
            used=print_time(max(expires_us, now_us)),
            hint="Ask your parent, or the person at the machine, for another: `agent.token`.",
        )
    return TokenSpan(first_us=earlier.first_us, expires_us=expires_us)


def end_of(span: TokenSpan, ceiling_us: int, *, renewable: bool = False) -> int:
    """Return when a token ends at the latest under a ceiling; with `renewable`, the last of its renewals."""
    ceiling_ends_us = span.first_us + ceiling_us
    return ceiling_ends_us if renewable else min(span.expires_us, ceiling_ends_us)


def check_lifetime(lifetime_us: int, ceiling_us: int) -> None:
    """Refuse a lifetime above the policy's ceiling."""
    if lifetime_us > ceiling_us:
        raise LifetimeTooLong(
            field=_FIELD,
            limit=print_duration(ceiling_us),
            used=print_duration(lifetime_us),
            hint="Leave `expires_in` out for the policy's default. An admin sets the ceilings `max_token_ttl` and "
            "`max_grant_ttl` in .catalog/policy.yaml.",
        )


def lifetime_within(asked: str | None, default: str, ceiling: str) -> int:
    """Return the lifetime that was asked for, or else the default, in microseconds; refuse more than the ceiling."""
    ceiling_us = duration_us(ceiling)
    if asked is None:
        return min(duration_us(default), ceiling_us)
    lifetime_us = parse_duration(asked, _FIELD)
    check_lifetime(lifetime_us, ceiling_us)
    return lifetime_us
