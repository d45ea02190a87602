"""Contradictions that wait for a decision: list them, and decide which claim holds."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from engrambus.core import print_time
from engrambus.gateway.context import Context
from engrambus.gateway.declare import PARENTS, Command, Route, operation
from engrambus.gateway.ports import View
from engrambus.knowledge.cortex import (
    Contradiction,
    Keep,
    NearClaim,
    check_text,
    decide_between,
    find_contradiction,
    is_waiting,
    may_see_contradiction,
    names_memory,
)
from engrambus.operations.review import MAX_REASON_CHARS
from engrambus.policy import visible_spaces

MAX_LISTED = 100
PAGE_SIZE = 100
NO_TOOL = {"mcp": "deciding is for parents at the gateway, and for people"}

ContradictionId = Annotated[str, Meta(max_length=26, description="The contradiction's id")]


class ListContradictions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A filter for contradictions, and the size of a page."""

    all: Annotated[bool, Meta(description="Also those that were decided, or of which a claim has ended")] = False
    k: Annotated[int, Meta(ge=1, le=MAX_LISTED, description="Maximum number of results")] = 20
    cursor: Annotated[str, Meta(max_length=26, description="Continue where the previous answer ended")] | None = None


class ContradictionRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Two claims, and what was decided about them."""

    contradiction_id: str
    status: Literal["waiting", "decided", "ended"]
    """`ended` if one of the two has expired before anybody decided."""
    newer: NearClaim
    older: NearClaim
    risk: str
    """Id of the risk engram that points at the sources of both, while it waits."""
    found_at: str
    found_by: str
    """The author of the newer claim."""
    keep: Keep | None = None
    decided_by: str | None = None
    decided_at: str | None = None
    reason: str | None = None


class ContradictionsAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    contradictions: list[ContradictionRow]
    as_of: str
    cursor: str | None = None
    """Send it with the next request to get the next page."""


@operation(
    "contradiction.list",
    route=Route("GET", "/contradiction"),
    command=Command(
        "contradiction list",
        section="knowledge",
        example="engrambus contradiction list",
        renderer="cortex:contradiction_list",
        rank=70,
    ),
    absent_from=NO_TOOL,
)
def list_contradictions(context: Context, request: ListContradictions) -> ContradictionsAnswer:
    """List claims that may contradict each other and wait for a decision."""
    view, caller = context.view, context.caller
    rows: list[ContradictionRow] = []
    last = request.cursor
    while True:
        page = view.contradictions(waiting=not request.all, limit=PAGE_SIZE, before=last)
        for record in page:
            if len(rows) == request.k:
                return ContradictionsAnswer(contradictions=rows, as_of=print_time(view.as_of), cursor=last)
            last = record.contradiction_id
            if may_see_contradiction(view, record, caller) and (request.all or is_waiting(view, record, caller)):
                rows.append(_row(context, view, record))
        if len(page) < PAGE_SIZE:
            return ContradictionsAnswer(contradictions=rows, as_of=print_time(view.as_of))


class DecideContradiction(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which of two claims holds."""

    id: ContradictionId
    keep: Annotated[Keep, Meta(description="The claim that holds: new, old or both")]
    reason: Annotated[str, Meta(min_length=1, max_length=MAX_REASON_CHARS, description="The reason")]


@operation(
    "contradiction.decide",
    roles=PARENTS,
    writes=True,
    route=Route("POST", "/contradiction/{id}/decide"),
    command=Command(
        "contradiction decide",
        section="knowledge",
        example='engrambus contradiction decide 01K7Z3V5QX0000000000000000 --keep new --reason "Measured again."',
        renderer="cortex:contradiction",
        rank=72,
        arguments=("id",),
    ),
    absent_from=NO_TOOL,
    prose=("reason",),
)
def decide_contradiction(context: Context, request: DecideContradiction) -> ContradictionRow:
    """Decide which of two contradictory claims holds; the other one is replaced by it.

    Only a parent of the author of the newer claim, or an admin, may decide this. With --keep both, both stay.
    """
    check_text(request.reason, "reason")
    decided = context.commit(
        lambda view: decide_between(
            view, request.id, request.keep, request.reason, caller=context.caller, limits=context.limits
        ),
        Contradiction,
    )
    context.write_episodes()
    with context.store.read() as view:
        return _row(context, view, find_contradiction(view, decided.contradiction_id, context.caller))


def _row(context: Context, view: View, record: Contradiction) -> ContradictionRow:
    status: Literal["waiting", "decided", "ended"] = "decided" if record.keep is not None else "waiting"
    if status == "waiting" and not is_waiting(view, record, context.caller):
        status = "ended"
    return ContradictionRow(
        contradiction_id=record.contradiction_id,
        status=status,
        newer=_side(context, view, record, record.newer),
        older=_side(context, view, record, record.older),
        risk=record.risk,
        found_at=record.found_at,
        found_by=record.found_by,
        keep=record.keep,
        decided_by=record.decided_by,
        decided_at=record.decided_at,
        reason=record.reason,
    )


def _side(context: Context, view: View, record: Contradiction, claim_id: str) -> NearClaim:
    """Return one of the two claims as it is now, or as it was when it ended."""
    verdict = record.verdict if claim_id == record.older else "clean"
    if names_memory(claim_id):
        _, kind, rest = claim_id.split(":", 2)
        slug, _, version = rest.partition("@")
        episode = view.episode(kind, slug, version=int(version))
        text, pinned = (episode.text, episode.pinned) if episode is not None else ("", False)
        return NearClaim(id=claim_id, kind=kind, claim=text, pinned=pinned, verdict=verdict)
    spaces = visible_spaces(context.caller)
    stored = view.find(spaces, claim_id)
    past = view.find_past(spaces, claim_id) if stored is None else None
    if past is not None:
        stored = past.stored
    if stored is None:  # forgotten
        return NearClaim(id=claim_id, kind="", claim="", verdict=verdict)
    pinned = stored.ordinal in view.pinned((stored.space,))
    return NearClaim(id=claim_id, kind=stored.engram.kind, claim=stored.engram.claim, pinned=pinned, verdict=verdict)
