"""Journal facts about grants. A Biscuit is never stored: what the gateway must know of it is."""

from __future__ import annotations

import msgspec


class OfflineBlock(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A block that a holder appended to a Biscuit by itself, before the gateway passed the grant on."""

    block_id: str
    child: str | None = None
    pointer: str | None = None
    prefix: str | None = None
    cap_tokens: int | None = None
    uses: int | None = None
    expires_us: int | None = msgspec.field(default=None, name="expires_at")
    inline_code_chars: int | None = None


class GrantIssued(msgspec.Struct, frozen=True, kw_only=True, tag="grant.issued", tag_field="fact", omit_defaults=True):
    """A parent let a child read more than its turn allows, or a holder passed on less of its own grant."""

    grant_id: str
    block_id: str
    """The block that is charged for every use of this grant and of what was narrowed from it.

    Equal to `grant_id`; older journals have the revocation id of the first block of its Biscuit."""
    run: str
    parent: str
    """The agent that issued it, or that held the wider grant and passed this one on."""
    child: str
    """The holder."""
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
    narrowed_from: str | None = None
    """Id of the wider grant; each use is charged to that one, too."""
    offline_blocks: tuple[OfflineBlock, ...] = ()
    """The blocks between the two, if the wider grant was presented as a Biscuit that a holder had narrowed."""


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
