"""The rule of passing a grant on: its holder gives a descendant less of it, never more (decision 51)."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from engrambus.core import Randomness, new_ulid, print_time
from engrambus.errors import (
    AgentNotFound,
    GrantExpired,
    GrantForeign,
    GrantTooDeep,
    GrantWider,
    GrantWrongChild,
    NotYourDescendant,
    RoleForbidden,
)
from engrambus.policy.grants.blocks import FIELD
from engrambus.policy.grants.facts import GrantIssued, OfflineBlock
from engrambus.policy.grants.keys import MAX_BLOCKS, GrantKey
from engrambus.policy.grants.ports import GrantView
from engrambus.policy.grants.records import (
    GrantBalance,
    balance_of,
    check_holder,
    grant_id_of,
    handle_of,
    read_budget_token,
)
from engrambus.policy.grants.rules import check_balance
from engrambus.policy.grants.targets import Target, read_target, target_fields
from engrambus.policy.grants.tokens import ASK_AGAIN, Grant, GrantBlock
from engrambus.policy.identity import ADMIN, Caller, lineage_of


class NarrowedTerms(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of a grant that is passed on; what is None stays as the wider grant has it."""

    ref: str | None = None
    """The ref of a pointer, or a prefix, within what the wider grant covers."""
    cap_tokens: int | None = None
    uses: int | None = None
    lifetime_us: int | None = None
    intended_use: str | None = None
    inline_code_chars: int | None = None


def narrow_grant(
    view: GrantView,
    *,
    caller: Caller,
    budget_token: str,
    child: str,
    terms: NarrowedTerms,
    key: GrantKey,
    randomness: Randomness,
) -> GrantIssued:
    """Pass on less of a grant that the caller holds to one of its descendants; the admin does it for any holder."""
    wider = read_budget_token(view, caller, key, budget_token)
    holder = _holder(view, caller, wider, is_handle=grant_id_of(budget_token) is not None)
    _check_descendant(view, caller, holder, child)
    left = _check_usable(view, wider)
    return _part_of(view, wider, left, caller=caller, holder=holder, child=child, terms=terms, randomness=randomness)


def hand_over(
    view: GrantView,
    *,
    caller: Caller,
    budget_token: str,
    receivers: Collection[str],
    key: GrantKey,
    randomness: Randomness,
) -> tuple[GrantIssued | None, Grant, str]:
    """Return a grant that a message gives to one of its receivers, and the handle that the receiver gets.

    A Biscuit that was narrowed for the receiver without the gateway becomes a grant, which is returned first.
    """
    grant = read_budget_token(view, caller, key, budget_token)
    _check_of_this_run(grant, caller)
    holder = [block.child for block in grant.blocks if block.child is not None][-1]
    if holder not in receivers:
        raise GrantWrongChild(
            f"Grant {grant.origin.grant_id} is held by '{holder}', who does not receive this message.",
            field=FIELD,
            limit=holder,
            hint="Pass a part of it on to a receiver first, with `less.narrow_grant`.",
        )
    left = _check_usable(view, grant)
    if not _offline_blocks(grant):
        return None, grant, handle_of(grant.origin.grant_id)
    issued = _part_of(
        view,
        grant,
        left,
        caller=caller,
        holder=caller.name,
        child=holder,
        terms=NarrowedTerms(),
        randomness=randomness,
    )
    return issued, grant, handle_of(issued.grant_id)


def _check_usable(view: GrantView, grant: Grant) -> GrantBalance:
    check_balance(view, grant, 1)
    left = balance_of(view, grant)
    if left.state == "expired":
        raise GrantExpired(
            f"Grant {grant.origin.grant_id} expired at {print_time(left.expires_us)}.",
            field=FIELD,
            limit=print_time(left.expires_us),
            used=print_time(view.expiry_us),
            hint=ASK_AGAIN,
        )
    return left


