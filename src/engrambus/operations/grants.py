"""Letting a child read more than its turn allows: grants, and requests for them."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from engrambus.core import new_ulid, parse_duration, print_time, ulid_time
from engrambus.errors import AgentNotFound, GrantNotFound, RequestNotFound, RoleForbidden
from engrambus.evidence.pointers import Pointer, check_pointer
from engrambus.gateway.context import Context
from engrambus.gateway.declare import PARENTS, Command, Route, Tool, operation
from engrambus.gateway.ports import View
from engrambus.operations.pointers import PointerOrRef, as_pointer
from engrambus.policy import ADMIN, DerefAnswered, DerefRequested, check_descends
from engrambus.policy.grants import GrantIssued, GrantRevoked, KeptRequest, issue, read, read_pointer, read_prefix

DEFAULT_CAP = 400
MAX_CAP = 100_000
DEFAULT_USES = 1
DEFAULT_LIFETIME = "PT1H"

Cap = Annotated[int, Meta(ge=1, le=MAX_CAP, description="Tokens it may cost in total")]
Uses = Annotated[int, Meta(ge=1, le=1000, description="How often it may be used")]
Reason = Annotated[str, Meta(min_length=1, max_length=500, description="Why you need it")]
Use = Annotated[str, Meta(max_length=500, description="What it is needed for")]


class IssueGrant(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a parent lets a child read."""

    child_id: Annotated[str, Meta(description="The agent, a descendant of yours; it may pass on a smaller grant")]
    pointer: PointerOrRef
    cap_tokens: Cap = DEFAULT_CAP
    uses: Uses = DEFAULT_USES
    expires_in: Annotated[str, Meta(description="Lifetime: PT6H is 6 hours, P7D is 7 days")] = DEFAULT_LIFETIME
    intended_use: Use = ""
    inline_code_chars: Annotated[
        int, Meta(ge=0, le=100_000, description="Characters of code a message may carry with this grant")
    ] = 0


class GrantAnswer(Struct, frozen=True, kw_only=True):
    grant_id: str
    budget_token: str
    """Empty when the same request was answered before: tokens are not kept, and the grant holds without."""
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
        override="team:grant_issue",
    ),
    tool=Tool(hidden=("expires_in", "inline_code_chars", "intended_use", "uses")),
)
def issue_grant(context: Context, request: IssueGrant) -> GrantAnswer:
    """Let a child agent read more than its turn allows."""
    ref = _what(context, request.pointer)
    token: dict[str, str] = {}

    def decide(view: View) -> tuple[list[Any], GrantIssued]:
        _check_child(context, view, request.child_id)
        grant, token["text"] = _made(context, view, request.child_id, ref, request)
        return [grant], grant

    grant = context.commit(decide, GrantIssued)
    return _answer(grant, token.get("text", ""))


