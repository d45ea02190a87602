"""Putting engrams on the bus and finding them again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from stigmergy.core import BYTES_PER_TOKEN, new_ulid, parse_duration, print_time
from stigmergy.errors import (
    BudgetTooSmall,
    EngramNotFound,
    FieldValue,
    IdTaken,
    RoleForbidden,
    ScopeForbidden,
    StigmergyError,
)
from stigmergy.evidence.pointers import Pointer
from stigmergy.knowledge.engrams import (
    DEFAULT_K,
    MAX_K,
    CheckedEngram,
    Engram,
    EngramForgotten,
    EngramPromoted,
    EngramPut,
    Keys,
    Kind,
    Provenance,
    Source,
    hash_keys,
    normalise_key,
    query_keys,
    recall,
    stamp,
    validate,
)
from stigmergy.operations.declare import KEEPERS, PARENTS, Command, Route, operation
from stigmergy.operations.gateway import Context
from stigmergy.operations.ports import View
from stigmergy.policy import ADMIN, Scope, check_descends, check_may_write, space_of, visible_spaces

MAX_AT_ONCE = 500
MAX_QUERY = 2000
MAX_CURSOR = 18
_PROMOTIONS = {"run": "project", "project": "org", "org": "global"}

_encode = msgspec.json.Encoder().encode


class PutEngram(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An engram as its author sends it; `id` and provenance are the gateway's to give."""

    claim: Annotated[str, Meta(description="One to three sentences, at most 500 characters")]
    kind: Annotated[Kind, Meta(description="What sort of claim it is")] = "fact"
    pointers: Annotated[list[Pointer], Meta(description="Where the evidence is, pinned")] = []
    at: Annotated[list[str], Meta(description="Evidence the easy way: path:10-20, stamped at HEAD")] = []
    confidence: Annotated[float | UnsetType, Meta(description="How sure, 0 to 1")] = UNSET
    ttl: Annotated[str | UnsetType, Meta(description="How long it lives: PT6H, P7D")] = UNSET
    scope: Annotated[Scope | UnsetType, Meta(description="How far it is seen")] = UNSET
    tags: Annotated[list[str] | UnsetType, Meta(description="Words to file it under")] = UNSET
    hash_keys: Annotated[list[str] | UnsetType, Meta(description="Extra keys to find it by")] = UNSET
    embedding_ref: Annotated[str | UnsetType, Meta(description="Where an embedding of it is kept")] = UNSET
    id: Annotated[str | UnsetType, Meta(description="A ULID or UUID of your own")] = UNSET
    provenance: Annotated[dict[str, Any] | UnsetType, Meta(description="Stamped by the gateway; refused here")] = UNSET


class _Prepared(Struct, frozen=True, kw_only=True):
    """An engram that needs only a moment and an id to be put."""

    checked: CheckedEngram
    pointers: tuple[Pointer, ...]
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
    prepared = _prepare(context, request)

    def decide(view: View) -> tuple[list[EngramPut], Engram]:
        fact = _fact(context, view, prepared)
        return [fact], fact.engram

    return context.commit(decide, Engram)