def _part_of(
    view: GrantView,
    wider: Grant,
    left: GrantBalance,
    *,
    caller: Caller,
    holder: str,
    child: str,
    terms: NarrowedTerms,
    randomness: Randomness,
) -> GrantIssued:
    """Return the grant for a part of a wider one; refuse more than is left of that."""
    if len(wider.blocks) >= MAX_BLOCKS:
        raise GrantTooDeep(field=FIELD, limit=MAX_BLOCKS, used=len(wider.blocks) + 1)
    expires_us = left.expires_us if terms.lifetime_us is None else view.as_of + terms.lifetime_us
    if expires_us > left.expires_us:
        raise _too_wide("expires_in", print_time(left.expires_us), print_time(expires_us))
    grant_id = new_ulid(view.as_of, randomness)
    return GrantIssued(
        grant_id=grant_id,
        block_id=grant_id,
        run=caller.run.run_id,
        parent=holder,
        child=child,
        cap_tokens=_at_most("cap_tokens", terms.cap_tokens, left.tokens),
        uses=_at_most("uses", terms.uses, left.uses),
        expires_us=expires_us,
        intended_use=wider.origin.intended_use if terms.intended_use is None else terms.intended_use,
        by=caller.full_name,
        inline_code_chars=_at_most("inline_code_chars", terms.inline_code_chars, wider.inline_code_chars),
        narrowed_from=next(block.grant_id for block in reversed(wider.blocks) if block.grant_id is not None),
        offline_blocks=_offline_blocks(wider),
        **target_fields(_narrower_target(wider, terms.ref)),
    )


def check_covers(grant: Grant, ref: str, cap_tokens: int) -> None:
    """Refuse a note about a grant that promises a pointer or tokens that the grant does not have."""
    caps = [block.cap_tokens for block in grant.blocks if block.cap_tokens is not None]
    try:
        _narrower_target(grant, ref)
        _at_most("cap_tokens", cap_tokens, min(caps))
    except GrantWider as refusal:
        refusal.hint = "Write what the grant has; `grant.list` shows it."
        raise


def _holder(view: GrantView, caller: Caller, wider: Grant, *, is_handle: bool) -> str:
    """Return the name of the agent that passes the grant on; refuse a caller that cannot."""
    _check_of_this_run(wider, caller)
    named = [(block, block.child) for block in wider.blocks if block.child is not None]
    if caller.role == ADMIN:
        return named[-1][1]
    if is_handle:
        check_holder(wider, caller)
    lineage = lineage_of(view, caller)
    for block, child in named:
        if child not in lineage:  # a Biscuit is good for its holder's descendants, too
            raise GrantWrongChild(
                f"{wider.block_name(block)} is for '{child}' and its descendants.",
                field=FIELD,
                limit=child,
                used=caller.name,
            )
    return caller.name


def _check_of_this_run(grant: Grant, caller: Caller) -> None:
    of_caller = (grant.origin.project, grant.origin.run) == (caller.project, caller.run.run_id)
    if not of_caller or grant.blocks[0].grant_id is None:
        raise GrantForeign("No grant of this run has this budget token.", field=FIELD)


def _check_descendant(view: GrantView, caller: Caller, holder: str, child: str) -> None:
    if child == holder:
        raise RoleForbidden(f"'{holder}' holds this grant already.", field="child_id")
    if child == ADMIN or view.agent(caller.run.run_id, child) is None:
        raise AgentNotFound(f"There is no agent '{child[:64]}' in this run.", field="child_id")
    if holder not in lineage_of(view, msgspec.structs.replace(caller, name=child)):
        raise NotYourDescendant(f"'{child}' is not a descendant of '{holder}'.", field="child_id")


def _at_most(field: str, wanted: int | None, left: int) -> int:
    if wanted is not None and wanted > left:
        raise _too_wide(field, left, wanted)
    return left if wanted is None else wanted


def _narrower_target(wider: Grant, ref: str | None) -> Target:
    granted = [block.target for block in wider.blocks if block.target is not None]
    if ref is None:
        return granted[-1]
    target = read_target(ref, "pointer")
    for outer in granted:
        if not outer.contains(target):
            raise _too_wide("pointer", outer.text, target.text)
    return target


def _too_wide(field: str, limit: int | str, used: int | str) -> GrantWider:
    return GrantWider(field=field, limit=limit, used=used, hint=f"Leave `{field}` out to pass on all that is left.")


def _offline_blocks(wider: Grant) -> tuple[OfflineBlock, ...]:
    """Return the blocks after the last journalled grant: those that holders of its Biscuit appended."""
    last = max(position for position, block in enumerate(wider.blocks) if block.grant_id is not None)
    return tuple(map(_as_record, wider.blocks[last + 1 :]))


def _as_record(block: GrantBlock) -> OfflineBlock:
    return OfflineBlock(
        block_id=block.block_id,
        child=block.child,
        cap_tokens=block.cap_tokens,
        uses=block.uses,
        expires_us=block.expires_us,
        inline_code_chars=block.inline_code_chars,
        **(target_fields(block.target) if block.target is not None else {}),
    )
