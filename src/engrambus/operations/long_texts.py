"""Texts that are too long for one claim: they are split into engrams that keep their order (decision 90)."""

from __future__ import annotations

import re
from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType, structs

from engrambus.errors import ClaimEmpty, EngramBusError, FieldValue
from engrambus.gateway.context import Context
from engrambus.gateway.declare import Route, operation
from engrambus.gateway.pointer_fields import Place, PointerOrRef
from engrambus.knowledge.engrams import Kind, fits_claim, split_claim
from engrambus.operations.engram_uses import UsedIds
from engrambus.operations.engrams import MAX_PER_REQUEST, PutEngram, put_drafts
from engrambus.policy import Scope

MAX_TEXT_CHARS = 100_000
_PART = re.compile(r"text\[\d+\]\.?")


class PutText(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A text of any length up to a limit, and what each engram made of it shares."""

    text: Annotated[
        str,
        Meta(max_length=MAX_TEXT_CHARS, description=f"At most {MAX_TEXT_CHARS} characters; it may begin with `Ada: `"),
    ]
    kind: Annotated[Kind, Meta(description="Kind of claim")] = "fact"
    pointers: Annotated[list[PointerOrRef], Meta(description="Pointer to evidence, with its commit or digest")] = []
    at: Annotated[list[Place], Meta(description="Evidence: path:10-20 at HEAD, or a pointer's ref")] = []
    snapshot: Annotated[bool, Meta(description="Paths in `at` mean the files on disk, also uncommitted lines")] = False
    confidence: Annotated[float | UnsetType, Meta(description="How sure you are, 0 to 1")] = UNSET
    ttl: Annotated[str | UnsetType, Meta(description="Lifetime: PT6H is 6 hours, P7D is 7 days")] = UNSET
    scope: Annotated[Scope | UnsetType, Meta(description="Who can see it: this run, the project, or more")] = UNSET
    tags: Annotated[list[str] | UnsetType, Meta(description="A word to file it under")] = UNSET
    hash_keys: Annotated[list[str] | UnsetType, Meta(description="An extra key to find it by")] = UNSET
    used: UsedIds = []
    replaces: Annotated[str | UnsetType, Meta(description="Id of the engram that the first one replaces")] = UNSET


class TextPart(Struct, frozen=True, kw_only=True):
    """A piece of the text, and the engram that states it."""

    id: str
    claim: str


class PutTextAnswer(Struct, frozen=True, kw_only=True):
    parts: list[TextPart]
    """The pieces, in order; an id stands twice if the text repeats itself."""


@operation(
    "engram.put_text",
    writes=True,
    route=Route("POST", "/engram/text", body_limit=1024 * 1024),
    absent_from={"mcp": "agents say one thing at a time", "cli": "engrambus put --split calls it"},
    span="create_memory",
    prose=("text", "tags", "hash_keys"),
)
def put_text(context: Context, request: PutText) -> PutTextAnswer:
    """Record a text of any length as engrams, in order and in one commit."""
    shared = {name: getattr(request, name) for name in request.__struct_fields__ if name != "text"}
    drafts = split_engram(PutEngram(claim=request.text, **shared), "text")
    try:
        ids = put_drafts(context, drafts, "text")
    except EngramBusError as refusal:
        # A field of a piece is the caller's own field; the claims are ours, so the caller knows them as the text.
        field = _PART.sub("", refusal.field or "", count=1)
        refusal.field = "text" if field == "claim" else field or None
        raise
    return PutTextAnswer(
        parts=[TextPart(id=engram_id, claim=draft.claim) for engram_id, draft in zip(ids, drafts, strict=True)]
    )


def split_engram(draft: PutEngram, field: str = "claim") -> list[PutEngram]:
    """Return an engram as its author sends it, or several if its claim is too long for one.

    Each has the same evidence and the same properties; `used` and `replaces` stay with the first. `field` is the
    author's name for the claim.
    """
    if fits_claim(draft.claim):
        return [draft]
    claims = split_claim(draft.claim)
    if not claims:
        raise ClaimEmpty(field=field)
    for name in ("id", "embedding_ref"):
        if getattr(draft, name) is not UNSET:
            raise FieldValue(
                f"The claim is too long for one engram, and several cannot share `{name}`.",
                field=name,
                hint=f"Leave `{name}` out, or shorten the claim to 3 sentences and 500 characters.",
            )
    if len(claims) > MAX_PER_REQUEST:
        raise FieldValue(
            f"The text makes {len(claims)} engrams, and at most {MAX_PER_REQUEST} are put at a time.",
            field=field,
            limit=MAX_PER_REQUEST,
            used=len(claims),
            hint="Send it in several parts.",
        )
    first = structs.replace(draft, claim=claims[0])
    return [first, *(structs.replace(draft, claim=claim, used=[], replaces=UNSET) for claim in claims[1:])]
