"""Reading what pointers lead to, under a budget."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from stigmergy.core import BYTES_PER_TOKEN, estimate_tokens
from stigmergy.errors import BudgetTooSmall, DerefDenied, GrantRefusal, NotText
from stigmergy.evidence.pointers import (
    Pointer,
    RepoAddress,
    check,
    editor,
    github,
    parse,
    swhid,
)
from stigmergy.operations.budgets import deref_budget
from stigmergy.operations.declare import Command, Route, operation
from stigmergy.operations.gateway import Context
from stigmergy.operations.ports import View
from stigmergy.policy import (
    ADMIN,
    DerefBudget,
    DerefProved,
    Turn,
    check_may_deref,
    check_tokens,
    lineage_of,
    present_turn,
    tokens_left,
)
from stigmergy.policy.grants import VerifiedGrant, allow, as_issued, check_spend, debits, verify

DEFAULT_MAX_TOKENS = 400
MAX_MAX_TOKENS = 100_000

_encode = msgspec.json.Encoder().encode

PointerOrRef = Annotated[Pointer | str, Meta(description="A pointer, or its ref alone")]


class DerefPointer(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A pointer to follow, and what the answer may cost."""

    pointer: PointerOrRef
    max_tokens: Annotated[
        int, Meta(ge=1, le=MAX_MAX_TOKENS, description="The whole answer is never larger; it is cut at a line's end")
    ] = DEFAULT_MAX_TOKENS
    budget_token: Annotated[str, Meta(max_length=8192, description="A grant that pays for it")] | None = None


class DerefAnswer(Struct, frozen=True, kw_only=True):
    excerpt: str
    """The pointed lines, as many as fit."""
    pointer: Pointer
    """The pointer that was followed, in canonical form."""
    content_digest: str
    """Over the whole pointed content, whether or not all of it is in the excerpt."""
    truncated: bool
    """Whether lines were left out."""


@operation(
    "less.deref_pointer",
    writes=True,
    route=Route("POST", "/pointer/deref"),
    command=Command("deref", ("pointer",)),
    tool=True,
)
def deref_pointer(context: Context, request: DerefPointer) -> DerefAnswer:
    """Pull the lines behind a pointer, within a budget, with the digest that proves them."""
    caller = context.caller
    pointer, _ = check(as_pointer(request.pointer))
    content = context.evidence.read(pointer)
    try:
        text = content.data.decode()
    except UnicodeDecodeError:
        raise NotText(field="pointer.ref") from None
    whole = DerefAnswer(excerpt=text, pointer=pointer, content_digest=content.digest, truncated=False)

    def decide(view: View) -> tuple[list[Any], DerefAnswer]:
        budget = deref_budget(context, view)
        turn = present_turn(view.turn(caller.run.run_id, caller.name), view.as_of)
        grant = _paying_grant(context, view, turn, budget, pointer, request.budget_token)
        allowed = request.max_tokens
        if caller.role != ADMIN:
            allowed = min(allowed, tokens_left(turn, budget) if grant is None else _left(view, turn, budget, grant))
        try:
            answer = _within(whole, allowed)
        except BudgetTooSmall as small:
            if allowed < request.max_tokens:  # it is the turn or the grant that has too little left, not the request
                needed = int(small.used or 0)
                if grant is not None:
                    check_spend(grant, view.spent(_ids(grant)), needed)
                check_tokens(turn, budget, needed)
            raise
        cost = estimate_tokens(_encode(answer))
        proof = DerefProved(
            run=caller.run.run_id,
            agent=caller.name,
            turn=turn.number,
            type=pointer.type,
            ref=pointer.ref,
            digest=content.digest,
            tokens=cost,
            granted=grant is not None,
        )
        if grant is None:
            return [proof], answer
        check_spend(grant, view.spent(_ids(grant)), cost, view.revoked(_ids(grant)))
        return [proof, *debits(grant, cost, caller.full_name)], answer

    return context.commit(decide, DerefAnswer, in_run=False)


