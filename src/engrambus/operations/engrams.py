"""Putting engrams on the bus."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from engrambus.core import SECOND, new_ulid, parse_duration, print_time
from engrambus.errors import (
    EngramBusError,
    FieldValue,
    FileNotFound,
    IdTaken,
    NoPointer,
    PhantomRead,
    RateLimited,
    RoleForbidden,
    SpanNotFound,
)
from engrambus.evidence.pointers import Pointer
from engrambus.gateway.declare import KEEPERS, PARENTS, Command, Route, operation
from engrambus.gateway.gateway import Context
from engrambus.gateway.ports import View
from engrambus.gateway.project_files import is_ref
from engrambus.knowledge.engrams import (
    CheckedEngram,
    Engram,
    EngramConfirmed,
    EngramPut,
    Keys,
    Kind,
    Provenance,
    Source,
    Stored,
    alike,
    hash_keys,
    stamp,
    twin_key,
    validate,
)
from engrambus.policy import ADMIN, Scope, check_may_write, root_of, space_of

MAX_AT_ONCE = 500
MAX_COMPARED = 16
"""How many engrams with the same twin key a new one is held against."""

MINUTE = 60 * SECOND


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


class Prepared(Struct, frozen=True, kw_only=True):
    """An engram that needs only a moment and an id to be put."""

    checked: CheckedEngram
    pointers: tuple[Pointer, ...]
    pointed_tokens: int
    """What stands behind the pointers."""
    keys: Keys


@operation(
    "less.put_engram",
    writes=True,
    route=Route("POST", "/engram"),
    command=Command("put", ("claim",)),
    tool=True,
)
def put_engram(context: Context, request: PutEngram) -> Engram:
    """Put one claim on the bus, anchored to pointers."""
    return _put(context, request)


class PutFound(PutEngram, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An engram about something that was looked up for an agent rather than said by it."""

    source: Annotated[Literal["rag", "sam"], Meta(description="Where it was found: by retrieval, or in the memory")]


@operation(
    "engram.put_found",
    writes=True,
    route=Route("POST", "/engram/found"),
    kept_off={"mcp": "an orchestrator's hooks look things up", "cli": "an orchestrator's hooks look things up"},
)
def put_found(context: Context, request: PutFound) -> Engram:
    """Put what was looked up for an agent, and keep where it was found."""
    caller = context.caller
    if caller.spoken_by is None and caller.role not in PARENTS | KEEPERS:
        raise RoleForbidden(
            "What an agent says of itself comes from an agent.",
            field="source",
            limit="a parent, a tool, or somebody who speaks for the agent",
            hint="Put it with less.put_engram.",
        )
    return _put(context, request, request.source)


def _put(context: Context, request: PutEngram, found_in: Source | None = None) -> Engram:
    prepared = _prepare(context, request)

    def decide(view: View) -> tuple[list[EngramPut | EngramConfirmed], Engram]:
        _check_rate(context, view, 1)
        fact, engram = put_or_confirm(context, view, prepared, found_in)
        return [fact] if fact else [], engram

    engram = context.commit(decide, Engram)
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
    route=Route("POST", "/engrams"),
    kept_off={"mcp": "agents say one thing at a time", "cli": "engrambus put --file sends it in batches"},
)
def put_engrams(context: Context, request: PutEngrams) -> PutAnswer:
    """Put many engrams in one commit: all of them, or none."""
    if not 0 < len(request.engrams) <= MAX_AT_ONCE:
        raise FieldValue("Too few or too many at once.", field="engrams", limit=MAX_AT_ONCE, used=len(request.engrams))
    prepared = []
    commits: dict[str, str] = {}
    for position, sent in enumerate(request.engrams):
        with naming(f"engrams[{position}]"):
            prepared.append(_prepare(context, sent, commits))

    def decide(view: View) -> tuple[list[EngramPut | EngramConfirmed], PutAnswer]:
        facts, ids = put_each(context, view, prepared, "engrams")
        return facts, PutAnswer(ids=ids)

    answer = context.commit(decide, PutAnswer)
    context.deliver(*(each.checked.scope for each in prepared))
    return answer


@contextmanager
def naming(place: str) -> Iterator[None]:
    """Let a refusal say which engram of several it is about."""
    try:
        yield
    except EngramBusError as refusal:
        refusal.field = place + (f".{refusal.field}" if refusal.field else "")
        raise


def _prepare(context: Context, request: PutEngram, commits: dict[str, str] | None = None) -> Prepared:
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
        return prepare_checked(context, validate(draft, max_ttl=parse_duration(context.policy.max_ttl)))


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


def prepare_checked(context: Context, checked: CheckedEngram) -> Prepared:
    """What is left to do of that for an engram that keeps its own rules: scope, evidence and keys."""
    check_may_write(context.policy, context.caller, checked.scope)
    pointers = tuple(
        context.evidence.stamp(pointer, address, f"pointers[{position}]")
        for position, (pointer, address) in enumerate(zip(checked.pointers, checked.addresses, strict=True))
    )
    context.project_files.keep(checked.addresses)
    keys = hash_keys(checked.claim, [pointer.ref for pointer in pointers], checked.tags, checked.hash_keys)
    weight = sum(map(context.evidence.weigh, pointers, checked.addresses))
    return Prepared(checked=checked, pointers=pointers, pointed_tokens=weight, keys=keys)


