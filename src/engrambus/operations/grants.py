"""Grants: letting a child read more than its turn allows, and requests for that."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from engrambus.core import parse_duration, print_time, ulid_time
from engrambus.evidence.pointers import Pointer, check_pointer
from engrambus.gateway.context import Context
from engrambus.gateway.declare import PARENTS, Command, Route, Tool, operation
from engrambus.gateway.ports import View
from engrambus.operations.pointers import PointerOrRef, as_pointer
from engrambus.policy import DerefAnswered, DerefRequested, grants
from engrambus.policy.grants import BlockRevoked, GrantIssued, GrantTerms

DEFAULT_CAP_TOKENS = 400
MAX_CAP_TOKENS = 100_000
DEFAULT_USES = 1
DEFAULT_LIFETIME = "PT1H"

CapTokens = Annotated[int, Meta(ge=1, le=MAX_CAP_TOKENS, description="Tokens it may cost in total")]
Uses = Annotated[int, Meta(ge=1, le=1000, description="Number of times it may be used")]
Reason = Annotated[str, Meta(min_length=1, max_length=500, description="Why you need it")]
Purpose = Annotated[str, Meta(max_length=500, description="What it is needed for")]


class IssueGrant(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A parent's permission for a child to read a pointer or a folder."""

    child_id: Annotated[str, Meta(description="The agent, a descendant of yours; it may pass on a smaller grant")]
    pointer: PointerOrRef
    cap_tokens: CapTokens = DEFAULT_CAP_TOKENS
    uses: Uses = DEFAULT_USES
    expires_in: Annotated[str, Meta(description="Lifetime: PT6H is 6 hours, P7D is 7 days")] = DEFAULT_LIFETIME
    intended_use: Purpose = ""
    inline_code_chars: Annotated[
        int, Meta(ge=0, le=100_000, description="Characters of code a message may carry with this grant")
    ] = 0


class GrantAnswer(Struct, frozen=True, kw_only=True):
    grant_id: str
    budget_token: str
    """Empty if the same request was answered before: tokens are not stored, and the grant works without one."""
    child_id: str
    expires_at: str


@operation(
    "less.issue_grant",
    roles=PARENTS,
    writes=True,
    route=Route("POST", "/grant"),
    command=Command(
        "grant issue",
        section="team",
        example="engrambus grant issue coder src/refunds.py:1-200 --cap-tokens 500",
        renderer="team:grant",
        rank=40,
        arguments=("child_id", "pointer"),
        option_names={"child_id": "AGENT"},
        override="team:grant_issue",
    ),
    tool=Tool(hidden=("expires_in", "inline_code_chars", "intended_use", "uses")),
    agent_fields=("child_id",),
    prose=("intended_use",),
)
def issue_grant(context: Context, request: IssueGrant) -> GrantAnswer:
    """Let a child agent read more than its turn allows.

    A grant names what may be read, how many tokens that may cost, how often, and until when.
    """
    terms = GrantTerms(
        ref=_resolve_target(context, request.pointer),
        cap_tokens=request.cap_tokens,
        uses=request.uses,
        lifetime_us=parse_duration(request.expires_in, "expires_in"),
        intended_use=request.intended_use,
        inline_code_chars=request.inline_code_chars,
    )
    tokens: list[str] = []

    def decide(view: View) -> tuple[list[GrantIssued], GrantIssued]:
        grant, token = grants.issue_grant(
            view,
            caller=context.caller,
            child=request.child_id,
            terms=terms,
            key=context.grant_key,
            randomness=context.randomness,
        )
        tokens.append(token)
        return [grant], grant

    return _answer(context.commit(decide, GrantIssued), tokens)


