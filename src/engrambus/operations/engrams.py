"""Putting engrams on the bus."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from engrambus.core import parse_duration
from engrambus.errors import EngramBusError, FieldValue, FileNotFound, NoPointer, RoleForbidden, SpanNotFound
from engrambus.evidence.pointers import Pointer
from engrambus.gateway.context import Context
from engrambus.gateway.declare import PARENTS, TOOLS_AND_ADMINS, Command, Route, Tool, operation
from engrambus.gateway.ports import View
from engrambus.gateway.project_files import is_ref
from engrambus.knowledge.engrams import (
    CheckedEngram,
    Engram,
    Kind,
    PreparedEngram,
    PutFact,
    Source,
    prefix_field,
    prepare,
    put_all,
    put_one,
    validate,
)
from engrambus.policy import Scope

MAX_AT_ONCE = 500


class PutEngram(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An engram as its author sends it; `id` and provenance are the gateway's to give."""

    claim: Annotated[str, Meta(description="1-3 sentences, at most 500 characters")]
    kind: Annotated[Kind, Meta(description="What sort of claim it is")] = "fact"
    pointers: Annotated[list[Pointer], Meta(description="Where the evidence is, pinned")] = []
    at: Annotated[list[str], Meta(description="Evidence: path:10-20 at HEAD, or a pointer's ref")] = []
    confidence: Annotated[float | UnsetType, Meta(description="How sure, 0 to 1")] = UNSET
    ttl: Annotated[str | UnsetType, Meta(description="How long it lives: PT6H, P7D")] = UNSET
    scope: Annotated[Scope | UnsetType, Meta(description="How far it is seen")] = UNSET
    tags: Annotated[list[str] | UnsetType, Meta(description="Words to file it under")] = UNSET
    hash_keys: Annotated[list[str] | UnsetType, Meta(description="Extra keys to find it by")] = UNSET
    embedding_ref: Annotated[str | UnsetType, Meta(description="Where an embedding of it is kept")] = UNSET
    id: Annotated[str | UnsetType, Meta(description="A ULID or UUID of your own")] = UNSET
    provenance: Annotated[dict[str, Any] | UnsetType, Meta(description="Stamped by the gateway; refused here")] = UNSET


@operation(
    "less.put_engram",
    writes=True,
    route=Route("POST", "/engram"),
    command=Command(
        "put",
        section="knowledge",
        example='engrambus put "Refunds over 500 need a second approval." --at src/refunds.py:10-20 --kind constraint',
        renderer="knowledge:engram_put",
        rank=10,
        arguments=("claim",),
        override="knowledge:put",
    ),
    tool=Tool(
        hidden=("embedding_ref", "hash_keys", "id", "pointers", "provenance", "scope", "tags", "ttl"),
        explained=("at", "claim"),
        listed=("kind",),
    ),
    span="create_memory",
)
def put_engram(context: Context, request: PutEngram) -> Engram:
    """Record an engram: one claim with pointers to its evidence.

    Name the lines that prove it with --at PATH:10-20. Their commit and digest are stored with the claim, so
    that anybody can see later whether the evidence has changed.
    """
    return _put(context, request)


