"""Whether a budget token allows what its bearer asks, as far as can be known offline.

It needs the project's key and nothing that is stored: signatures, the shape of every block, then every limit that one
use can break. Signatures cost 45 µs a block, so what they proved is remembered; limits are looked at every time. What
only the journal knows comes after, in `spend.py`.

The limits are read from the signed checks and compared here, so no Datalog runs and no work depends on what a holder
appended. Any Biscuit library comes to the same verdict from the checks themselves; the tests hold us to that.

`now` is the project's clock, which never runs backwards; by it, a clock set back revives nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

import msgspec

from engrambus.core import print_time
from engrambus.errors import (
    FieldValue,
    GrantExpired,
    GrantForeign,
    GrantForged,
    GrantOverCap,
    GrantTooDeep,
    GrantWrongChild,
    GrantWrongPointer,
)
from engrambus.evidence.pointers import Address, print_address
from engrambus.policy.grants.blocks import FIELD, MAX_AMOUNT, Limits, Origin, read_first, read_limits
from engrambus.policy.grants.facts import GrantIssued
from engrambus.policy.grants.keys import MAX_DEPTH, GrantKey, open_biscuit, split
from engrambus.policy.grants.targets import Target, read_pointer, read_prefix


class Block(Limits, frozen=True, kw_only=True):
    """One link of a grant's chain: the gateway's, then one for each time it was narrowed."""

    block_id: str
    """Its revocation id, which stands in every token narrowed from it."""


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """What a budget token says, its signatures checked and nothing else."""

    origin: Origin
    blocks: tuple[Block, ...]

    @property
    def inline_code_chars(self) -> int:
        """How many characters of code a message may carry by it."""
        return min(block.inline_code_chars for block in self.blocks if block.inline_code_chars is not None)


class VerifiedGrant(Grant, frozen=True, kw_only=True):
    """A grant that allows what was asked, as far as can be known without the journal."""


def read(key: GrantKey, token: str, *, max_depth: int = MAX_DEPTH) -> Grant:
    """What a token of this key says, whoever asks and whenever.

    The same bytes were signed or were not, so signatures are checked once; a forged token is never remembered.
    """
    name, text = split(token)
    by_digest = sha256(token.encode()).digest()
    known: Grant | None = key.known.get(by_digest)
    if known is None:
        known = _read(key, name, text, max_depth)
        key.known.put(by_digest, known, weight=len(known.blocks))
    elif len(known.blocks) > max_depth:
        raise GrantTooDeep(field=FIELD, limit=max_depth, used=len(known.blocks))
    return known


def _read(key: GrantKey, name: str, text: str, max_depth: int) -> Grant:
    from biscuit_auth import BiscuitBlockError

    if name != key.name:
        raise GrantForeign("The budget token was signed by another project.", field=FIELD)
    biscuit = open_biscuit(text, key.public, max_depth)
    if biscuit.to_base64() != text:  # bytes that mean nothing could be changed without breaking a signature
        raise GrantForged(field=FIELD)
    try:
        sources = [biscuit.block_source(index) for index in range(biscuit.block_count())]
        strangers = any(biscuit.block_external_key(index) is not None for index in range(1, len(sources)))
    except BiscuitBlockError:
        raise GrantForged(field=FIELD) from None
    if strangers:
        raise GrantForged("A block of the budget token was signed by a third party.", field=FIELD)
    origin, first = read_first(sources[0])
    limits = [first, *(read_limits(source) for source in sources[1:])]
    return Grant(origin=origin, blocks=tuple(map(_block, limits, biscuit.revocation_ids)))


def verify(
    key: GrantKey,
    token: str,
    *,
    pointer: Address | None,
    lineage: Sequence[str],
    project: str,
    run: str,
    now: int,
    tokens: int = 0,
    code_chars: int = 0,
    max_depth: int = MAX_DEPTH,
) -> VerifiedGrant:
    """The grant, if it lets this caller do this at this moment.

    `lineage` is the caller's name and those of its ancestors; `pointer` is what is dereferenced, and none when a
    message asks for its `code_chars` of inline code.
    """
    for field, amount in (("tokens", tokens), ("code_chars", code_chars)):
        if not 0 <= amount <= MAX_AMOUNT:
            raise FieldValue("An amount is from 0 to 2^53 - 1.", field=field, limit=MAX_AMOUNT, used=amount)
    grant = read(key, token, max_depth=max_depth)
    return allow(
        grant,
        pointer=pointer,
        lineage=lineage,
        project=project,
        run=run,
        now=now,
        tokens=tokens,
        code_chars=code_chars,
    )


def as_issued(issued: GrantIssued, project: str) -> Grant:
    """A grant as the journal holds it, for a child that was given one and carries no token."""
    target: Target = read_pointer(issued.pointer) if issued.pointer else read_prefix(issued.prefix or "")
    origin = Origin(
        grant_id=issued.grant_id,
        project=project,
        run=issued.run,
        parent=issued.parent,
        intended_use=issued.intended_use,
    )
    block = Block(
        block_id=issued.block_id,
        child=issued.child,
        target=target,
        cap_tokens=issued.cap_tokens,
        uses=issued.uses,
        expires_at=issued.expires_at,
        inline_code_chars=issued.inline_code_chars,
    )
    return Grant(origin=origin, blocks=(block,))


def allow(
    grant: Grant,
    *,
    pointer: Address | None,
    lineage: Sequence[str],
    project: str,
    run: str,
    now: int,
    tokens: int = 0,
    code_chars: int = 0,
) -> VerifiedGrant:
    """The grant, if its blocks let this caller do this at this moment."""
    if (grant.origin.project, grant.origin.run) != (project, run):
        same = grant.origin.project == project
        raise GrantForeign(f"The budget token belongs to another {'run' if same else 'project'}.", field=FIELD)
    for block in grant.blocks:
        _check_block(block, pointer, lineage, now, tokens, code_chars)
    return VerifiedGrant(origin=grant.origin, blocks=grant.blocks)


def _block(limits: Limits, block_id: str) -> Block:
    return Block(
        block_id=block_id,
        child=limits.child,
        target=limits.target,
        cap_tokens=limits.cap_tokens,
        uses=limits.uses,
        expires_at=limits.expires_at,
        inline_code_chars=limits.inline_code_chars,
    )


def _check_block(
    block: Block, pointer: Address | None, lineage: Sequence[str], now: int, tokens: int, code_chars: int
) -> None:
    """Refuse by name what this block does not allow."""
    if block.expires_at is not None and block.expires_at <= now:
        raise GrantExpired(field=FIELD, limit=print_time(block.expires_at), used=print_time(now))
    if block.child is not None and block.child not in lineage:
        raise GrantWrongChild(f"The grant is for '{block.child}' and its descendants.", field=FIELD, limit=block.child)
    if pointer is not None and block.target is not None and not block.target.covers(pointer):
        raise GrantWrongPointer(field=FIELD, limit=block.target.text, used=print_address(pointer))
    if block.cap_tokens is not None and block.cap_tokens < tokens:
        raise GrantOverCap(field=FIELD, limit=block.cap_tokens, used=tokens)
    if block.inline_code_chars is not None and block.inline_code_chars < code_chars:
        raise GrantOverCap(
            "The grant does not allow so much inline code.",
            field=FIELD,
            limit=block.inline_code_chars,
            used=code_chars,
        )
