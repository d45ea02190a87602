"""Journal facts about grants. The budget token itself is never stored."""

from __future__ import annotations

import msgspec


class GrantIssued(msgspec.Struct, frozen=True, kw_only=True, tag="grant.issued", tag_field="fact", omit_defaults=True):
    """A parent let a child read more than its turn allows."""

    grant_id: str
    block_id: str
    """Id of the token's first block; every token narrowed from this grant contains that block."""
    run: str
    parent: str
    child: str
    cap_tokens: int
    uses: int
    expires_us: int = msgspec.field(name="expires_at")
    intended_use: str
    by: str
    pointer: str | None = None
    """The readable pointer, if the grant is for a single one."""
    prefix: str | None = None
    """The readable folder, if the grant is for everything below it."""
    inline_code_chars: int = 0


class BlockDebited(msgspec.Struct, frozen=True, kw_only=True, tag="grant.spent", tag_field="fact"):
    """One use was charged to one block; a use is charged to every block of its token."""

    grant_id: str
    block_id: str
    tokens: int
    by: str


class BlockRevoked(msgspec.Struct, frozen=True, kw_only=True, tag="grant.revoked", tag_field="fact"):
    """A block was revoked, and with it every token that contains it."""

    block_id: str
    run: str
    by: str
