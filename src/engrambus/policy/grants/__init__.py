"""Grants: a parent lets a child read more than its turn allows, as a token that the child can pass on for less.

Biscuit itself is loaded by the first grant, not by this door.
"""

from typing import TYPE_CHECKING

from engrambus.lazy_imports import lazy_exports

if TYPE_CHECKING:
    from engrambus.policy.grants.blocks import Limits, Origin
    from engrambus.policy.grants.derefs import DerefCheck, DerefView, GrantUse, check_deref, deref, grant_use
    from engrambus.policy.grants.facts import GrantIssued, GrantRevoked, GrantSpent
    from engrambus.policy.grants.issuing import attenuate, issue
    from engrambus.policy.grants.keys import MAX_DEPTH, MAX_TOKEN, GrantKey
    from engrambus.policy.grants.ports import GrantReads, KeptRequest, Spent
    from engrambus.policy.grants.spend import check_spend, debits
    from engrambus.policy.grants.targets import PointerTarget, PrefixTarget, Target, read_pointer, read_prefix
    from engrambus.policy.grants.verifying import Block, Grant, VerifiedGrant, allow, as_issued, read, verify

# Below this line: generated from the imports above by tools/generate.py.
# fmt: off
if not TYPE_CHECKING:
    __getattr__ = lazy_exports(__name__, {
        "blocks": "Limits Origin",
        "derefs": "DerefCheck DerefView GrantUse check_deref deref grant_use",
        "facts": "GrantIssued GrantRevoked GrantSpent",
        "issuing": "attenuate issue",
        "keys": "MAX_DEPTH MAX_TOKEN GrantKey",
        "ports": "GrantReads KeptRequest Spent",
        "spend": "check_spend debits",
        "targets": "PointerTarget PrefixTarget Target read_pointer read_prefix",
        "verifying": "Block Grant VerifiedGrant allow as_issued read verify",
    })

__all__ = [
    "MAX_DEPTH", "MAX_TOKEN", "Block", "DerefCheck", "DerefView", "Grant", "GrantIssued", "GrantKey", "GrantReads",
    "GrantRevoked", "GrantSpent", "GrantUse", "KeptRequest", "Limits", "Origin", "PointerTarget", "PrefixTarget",
    "Spent", "Target", "VerifiedGrant", "allow", "as_issued", "attenuate", "check_deref", "check_spend", "debits",
    "deref", "grant_use", "issue", "read", "read_pointer", "read_prefix", "verify",
]