class _Beside:
    """What is put in the same commit."""

    def __init__(self) -> None:
        self.ids: set[str] = set()
        self._twins: dict[tuple[str, str], list[Engram]] = {}

    def add(self, engram: Engram, twin: str) -> None:
        """Take note of one."""
        self.ids.add(engram.id)
        self._twins.setdefault((engram.scope, twin), []).append(engram)

    def said(self, engram: Engram, twin: str) -> Engram | None:
        """The one that already says this, if there is one."""
        found = self._twins.get((engram.scope, twin), ())
        return next((other for other in found if alike(engram, other)), None)


def put_each(
    context: Context, view: View, prepared: Sequence[Prepared], place: str
) -> tuple[list[EngramPut | EngramConfirmed], list[str]]:
    """The facts that engrams are put or say again what others say, and the ids of those that now say it, in order."""
    _check_rate(context, view, len(prepared))
    facts: list[EngramPut | EngramConfirmed] = []
    ids: list[str] = []
    beside = _Beside()
    for position, each in enumerate(prepared):
        with naming(f"{place}[{position}]"):
            fact, engram = put_or_confirm(context, view, each, beside=beside)
        facts += [fact] if fact is not None else []
        ids.append(engram.id)
    return facts, ids


def put_or_confirm(
    context: Context,
    view: View,
    prepared: Prepared,
    found_in: Source | None = None,
    beside: _Beside | None = None,
) -> tuple[EngramPut | EngramConfirmed | None, Engram]:
    """The fact that an engram is put, or that it says again what another says; and the engram that now says it.

    To say again what stands beside it in the same commit is no fact. What has an id of its author's is always put.
    """
    beside = beside or _Beside()
    fact = _fact(context, view, prepared, found_in, beside)
    engram, twin = fact.engram, twin_key(fact.engram)
    if not prepared.checked.id:
        same = beside.said(engram, twin)
        if same is not None:
            return None, same
        stored = _said_before(context, view, engram, twin)
        if stored is not None:
            return confirmation(context, view, stored), stored.engram
    beside.add(engram, twin)
    return fact, engram


def _fact(context: Context, view: View, prepared: Prepared, found_in: Source | None, beside: _Beside) -> EngramPut:
    caller, checked = context.caller, prepared.checked
    engram_id = checked.id or new_ulid(view.as_of, context.randomness)
    _check_reads(context, view, checked)
    if checked.id in beside.ids:
        raise IdTaken("Two engrams of the same commit have the same id.", field="id", used=checked.id)
    if checked.id and view.find([space_of(checked.scope, caller.run)], checked.id) is not None:
        raise IdTaken(field="id", used=checked.id)
    source: Source = found_in or ("tool" if caller.role == "tool" else "agent")
    provenance = Provenance(created_at=print_time(view.as_of), created_by=caller.full_name, source=source)
    engram = stamp(
        checked, id=engram_id, provenance=provenance, hash_keys=prepared.keys.public, pointers=prepared.pointers
    )
    return EngramPut(
        engram=engram,
        run=caller.run.run_id,
        expires_at=view.as_of + checked.lifetime,
        more_keys=prepared.keys.more,
        pointed_tokens=prepared.pointed_tokens,
    )


def _check_reads(context: Context, view: View, checked: CheckedEngram) -> None:
    """Refuse a digest that no dereference of this run gave: whoever carries one claims to have read."""
    if context.caller.role == ADMIN:
        return
    for position, pointer in enumerate(checked.pointers):
        if pointer.digest is not None and not view.was_read(context.caller.run.run_id, pointer.digest):
            raise PhantomRead(
                field=f"pointers[{position}].digest",
                used=pointer.digest,
                hint="Leave the digest out, or dereference the pointer first.",
            )


def _check_rate(context: Context, view: View, more: int) -> None:
    """Refuse what an agent puts beyond its minute's share; the admin's imports are not counted."""
    caller, limit = context.caller, context.policy.engrams_per_minute
    if caller.role == ADMIN:
        return
    used = view.puts_in_minute(caller.full_name, view.as_of // MINUTE)
    if used + more > limit:
        wait = 60 - view.as_of // SECOND % 60
        raise RateLimited(field="engrams_per_minute", limit=limit, used=used, hint=f"Come back in {wait} s.")


def _said_before(context: Context, view: View, engram: Engram, twin: str) -> Stored | None:
    """The live engram in the same space that already says this, if there is one."""
    space = space_of(engram.scope, context.caller.run)
    found = view.twins(space, twin, limit=MAX_COMPARED)
    for other in view.engrams(found):
        if alike(engram, other):
            return view.find((space,), other.id)
    return None


def confirmation(context: Context, view: View, stored: Stored) -> EngramConfirmed:
    """The fact that this caller says again what an engram says."""
    return EngramConfirmed(
        id=stored.engram.id,
        space=stored.space,
        by=context.caller.full_name,
        root=root_of(view, context.caller),
        expires_at=max(stored.expires_at, view.as_of + parse_duration(stored.engram.ttl)),
    )
