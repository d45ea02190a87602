"""A small team, and grants for it."""

from __future__ import annotations

from typing import Any

from engrambus.errors import EngramBusError
from engrambus.evidence.pointers import Address, parse_ref
from engrambus.policy.grants import GrantKey, VerifiedGrant, issue, verify

SHA = "0123456789abcdef0123456789abcdef01234567"
OTHER_SHA = SHA[::-1]
PROJECT = "01K0000000000000000000PRJ1"
RUN = "01K0000000000000000000RVN1"
GRANT = "01K0000000000000000000GNT1"
NOON = 1_767_873_600_000_000
HOUR = 3_600_000_000
KEY = GrantKey(bytes(range(32)))
FILE = f"repo:src/ledger/reservation.py@{SHA}"
LINES = f"repo:src/ledger/reservation.py#L1-L220@{SHA}"

LINEAGES = {
    "lead": ("lead",),
    "dev": ("dev", "lead"),
    "helper": ("helper", "dev", "lead"),
    "tester": ("tester", "lead"),
}
"""Every agent and its ancestors: dev and tester are lead's children, helper is dev's."""


def make(**changes: Any) -> str:
    """A grant from lead to dev: 500 tokens, three uses, one hour, the first 220 lines of a file."""
    asked: dict[str, Any] = {
        "grant_id": GRANT,
        "project": PROJECT,
        "run": RUN,
        "parent": "lead",
        "child": "dev",
        "pointer": None if "prefix" in changes else LINES,
        "cap_tokens": 500,
        "uses": 3,
        "expires_at": NOON + HOUR,
        "intended_use": "Confirm that reservations are atomic.",
    }
    return issue(changes.pop("key", KEY), **(asked | changes))


def ask(token: str, **changes: Any) -> VerifiedGrant:
    """What the gateway says when dev shows the token to read lines 10 to 20, at noon, for 100 tokens."""
    asked: dict[str, Any] = {
        "pointer": at(f"repo:src/ledger/reservation.py#L10-L20@{SHA}"),
        "lineage": LINEAGES["dev"],
        "project": PROJECT,
        "run": RUN,
        "now": NOON,
        "tokens": 100,
    }
    return verify(changes.pop("key", KEY), token, **(asked | changes))


def refusal(token: str, **changes: Any) -> str | None:
    """The code the same question is refused with; none when it is allowed."""
    try:
        ask(token, **changes)
    except EngramBusError as refused:
        return refused.code
    return None


def at(ref: str) -> Address:
    """The address a ref names."""
    return parse_ref(ref)