class PutEngrams(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Many engrams, all of them or none."""

    engrams: Annotated[list[PutEngram], Meta(description=f"At most {MAX_AT_ONCE}")]


class PutAnswer(Struct, frozen=True, kw_only=True):
    ids: list[str]


@operation(
    "engram.put_many",
    writes=True,
    route=Route("POST", "/engrams"),
    kept_off={"mcp": "agents say one thing at a time", "cli": "stig put --file sends it in batches"},
)
def put_engrams(context: Context, request: PutEngrams) -> PutAnswer:
    """Put many engrams in one commit: all of them, or none."""
    if not 0 < len(request.engrams) <= MAX_AT_ONCE:
        raise FieldValue("Too few or too many at once.", field="engrams", limit=MAX_AT_ONCE, used=len(request.engrams))
    prepared = []
    for position, sent in enumerate(request.engrams):
        with _at(position):
            prepared.append(_prepare(context, sent))

    def decide(view: View) -> tuple[list[EngramPut], PutAnswer]:
        facts: dict[str, EngramPut] = {}
        for position, each in enumerate(prepared):
            with _at(position):
                fact = _fact(context, view, each)
                if fact.engram.id in facts:
                    raise IdTaken("Two engrams of the batch have the same id.", field="id", used=fact.engram.id)
            facts[fact.engram.id] = fact
        return list(facts.values()), PutAnswer(ids=list(facts))

    return context.commit(decide, PutAnswer)


@contextmanager
def _at(position: int) -> Iterator[None]:
    """Let a refusal say which engram of the batch it is about."""
    try:
        yield
    except StigmergyError as refusal:
        refusal.field = f"engrams[{position}]" + (f".{refusal.field}" if refusal.field else "")
        raise


def _prepare(context: Context, request: PutEngram) -> _Prepared:
    """Everything about a put that needs no lock: its rules, its evidence, its keys."""
    draft = msgspec.to_builtins(request)
    places = draft.pop("at")
    draft["pointers"] += [
        msgspec.to_builtins(context.workplace.point_at(place, f"at[{position}]"))
        for position, place in enumerate(places)
    ]
    checked = validate(draft, max_ttl=parse_duration(context.policy.max_ttl))
    check_may_write(context.policy, context.caller, checked.scope)
    pointers = tuple(
        context.evidence.stamp(pointer, address, f"pointers[{position}]")
        for position, (pointer, address) in enumerate(zip(checked.pointers, checked.addresses, strict=True))
    )
    context.workplace.keep(checked.addresses)
    keys = hash_keys(checked.claim, [pointer.ref for pointer in pointers], checked.tags, checked.hash_keys)
    return _Prepared(checked=checked, pointers=pointers, keys=keys)


def _fact(context: Context, view: View, prepared: _Prepared) -> EngramPut:
    caller, checked = context.caller, prepared.checked
    engram_id = checked.id or new_ulid(view.as_of, context.randomness)
    if checked.id and view.find([space_of(checked.scope, caller.run)], checked.id) is not None:
        raise IdTaken(field="id", used=checked.id)
    source: Source = "tool" if caller.role == "tool" else "agent"
    provenance = Provenance(created_at=print_time(view.as_of), created_by=caller.full_name, source=source)
    engram = stamp(
        checked, id=engram_id, provenance=provenance, hash_keys=prepared.keys.public, pointers=prepared.pointers
    )
    return EngramPut(
        engram=engram,
        run=caller.run.run_id,
        expires_at=view.as_of + checked.lifetime,
        more_keys=prepared.keys.more,
    )


class QueryEngrams(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A question to the team's knowledge; without words or keys, the newest engrams."""

    q: Annotated[str, Meta(max_length=MAX_QUERY, description="Free text")] = ""
    keys: Annotated[list[str], Meta(max_length=32, description="Exact keys")] = []
    k: Annotated[int, Meta(ge=1, le=MAX_K, description="How many at the most")] = DEFAULT_K
    scope: Annotated[Scope | None, Meta(description="Only this scope")] = None
    kind: Annotated[Kind | None, Meta(description="Only this kind")] = None
    max_tokens: Annotated[int, Meta(ge=1, description="The answer is never larger")] | None = None
    cursor: Annotated[str, Meta(max_length=20, description="Where the last page ended; only without words")] | None = (
        None
    )


class QueryAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    engrams: list[Engram]
    as_of: str
    """The moment the answer is true of."""
    truncated: bool = False
    """Whether engrams were left out to stay within max_tokens."""
    cursor: str | None = None
    """Ask again with it for the next page."""


@operation("less.query_engrams", route=Route("GET", "/engram/query"), command=Command("query", ("q",)), tool=True)
def query_engrams(context: Context, request: QueryEngrams) -> QueryAnswer:
    """Find what the team knows: by words, by keys, or the newest."""
    spaces = visible_spaces(context.caller, request.scope)
    keys = _asked_keys(request)
    cursor = None
    if keys or request.q.strip():
        engrams = recall(context.view, spaces, keys, k=request.k, kind=request.kind)
    else:
        before = _read_cursor(request.cursor)
        found = context.view.newest(spaces, kind=request.kind, limit=request.k + 1, before=before)
        engrams = context.view.engrams(found[: request.k])
        cursor = str(found[request.k - 1]) if len(found) > request.k else None
    answer = QueryAnswer(engrams=engrams, as_of=print_time(context.as_of), cursor=cursor)
    return answer if request.max_tokens is None else _within(answer, request.max_tokens)


def _asked_keys(request: QueryEngrams) -> list[str]:
    given = (normalise_key(key) for key in request.keys)
    words = query_keys(request.q) if request.q else ()
    return list(dict.fromkeys([*(key for key in given if key), *words]))


def _read_cursor(cursor: str | None) -> int | None:
    if cursor is None:
        return None
    if not cursor.isascii() or not cursor.isdigit() or len(cursor) > MAX_CURSOR:
        raise FieldValue("The cursor is not one of ours.", field="cursor")
    return int(cursor)


def _within(answer: QueryAnswer, max_tokens: int) -> QueryAnswer:
    """The answer cut, last engrams first, until its JSON fits the budget."""
    allowed = max_tokens * BYTES_PER_TOKEN
    if len(_encode(answer)) <= allowed:
        return answer
    cut = QueryAnswer(engrams=[], as_of=answer.as_of, truncated=True)
    used = len(_encode(cut))
    if used > allowed:
        needed = -(-used // BYTES_PER_TOKEN)
        raise BudgetTooSmall(field="max_tokens", limit=max_tokens, used=needed, hint=f"Ask with at least {needed}.")
    for engram in answer.engrams:
        used += len(_encode(engram)) + (1 if cut.engrams else 0)
        if used > allowed:
            break
        cut.engrams.append(engram)
    return cut


class EngramId(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: Annotated[str, Meta(max_length=36, description="The engram's id")]


@operation(
    "engram.get",
    route=Route("GET", "/engram/{id}"),
    command=Command("show", ("id",)),
    kept_off={"mcp": "less_query_engrams returns engrams whole"},
)
def get_engram(context: Context, request: EngramId) -> Engram:
    """Show one engram."""
    found = context.view.find(visible_spaces(context.caller), request.id)
    if found is None:
        raise EngramNotFound(field="id")
    return found.engram


class Forgotten(Struct, frozen=True, kw_only=True):
    id: str
    forgotten: bool = True


@operation(
    "engram.forget",
    roles=KEEPERS,
    writes=True,
    route=Route("DELETE", "/engram/{id}"),
    command=Command("forget", ("id",)),
    kept_off={"mcp": "forgetting is for people and tools"},
)
def forget_engram(context: Context, request: EngramId) -> Forgotten:
    """Take an engram off the bus."""

    def decide(view: View) -> tuple[list[EngramForgotten], Forgotten]:
        found = view.find(visible_spaces(context.caller), request.id)
        if found is None:
            raise EngramNotFound(field="id")
        fact = EngramForgotten(id=request.id, run=found.run, scope=found.engram.scope, by=context.caller.full_name)
        return [fact], Forgotten(id=request.id)

    return context.commit(decide, Forgotten)


class Promote(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: Annotated[str, Meta(max_length=36, description="The engram's id")]
    scope: Annotated[Scope, Meta(description="How far it is to be seen")] = "project"


@operation(
    "engram.promote",
    roles=PARENTS,
    writes=True,
    route=Route("POST", "/engram/{id}/promote"),
    command=Command("promote", ("id",)),
    kept_off={"mcp": "promoting is a parent's decision, made at the gateway"},
)
def promote_engram(context: Context, request: Promote) -> Engram:
    """Let an engram be seen further: a decision for a parent of its author."""
    caller = context.caller

    def decide(view: View) -> tuple[list[EngramPromoted], Engram]:
        found = view.find(visible_spaces(caller), request.id)
        if found is None:
            raise EngramNotFound(field="id")
        engram = found.engram
        author = engram.provenance.created_by.rpartition("/")[2]
        if caller.role != ADMIN and (author == caller.name or author == ADMIN):
            raise RoleForbidden("Only a parent of its author promotes an engram.", field="id")
        if author != ADMIN:
            check_descends(view, caller, author, "id")
        if engram.scope == request.scope:
            return [], engram
        if _PROMOTIONS.get(engram.scope) != request.scope:
            raise ScopeForbidden(
                f"From '{engram.scope}' the next scope is '{_PROMOTIONS.get(engram.scope)}'.",
                field="scope",
                limit=_PROMOTIONS.get(engram.scope),
            )
        _check_floor(context, request.scope, engram)
        if view.find([space_of(request.scope, caller.run)], engram.id) is not None:
            raise IdTaken(field="id", used=engram.id)
        fact = EngramPromoted(id=engram.id, run=found.run, scope=request.scope, by=caller.full_name)
        return [fact], msgspec.structs.replace(engram, scope=request.scope)

    return context.commit(decide, Engram)


def _check_floor(context: Context, scope: Scope, engram: Engram) -> None:
    check_may_write(context.policy, context.caller, scope)
    floor = context.policy.floor(scope)
    if engram.confidence < floor:
        raise ScopeForbidden(
            f"An engram needs a confidence of at least {floor} for the scope '{scope}'.",
            field="confidence",
            limit=floor,
            used=engram.confidence,
        )
