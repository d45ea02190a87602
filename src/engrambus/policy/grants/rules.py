"""The rules of grants: issuing and revoking them, requests for them, and what each use is charged to.

Each rule takes a view of the store under the write lock and returns facts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from engrambus.core import Randomness, new_ulid, only_beginning
from engrambus.errors import (
    AgentNotFound,
    FieldValue,
    GrantNotFound,
    GrantOverCap,
    GrantRevoked,
    GrantSpent,
    RequestNotFound,
    RoleForbidden,
)
from engrambus.policy.facts import DerefAnswered, DerefRequested
from engrambus.policy.grants.blocks import FIELD
from engrambus.policy.grants.facts import BlockDebited, BlockRevoked, GrantIssued
from engrambus.policy.grants.ports import NOTHING_SPENT, BlockSpending, GrantReads, GrantView, StoredRequest
from engrambus.policy.grants.targets import read_target, target_fields
from engrambus.policy.grants.tokens import ASK_AGAIN, Grant
from engrambus.policy.identity import ADMIN, Caller, check_descends, parent_of


class GrantTerms(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of a new grant."""

    ref: str
    """The ref of a pointer, or a prefix such as `repo:src/*@<sha>`."""
    cap_tokens: int
    uses: int
    lifetime_us: int
    intended_use: str = ""
    inline_code_chars: int = 0


def issue_grant(
    view: GrantView, *, caller: Caller, child: str, terms: GrantTerms, randomness: Randomness
) -> GrantIssued:
    """Issue a grant from the caller to one of its descendants."""
    if child == caller.name:
        raise RoleForbidden("An agent cannot issue a grant to itself.", field="child_id")
    if child == ADMIN:
        raise AgentNotFound(field="child_id")
    check_descends(view, caller, child, "child_id")
    return _new_grant(view, caller, child, terms, randomness)


MAX_SEARCHED_GRANTS = 1000
"""Newest grants that are searched for the beginning of an id."""


def revoke_grant(view: GrantView, *, caller: Caller, grant_id: str) -> BlockRevoked:
    """Revoke a grant that the caller issued or passed on, and everything narrowed from it; the admin revokes any."""
    grant = view.grant(caller.run.run_id, grant_id) or _begun_grant(view, caller, grant_id)
    # Not found rather than forbidden: a grant of others is not shown to exist.
    if grant is None or (caller.role != ADMIN and grant.parent != caller.name):
        raise GrantNotFound(field="id")
    return BlockRevoked(block_id=grant.block_id, run=grant.run, by=caller.full_name)


def _begun_grant(view: GrantReads, caller: Caller, beginning: str) -> GrantIssued | None:
    """Return the only grant that the caller may revoke whose id begins so."""
    run_id, agent = caller.run.run_id, None if caller.role == ADMIN else caller.name
    grants = view.grants_of(run_id, agent, before=None, limit=MAX_SEARCHED_GRANTS)
    full_id = only_beginning(beginning, (item.grant_id for item in grants if agent in (None, item.parent)))
    return view.grant(run_id, full_id) if full_id is not None else None


def request_deref(
    view: GrantView,
    *,
    caller: Caller,
    ref: str,
    reason: str,
    intended_use: str,
    max_tokens: int,
    randomness: Randomness,
) -> DerefRequested:
    """Ask the caller's parent for permission to read more than a turn allows."""
    return DerefRequested(
        request_id=new_ulid(view.as_of, randomness),
        run=caller.run.run_id,
        agent=caller.name,
        to=parent_of(view, caller),
        ref=ref,
        reason=reason,
        intended_use=intended_use,
        max_tokens=max_tokens,
    )


def requests_to(view: GrantReads, caller: Caller) -> list[DerefRequested]:
    """Return the open requests that the caller may answer; the admin may answer all of the project."""
    # decision 43: sessions of clients have runs of their own, and a person answers for all of them
    if caller.role == ADMIN:
        return [stored.request for stored in view.open_requests(None)]
    return [stored.request for stored in view.open_requests(caller.run.run_id) if stored.request.to == caller.name]


def approve_request(
    view: GrantView,
    *,
    caller: Caller,
    request_id: str,
    cap_tokens: int | None,
    uses: int,
    lifetime_us: int,
    randomness: Randomness,
) -> tuple[GrantIssued, DerefAnswered]:
    """Approve an open request with a grant for its pointer; `cap_tokens` is the requested amount by default."""
    request = _open_request(view, caller, request_id).request
    terms = GrantTerms(
        ref=request.ref,
        cap_tokens=cap_tokens or request.max_tokens,
        uses=uses,
        lifetime_us=lifetime_us,
        intended_use=request.intended_use or request.reason,
    )
    grant = _new_grant(view, caller, request.agent, terms, randomness, run_id=request.run)
    answered = DerefAnswered(request_id=request.request_id, run=grant.run, by=caller.full_name, grant_id=grant.grant_id)
    return grant, answered


