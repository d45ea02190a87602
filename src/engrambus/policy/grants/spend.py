"""What only the journal knows of a grant: how much was spent on each block, and which were revoked.

A use debits every block of its token, so a child that passes a grant on, even to a hundred children, never has more
read than it was given itself. A revoked block refuses every token that contains it: the subtree.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import engrambus.errors as errors  # its names would hide the facts' of the same names
from engrambus.policy.grants.blocks import FIELD
from engrambus.policy.grants.facts import GrantSpent
from engrambus.policy.grants.ports import Spent
from engrambus.policy.grants.verifying import VerifiedGrant

_NOTHING = Spent()


def check_spend(
    verified: VerifiedGrant, spent: Mapping[str, Spent], tokens: int, revoked: Collection[str] = frozenset()
) -> None:
    """Refuse one more use that would overspend any block, or whose chain holds a revoked one.

    To be asked under the write lock, with what the journal holds at that moment; if it passes, append its `debits`.
    """
    if tokens < 0:
        raise errors.FieldValue("An amount is not negative.", field="tokens", limit=0, used=tokens)
    if any(block.block_id in revoked for block in verified.blocks):
        raise errors.GrantRevoked(field=FIELD)
    for block in verified.blocks:
        so_far = spent.get(block.block_id, _NOTHING)
        if block.uses is not None and so_far.uses >= block.uses:
            raise errors.GrantSpent(field=FIELD, limit=block.uses, used=so_far.uses)
        if block.cap_tokens is not None and so_far.tokens + tokens > block.cap_tokens:
            raise errors.GrantOverCap(
                f"The grant has {max(0, block.cap_tokens - so_far.tokens)} of its {block.cap_tokens} tokens left.",
                field=FIELD,
                limit=block.cap_tokens,
                used=so_far.tokens + tokens,
            )


def debits(verified: VerifiedGrant, tokens: int, by: str) -> tuple[GrantSpent, ...]:
    """One use, as the journal takes it: a fact for every block."""
    grant_id = verified.origin.grant_id
    return tuple(
        GrantSpent(grant_id=grant_id, block_id=block.block_id, tokens=tokens, by=by) for block in verified.blocks
    )
