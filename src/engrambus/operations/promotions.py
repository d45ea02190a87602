"""Promotion beyond the project: the requests that wait for an admin, and the admin's answers."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from engrambus.core import print_time
from engrambus.gateway.context import Context
from engrambus.gateway.declare import ADMINS, Command, Route, operation
from engrambus.gateway.ports import View
from engrambus.knowledge.engrams import StoredPromotion, answer_promotion
from engrambus.policy import ADMIN

MAX_PROMOTIONS = 200
_FOR_PEOPLE = {"mcp": "a person decides what other projects see"}


class ListPromotions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The requests to show."""

    all: Annotated[bool, Meta(description="Show answered requests too")] = False
    k: Annotated[int, Meta(ge=1, le=MAX_PROMOTIONS, description="Maximum number of results")] = 50


class PromotionRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One request to promote an engram to org or global."""

    request_id: str
    id: str
    """The engram's id."""
    scope: str
    """The scope it would be seen in."""
    asked_by: str
    asked_at: str
    status: Literal["waiting", "approved", "declined"]
    claim: str | None = None
    """What the engram says; none if it has expired or left the project."""
    kind: str | None = None
    refs: list[str] = []
    """Its pointers."""
    answered_by: str | None = None
    answered_at: str | None = None


class PromotionsAnswer(Struct, frozen=True, kw_only=True):
    promotions: list[PromotionRow]
    as_of: str


@operation(
    "promotion.list",
    route=Route("GET", "/promotion"),
    command=Command(
        "promotion list",
        section="knowledge",
        example="engrambus promotion list",
        renderer="knowledge:promotion_list",
        rank=63,
    ),
    absent_from=_FOR_PEOPLE,
)
def list_promotions(context: Context, request: ListPromotions) -> PromotionsAnswer:
    """List requests to show an engram to other projects, which wait for an admin.

    An agent sees the requests it made itself.
    """
    view, caller = context.view, context.caller
    rows = [
        promotion_row(view, stored)
        for stored in view.promotions(waiting=not request.all, limit=MAX_PROMOTIONS)
        if caller.role == ADMIN or stored.request.by == caller.full_name
    ]
    return PromotionsAnswer(promotions=rows[: request.k], as_of=print_time(context.as_of))


class PromotionId(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: Annotated[str, Meta(max_length=26, description="The request's id")]


@operation(
    "promotion.approve",
    roles=ADMINS,
    writes=True,
    route=Route("POST", "/promotion/{id}/approve"),
    command=Command(
        "promotion approve",
        section="knowledge",
        example="engrambus promotion approve 01K7Z3V5QX0000000000000000",
        renderer="knowledge:promotion",
        rank=63,
        arguments=("id",),
    ),
    absent_from=_FOR_PEOPLE,
    span="update_memory",
)
def approve_promotion(context: Context, request: PromotionId) -> PromotionRow:
    """Approve a request, so that other projects see the engram."""
    return _answer(context, request.id, approved=True)


@operation(
    "promotion.decline",
    roles=ADMINS,
    writes=True,
    route=Route("POST", "/promotion/{id}/decline"),
    command=Command(
        "promotion decline",
        section="knowledge",
        example="engrambus promotion decline 01K7Z3V5QX0000000000000000",
        renderer="knowledge:promotion",
        rank=63,
        arguments=("id",),
    ),
    absent_from=_FOR_PEOPLE,
)
def decline_promotion(context: Context, request: PromotionId) -> PromotionRow:
    """Decline a request; the engram stays as it is."""
    return _answer(context, request.id, approved=False)


def _answer(context: Context, request_id: str, *, approved: bool) -> PromotionRow:
    repository = context.project_files.repositories.shared_name() if approved else None

    def decide(view: View) -> tuple[list[Any], PromotionRow]:
        facts, stored = answer_promotion(
            view,
            request_id,
            approved=approved,
            caller=context.caller,
            policy=context.policy,
            repository=repository,
        )
        return facts, promotion_row(view, stored)

    row = context.commit(decide, PromotionRow, in_run=False)
    if approved:
        context.deliver(row.scope)
    return row


def promotion_row(view: View, stored: StoredPromotion) -> PromotionRow:
    """Return a request as it is shown, with the engram if the project still has it."""
    request, answer = stored.request, stored.answer
    found = view.find((request.space,), request.id)
    return PromotionRow(
        request_id=request.request_id,
        id=request.id,
        scope=request.scope,
        asked_by=request.by,
        asked_at=print_time(stored.asked_us),
        status="waiting" if answer is None else "approved" if answer.approved else "declined",
        claim=found.engram.claim if found else None,
        kind=found.engram.kind if found else None,
        refs=[pointer.ref for pointer in found.engram.pointers] if found else [],
        answered_by=answer.by if answer else None,
        answered_at=print_time(stored.answered_us) if stored.answered_us is not None else None,
    )
