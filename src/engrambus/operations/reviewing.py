"""The review queue: contributions waiting for a parent of their author to decide, and what was decided."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from engrambus.core import parse_duration, print_time
from engrambus.core.token_limit import take_within
from engrambus.errors import ContributionDecided, ContributionNotFound, CortexOff, RoleForbidden
from engrambus.evidence.pointers import Pointer
from engrambus.gateway.context import Context
from engrambus.gateway.declare import PARENTS, Command, Route, operation
from engrambus.gateway.ports import View
from engrambus.knowledge.cortex import (
    MAX_KIND,
    MAX_LABEL,
    OPEN,
    Accepted,
    Contribution,
    ContributionMoved,
    Episode,
    Status,
    check_kind,
    check_plain,
    moved,
    signature,
    slug_of,
)
from engrambus.knowledge.engrams import PreparedEngram, count_sentences, put_or_confirm, validate
from engrambus.operations.contributing import may_see, shown_to
from engrambus.operations.engrams import prepare_engram
from engrambus.operations.remembering import SWITCHED_ON, Importance, kept, telling
from engrambus.policy import ADMIN, Caller

MAX_REASON = 500
MAX_LISTED = 100
MAX_CLAIM = 500
MAX_SENTENCES = 3
UNVERIFIED = "conflict/unverified"

Listed = Literal[Status, "all"]
ContributionId = Annotated[str, Meta(max_length=26, description="The contribution's id")]


class ListContributions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which contributions to show."""

    status: Annotated[Listed | None, Meta(description="Only those that stand so; all that wait unless said")] = None
    thread_id: Annotated[str, Meta(max_length=MAX_LABEL, description="Only this task's")] | None = None
    k: Annotated[int, Meta(ge=1, le=MAX_LISTED, description="How many at the most")] = 20
    cursor: Annotated[str, Meta(max_length=26, description="Where the last page ended")] | None = None
    max_tokens: Annotated[int, Meta(ge=1, description="The answer is never larger")] | None = None


class ContributionsAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    contributions: list[Contribution]
    as_of: str
    cursor: str | None = None
    """Ask again with it for the next page."""


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
    absent_from={"mcp": "reviewing is for parents at the gateway, and for people"},
)
def list_contributions(context: Context, request: ListContributions) -> ContributionsAnswer:
    """List contributions that wait for a decision: your own and your descendants'."""
    shown: list[Contribution] = []
    wanted = None if request.status == "all" else request.status
    before, more = request.cursor, True
    while more and len(shown) <= request.k:
        page = context.view.contributions(wanted, thread=request.thread_id, limit=MAX_LISTED, before=before)
        more = len(page) == MAX_LISTED
        before = page[-1].contribution_id if page else before
        shown += (
            each
            for each in page
            if (request.status is not None or each.status in OPEN[:2]) and may_see(context.caller, each, context.view)
        )
    listed = [shown_to(context.caller, each, context.view) for each in shown[: request.k]]
    answer = ContributionsAnswer(contributions=listed, as_of=print_time(context.view.as_of))
    if request.max_tokens is not None:
        room = msgspec.structs.replace(answer, contributions=[], cursor="0" * 26)
        fitting = take_within(room, listed, request.max_tokens, at_least=min(1, len(listed)))
        answer = msgspec.structs.replace(answer, contributions=fitting)
    if len(answer.contributions) < len(shown) and answer.contributions:
        answer = msgspec.structs.replace(answer, cursor=answer.contributions[-1].contribution_id)
    return answer


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
    absent_from={"mcp": "reviewing is for parents at the gateway, and for people"},
)
def show_contribution(context: Context, request: ShowContribution) -> Contribution:
    """Show one contribution, with the results of its checks."""
    return shown_to(context.caller, _find(context.view, context.caller, request.id), context.view)