def deny_request(view: GrantReads, *, caller: Caller, request_id: str) -> DerefAnswered:
    """Deny an open request."""
    request = _open_request(view, caller, request_id).request
    return DerefAnswered(
        request_id=request.request_id, run=request.run, by=caller.full_name, agent=request.agent, ref=request.ref
    )


def check_balance(view: GrantReads, grant: Grant, tokens: int) -> None:
    """Refuse one more use of a grant that the store does not cover: overspent, used up or revoked."""
    block_ids = [block.block_id for block in grant.blocks]
    check_spend(grant, view.spent(block_ids), tokens, view.revoked(block_ids))


def check_spend(
    grant: Grant, spent: Mapping[str, BlockSpending], tokens: int, revoked: Collection[str] = frozenset()
) -> None:
    """Refuse one more use that would overspend any block of the grant, or if one of them is revoked.

    Call it under the write lock, and commit the `debits` of the use together with what it pays for.
    """
    if tokens < 0:
        raise FieldValue("An amount cannot be negative.", field="tokens", limit=0, used=tokens)
    # decision 11: a revoked block refuses every token that contains it, which is the whole subtree
    for block in grant.blocks:
        if block.block_id in revoked:
            raise GrantRevoked(f"{grant.block_name(block)} was revoked.", field=FIELD, hint=ASK_AGAIN)
    for block in grant.blocks:
        so_far = spent.get(block.block_id, NOTHING_SPENT)
        if block.uses is not None and so_far.uses >= block.uses:
            raise GrantSpent(
                f"{grant.block_name(block)} has none of its {block.uses} uses left.",
                field=FIELD,
                limit=block.uses,
                used=so_far.uses,
                hint=ASK_AGAIN,
            )
        if block.cap_tokens is not None and so_far.tokens + tokens > block.cap_tokens:
            left = max(0, block.cap_tokens - so_far.tokens)
            raise GrantOverCap(
                f"{grant.block_name(block)} has {left} of its {block.cap_tokens} tokens left.",
                field=FIELD,
                limit=block.cap_tokens,
                used=so_far.tokens + tokens,
                hint=ASK_AGAIN,
            )


def debits(grant: Grant, tokens: int, by: str) -> tuple[BlockDebited, ...]:
    """Return the facts that charge one use to every block of the grant's token."""
    # Every block pays, so a child that narrows its grant for a hundred children never gets more read than it was given.
    grant_id = grant.origin.grant_id
    return tuple(
        BlockDebited(grant_id=grant_id, block_id=block.block_id, tokens=tokens, by=by) for block in grant.blocks
    )


def _new_grant(
    view: GrantView,
    caller: Caller,
    child: str,
    terms: GrantTerms,
    randomness: Randomness,
    *,
    run_id: str | None = None,
) -> GrantIssued:
    """Return a new grant for an agent of the run, by default the caller's."""
    target = read_target(terms.ref, "pointer")
    grant_id = new_ulid(view.as_of, randomness)
    return GrantIssued(
        grant_id=grant_id,
        block_id=grant_id,
        run=run_id or caller.run.run_id,
        parent=caller.name,
        child=child,
        cap_tokens=terms.cap_tokens,
        uses=terms.uses,
        expires_us=view.as_of + terms.lifetime_us,
        intended_use=terms.intended_use,
        by=caller.full_name,
        inline_code_chars=terms.inline_code_chars,
        **target_fields(target),
    )


def _open_request(view: GrantReads, caller: Caller, request_id: str) -> StoredRequest:
    run_id = None if caller.role == ADMIN else caller.run.run_id
    stored = view.request(run_id, request_id)
    if stored is None:
        # decision 54: answers show the beginning of an id
        mine = (
            item.request.request_id
            for item in view.open_requests(run_id)
            if caller.role == ADMIN or item.request.to == caller.name
        )
        full_id = only_beginning(request_id, mine)
        stored = view.request(run_id, full_id) if full_id is not None else None
    if stored is None or stored.answered or (caller.role != ADMIN and stored.request.to != caller.name):
        raise RequestNotFound(field="id")
    return stored
