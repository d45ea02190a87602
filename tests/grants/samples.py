"""A small team, and grants for it."""

from __future__ import annotations

from typing import Any

from engrambus.errors import EngramBusError
from engrambus.evidence.pointers import Address, parse_ref
from engrambus.policy.grants import GrantKey, GrantUse, VerifiedGrant, issue_token, verify_token

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


def make_token(**changes: Any) -> str:
    """A grant from lead to dev: 500 tokens, three uses, one hour, the first 220 lines of a file."""
    key = changes.pop("key", KEY)
    defaults: dict[str, Any] = {
        "grant_id": GRANT,
        "project": PROJECT,
        "run": RUN,
        "parent": "lead",
        "child": "dev",
        "pointer": None if "prefix" in changes else LINES,
        "cap_tokens": 500,
        "uses": 3,
        "expires_us": NOON + HOUR,
        "intended_use": "Confirm that reservations are atomic.",
    }
    return issue_token(key, **(defaults | changes))


def verify(token: str, **changes: Any) -> VerifiedGrant:
    """Verify the token for dev, who reads lines 10 to 20 at noon for 100 tokens."""
    key = changes.pop("key", KEY)
    options = {"max_blocks": changes.pop("max_blocks")} if "max_blocks" in changes else {}
    defaults: dict[str, Any] = {
        "pointer": address(f"repo:src/ledger/reservation.py#L10-L20@{SHA}"),
        "lineage": LINEAGES["dev"],
        "project": PROJECT,
        "run": RUN,
        "now_us": NOON,
        "tokens": 100,
    }
    return verify_token(key, token, GrantUse(**(defaults | changes)), **options)


def refusal_code(token: str, **changes: Any) -> str | None:
    """The code that `verify` fails with, or None if it succeeds."""
    try:
        verify(token, **changes)
    except EngramBusError as error:
        return error.code
    return None


def address(ref: str) -> Address:
    """The parsed address of a ref."""
    return parse_ref(ref)