class GrantId(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: Annotated[str, Meta(max_length=26, description="The grant's id")]


class RevokeAnswer(Struct, frozen=True, kw_only=True):
    grant_id: str
    revoked: bool = True


@operation(
    "grant.revoke",
    roles=PARENTS,
    writes=True,
    route=Route("DELETE", "/grant/{id}"),
    command=Command(
        "grant revoke",
        section="team",
        example="engrambus grant revoke 01K7Z3V5QX0000000000000000",
        renderer="team:revocation",
        rank=49,
        arguments=("id",),
    ),
    absent_from={"mcp": "a parent revokes at the gateway"},
)
def revoke_grant(context: Context, request: GrantId) -> RevokeAnswer:
    """Revoke a grant, and every token derived from it."""

    def decide(view: View) -> tuple[list[BlockRevoked], RevokeAnswer]:
        revoked = grants.revoke_grant(view, caller=context.caller, grant_id=request.id)
        return [revoked], RevokeAnswer(grant_id=request.id)

    return context.commit(decide, RevokeAnswer, in_run=False)


class RequestDeref(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request to read more than a turn allows."""

    pointer: PointerOrRef
    reason: Reason
    intended_use: Purpose = ""
    max_tokens: CapTokens = DEFAULT_CAP_TOKENS


class RequestAnswer(Struct, frozen=True, kw_only=True):
    request_id: str
    asked: str
    """Name of the agent that has to answer, or admin."""


@operation(
    "less.request_deref",
    writes=True,
    route=Route("POST", "/pointer/request"),
    command=Command(
        "grant ask",
        section="team",
        example='engrambus grant ask src/refunds.py --reason "To check the limit"',
        renderer="team:deref_request",
        rank=42,
        arguments=("pointer",),
        override="team:grant_ask",
    ),
    tool=Tool(hidden=("intended_use",)),
    prose=("reason", "intended_use"),
)
def request_deref(context: Context, request: RequestDeref) -> RequestAnswer:
    """Ask your parent to let you read more.

    Your parent finds the request in its inbox, and approves or denies it.
    """
    ref = _resolve_pointer(context, request.pointer)

    def decide(view: View) -> tuple[list[DerefRequested], RequestAnswer]:
        requested = grants.request_deref(
            view,
            caller=context.caller,
            ref=ref,
            reason=request.reason,
            intended_use=request.intended_use,
            max_tokens=request.max_tokens,
            randomness=context.randomness,
        )
        return [requested], RequestAnswer(request_id=requested.request_id, asked=requested.to)

    return context.commit(decide, RequestAnswer)


class ListRequests(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class RequestRow(Struct, frozen=True, kw_only=True):
    request_id: str
    agent: str
    to: str
    """Name of the agent that has to answer, or admin."""
    asked_at: str
    ref: str
    reason: str
    intended_use: str
    max_tokens: int


class RequestsAnswer(Struct, frozen=True, kw_only=True):
    requests: list[RequestRow]
    as_of: str


@operation(
    "grant.requests",
    roles=PARENTS,
    route=Route("GET", "/pointer/request"),
    command=Command(
        "grant requests",
        section="team",
        example="engrambus grant requests",
        renderer="team:request_list",
        rank=46,
    ),
    absent_from={"mcp": "requests lie in the inbox"},
)
def list_requests(context: Context, request: ListRequests) -> RequestsAnswer:
    """List requests to read more that wait for your answer."""
    rows = [
        RequestRow(
            request_id=requested.request_id,
            agent=requested.agent,
            to=requested.to,
            asked_at=print_time(ulid_time(requested.request_id)),
            ref=requested.ref,
            reason=requested.reason,
            intended_use=requested.intended_use,
            max_tokens=requested.max_tokens,
        )
        for requested in grants.requests_to(context.view, context.caller)
    ]
    return RequestsAnswer(requests=rows, as_of=print_time(context.as_of))


class AnswerRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: Annotated[str, Meta(max_length=26, description="The request's id")]
    cap_tokens: (
        Annotated[
            int, Meta(ge=1, le=MAX_CAP_TOKENS, description="Tokens it may cost in total; by default what was asked for")
        ]
        | None
    ) = None
    uses: Uses = DEFAULT_USES
    expires_in: Annotated[str, Meta(description="Lifetime: PT6H is 6 hours, P7D is 7 days")] = DEFAULT_LIFETIME


@operation(
    "grant.approve",
    roles=PARENTS,
    writes=True,
    route=Route("POST", "/pointer/request/{id}/approve"),
    command=Command(
        "grant approve",
        section="team",
        example="engrambus grant approve 01K7Z3V5QX0000000000000000",
        renderer="team:grant",
        rank=47,
        arguments=("id",),
    ),
    absent_from={"mcp": "less_issue_grant gives an agent's parent the same"},
)
def approve_request(context: Context, request: AnswerRequest) -> GrantAnswer:
    """Approve a request to read more, and issue the grant."""
    lifetime_us = parse_duration(request.expires_in, "expires_in")
    tokens: list[str] = []

    def decide(view: View) -> tuple[list[Any], GrantIssued]:
        (grant, token), answered = grants.approve_request(
            view,
            caller=context.caller,
            request_id=request.id,
            cap_tokens=request.cap_tokens,
            uses=request.uses,
            lifetime_us=lifetime_us,
            key=context.grant_key,
            randomness=context.randomness,
        )
        tokens.append(token)
        return [grant, answered], grant

    return _answer(context.commit(decide, GrantIssued), tokens)


class DenyAnswer(Struct, frozen=True, kw_only=True):
    request_id: str
    granted: bool = False


class RequestId(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: Annotated[str, Meta(max_length=26, description="The request's id")]


@operation(
    "grant.deny",
    roles=PARENTS,
    writes=True,
    route=Route("POST", "/pointer/request/{id}/deny"),
    command=Command(
        "grant deny",
        section="team",
        example="engrambus grant deny 01K7Z3V5QX0000000000000000",
        renderer="team:denial",
        rank=48,
        arguments=("id",),
    ),
    absent_from={"mcp": "a request not granted is not granted"},
)
def deny_request(context: Context, request: RequestId) -> DenyAnswer:
    """Deny a request to read more."""

    def decide(view: View) -> tuple[list[DerefAnswered], DenyAnswer]:
        answered = grants.deny_request(view, caller=context.caller, request_id=request.id)
        return [answered], DenyAnswer(request_id=request.id)

    return context.commit(decide, DenyAnswer)


def _answer(grant: GrantIssued, tokens: list[str]) -> GrantAnswer:
    # A token is not part of the committed answer, which would write it into the journal. So there is none if the
    # commit found the same request, by its idempotency key, already answered.
    return GrantAnswer(
        grant_id=grant.grant_id,
        budget_token=tokens[-1] if tokens else "",
        child_id=grant.child,
        expires_at=print_time(grant.expires_us),
    )


def _resolve_target(context: Context, pointer: Pointer | str) -> str:
    """Return the ref to grant: a prefix as it is, a pointer in canonical form."""
    ref = pointer if isinstance(pointer, str) else pointer.ref
    return ref if grants.is_prefix(ref) else _resolve_pointer(context, pointer)


def _resolve_pointer(context: Context, pointer: Pointer | str) -> str:
    """Return the canonical ref of a pointer; one that leads to no content is refused."""
    checked, address = check_pointer(as_pointer(pointer))
    return context.evidence.stamp(checked, address).ref
