"""Requests to read more than a turn allows: asked by a child, approved or denied by its parent."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from engrambus.core import print_time, ulid_time
from engrambus.gateway.context import Context
from engrambus.gateway.declare import PARENTS, Command, Route, Tool, operation
from engrambus.gateway.pointer_fields import PointerOrRef
from engrambus.gateway.ports import View
from engrambus.operations.grants import (
    DEFAULT_CAP_TOKENS,
    DEFAULT_LIFETIME,
    DEFAULT_USES,
    MAX_CAP_TOKENS,
    GrantAnswer,
    Purpose,
    WithBiscuit,
    grant_answer,
    resolve_pointer,
)
from engrambus.policy import DerefAnswered, DerefRequested, grants, lifetime_within
from engrambus.policy.grants import GrantIssued

Reason = Annotated[str, Meta(min_length=1, max_length=500, description="Why you need it")]


class RequestDeref(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request to read more than a turn allows."""

    pointer: PointerOrRef
    reason: Reason
    intended_use: Purpose = ""
    max_tokens: Annotated[int, Meta(ge=1, le=MAX_CAP_TOKENS, description="Tokens it may cost in total")] = (
        DEFAULT_CAP_TOKENS
    )


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
    tool=Tool(hidden=("intended_use", "max_tokens")),
    prose=("reason", "intended_use"),
)
def request_deref(context: Context, request: RequestDeref) -> RequestAnswer:
    """Ask your parent to let you read more.

    Your parent finds the request in its inbox, and approves or denies it.
    """
    ref = resolve_pointer(context, request.pointer)

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
    run_id: str
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
            run_id=requested.run,
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
    uses: Annotated[int, Meta(ge=1, le=1000, description="Number of times it may be used")] = DEFAULT_USES
    expires_in: (
        Annotated[str, Meta(description="Lifetime: PT6H is 6 hours, P7D is 7 days; default one hour")] | None
    ) = None
    biscuit: WithBiscuit = False


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
    tool=Tool(
        part_of="less_inbox",
        action="approve",
        hidden=("cap_tokens", "uses", "expires_in", "biscuit"),
        asks_permission=True,
    ),
)
def approve_request(context: Context, request: AnswerRequest) -> GrantAnswer:
    """Approve a request to read more, and issue the grant."""
    lifetime_us = lifetime_within(request.expires_in, DEFAULT_LIFETIME, context.policy.max_grant_ttl)

    def decide(view: View) -> tuple[list[GrantIssued | DerefAnswered], GrantIssued]:
        grant, answered = grants.approve_request(
            view,
            caller=context.caller,
            request_id=request.id,
            cap_tokens=request.cap_tokens,
            uses=request.uses,
            lifetime_us=lifetime_us,
            randomness=context.randomness,
        )
        return [grant, answered], grant

    return grant_answer(context, context.commit(decide, GrantIssued), biscuit=request.biscuit)


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
    tool=Tool(part_of="less_inbox", action="decline", asks_permission=True),
)
def deny_request(context: Context, request: RequestId) -> DenyAnswer:
    """Deny a request to read more."""

    def decide(view: View) -> tuple[list[DerefAnswered], DenyAnswer]:
        answered = grants.deny_request(view, caller=context.caller, request_id=request.id)
        return [answered], DenyAnswer(request_id=answered.request_id)

    return context.commit(decide, DenyAnswer)
