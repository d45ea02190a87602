"""The review of contributions: a parent of the author accepts or rejects them, the author may withdraw them."""

from __future__ import annotations

from itertools import islice
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from engrambus.core import parse_duration, print_time, take_within
from engrambus.errors import CortexOff
from engrambus.gateway.context import Context
from engrambus.gateway.declare import PARENTS, Command, Route, operation
from engrambus.gateway.ports import View
from engrambus.knowledge.cortex import (
    MAX_KIND_CHARS,
    MAX_LABEL_CHARS,
    AcceptanceTerms,
    Contribution,
    Status,
    accept,
    check_kind,
    check_text,
    engram_drafts,
    evidence_pointers,
    find_contribution,
    log_line,
    reject,
    visible_contributions,
    visible_part,
    withdraw,
)
from engrambus.knowledge.engrams import split_claim, validate
from engrambus.operations.cortex import HOW_TO_SWITCH_ON, Importance, Lifetime, lifetime_us, log_failure
from engrambus.operations.engram_uses import UsedIds, resolve_used
from engrambus.operations.engrams import prepare_engram
from engrambus.operations.near_claims import find_near, with_contradictions

MAX_REASON_CHARS = 500
MAX_LISTED = 100
NO_TOOL = {"mcp": "reviewing is for parents at the gateway, and for people"}

ContributionId = Annotated[str, Meta(max_length=26, description="The contribution's id")]
StatusFilter = Literal[Status, "all"]


class ListContributions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A filter for contributions, and the size of a page."""

    status: Annotated[
        StatusFilter | None, Meta(description="Only contributions with this status; by default those that wait")
    ] = None
    thread_id: (
        Annotated[str, Meta(max_length=MAX_LABEL_CHARS, description="Only contributions to this task")] | None
    ) = None
    k: Annotated[int, Meta(ge=1, le=MAX_LISTED, description="Maximum number of results")] = 20
    cursor: Annotated[str, Meta(max_length=26, description="Continue where the previous answer ended")] | None = None
    max_tokens: Annotated[int, Meta(ge=1, description="Maximum size of the answer, in tokens")] | None = None


class ContributionsAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    contributions: list[Contribution]
    as_of: str
    cursor: str | None = None
    """Send it with the next request to get the next page."""


@operation(
    "contribution.list",
    route=Route("GET", "/contribution"),
    command=Command(
        "review list",
        section="team",
        example="engrambus review list",
        renderer="cortex:contribution_list",
        rank=70,
    ),
    absent_from=NO_TOOL,
)
def list_contributions(context: Context, request: ListContributions) -> ContributionsAnswer:
    """List contributions that wait for a decision: your own and your descendants'."""
    visible = visible_contributions(
        context.view, request.status, caller=context.caller, thread=request.thread_id, after=request.cursor
    )
    contributions = list(islice(visible, request.k + 1))  # one more tells if there is a next page
    page = [visible_part(context.view, item, context.caller) for item in contributions[: request.k]]
    answer = ContributionsAnswer(contributions=page, as_of=print_time(context.view.as_of))
    if request.max_tokens is not None:
        empty = msgspec.structs.replace(answer, contributions=[], cursor="0" * 26)
        page = take_within(empty, page, request.max_tokens, at_least=min(1, len(page)))
    cursor = page[-1].contribution_id if page and len(page) < len(contributions) else None
    return msgspec.structs.replace(answer, contributions=page, cursor=cursor)


