"""Reading what pointers lead to, under a budget."""

from __future__ import annotations

from bisect import bisect_right
from contextlib import suppress
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from engrambus.core import BYTES_PER_TOKEN, estimate_tokens, is_hex
from engrambus.errors import BudgetTooSmall, DerefDenied, EngramBusError, GrantRefusal, NotText
from engrambus.evidence.pointers import (
    Pointer,
    RepoAddress,
    Standing,
    check,
    editor,
    github,
    parse,
    print_address,
    swhid,
)
from engrambus.gateway.budgets import deref_budget
from engrambus.gateway.declare import Command, Route, Tool, operation
from engrambus.gateway.gateway import Context
from engrambus.gateway.ports import View
from engrambus.gateway.token_limit import size_of
from engrambus.policy import (
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
from engrambus.policy.grants import VerifiedGrant, allow, as_issued, check_spend, debits, verify

DEFAULT_MAX_TOKENS = 400
MAX_MAX_TOKENS = 100_000

_encode = msgspec.json.Encoder().encode

PointerOrRef = Annotated[Pointer | str, Meta(description="A pointer, or its ref alone")]


class DerefPointer(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A pointer to follow, and what the answer may cost."""

    pointer: PointerOrRef
    max_tokens: Annotated[
        int,
        Meta(ge=1, le=MAX_MAX_TOKENS, description="The whole answer is never larger; cut at a line's end if one fits"),
    ] = DEFAULT_MAX_TOKENS
    budget_token: Annotated[str, Meta(max_length=8192, description="A grant that pays for it")] | None = None
    tail: Annotated[bool, Meta(description="Its end, if not all fits")] = False


class DerefAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    excerpt: str
    """The pointed lines, as many as fit; where not one does, as much of one as fits."""
    pointer: Pointer
    """The pointer that was followed, in canonical form."""
    content_digest: str
    """Over the whole pointed content, whether or not all of it is in the excerpt."""
    truncated: bool
    """Whether something was left out."""
    tail: bool = False
    """Whether it is what stands before the excerpt, and not what stands behind it."""


@operation(
    "less.deref_pointer",
    writes=True,
    route=Route("POST", "/pointer/deref"),
    command=Command(
        "deref",
        section="knowledge",
        example="engrambus deref src/refunds.py:10-20 --max-tokens 200",
        renderer="evidence:deref",
        arguments=("pointer",),
        override="knowledge:deref",
    ),
    tool=Tool(),
)
def deref_pointer(context: Context, request: DerefPointer) -> DerefAnswer:
    """Read what a pointer points at, within a budget."""
    caller = context.caller
    pointer, _ = check(as_pointer(request.pointer))
    content = context.evidence.read(pointer)
    try:
        text = (content.end if request.tail and content.end is not None else content.data).decode()
    except UnicodeDecodeError:
        raise NotText(field="pointer.ref") from None
    cut = content.end is not None
    whole = DerefAnswer(
        excerpt=text, pointer=pointer, content_digest=content.digest, truncated=cut, tail=cut and request.tail
    )

    def decide(view: View) -> tuple[list[Any], DerefAnswer]:
        asked = asked_of_grant(context, view, pointer)
        if request.budget_token is not None:
            return _paid(context, view, whole, request, verify(context.grant_key, request.budget_token, **asked))
        try:
            return _paid(context, view, whole, request, None)
        except DerefDenied:
            # A grant also holds for those who do not show its token.
            for issued in view.grants_for(caller.run.run_id, asked["lineage"]):
                with suppress(GrantRefusal, DerefDenied):
                    grant = allow(as_issued(issued, caller.project), **asked)
                    return _paid(context, view, whole, request, grant)
            raise

    return context.commit(decide, DerefAnswer, in_run=False, remember=False)


class ValidateDeref(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A dereference to be judged and not done."""

    pointer: PointerOrRef
    budget_token: Annotated[str, Meta(max_length=8192, description="A grant that would pay for it")] | None = None


class ValidateDerefAnswer(Struct, frozen=True, kw_only=True):
    ok: bool
    turn: int
    tokens_left: int
    """What the turn, or the grant, still pays for."""
    granted: bool
    """Whether a grant would pay for it instead of the turn."""
    problems: list[dict[str, Any]]
    """What it would be refused with."""


@operation(
    "less.validate_deref",
    route=Route("POST", "/pointer/validate"),
    command=Command(
        "grant check",
        section="team",
        example="engrambus grant check src/refunds.py:10-20",
        renderer="evidence:deref_check",
        arguments=("pointer",),
        override="team:grant_check",
    ),
    kept_off={"mcp": "dereferencing tells the same"},
)
def validate_deref(context: Context, request: ValidateDeref) -> ValidateDerefAnswer:
    """Tell whether a dereference would be allowed now, without doing it."""
    caller, view = context.caller, context.view
    pointer, _ = check(as_pointer(request.pointer))
    budget = deref_budget(context, view)
    turn = present_turn(view.turn(caller.run.run_id, caller.name), view.as_of)
    left, problems, grant = tokens_left(turn, budget), [], None
    try:
        if request.budget_token is not None:
            grant = verify(context.grant_key, request.budget_token, **asked_of_grant(context, view, pointer))
            _check_grant(view, grant, 1)
        elif caller.role != ADMIN:
            try:
                check_may_deref(turn, budget, pointer.type)
            except DerefDenied:
                grant = _given_grant(context, view, pointer)
                if grant is None:
                    raise
        if grant is not None:
            left = _left(view, turn, budget, grant)
            if caller.role != ADMIN:
                check_tokens(turn, budget, 1, granted=True)
    except EngramBusError as refusal:
        problems = [refusal.problem()]
    return ValidateDerefAnswer(
        ok=not problems, turn=turn.number, tokens_left=left, granted=grant is not None, problems=problems
    )


def asked_of_grant(context: Context, view: View, pointer: Pointer | None) -> dict[str, Any]:
    """What a grant is asked about what the caller does now: a dereference, or a message where there is no pointer."""
    caller = context.caller
    return {
        "pointer": parse(pointer.ref) if pointer is not None else None,
        "lineage": lineage_of(view, caller),
        "project": caller.project,
        "run": caller.run.run_id,
        "now": view.as_of,
    }


def _check_grant(view: View, grant: VerifiedGrant, tokens: int) -> None:
    ids = [block.block_id for block in grant.blocks]
    check_spend(grant, view.spent(ids), tokens, view.revoked(ids))


def _given_grant(context: Context, view: View, pointer: Pointer) -> VerifiedGrant | None:
    """A grant given to the caller or an ancestor that would pay for this without its token."""
    asked = asked_of_grant(context, view, pointer)
    for issued in view.grants_for(context.caller.run.run_id, asked["lineage"]):
        with suppress(GrantRefusal):
            grant = allow(as_issued(issued, context.caller.project), **asked)
            _check_grant(view, grant, 1)
            return grant
    return None


def _paid(
    context: Context, view: View, whole: DerefAnswer, request: DerefPointer, grant: VerifiedGrant | None
) -> tuple[list[Any], DerefAnswer]:
    """The answer and its proof, paid for by a grant or else by the caller's turn."""
    caller, budget = context.caller, deref_budget(context, view)
    turn = present_turn(view.turn(caller.run.run_id, caller.name), view.as_of)

    def check(tokens: int) -> None:
        if grant is not None:
            _check_grant(view, grant, tokens)
        if caller.role != ADMIN:
            check_tokens(turn, budget, tokens, granted=grant is not None)

    if grant is None and caller.role != ADMIN:
        check_may_deref(turn, budget, whole.pointer.type)
    check(1)
    allowed = request.max_tokens
    if caller.role != ADMIN:
        allowed = min(allowed, tokens_left(turn, budget) if grant is None else _left(view, turn, budget, grant))
    try:
        answer = _last_within(whole, allowed) if request.tail else _within(whole, allowed)
    except BudgetTooSmall as small:
        if allowed < request.max_tokens:  # it is the turn or the grant that has too little left, not the request
            check(int(small.used or 0))
        raise
    cost = estimate_tokens(_encode(answer))
    check(cost)
    proof = DerefProved(
        run=caller.run.run_id,
        agent=caller.name,
        turn=turn.number,
        type=whole.pointer.type,
        ref=whole.pointer.ref,
        digest=whole.content_digest,
        tokens=cost,
        granted=grant is not None,
    )
    return [proof, *(debits(grant, cost, caller.full_name) if grant is not None else ())], answer


def _left(view: View, turn: Turn, budget: DerefBudget, grant: VerifiedGrant) -> int:
    """How many tokens a grant still pays for; the ceiling of the run holds for it too."""
    spent = view.spent([block.block_id for block in grant.blocks])
    caps = [
        block.cap_tokens - (spent[block.block_id].tokens if block.block_id in spent else 0)
        for block in grant.blocks
        if block.cap_tokens is not None
    ]
    return max(0, min([*caps, budget.run_tokens - turn.run_tokens]))


def as_pointer(given: Pointer | str) -> Pointer:
    """A pointer, its type read off its ref when only that was given."""
    if isinstance(given, Pointer):
        return given
    return Pointer(type=given.partition(":")[0], ref=given)


def _within(whole: DerefAnswer, max_tokens: int) -> DerefAnswer:
    """The answer with as many whole lines as let its JSON fit the budget; with a part of one where none does."""
    allowed = max_tokens * BYTES_PER_TOKEN
    if len(whole.excerpt) <= allowed and len(_encode(whole)) <= allowed:
        return whole
    cut = msgspec.structs.replace(whole, excerpt="", truncated=True)
    left = allowed - size_of(cut, max_tokens)
    end = 0
    while end < len(whole.excerpt):
        after = whole.excerpt.find("\n", end) + 1 or len(whole.excerpt)
        size = _size(whole.excerpt[end:after])
        if size > left:
            break
        left -= size
        end = after
    if not whole.excerpt[:end].strip():
        rest = whole.excerpt[end : end + left]
        end += bisect_right(range(1, len(rest) + 1), left, key=lambda many: _size(rest[:many]))
    return msgspec.structs.replace(cut, excerpt=whole.excerpt[:end])


def _last_within(whole: DerefAnswer, max_tokens: int) -> DerefAnswer:
    """The answer with as many of the last whole lines as let its JSON fit the budget; or with the end of the last."""
    allowed = max_tokens * BYTES_PER_TOKEN
    if len(whole.excerpt) <= allowed and len(_encode(whole)) <= allowed:
        return whole
    cut = msgspec.structs.replace(whole, excerpt="", truncated=True, tail=True)
    left = allowed - size_of(cut, max_tokens)
    start = len(whole.excerpt)
    while start > 0:
        before = whole.excerpt.rfind("\n", 0, start - 1) + 1
        size = _size(whole.excerpt[before:start])
        if size > left:
            break
        left -= size
        start = before
    if not whole.excerpt[start:].strip():
        rest = whole.excerpt[max(0, start - left) : start]
        start -= bisect_right(range(1, len(rest) + 1), left, key=lambda many: _size(rest[-many:]))
    return msgspec.structs.replace(cut, excerpt=whole.excerpt[start:])


def _size(text: str) -> int:
    """What a text takes in an answer's JSON."""
    return len(_encode(text)) - 2


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
    """The archival identifier, which only SHA-1 repositories have."""
    standing: Standing | None = None
    """How the lines stand at the commit that is checked out: same, moved, changed or gone."""
    head: str | None = None
    """The same lines of the file as it is now, where they are no longer the same."""


@operation(
    "pointer.link",
    route=Route("GET", "/pointer/link"),
    command=Command(
        "link",
        section="knowledge",
        example="engrambus link src/refunds.py:10-20",
        renderer="evidence:links",
        arguments=("ref",),
        override="knowledge:link",
    ),
    kept_off={"mcp": "links are for people"},
)
def link_pointer(context: Context, request: LinkPointer) -> LinkAnswer:
    """Turn a repo pointer into links for the editor, the forge and the archive."""
    pointer, _ = check(as_pointer(request.ref), "ref")
    address = parse(pointer.ref)
    if not isinstance(address, RepoAddress):
        return LinkAnswer(ref=pointer.ref)
    content = context.evidence.read(pointer, "ref")
    origin = context.project_files.repositories.select(address.repository).origin_url()
    (standing,) = context.project_files.standings([pointer])
    return LinkAnswer(
        ref=pointer.ref,
        editor=editor(address, context.project_files.root),
        github=github(address, origin) if origin else None,
        swhid=swhid(address, content.blob, origin) if content.blob and is_hex(content.blob, 40) else None,
        standing=standing,
        head=_at_head(context, address) if standing in ("moved", "changed") else None,
    )


def _at_head(context: Context, address: RepoAddress) -> str:
    return print_address(msgspec.structs.replace(address, revision=context.project_files.head()))