class PutFound(PutEngram, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An engram about something that was looked up for an agent rather than said by it."""

    source: Annotated[Literal["rag", "sam"], Meta(description="Where it was found: by retrieval, or in the memory")]


@operation(
    "engram.put_found",
    writes=True,
    route=Route("POST", "/engram/found"),
    absent_from={"mcp": "an orchestrator's hooks look things up", "cli": "an orchestrator's hooks look things up"},
    span="create_memory",
)
def put_found(context: Context, request: PutFound) -> Engram:
    """Record an engram about something looked up for an agent, and where it was found."""
    caller = context.caller
    if caller.spoken_by is None and caller.role not in PARENTS | TOOLS_AND_ADMINS:
        raise RoleForbidden(
            "What an agent says of itself comes from an agent.",
            field="source",
            limit="a parent, a tool, or somebody who speaks for the agent",
            hint="Put it with less.put_engram.",
        )
    return _put(context, request, request.source)


def _put(context: Context, request: PutEngram, source: Source | None = None) -> Engram:
    prepared = _prepare(context, request)
    engram = context.commit(
        lambda view: put_one(
            view,
            prepared,
            caller=context.caller,
            policy=context.policy,
            randomness=context.randomness,
            source=source,
        ),
        Engram,
    )
    context.deliver(engram.scope)
    return engram


class PutEngrams(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Many engrams, all of them or none."""

    engrams: Annotated[list[PutEngram], Meta(description=f"At most {MAX_AT_ONCE}")]


class PutAnswer(Struct, frozen=True, kw_only=True):
    ids: list[str]
    """The engrams that were put or confirmed, in order."""


@operation(
    "engram.put_many",
    writes=True,
    route=Route("POST", "/engrams", body_limit=4 * 1024 * 1024),
    absent_from={"mcp": "agents say one thing at a time", "cli": "engrambus put --file sends it in batches"},
    span="create_memory",
)
def put_engrams(context: Context, request: PutEngrams) -> PutAnswer:
    """Record many engrams in one commit: all of them, or none."""
    if not 0 < len(request.engrams) <= MAX_AT_ONCE:
        raise FieldValue("Too few or too many at once.", field="engrams", limit=MAX_AT_ONCE, used=len(request.engrams))
    prepared = []
    commits: dict[str, str] = {}
    for position, draft in enumerate(request.engrams):
        with prefix_field(f"engrams[{position}]"):
            prepared.append(_prepare(context, draft, commits))

    def decide(view: View) -> tuple[list[PutFact], PutAnswer]:
        facts, ids = put_all(
            view,
            prepared,
            caller=context.caller,
            policy=context.policy,
            randomness=context.randomness,
            field="engrams",
        )
        return facts, PutAnswer(ids=ids)

    answer = context.commit(decide, PutAnswer)
    context.deliver(*(item.checked.scope for item in prepared))
    return answer


def _prepare(context: Context, request: PutEngram, commits: dict[str, str] | None = None) -> PreparedEngram:
    """Everything about a put that needs no lock: its rules, its evidence, its keys."""
    draft = msgspec.to_builtins(request)
    draft.pop("source", None)
    places = draft.pop("at")
    draft["pointers"] += [
        {"type": place.partition(":")[0], "ref": place}
        if is_ref(place)
        else msgspec.to_builtins(context.project_files.point_at(place, f"at[{position}]", commits))
        for position, place in enumerate(places)
    ]
    with _naming_places(places, len(request.pointers)):
        return prepare_engram(context, validate(draft, max_ttl=parse_duration(context.policy.max_ttl)))


@contextmanager
def _naming_places(places: list[str], before: int) -> Iterator[None]:
    """Let a refusal of what was given in `at` name that, and not the pointer that was made of it."""
    try:
        yield
    except NoPointer as refusal:
        refusal.hint = "Say where it shows: `at` takes src/parser.py:10-20."
        raise
    except EngramBusError as refusal:
        pointer = re.match(r"pointers\[(\d+)\]", refusal.field or "")
        position = int(pointer[1]) - before if pointer else -1
        if position >= 0:
            refusal.field = f"at[{position}]"
            if isinstance(refusal, FileNotFound | SpanNotFound) and not is_ref(places[position]):
                more = "Lines that are not committed yet can be pointed at once they are anchored with `snapshot`."
                refusal.hint = f"{refusal.hint} {more}" if refusal.hint else more
        raise


def prepare_engram(context: Context, checked: CheckedEngram) -> PreparedEngram:
    """Prepare a checked engram to be put by the caller."""
    return prepare(
        checked,
        caller=context.caller,
        policy=context.policy,
        evidence=context.evidence,
        repositories=context.project_files.repositories,
    )