class GrantId(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: Annotated[str, Meta(max_length=26, description="The grant's id")]


class Revoked(Struct, frozen=True, kw_only=True):
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
def revoke_grant(context: Context, request: GrantId) -> Revoked:
    """Revoke a grant, and every token derived from it."""
    caller = context.caller

    def decide(view: View) -> tuple[list[GrantRevoked], Revoked]:
        grant = view.grant(caller.run.run_id, request.id)
        if grant is None or (caller.role != ADMIN and grant.parent != caller.name):
            raise GrantNotFound(field="id")
        return [GrantRevoked(block_id=grant.block_id, run=grant.run, by=caller.full_name)], Revoked(
            grant_id=grant.grant_id
        )

    return context.commit(decide, Revoked, in_run=False)


class RequestDeref(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something an agent would like to read beyond its turn."""

    pointer: PointerOrRef
    reason: Reason
    intended_use: Use = ""
    max_tokens: Cap = DEFAULT_CAP


class RequestAnswer(Struct, frozen=True, kw_only=True):
    request_id: str
    asked: str
    """Who will answer."""


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
)
def request_deref(context: Context, request: RequestDeref) -> RequestAnswer:
    """Ask your parent to let you read more."""
    ref = _found(context, request.pointer)

    def decide(view: View) -> tuple[list[DerefRequested], RequestAnswer]:
        fact = requested(context, view, ref, request.reason, request.intended_use, request.max_tokens)
        return [fact], RequestAnswer(request_id=fact.request_id, asked=fact.to)

    return context.commit(decide, RequestAnswer)


def requested(
    context: Context, view: View, ref: str, reason: str, intended_use: str, max_tokens: int
) -> DerefRequested:
    """The fact that the caller asks to read something."""
    return DerefRequested(
        request_id=new_ulid(view.as_of, context.randomness),
        run=context.caller.run.run_id,
        agent=context.caller.name,
        to=parent_of(context, view),
        ref=ref,
        reason=reason,
        intended_use=intended_use,
        max_tokens=max_tokens,
    )


def parent_of(context: Context, view: View) -> str:
    """The caller's parent; the admin for those without one."""
    agent = view.agent(context.caller.run.run_id, context.caller.name)
    return agent.parent if agent is not None and agent.parent is not None else ADMIN


class ListRequests(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class RequestRow(Struct, frozen=True, kw_only=True):
    request_id: str
    agent: str
    to: str
    """Who is asked."""
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
    caller = context.caller
    rows = [
        RequestRow(
            request_id=kept.asked.request_id,
            agent=kept.asked.agent,
            to=kept.asked.to,
            asked_at=print_time(ulid_time(kept.asked.request_id)),
            ref=kept.asked.ref,
            reason=kept.asked.reason,
            intended_use=kept.asked.intended_use,
            max_tokens=kept.asked.max_tokens,
        )
        for kept in context.view.open_requests(caller.run.run_id)
        if caller.role == ADMIN or kept.asked.to == caller.name
    ]
    return RequestsAnswer(requests=rows, as_of=print_time(context.as_of))


class AnswerRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: Annotated[str, Meta(max_length=26, description="The request's id")]
    cap_tokens: (
        Annotated[int, Meta(ge=1, le=MAX_CAP, description="Tokens it may cost in total; by default what was asked for")]
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
    token: dict[str, str] = {}

    def decide(view: View) -> tuple[list[Any], GrantIssued]:
        kept = _open_request(context, view, request.id)
        asked = IssueGrant(
            child_id=kept.asked.agent,
            pointer=kept.asked.ref,
            cap_tokens=request.cap_tokens or kept.asked.max_tokens,
            uses=request.uses,
            expires_in=request.expires_in,
            intended_use=kept.asked.intended_use or kept.asked.reason,
        )
        grant, token["text"] = _made(context, view, asked.child_id, kept.asked.ref, asked)
        answered = DerefAnswered(
            request_id=request.id, run=grant.run, by=context.caller.full_name, grant_id=grant.grant_id
        )
        return [grant, answered], grant

    grant = context.commit(decide, GrantIssued)
    return _answer(grant, token.get("text", ""))


class Denied(Struct, frozen=True, kw_only=True):
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
def deny_request(context: Context, request: RequestId) -> Denied:
    """Deny a request to read more."""

    def decide(view: View) -> tuple[list[DerefAnswered], Denied]:
        kept = _open_request(context, view, request.id)
        return [DerefAnswered(request_id=request.id, run=kept.asked.run, by=context.caller.full_name)], Denied(
            request_id=request.id
        )

    return context.commit(decide, Denied)


def _open_request(context: Context, view: View, request_id: str) -> KeptRequest:
    caller = context.caller
    kept = view.request(caller.run.run_id, request_id)
    if kept is None or kept.answered or (caller.role != ADMIN and kept.asked.to != caller.name):
        raise RequestNotFound(field="id")
    return kept


def _what(context: Context, given: Pointer | str) -> str:
    """The ref of what is granted, a pointer's span in it; a prefix as it is."""
    ref = given if isinstance(given, str) else given.ref
    return ref if _is_prefix(ref) else _found(context, given)


def _found(context: Context, given: Pointer | str) -> str:
    """The ref of a pointer that leads to something: nobody waits for leave to read what is not there."""
    pointer, address = check_pointer(as_pointer(given))
    return context.evidence.stamp(pointer, address).ref


def _is_prefix(ref: str) -> bool:
    return ref.rpartition("@")[0].endswith(("/*", ":*"))


def _check_child(context: Context, view: View, child: str) -> None:
    if child == context.caller.name:
        raise RoleForbidden("Nobody grants to itself.", field="child_id")
    if child == ADMIN:
        raise AgentNotFound(field="child_id")
    check_descends(view, context.caller, child, "child_id")


def _made(context: Context, view: View, child: str, ref: str, asked: IssueGrant) -> tuple[GrantIssued, str]:
    """A grant and its token."""
    caller = context.caller
    is_prefix = _is_prefix(ref)
    target = read_prefix(ref, "pointer") if is_prefix else read_pointer(ref, "pointer")
    grant_id = new_ulid(view.as_of, context.randomness)
    expires_at = view.as_of + parse_duration(asked.expires_in, "expires_in")
    where: dict[str, str] = {"prefix" if is_prefix else "pointer": target.text}
    token = issue(
        context.grant_key,
        grant_id=grant_id,
        project=caller.project,
        run=caller.run.run_id,
        parent=caller.name,
        child=child,
        cap_tokens=asked.cap_tokens,
        uses=asked.uses,
        expires_at=expires_at,
        intended_use=asked.intended_use,
        inline_code_chars=asked.inline_code_chars,
        **where,
    )
    grant = GrantIssued(
        grant_id=grant_id,
        block_id=read(context.grant_key, token).blocks[0].block_id,
        run=caller.run.run_id,
        parent=caller.name,
        child=child,
        cap_tokens=asked.cap_tokens,
        uses=asked.uses,
        expires_at=expires_at,
        intended_use=asked.intended_use,
        by=caller.full_name,
        inline_code_chars=asked.inline_code_chars,
        **where,
    )
    return grant, token


def _answer(grant: GrantIssued, token: str) -> GrantAnswer:
    return GrantAnswer(
        grant_id=grant.grant_id,
        budget_token=token,
        child_id=grant.child,
        expires_at=print_time(grant.expires_at),
    )