def _paying_grant(
    context: Context, view: View, turn: Turn, budget: DerefBudget, pointer: Pointer, token: str | None
) -> VerifiedGrant | None:
    """The grant that pays for a dereference: the one whose token is shown, or, where the turn has nothing left, one
    that was given to the caller or an ancestor and covers this."""
    caller = context.caller
    asked: dict[str, Any] = {
        "pointer": parse(pointer.ref),
        "lineage": lineage_of(view, caller),
        "project": caller.project,
        "run": caller.run.run_id,
        "now": view.as_of,
    }
    if token is not None:
        return verify(context.grant_key, token, **asked)
    if caller.role == ADMIN:
        return None
    try:
        check_may_deref(turn, budget, pointer.type)
    except DerefDenied:
        for issued in view.grants_for(caller.run.run_id, asked["lineage"]):
            with suppress(GrantRefusal):
                grant = allow(as_issued(issued, caller.project), **asked)
                check_spend(grant, view.spent(_ids(grant)), 1, view.revoked(_ids(grant)))
                return grant
        raise
    return None


def _left(view: View, turn: Turn, budget: DerefBudget, grant: VerifiedGrant) -> int:
    """How many tokens a grant still pays for; the ceiling of the run holds for it too."""
    spent = view.spent(_ids(grant))
    caps = [
        block.cap_tokens - (spent[block.block_id].tokens if block.block_id in spent else 0)
        for block in grant.blocks
        if block.cap_tokens is not None
    ]
    return max(0, min([*caps, budget.run_tokens - turn.run_tokens]))


def _ids(grant: VerifiedGrant) -> list[str]:
    return [block.block_id for block in grant.blocks]


def as_pointer(given: Pointer | str) -> Pointer:
    """A pointer, its type read off its ref when only that was given."""
    if isinstance(given, Pointer):
        return given
    return Pointer(type=given.partition(":")[0], ref=given)


def _within(whole: DerefAnswer, max_tokens: int) -> DerefAnswer:
    """The answer with as many whole lines as let its JSON fit the budget."""
    allowed = max_tokens * BYTES_PER_TOKEN
    if len(whole.excerpt) <= allowed and len(_encode(whole)) <= allowed:
        return whole
    cut = msgspec.structs.replace(whole, excerpt="", truncated=True)
    used = len(_encode(cut))
    if used > allowed:
        needed = -(-used // BYTES_PER_TOKEN)
        raise BudgetTooSmall(field="max_tokens", limit=max_tokens, used=needed, hint=f"Ask with at least {needed}.")
    end = 0
    while end < len(whole.excerpt):
        after = whole.excerpt.find("\n", end) + 1 or len(whole.excerpt)
        used += len(_encode(whole.excerpt[end:after])) - 2
        if used > allowed:
            break
        end = after
    return msgspec.structs.replace(cut, excerpt=whole.excerpt[:end])


class LinkPointer(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    ref: Annotated[str, Meta(max_length=300, description="The pointer's ref")]


class LinkAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    ref: str
    """The pointer in canonical form."""
    editor: str | None = None
    """Opens the file at the line in an editor on this machine."""
    github: str | None = None
    """The permalink, when the repository has an origin on GitHub."""
    swhid: str | None = None
    """The archival identifier."""


@operation(
    "pointer.link",
    route=Route("GET", "/pointer/link"),
    command=Command("link", ("ref",)),
    kept_off={"mcp": "links are for people"},
)
def link_pointer(context: Context, request: LinkPointer) -> LinkAnswer:
    """Turn a repo pointer into links for the editor, the forge and the archive."""
    pointer, _ = check(as_pointer(request.ref), "ref")
    address = parse(pointer.ref)
    if not isinstance(address, RepoAddress):
        return LinkAnswer(ref=pointer.ref)
    content = context.evidence.read(pointer, "ref")
    origin = context.workplace.repositories.select(address.repository).origin_url()
    return LinkAnswer(
        ref=pointer.ref,
        editor=editor(address, context.workplace.root),
        github=github(address, origin) if origin else None,
        swhid=swhid(address, content.blob, origin) if content.blob else None,
    )
