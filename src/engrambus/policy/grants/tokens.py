"""Budget tokens: issuing one, narrowing one, and checking offline what one allows.

A check needs the project's key and nothing that is stored: signatures, the form of every block, then every limit that a
single use can break. What only the journal knows, spending and revocation, is checked in `rules.py`.

The limits are read from the signed checks and compared here; no Datalog runs (decision 11), so the cost does not depend
on what a holder appended. Any Biscuit library comes to the same result from the checks themselves, which the tests
verify.

Time is the project's clock, which never runs backwards, so setting a computer's clock back revives no expired grant.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

import msgspec

from engrambus.core import print_time
from engrambus.errors import (
    FieldMissing,
    FieldValue,
    GrantExpired,
    GrantForeign,
    GrantForged,
    GrantOverCap,
    GrantTooDeep,
    GrantWrongChild,
    GrantWrongPointer,
)
from engrambus.evidence.pointers import Address, Pointer, parse_ref, print_address
from engrambus.policy.grants.blocks import (
    FIELD,
    MAX_AMOUNT,
    WORD,
    GrantLimits,
    GrantOrigin,
    read_first,
    read_limits,
    write_block,
)
from engrambus.policy.grants.keys import MAX_BLOCKS, GrantKey, join, key_from_name, open_biscuit, split
from engrambus.policy.grants.targets import Target, read_pointer, read_prefix
from engrambus.policy.identity import ADMIN, Caller, IdentityView, check_name, lineage_of

MAX_INTENDED_USE_CHARS = 500
ASK_AGAIN = "Ask for another with `less.request_deref`."


class GrantBlock(GrantLimits, frozen=True, kw_only=True):
    """One link of a grant's chain: the gateway's block, then one for each narrowing."""

    block_id: str
    """Id of the account that pays for every use: of a journalled grant its own, else the block's revocation id."""
    grant_id: str | None = None
    """The journalled grant this block stands for; None for a block that a holder appended to a Biscuit."""


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a budget token with valid signatures; its limits are not checked yet."""

    origin: GrantOrigin
    blocks: tuple[GrantBlock, ...]

    def block_name(self, block: GrantBlock) -> str:
        """Return the words that name a block in a refusal: the grant, or where in its chain the limit stands."""
        name = self.origin.grant_id
        if block.grant_id is None and block is not self.blocks[0]:
            return f"A block that a holder added to grant {name}"
        if block.grant_id not in (None, name):
            return f"Grant {block.grant_id}, from which grant {name} was passed on,"
        return f"Grant {name}"

    @property
    def inline_code_chars(self) -> int:
        """Characters of code that a message may carry with it."""
        return min(block.inline_code_chars for block in self.blocks if block.inline_code_chars is not None)


class VerifiedGrant(Grant, frozen=True, kw_only=True):
    """A grant that allows a given use, as far as can be known without the journal."""


class GrantUse(msgspec.Struct, frozen=True, kw_only=True):
    """One use of a grant: a dereference, or a message with inline code."""

    pointer: Address | None
    """The address to dereference; None for a message."""
    lineage: Sequence[str]
    """Names of the caller and its ancestors."""
    project: str
    run: str
    now_us: int
    tokens: int = 0
    code_chars: int = 0


def issue_token(
    key: GrantKey,
    *,
    grant_id: str,
    project: str,
    run: str,
    parent: str,
    child: str,
    cap_tokens: int,
    uses: int,
    expires_us: int,
    intended_use: str,
    pointer: str | None = None,
    prefix: str | None = None,
    inline_code_chars: int = 0,
) -> str:
    """Return a budget token that lets a child and its descendants read a pointer or a folder.

    The caller has to check that the parent may give it.
    """
    from biscuit_auth import BiscuitBuilder

    target = _read_target(pointer, prefix)
    if target is None:
        raise FieldMissing("A grant needs a pointer or a prefix.", field="pointer")
    for field, word in (("grant_id", grant_id), ("project", project), ("run", run)):
        if not WORD.fullmatch(word):
            raise FieldValue("An id is 1 to 64 letters, digits, '_', '.' or '-'.", field=field, used=len(word))
    if parent != ADMIN:
        check_name(parent, "parent")
    limits = _check_limits(child, target, cap_tokens, uses, expires_us, inline_code_chars)
    origin = GrantOrigin(
        grant_id=grant_id, project=project, run=run, parent=parent, intended_use=_check_intended_use(intended_use)
    )
    return join(key.name, BiscuitBuilder(*write_block(limits, origin)).build(key.private))


def attenuate(
    token: str,
    *,
    child: str | None = None,
    pointer: str | None = None,
    prefix: str | None = None,
    cap_tokens: int | None = None,
    uses: int | None = None,
    expires_us: int | None = None,
    inline_code_chars: int | None = None,
    max_blocks: int = MAX_BLOCKS,
) -> str:
    """Return a budget token that allows less than `token`; works without the gateway and its key.

    The result can never allow more: every check of the earlier blocks still applies.
    """
    from biscuit_auth import BlockBuilder

    limits = _check_limits(child, _read_target(pointer, prefix), cap_tokens, uses, expires_us, inline_code_chars)
    if limits == GrantLimits():
        raise FieldMissing(
            "Pass at least one limit to narrow.", field="child", hint="child, pointer, cap_tokens, uses or expires_us."
        )
    name, text = split(token)
    biscuit = open_biscuit(text, key_from_name(name), max_blocks)
    if biscuit.block_count() >= max_blocks:
        raise GrantTooDeep(field=FIELD, limit=max_blocks, used=biscuit.block_count() + 1)
    return join(name, biscuit.append(BlockBuilder(*write_block(limits))))


def read_token(key: GrantKey, token: str, *, max_blocks: int = MAX_BLOCKS) -> Grant:
    """Return the content of a token that this key signed, without checking its limits."""
    name, text = split(token)
    digest = sha256(token.encode()).digest()
    # decision 14: a signature check costs 45 µs a block and can never give another result for the same bytes
    grant: Grant | None = key.verified.get(digest)
    if grant is None:
        grant = _read_biscuit(key, name, text, max_blocks)  # raises for a forged token, which is never remembered
        key.verified.put(digest, grant, weight=len(grant.blocks))
    elif len(grant.blocks) > max_blocks:
        raise GrantTooDeep(field=FIELD, limit=max_blocks, used=len(grant.blocks))
    return grant


def verify_token(key: GrantKey, token: str, use: GrantUse, *, max_blocks: int = MAX_BLOCKS) -> VerifiedGrant:
    """Return the grant of a token if it allows this use."""
    for field in ("tokens", "code_chars"):
        amount = getattr(use, field)
        if not 0 <= amount <= MAX_AMOUNT:
            raise FieldValue("An amount is from 0 to 2^53 - 1.", field=field, limit=MAX_AMOUNT, used=amount)
    return check_allows(read_token(key, token, max_blocks=max_blocks), use)


def check_allows(grant: Grant, use: GrantUse) -> VerifiedGrant:
    """Return the grant if each of its blocks allows this use."""
    if (grant.origin.project, grant.origin.run) != (use.project, use.run):
        owner = "run" if grant.origin.project == use.project else "project"
        raise GrantForeign(f"The budget token belongs to another {owner}.", field=FIELD)
    # Every block, not only the last: a later one cannot lift a limit of an earlier one.
    for block in grant.blocks:
        _check_block(block, use, grant.block_name(block))
    return VerifiedGrant(origin=grant.origin, blocks=grant.blocks)


def grant_use(view: IdentityView, caller: Caller, pointer: Pointer | None = None) -> GrantUse:
    """Return the use that a caller makes of a grant now: a dereference, or a message if there is no pointer."""
    return GrantUse(
        pointer=parse_ref(pointer.ref) if pointer is not None else None,
        lineage=lineage_of(view, caller),
        project=caller.project,
        run=caller.run.run_id,
        now_us=view.expiry_us,
    )


def _read_biscuit(key: GrantKey, name: str, text: str, max_blocks: int) -> Grant:
    from biscuit_auth import BiscuitBlockError

    if name != key.name:
        raise GrantForeign("The budget token was signed by another project.", field=FIELD)
    biscuit = open_biscuit(text, key.public, max_blocks)
    if biscuit.to_base64() != text:  # some bytes can be changed without breaking a signature (decision 11)
        raise GrantForged(field=FIELD)
    try:
        sources = [biscuit.block_source(index) for index in range(biscuit.block_count())]
        has_third_party = any(biscuit.block_external_key(index) is not None for index in range(1, len(sources)))
    except BiscuitBlockError:
        raise GrantForged(field=FIELD) from None
    if has_third_party:
        raise GrantForged("A block of the budget token was signed by a third party.", field=FIELD)
    origin, first = read_first(sources[0])
    limits = [first, *(read_limits(source) for source in sources[1:])]
    return Grant(origin=origin, blocks=tuple(map(_grant_block, limits, biscuit.revocation_ids)))


def _grant_block(limits: GrantLimits, block_id: str) -> GrantBlock:
    return GrantBlock(
        block_id=block_id,
        child=limits.child,
        target=limits.target,
        cap_tokens=limits.cap_tokens,
        uses=limits.uses,
        expires_us=limits.expires_us,
        inline_code_chars=limits.inline_code_chars,
    )


def _check_block(block: GrantBlock, use: GrantUse, name: str) -> None:
    if block.expires_us is not None and block.expires_us <= use.now_us:
        ended = print_time(block.expires_us)
        raise GrantExpired(
            f"{name} expired at {ended}.", field=FIELD, limit=ended, used=print_time(use.now_us), hint=ASK_AGAIN
        )
    if block.child is not None and block.child not in use.lineage:
        raise GrantWrongChild(
            f"{name} is for '{block.child}' and its descendants.",
            field=FIELD,
            limit=block.child,
            used=use.lineage[0] if use.lineage else None,
        )
    if use.pointer is not None and block.target is not None and not block.target.covers(use.pointer):
        raise GrantWrongPointer(
            f"{name} covers {block.target.text}.",
            field=FIELD,
            limit=block.target.text,
            used=print_address(use.pointer),
            hint=ASK_AGAIN,
        )
    if block.cap_tokens is not None and block.cap_tokens < use.tokens:
        raise GrantOverCap(
            f"{name} pays for {block.cap_tokens} tokens.", field=FIELD, limit=block.cap_tokens, used=use.tokens
        )
    if block.inline_code_chars is not None and block.inline_code_chars < use.code_chars:
        raise GrantOverCap(
            f"{name} allows {block.inline_code_chars} characters of inline code.",
            field=FIELD,
            limit=block.inline_code_chars,
            used=use.code_chars,
        )


def _read_target(pointer: str | None, prefix: str | None) -> Target | None:
    if pointer is not None and prefix is not None:
        raise FieldValue("A grant is for a pointer or a prefix, not both.", field="prefix")
    if pointer is not None:
        return read_pointer(pointer)
    return read_prefix(prefix) if prefix is not None else None


def _check_limits(child: str | None, target: Target | None, *amounts: int | None) -> GrantLimits:
    names = ("cap_tokens", "uses", "expires_us", "inline_code_chars")
    limits: dict[str, Any] = dict(zip(names, amounts, strict=True))
    for field, amount in limits.items():
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
    return GrantLimits(child=child, target=target, **limits)


def _check_intended_use(text: str) -> str:
    if len(text) > MAX_INTENDED_USE_CHARS:
        raise FieldValue(
            "The intended use is too long.", field="intended_use", limit=MAX_INTENDED_USE_CHARS, used=len(text)
        )
    try:
        text.encode()
    except UnicodeEncodeError:
        raise FieldValue("The intended use is not valid Unicode.", field="intended_use") from None
    return text
