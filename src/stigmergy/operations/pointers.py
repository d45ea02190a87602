"""Reading what pointers lead to, under a budget."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from stigmergy.core import BYTES_PER_TOKEN, estimate_tokens
from stigmergy.errors import BudgetTooSmall, NotText
from stigmergy.evidence.pointers import (
    Pointer,
    RepoAddress,
    check,
    editor,
    github,
    parse,
    swhid,
)
from stigmergy.operations.declare import Command, Route, operation
from stigmergy.operations.gateway import Context
from stigmergy.operations.ports import View
from stigmergy.policy import ADMIN, DerefProved, check_may_deref, check_tokens, present_turn, tokens_left

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
    caller, budget = context.caller, context.policy.deref
    pointer, _ = check(as_pointer(request.pointer))
    content = context.evidence.read(pointer)
    try:
        text = content.data.decode()
    except UnicodeDecodeError:
        raise NotText(field="pointer.ref") from None
    whole = DerefAnswer(excerpt=text, pointer=pointer, content_digest=content.digest, truncated=False)

    def decide(view: View) -> tuple[list[DerefProved], DerefAnswer]:
        turn = present_turn(view.turn(caller.run.run_id, caller.name), view.as_of)
        allowed = request.max_tokens
        if caller.role != ADMIN:
            check_may_deref(turn, budget, pointer.type)
            allowed = min(allowed, tokens_left(turn, budget))
        try:
            answer = _within(whole, allowed)
        except BudgetTooSmall as small:
            if allowed < request.max_tokens:  # it is the turn that has too little left, not the request
                check_tokens(turn, budget, int(small.used or 0))
            raise
        proof = DerefProved(
            run=caller.run.run_id,
            agent=caller.name,
            turn=turn.number,
            type=pointer.type,
            ref=pointer.ref,
            digest=content.digest,
            tokens=estimate_tokens(_encode(answer)),
        )
        return [proof], answer

    return context.commit(decide, DerefAnswer, in_run=False)


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
