"""Grants as the journal records them: their handles, their chains, and what is left of them.

A budget token is one of two texts (decision 51):

- a handle, `g_` and the id of the grant. It names a grant of the journal, and only the agent that holds that grant can
  use it. So it is no secret, and it needs nothing that the journal does not have.
- a Biscuit, `grant1.…`, made on request. Its first block names a grant of the journal; the holder can append blocks
  without the gateway, and a descendant of the holder that was given the Biscuit can use it.

Both are charged to the same accounts: the grant, every grant it was passed on from, and every appended block.
"""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from engrambus.errors import GrantForeign, GrantRevoked, GrantWrongChild
from engrambus.evidence.pointers import Pointer
from engrambus.policy.grants.blocks import FIELD, GrantOrigin
from engrambus.policy.grants.facts import GrantIssued, OfflineBlock
from engrambus.policy.grants.keys import MAX_BLOCKS, GrantKey
from engrambus.policy.grants.ports import NOTHING_SPENT, GrantReads, GrantView
from engrambus.policy.grants.targets import Target, read_pointer, read_prefix
from engrambus.policy.grants.tokens import (
    Grant,
    GrantBlock,
    VerifiedGrant,
    check_allows,
    grant_use,
    issue_token,
    read_token,
)
from engrambus.policy.identity import Caller

_HANDLE = re.compile(r"(?:g_)?([0-9A-HJKMNP-TV-Z]{26})")

GrantState = Literal["usable", "spent", "expired", "revoked"]


class GrantBalance(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a grant that is left, its own limits and those of the grants it was passed on from considered."""

    state: GrantState
    tokens: int
    uses: int
    expires_us: int


def handle_of(grant_id: str) -> str:
    """Return the handle of a grant."""
    return f"g_{grant_id}"


def grant_id_of(text: str) -> str | None:
    """Return the grant that a handle, or the id alone, names; None if the text is something else."""
    match = _HANDLE.fullmatch(text)
    return match[1] if match else None


def biscuit_of(key: GrantKey, issued: GrantIssued, project: str) -> str:
    """Return a Biscuit of a journalled grant. Each time it is another text, and all are charged to the same account."""
    return issue_token(
        key,
        grant_id=issued.grant_id,
        project=project,
        run=issued.run,
        parent=issued.parent,
        child=issued.child,
        pointer=issued.pointer,
        prefix=issued.prefix,
        cap_tokens=issued.cap_tokens,
        uses=issued.uses,
        expires_us=issued.expires_us,
        intended_use=issued.intended_use,
        inline_code_chars=issued.inline_code_chars,
    )


def journalled_grant(view: GrantReads, issued: GrantIssued, project: str) -> Grant:
    """Return a grant with its chain: the grant that was issued first, then one block for each time it was passed on."""
    blocks: list[GrantBlock] = []
    record: GrantIssued | None = issued
    # Bounded, so that a cycle in a damaged journal ends.
    while record is not None and len(blocks) <= MAX_BLOCKS:
        blocks.append(_block(record))
        blocks += map(_appended_block, reversed(record.offline_blocks))
        if record.narrowed_from is None:
            break
        record = view.grant(issued.run, record.narrowed_from)
    if record is None:
        raise GrantRevoked(f"The grant that {issued.grant_id} was passed on from is not in the journal.", field=FIELD)
    origin = GrantOrigin(
        grant_id=issued.grant_id,
        project=project,
        run=issued.run,
        parent=record.parent,  # who gave it out in the first place, not who passed it on
        intended_use=issued.intended_use,
    )
    return Grant(origin=origin, blocks=tuple(reversed(blocks)))


def find_grant(view: GrantReads, caller: Caller, grant_id: str) -> GrantIssued:
    """Return the grant of the caller's run that a handle names."""
    issued = view.grant(caller.run.run_id, grant_id)
    if issued is None:
        raise GrantForeign("No grant of this run has this budget token.", field=FIELD)
    return issued


def read_budget_token(view: GrantReads, caller: Caller, key: GrantKey, text: str) -> Grant:
    """Return the grant of a budget token with its whole chain, for any bearer; its limits are not checked yet."""
    grant_id = grant_id_of(text)
    if grant_id is not None:
        return journalled_grant(view, find_grant(view, caller, grant_id), caller.project)
    grant = read_token(key, text)
    issued = view.grant(caller.run.run_id, grant.origin.grant_id)
    if issued is None:  # of another run, which the check of its limits refuses
        return grant
    chain = journalled_grant(view, issued, caller.project)
    return Grant(origin=chain.origin, blocks=chain.blocks + grant.blocks[1:])


def open_budget_token(
    view: GrantView, caller: Caller, key: GrantKey, text: str, pointer: Pointer | None = None
) -> VerifiedGrant:
    """Return the grant of a budget token if it allows the caller to follow the pointer, or to send a message."""
    grant = read_budget_token(view, caller, key, text)
    if grant_id_of(text) is not None:
        check_holder(grant, caller)
    return check_allows(grant, grant_use(view, caller, pointer))


def check_holder(grant: Grant, caller: Caller) -> None:
    """Refuse a handle that another agent presents, also a descendant of the holder."""
    holder = grant.blocks[-1].child
    if holder != caller.name:
        raise GrantWrongChild(
            f"Grant {grant.origin.grant_id} is held by '{holder}'.",
            field=FIELD,
            limit=holder,
            used=caller.name,
            hint=f"'{holder}' can pass a part of it on with `less.narrow_grant`.",
        )


def balance_of(view: GrantView, grant: Grant) -> GrantBalance:
    """Return what is left of a grant now."""
    block_ids = [block.block_id for block in grant.blocks]
    spent = view.spent(block_ids)
    tokens = [
        block.cap_tokens - spent.get(block.block_id, NOTHING_SPENT).tokens
        for block in grant.blocks
        if block.cap_tokens is not None
    ]
    uses = [
        block.uses - spent.get(block.block_id, NOTHING_SPENT).uses for block in grant.blocks if block.uses is not None
    ]
    expires_us = min(block.expires_us for block in grant.blocks if block.expires_us is not None)
    state: GrantState = "usable"
    if view.revoked(block_ids):
        state = "revoked"
    elif expires_us <= view.expiry_us:
        state = "expired"
    elif min(tokens) <= 0 or min(uses) <= 0:
        state = "spent"
    return GrantBalance(state=state, tokens=max(0, min(tokens)), uses=max(0, min(uses)), expires_us=expires_us)


def _block(issued: GrantIssued) -> GrantBlock:
    return GrantBlock(
        block_id=issued.block_id,
        grant_id=issued.grant_id,
        child=issued.child,
        target=_target(issued),
        cap_tokens=issued.cap_tokens,
        uses=issued.uses,
        expires_us=issued.expires_us,
        inline_code_chars=issued.inline_code_chars,
    )


def _appended_block(block: OfflineBlock) -> GrantBlock:
    return GrantBlock(
        block_id=block.block_id,
        child=block.child,
        target=_target(block),
        cap_tokens=block.cap_tokens,
        uses=block.uses,
        expires_us=block.expires_us,
        inline_code_chars=block.inline_code_chars,
    )


def _target(record: GrantIssued | OfflineBlock) -> Target | None:
    if record.pointer is not None:
        return read_pointer(record.pointer)
    return read_prefix(record.prefix) if record.prefix is not None else None