class AcceptContribution(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a contribution is to be remembered."""

    id: ContributionId
    kind: Annotated[str, Meta(max_length=MAX_KIND, description="decision, preference, workflow, learning, …")] = (
        "learning"
    )
    importance: Annotated[Importance | None, Meta(description="Its confidence unless said")] = None
    pinned: Annotated[bool, Meta(description="Keep it in working memory")] = False
    ttl: Annotated[str, Meta(max_length=32, description="How long it holds: P30D; for ever unless said")] | None = None


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
    absent_from={"mcp": "reviewing is for parents at the gateway, and for people"},
)
def accept_contribution(context: Context, request: AcceptContribution) -> Contribution:
    """Accept a contribution into the team's memory.

    Only a parent of its author, or an admin, may decide this.
    """
    caller = context.caller
    with telling(context, "CONTRIBUTION_FAIL", contribution_id=request.id):
        if not context.policy.cortex.ingest:
            raise CortexOff(
                "Taking in contributions is switched off in this project.", field="cortex.ingest", hint=SWITCHED_ON
            )
        check_kind(request.kind)
        lifetime = None if request.ttl is None else parse_duration(request.ttl, "ttl")
        with context.store.read() as now:
            waiting = _find(now, caller, request.id)
        pointers = tuple(dict.fromkeys(item.pointer for item in waiting.evidence if item.pointer is not None))
        prepared = _engram(context, waiting, pointers) if pointers else None

        def decide(view: View) -> tuple[list[Any], Contribution]:
            found = _to_decide(view, caller, request.id)
            categories = list(found.proposed_categories)
            if found.conflict_check.status != "clean":
                categories.append(UNVERIFIED)
            episode = Episode(
                kind=request.kind,
                slug=_free_slug(view, request.kind, slug_of(found.content)),
                version=1,
                text=found.content,
                categories=tuple(dict.fromkeys(categories)),
                importance=found.confidence if request.importance is None else request.importance,
                confidence=found.confidence,
                pinned=request.pinned,
                at=view.as_of,
                expires_at=None if lifetime is None else view.as_of + lifetime,
                by=found.from_session,
                pointers=pointers,
                accepted=Accepted(
                    contribution_id=found.contribution_id,
                    accepted_by=caller.full_name,
                    accepted_at=print_time(view.as_of),
                ),
            )
            accepted = _moved(caller, found, "accepted", memory_id=episode.memory_id)
            facts: list[Any] = [accepted, kept(context, episode)]
            if prepared is not None:
                put, _ = put_or_confirm(view, prepared, caller=caller, randomness=context.randomness, source="sam")
                facts += [put] if put else []
            return facts, shown_to(caller, moved(found, accepted, view.as_of), view)

        accepted = context.commit(decide, Contribution)
    context.write_episodes()
    context.note(signature("CONTRIBUTION_ACCEPT", contribution_id=request.id, stm_id=accepted.memory_id))
    return accepted


class RejectContribution(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: ContributionId
    reason: Annotated[str, Meta(min_length=1, max_length=MAX_REASON, description="Why; its author will read it")]


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
    absent_from={"mcp": "reviewing is for parents at the gateway, and for people"},
)
def reject_contribution(context: Context, request: RejectContribution) -> Contribution:
    """Reject a contribution, and record the reason."""
    check_plain(request.reason, "reason")
    answer = _move(context, request.id, "rejected", request.reason)
    context.note(
        signature("CONTRIBUTION_REJECT", contribution_id=request.id, reason=f"{len(request.reason)}_characters")
    )
    return answer


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
    absent_from={"mcp": "reviewing is for parents at the gateway, and for people"},
)
def withdraw_contribution(context: Context, request: WithdrawContribution) -> Contribution:
    """Withdraw a contribution of your own that has not been decided."""
    return _move(context, request.id, "withdrawn", "")


def _move(context: Context, contribution_id: str, status: Status, reason: str) -> Contribution:
    def decide(view: View) -> tuple[list[ContributionMoved], Contribution]:
        if status == "withdrawn":
            found = view.contribution(contribution_id)
            if found is None or found.from_session != context.caller.full_name:
                raise ContributionNotFound(field="id")
            _check_open(found)
        else:
            found = _to_decide(view, context.caller, contribution_id)
        fact = _moved(context.caller, found, status, reason=reason)
        return [fact], shown_to(context.caller, moved(found, fact, view.as_of), view)

    with telling(context, "CONTRIBUTION_FAIL", contribution_id=contribution_id):
        return context.commit(decide, Contribution)


def _moved(caller: Caller, found: Contribution, status: Status, **more: Any) -> ContributionMoved:
    return ContributionMoved(
        run=caller.run.run_id, by=caller.full_name, contribution_id=found.contribution_id, status=status, **more
    )


def _find(view: View, caller: Caller, contribution_id: str) -> Contribution:
    """A contribution the caller may see; one that it may not is not there."""
    found = view.contribution(contribution_id)
    if found is None or not may_see(caller, found, view):
        raise ContributionNotFound(field="id")
    return found


def _to_decide(view: View, caller: Caller, contribution_id: str) -> Contribution:
    """A contribution the caller may decide on and nobody has."""
    found = _find(view, caller, contribution_id)
    if found.from_session == caller.full_name and caller.role != ADMIN:
        raise RoleForbidden("Only a parent of its author decides on a contribution.", field="id")
    _check_open(found)
    return found


def _check_open(found: Contribution) -> None:
    if found.status not in OPEN:
        raise ContributionDecided(f"The contribution is already {found.status}.", field="id", used=found.status)


def _free_slug(view: View, kind: str, slug: str) -> str:
    """A name nothing is remembered under yet: what is accepted never takes another memory's place."""
    number, free = 1, slug
    while view.episode(kind, free) is not None:
        number += 1
        free = f"{slug[:58].rstrip('-')}-{number}"
    return free


def _engram(context: Context, it: Contribution, pointers: tuple[Pointer, ...]) -> PreparedEngram:
    """The claim that tells the team about it."""
    draft = {
        "claim": _claim(it.content),
        "kind": "fact",
        "pointers": [{"type": each.type, "ref": each.ref} for each in pointers],
        "confidence": it.confidence,
        "scope": "project",
    }
    return prepare_engram(context, validate(draft, max_ttl=parse_duration(context.policy.max_ttl)))


def _claim(content: str) -> str:
    """A content, or as much of its beginning as a claim may hold."""
    claim, *more = content.split()
    for word in more:
        longer = f"{claim} {word}"
        if len(longer) > MAX_CLAIM or count_sentences(longer) > MAX_SENTENCES:
            return f"{claim[: MAX_CLAIM - 2]} …"
        claim = longer
    return claim[:MAX_CLAIM]
