"""Grants: a parent lets a child read more than its turn allows, as a token that the child can pass on for less.

Biscuit itself is loaded by the first grant, not by this door.
"""

from stigmergy.policy.grants.blocks import Limits, Origin
from stigmergy.policy.grants.facts import GrantIssued, GrantRevoked, GrantSpent
from stigmergy.policy.grants.issue import attenuate, issue
from stigmergy.policy.grants.keys import MAX_DEPTH, MAX_TOKEN, GrantKey
from stigmergy.policy.grants.ports import GrantReads, KeptRequest
from stigmergy.policy.grants.spend import Spent, check_spend, debits
from stigmergy.policy.grants.targets import PointerTarget, PrefixTarget, Target, read_pointer, read_prefix
from stigmergy.policy.grants.verify import Block, Grant, VerifiedGrant, allow, as_issued, read, verify

__all__ = [
    "MAX_DEPTH",
    "MAX_TOKEN",
    "Block",
    "Grant",
    "GrantIssued",
    "GrantKey",
    "GrantReads",
    "GrantRevoked",
    "GrantSpent",
    "KeptRequest",
    "Limits",
    "Origin",
    "PointerTarget",
    "PrefixTarget",
    "Spent",
    "Target",
    "VerifiedGrant",
    "allow",
    "as_issued",
    "attenuate",
    "check_spend",
    "debits",
    "issue",
    "read",
    "read_pointer",
    "read_prefix",
    "verify",
]
