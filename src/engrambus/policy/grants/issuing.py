"""Giving a grant, and passing less of it on."""

from __future__ import annotations

from typing import Any

from engrambus.errors import FieldMissing, FieldValue, GrantTooDeep
from engrambus.policy.grants.blocks import FIELD, MAX_AMOUNT, WORD, Limits, Origin, write_block
from engrambus.policy.grants.keys import MAX_DEPTH, GrantKey, join, named_key, open_biscuit, split
from engrambus.policy.grants.targets import Target, read_pointer, read_prefix
from engrambus.policy.identity import ADMIN, check_name

MAX_USE = 500


def issue(
    key: GrantKey,
    *,
    grant_id: str,
    project: str,
    run: str,
    parent: str,
    child: str,
    cap_tokens: int,
    uses: int,
    expires_at: int,
    intended_use: str,
    pointer: str | None = None,
    prefix: str | None = None,
    inline_code_chars: int = 0,
) -> str:
    """A budget token that lets a child, or its descendants, read something for a parent's account.

    Whether the parent may give it is for the caller to check.
    """
    from biscuit_auth import BiscuitBuilder

    target = _read_target(pointer, prefix)
    if target is None:
        raise FieldMissing("A grant is for a pointer or a prefix.", field="pointer")
    for field, word in (("grant_id", grant_id), ("project", project), ("run", run)):
        if not WORD.fullmatch(word):
            raise FieldValue("An id is 1 to 64 letters, digits, '_', '.' or '-'.", field=field, used=len(word))
    if parent != ADMIN:
        check_name(parent, "parent")
    limits = _limits(child, target, cap_tokens, uses, expires_at, inline_code_chars)
    origin = Origin(grant_id=grant_id, project=project, run=run, parent=parent, intended_use=_use(intended_use))
    return join(key.name, BiscuitBuilder(*write_block(limits, origin)).build(key.private))


def attenuate(
    token: str,
    *,
    child: str | None = None,
    pointer: str | None = None,
    prefix: str | None = None,
    cap_tokens: int | None = None,
    uses: int | None = None,
    expires_at: int | None = None,
    inline_code_chars: int | None = None,
    max_depth: int = MAX_DEPTH,
) -> str:
    """A budget token that allows less; made by whoever holds one, without the gateway and its key.

    It cannot allow more, whatever is asked for: all that the blocks before it demand is still demanded.
    """
    from biscuit_auth import BlockBuilder

    limits = _limits(child, _read_target(pointer, prefix), cap_tokens, uses, expires_at, inline_code_chars)
    if limits == Limits():
        raise FieldMissing("Say what to narrow.", field="child", hint="child, pointer, cap_tokens, uses or expires_at.")
    name, text = split(token)
    biscuit = open_biscuit(text, named_key(name), max_depth)
    if biscuit.block_count() >= max_depth:
        raise GrantTooDeep(field=FIELD, limit=max_depth, used=biscuit.block_count() + 1)
    return join(name, biscuit.append(BlockBuilder(*write_block(limits))))


def _read_target(pointer: str | None, prefix: str | None) -> Target | None:
    if pointer is not None and prefix is not None:
        raise FieldValue("A grant is for a pointer or a prefix, not both.", field="prefix")
    if pointer is not None:
        return read_pointer(pointer)
    return read_prefix(prefix) if prefix is not None else None


def _limits(child: str | None, target: Target | None, *amounts: int | None) -> Limits:
    named: dict[str, Any] = dict(zip(("cap_tokens", "uses", "expires_at", "inline_code_chars"), amounts, strict=True))
    for field, amount in named.items():
        least = 1 if field == "uses" else 0
        if amount is not None and not least <= amount <= MAX_AMOUNT:
            raise FieldValue(
                f"This is from {least} to 2^53 - 1.",
                field=field,
                limit=least if amount < least else MAX_AMOUNT,
                used=amount,
            )
    if child is not None:
        check_name(child, "child")
    return Limits(child=child, target=target, **named)


def _use(text: str) -> str:
    if len(text) > MAX_USE:
        raise FieldValue("The intended use is too long.", field="intended_use", limit=MAX_USE, used=len(text))
    try:
        text.encode()
    except UnicodeEncodeError:
        raise FieldValue("The intended use is not valid Unicode.", field="intended_use") from None
    return text
