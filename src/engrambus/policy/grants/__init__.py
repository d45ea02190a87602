"""Grants: a parent lets a child read more than its turn allows, with a token that the child can narrow and pass on."""

from typing import TYPE_CHECKING

from engrambus.lazy_imports import lazy_exports

if TYPE_CHECKING:
    from engrambus.policy.grants.derefs import check_deref, check_deref_type, deref
    from engrambus.policy.grants.facts import BlockDebited, BlockRevoked, GrantIssued
    from engrambus.policy.grants.keys import MAX_BLOCKS, MAX_BUDGET_TOKEN_CHARS, GrantKey
    from engrambus.policy.grants.narrowing import NarrowedTerms, check_covers, hand_over, narrow_grant
    from engrambus.policy.grants.ports import BlockSpending, GrantReads, GrantView, StoredRequest
    from engrambus.policy.grants.records import (
        GrantState,
        balance_of,
        biscuit_of,
        grant_id_of,
        handle_of,
        journalled_grant,
        open_budget_token,
    )
    from engrambus.policy.grants.rules import (
        GrantTerms,
        approve_request,
        check_balance,
        check_spend,
        debits,
        deny_request,
        issue_grant,
        request_deref,
        requests_to,
        revoke_grant,
    )
    from engrambus.policy.grants.targets import PrefixTarget, Target, is_prefix, read_prefix
    from engrambus.policy.grants.tokens import (
        GrantUse,
        VerifiedGrant,
        attenuate,
        issue_token,
        verify_token,
    )

# Below this line: generated from the imports above by tools/generate.py.
# fmt: off
if not TYPE_CHECKING:
    __getattr__ = lazy_exports(__name__, {
        "derefs": "check_deref check_deref_type deref",
        "facts": "BlockDebited BlockRevoked GrantIssued",
        "keys": "MAX_BLOCKS MAX_BUDGET_TOKEN_CHARS GrantKey",
        "narrowing": "NarrowedTerms check_covers hand_over narrow_grant",
        "ports": "BlockSpending GrantReads GrantView StoredRequest",
        "records": "GrantState balance_of biscuit_of grant_id_of handle_of journalled_grant open_budget_token",
        "rules": (
            "GrantTerms approve_request check_balance check_spend debits deny_request issue_grant request_deref "
            "requests_to revoke_grant "
        ),
        "targets": "PrefixTarget Target is_prefix read_prefix",
        "tokens": "GrantUse VerifiedGrant attenuate issue_token verify_token",
    })

__all__ = [
    "MAX_BLOCKS", "MAX_BUDGET_TOKEN_CHARS", "BlockDebited", "BlockRevoked", "BlockSpending", "GrantIssued", "GrantKey",
    "GrantReads", "GrantState", "GrantTerms", "GrantUse", "GrantView", "NarrowedTerms", "PrefixTarget", "StoredRequest",
    "Target", "VerifiedGrant", "approve_request", "attenuate", "balance_of", "biscuit_of", "check_balance",
    "check_covers", "check_deref", "check_deref_type", "check_spend", "debits", "deny_request", "deref", "grant_id_of",
    "hand_over", "handle_of", "is_prefix", "issue_grant", "issue_token", "journalled_grant", "narrow_grant",
    "open_budget_token", "read_prefix", "request_deref", "requests_to", "revoke_grant", "verify_token",
]
