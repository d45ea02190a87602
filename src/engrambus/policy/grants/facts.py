"""What grants write into the journal. The budget token itself never stands there."""

from __future__ import annotations

import msgspec


class GrantIssued(msgspec.Struct, frozen=True, kw_only=True, tag="grant.issued", tag_field="fact", omit_defaults=True):
    """A parent let a child read more than its turn allows."""

    grant_id: str
    block_id: str
    """The first block's id, which every token narrowed from this grant contains."""
    run: str
    parent: str
    child: str
    cap_tokens: int
    uses: int
    expires_at: int
    intended_use: str
    by: str
    pointer: str | None = None
    """What may be read, when it is one pointer."""
    prefix: str | None = None
    """What may be read, when it is everything beneath a folder."""
    inline_code_chars: int = 0


class GrantSpent(msgspec.Struct, frozen=True, kw_only=True, tag="grant.spent", tag_field="fact"):
    """One use was debited to one block; a use debits every block of the token it was made with."""

    grant_id: str
    block_id: str
    tokens: int
    by: str


class GrantRevoked(msgspec.Struct, frozen=True, kw_only=True, tag="grant.revoked", tag_field="fact"):
    """A block, and with it every token that contains it, allows nothing any more."""

    block_id: str
    run: str
    by: str