class ShowContribution(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: ContributionId


@operation(
    "contribution.show",
    route=Route("GET", "/contribution/{id}"),
    command=Command(
        "review show",
        section="team",
        example="engrambus review show 01K7Z3V5QX0000000000000000",
        renderer="cortex:contribution",
        rank=72,
        arguments=("id",),
    ),
    absent_from=NO_TOOL,
)
def show_contribution(context: Context, request: ShowContribution) -> Contribution:
    """Show one contribution, with the results of its checks."""
    contribution = find_contribution(context.view, request.id, context.caller)
    return visible_part(context.view, contribution, context.caller)


class AcceptContribution(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The properties of the memory made from a contribution."""

    id: ContributionId
    kind: Annotated[
        str, Meta(max_length=MAX_KIND_CHARS, description="Kind of memory: decision, preference, workflow, learning, …")
    ] = "learning"
    importance: Annotated[Importance | None, Meta(description="Importance, 0 to 1; by default its confidence")] = None
    pinned: Annotated[bool, Meta(description="Pin it, so that every agent inherits it")] = False
    ttl: Lifetime | None = None
    atomize: Annotated[
        bool, Meta(description="Divide it into engrams, too: short claims that point at its evidence, or at the memory")
    ] = False
    used: UsedIds = []


@operation(
    "contribution.accept",
    roles=PARENTS,
    writes=True,
    route=Route("POST", "/contribution/{id}/accept"),
    command=Command(
        "review accept",
        section="team",
        example="engrambus review accept 01K7Z3V5QX0000000000000000 --kind decision",
        renderer="cortex:contribution",
        rank=74,
        arguments=("id",),
    ),
    absent_from=NO_TOOL,
    prose=("kind",),
)
def accept_contribution(context: Context, request: AcceptContribution) -> Contribution:
    """Accept a contribution into the team's memory.

    Only a parent of its author, or an admin, may decide this.
    """
    with log_failure(context, "CONTRIBUTION_FAIL", contribution_id=request.id):
        if not context.policy.cortex.ingest:
            raise CortexOff(
                "Accepting contributions is switched off in this project.",
                field="cortex.ingest",
                hint=HOW_TO_SWITCH_ON,
            )
        check_kind(request.kind)
        with context.store.read() as view:
            waiting = find_contribution(view, request.id, context.caller)
        terms = AcceptanceTerms(
            kind=request.kind,
            importance=request.importance,
            pinned=request.pinned,
            lifetime_us=lifetime_us(request.ttl),
            claims=tuple(split_claim(waiting.content)) if request.atomize else (),
            max_ttl_us=parse_duration(context.policy.max_ttl),
        )
        used = resolve_used(context, request.used)
        # Engrams are prepared outside the commit, because stamping their pointers reads files.
        pointers = evidence_pointers(waiting)
        drafts = engram_drafts(waiting, pointers, terms.claims) if pointers else []
        prepared = [prepare_engram(context, validate(draft, max_ttl_us=terms.max_ttl_us)) for draft in drafts]
        near = find_near(context, prepared)

        def decide(view: View) -> tuple[list[Any], Contribution]:
            facts, accepted = accept(
                view,
                request.id,
                terms,
                pointers=pointers,
                prepared=prepared,
                caller=context.caller,
                randomness=context.randomness,
                used=used,
            )
            return with_contradictions(context, view, facts, near), accepted

        contribution = context.commit(decide, Contribution)
    context.write_episodes()
    context.note(
        log_line("CONTRIBUTION_ACCEPT", contribution_id=contribution.contribution_id, stm_id=contribution.memory_id)
    )
    return contribution


class RejectContribution(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: ContributionId
    reason: Annotated[
        str, Meta(min_length=1, max_length=MAX_REASON_CHARS, description="The reason; its author will read it")
    ]
    used: UsedIds = []


@operation(
    "contribution.reject",
    roles=PARENTS,
    writes=True,
    route=Route("POST", "/contribution/{id}/reject"),
    command=Command(
        "review reject",
        section="team",
        example='engrambus review reject 01K7Z3V5QX0000000000000000 --reason "Measured on one machine only."',
        renderer="cortex:contribution",
        rank=76,
        arguments=("id",),
    ),
    absent_from=NO_TOOL,
    prose=("reason",),
)
def reject_contribution(context: Context, request: RejectContribution) -> Contribution:
    """Reject a contribution, and record the reason."""
    check_text(request.reason, "reason")
    with log_failure(context, "CONTRIBUTION_FAIL", contribution_id=request.id):
        used = resolve_used(context, request.used)
        contribution = context.commit(
            lambda view: reject(view, request.id, request.reason, caller=context.caller, used=used), Contribution
        )
    # The log holds no text that anyone wrote, only its length.
    reason = f"{len(request.reason)}_characters"
    context.note(log_line("CONTRIBUTION_REJECT", contribution_id=contribution.contribution_id, reason=reason))
    return contribution


class WithdrawContribution(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: ContributionId


@operation(
    "contribution.withdraw",
    writes=True,
    route=Route("POST", "/contribution/{id}/withdraw"),
    command=Command(
        "review withdraw",
        section="team",
        example="engrambus review withdraw 01K7Z3V5QX0000000000000000",
        renderer="cortex:contribution",
        rank=78,
        arguments=("id",),
    ),
    absent_from=NO_TOOL,
)
def withdraw_contribution(context: Context, request: WithdrawContribution) -> Contribution:
    """Withdraw a contribution of your own that has not been decided."""
    with log_failure(context, "CONTRIBUTION_FAIL", contribution_id=request.id):
        return context.commit(lambda view: withdraw(view, request.id, caller=context.caller), Contribution)
