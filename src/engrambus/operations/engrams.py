"""Operations that change engrams: put, confirm, forget, promote, pin. The rules are in `knowledge/engrams`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from engrambus.core import parse_duration
from engrambus.errors import EngramNotFound, FieldValue, RoleForbidden, ScopeForbidden
from engrambus.evidence.pointers import Origin
from engrambus.gateway.context import Context
from engrambus.gateway.declare import PARENTS, PEOPLE, TOOLS_AND_ADMINS, Command, Route, Tool, operation
from engrambus.gateway.pointer_fields import Place, PointerOrRef
from engrambus.gateway.ports import View
from engrambus.knowledge import cortex
from engrambus.knowledge.engrams import (
    FOUND_DEFAULTS,
    MAX_SHOWN_ID_CHARS,
    CheckedEngram,
    ConfirmAnswer,
    Engram,
    ForgetAnswer,
    Kind,
    PinAnswer,
    PreparedEngram,
    Source,
    confirm,
    find_visible,
    forget,
    prefix_field,
    prepare,
    promote,
    put_all,
    put_one,
    set_pinned,
    validate,
)
from engrambus.operations.engram_queries import EngramId
from engrambus.operations.engram_uses import UsedIds, resolve_used
from engrambus.operations.evidence_renewal import follow_repeated_ids, follow_repeats, renew_evidence
from engrambus.operations.near_claims import find_near, with_contradictions
from engrambus.policy import ADMIN, PROJECT_SPACE, SHARED_SCOPES, Scope, shared_scopes, visible_spaces

T = TypeVar("T")

MAX_PER_REQUEST = 500


class PutEngram(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An engram as its author sends it; the gateway adds the provenance, and the id where it is left out."""

    claim: Annotated[str, Meta(description="1-3 sentences, at most 500 characters")]
    kind: Annotated[Kind, Meta(description="Kind of claim")] = "fact"
    pointers: Annotated[list[PointerOrRef], Meta(description="Pointer to evidence, with its commit or digest")] = []
    at: Annotated[list[Place], Meta(description="Evidence: path:10-20 at HEAD, or a pointer's ref")] = []
    snapshot: Annotated[bool, Meta(description="Paths in `at` mean the files on disk, also uncommitted lines")] = False
    confidence: Annotated[float | UnsetType, Meta(description="How sure you are, 0 to 1")] = UNSET
    ttl: Annotated[str | UnsetType, Meta(description="Lifetime: PT6H is 6 hours, P7D is 7 days")] = UNSET
    scope: Annotated[Scope | UnsetType, Meta(description="Who can see it: this run, the project, or more")] = UNSET
    tags: Annotated[list[str] | UnsetType, Meta(description="A word to file it under")] = UNSET
    hash_keys: Annotated[list[str] | UnsetType, Meta(description="An extra key to find it by")] = UNSET
    embedding_ref: Annotated[str | UnsetType, Meta(description="Where an embedding of it is stored")] = UNSET
    used: UsedIds = []
    replaces: Annotated[str | UnsetType, Meta(description="Id of the engram it replaces")] = UNSET
    id: Annotated[str | UnsetType, Meta(description="Its id, a ULID or UUID; made for you by default")] = UNSET
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
        hidden=(
            "embedding_ref",
            "hash_keys",
            "id",
            "pointers",
            "provenance",
            "replaces",
            "scope",
            "snapshot",
            "tags",
            "ttl",
            "used",
        ),
        explained=("at", "claim"),
        listed=("kind",),
    ),
    span="create_memory",
    prose=("claim", "tags", "hash_keys"),
)
def put_engram(context: Context, request: PutEngram) -> Engram:
    """Record an engram: one claim with pointers to its evidence.

    Name the lines that prove it with --at PATH:10-20. Their commit and digest are stored with the claim, so
    that anybody can see later whether the evidence has changed.
    """
    return _put(context, request)


class PutFound(PutEngram, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An engram about something that was looked up for an agent, not stated by it."""

    source: Annotated[Literal["rag", "sam"], Meta(description="Where it was found: by retrieval, or in the memory")]


@operation(
    "engram.put_found",
    writes=True,
    route=Route("POST", "/engram/found"),
    absent_from={"mcp": "an orchestrator's hooks look things up", "cli": "an orchestrator's hooks look things up"},
    span="create_memory",
    prose=("claim", "tags", "hash_keys"),
)
def put_found(context: Context, request: PutFound) -> Engram:
    """Record an engram about something looked up for an agent, and where it was found."""
    caller = context.caller
    # An agent that could name another source would pass its own claims off as retrieved ones.
    if caller.spoken_by is None and caller.role not in PARENTS | TOOLS_AND_ADMINS:
        raise RoleForbidden(
            "An agent may not name another source than itself.",
            field="source",
            limit="a parent, a tool, or a caller that speaks for the agent",
            hint="Put it with less.put_engram.",
        )
    return _put(context, request, request.source)


def _put(context: Context, request: PutEngram, source: Source | None = None) -> Engram:
    prepared = _prepare(context, request)
    near = find_near(context, [prepared])

    def decide(view: View) -> tuple[list[Any], Engram]:
        facts, engram = put_one(
            view,
            prepared,
            caller=context.caller,
            policy=context.policy,
            limits=context.limits,
            randomness=context.randomness,
            source=source,
        )
        return with_contradictions(context, view, facts, near), engram

    engram = context.commit(decide, Engram)
    (engram,) = follow_repeats(context, [(prepared, engram)])
    context.deliver(engram.scope)  # after the commit: a shared store has a write lock of its own
    return engram


class PutEngrams(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Several engrams, all of them or none."""

    engrams: Annotated[list[PutEngram], Meta(description=f"At most {MAX_PER_REQUEST}")]


class PutAnswer(Struct, frozen=True, kw_only=True):
    ids: list[str]
    """The engrams that were put or confirmed, in order."""


@operation(
    "engram.put_many",
    writes=True,
    route=Route("POST", "/engrams", body_limit=4 * 1024 * 1024),
    absent_from={"mcp": "agents say one thing at a time", "cli": "engrambus put --file sends it in batches"},
    span="create_memory",
    prose=("engrams.claim", "engrams.tags", "engrams.hash_keys"),
)
def put_engrams(context: Context, request: PutEngrams) -> PutAnswer:
    """Record many engrams in one commit: all of them, or none."""
    if not 0 < len(request.engrams) <= MAX_PER_REQUEST:
        raise FieldValue(
            f"Send 1 to {MAX_PER_REQUEST} engrams at a time.",
            field="engrams",
            limit=MAX_PER_REQUEST,
            used=len(request.engrams),
        )
    return PutAnswer(ids=put_drafts(context, request.engrams, "engrams"))


def put_drafts(context: Context, drafts: Sequence[PutEngram], field: str) -> list[str]:
    """Put engrams in one commit and return their ids, in order; a refusal names one of them as `field[position]`."""
    prepared = []
    for position, draft in enumerate(drafts):
        with prefix_field(f"{field}[{position}]", context.limits):
            prepared.append(_prepare(context, draft))

    # Comparing every claim would take an import five times as long, and nobody reads thousands of notices.
    near = find_near(context, prepared, only_pins=True)

    def decide(view: View) -> tuple[list[Any], PutAnswer]:
        facts, ids = put_all(
            view,
            prepared,
            caller=context.caller,
            policy=context.policy,
            limits=context.limits,
            randomness=context.randomness,
            field=field,
        )
        return with_contradictions(context, view, facts, near), PutAnswer(ids=ids)

    answer = context.commit(decide, PutAnswer)
    follow_repeated_ids(context, prepared, answer.ids)
    context.deliver(*(item.checked.scope for item in prepared))
    return answer.ids


def _prepare(context: Context, request: PutEngram) -> PreparedEngram:
    """Validate a request and prepare its engram."""
    draft = msgspec.to_builtins(request)
    source = draft.pop("source", None)  # no field of an engram as it is sent; it becomes part of the provenance
    for name in ("at", "snapshot"):  # its pointers have them
        draft.pop(name)
    max_ttl_us = parse_duration(context.policy.max_ttl)
    checked = validate(draft, max_ttl_us=max_ttl_us, defaults=FOUND_DEFAULTS.get(source))
    return prepare_engram(context, checked, "retrieved" if source == "rag" else "stated")


def prepare_engram(context: Context, checked: CheckedEngram, origin: Origin = "stated") -> PreparedEngram:
    """Prepare a checked engram to be put by the caller."""
    if checked.replaces is not None:
        _check_not_shared(context, checked.replaces)
    return prepare(
        checked,
        caller=context.caller,
        policy=context.policy,
        limits=context.limits,
        evidence=context.evidence,
        repositories=context.project_files.repositories,
        used=resolve_used(context, checked.used),
        origin=origin,
    )


def _check_not_shared(context: Context, engram_id: str) -> None:
    """Refuse to replace an engram of a shared store: it has a journal of its own, so no one commit covers both."""
    wider_scopes = shared_scopes(context.policy)
    if not wider_scopes:
        return
    with context.shared.visible_stores(wider_scopes, context.role_filter) as stores, suppress(EngramNotFound):
        scope = find_visible(stores, engram_id, "replaces")[1].engram.scope
        raise ScopeForbidden(
            f"An engram of the scope '{scope}' cannot be replaced.",
            field="replaces",
            limit="project",
            used=scope,
            hint="Put the newer claim without `replaces`; the admin forgets the older one.",
        )


@operation(
    "engram.forget",
    roles=TOOLS_AND_ADMINS,
    writes=True,
    route=Route("DELETE", "/engram/{id}"),
    command=Command(
        "forget",
        section="knowledge",
        example="engrambus forget 01K7Z3V5QX0000000000000000",
        renderer="knowledge:forget_result",
        rank=68,
        arguments=("id",),
    ),
    absent_from={"mcp": "forgetting is for people and tools"},
    span="delete_memory",
)
def forget_engram(context: Context, request: EngramId) -> ForgetAnswer:
    """Remove an engram, so that no query and no brief shows it again."""

    def rule(view: View, spaces: Sequence[str]) -> tuple[list[Any], ForgetAnswer]:
        facts, answer = forget(view, spaces, request.id, context.caller)
        return [*facts, *cortex.close_contradictions(view, facts, context.caller)], answer

    answer = _commit_where_found(context, rule, ForgetAnswer)
    context.embeddings.forget(answer.id)
    return answer


class ConfirmEngram(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An engram that is still true, and the lines that show it now."""

    id: Annotated[str, Meta(max_length=MAX_SHOWN_ID_CHARS, description="The engram's id, or the pointer to a memory")]
    at: Annotated[
        list[Place], Meta(max_length=12, description="The lines that show it now, in place of those that have changed")
    ] = []
    snapshot: Annotated[bool, Meta(description="Paths in `at` mean the files on disk, also uncommitted lines")] = False
    pointers: Annotated[
        list[PointerOrRef], Meta(max_length=12, description="The same as a pointer, with its commit or digest")
    ] = []


@operation(
    "engram.confirm",
    writes=True,
    route=Route("POST", "/engram/{id}/confirm"),
    command=Command(
        "confirm",
        section="knowledge",
        example="engrambus confirm 01K7Z3V5QX0000000000000000 --at src/refunds.py:12-24",
        renderer="knowledge:confirmation",
        rank=60,
        arguments=("id",),
        override="knowledge:confirm",
    ),
    tool=Tool(part_of="less_inbox", action="confirm", hidden=("at", "pointers", "snapshot"), asks_permission=True),
    span="update_memory",
)
def confirm_engram(context: Context, request: ConfirmEngram) -> ConfirmAnswer:
    """Confirm that an engram is still true; its lifetime starts again.

    If the lines it points at have changed, name the lines that show it now with --at; lines that only moved are
    followed. Pointers that were unresolved are resolved, if what they lead to is here now. An engram that was adopted
    from elsewhere becomes trusted when a person confirms it, and its pin takes effect. A claim that was taken from an
    agent's prose becomes the team's own when a parent of that agent or a person confirms it.
    """
    renewal = renew_evidence(context, request)
    return _commit_where_found(
        context, lambda view, spaces: confirm(view, spaces, request.id, context.caller, renewal), ConfirmAnswer
    )


class Promote(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: Annotated[str, Meta(max_length=36, description="The engram's id")]
    scope: Annotated[Scope, Meta(description="The next wider scope")] = "project"


@operation(
    "engram.promote",
    roles=PARENTS,
    writes=True,
    route=Route("POST", "/engram/{id}/promote"),
    command=Command(
        "promote",
        section="knowledge",
        example="engrambus promote 01K7Z3V5QX0000000000000000 --scope project",
        renderer="knowledge:engram",
        rank=62,
        arguments=("id",),
    ),
    tool=Tool(part_of="less_inbox", action="promote", hidden=("scope",), asks_permission=True),
    span="update_memory",
)
def promote_engram(context: Context, request: Promote) -> Engram:
    """Show an engram to more agents: to the project, then to wider scopes.

    Only a parent of its author, or an admin, may decide this. Beyond the project, a parent's decision waits for an
    admin: see engrambus promotion list.
    """
    is_shared = request.scope in SHARED_SCOPES
    repository = context.project_files.repositories.shared_name() if is_shared else None
    engram = _commit_where_found(
        context,
        lambda view, spaces: promote(
            view,
            spaces,
            request.id,
            request.scope,
            caller=context.caller,
            policy=context.policy,
            limits=context.limits,
            randomness=context.randomness,
            repository=repository,
        ),
        Engram,
    )
    context.deliver(engram.scope)
    return engram


@operation(
    "engram.pin",
    roles=PEOPLE,
    writes=True,
    route=Route("POST", "/engram/{id}/pin"),
    command=Command(
        "pin",
        section="knowledge",
        example="engrambus pin 01K7Z3V5QX0000000000000000",
        renderer="knowledge:pin_state",
        rank=64,
        arguments=("id",),
    ),
    absent_from={"mcp": "pinning is a person's decision"},
)
def pin_engram(context: Context, request: EngramId) -> PinAnswer:
    """Show an engram first in every brief, until it is unpinned."""
    return _set_pinned(context, request.id, pinned=True)


@operation(
    "engram.unpin",
    roles=PEOPLE,
    writes=True,
    route=Route("DELETE", "/engram/{id}/pin"),
    command=Command(
        "unpin",
        section="knowledge",
        example="engrambus unpin 01K7Z3V5QX0000000000000000",
        renderer="knowledge:pin_state",
        rank=66,
        arguments=("id",),
    ),
    absent_from={"mcp": "pinning is a person's decision"},
)
def unpin_engram(context: Context, request: EngramId) -> PinAnswer:
    """Stop showing an engram first in every brief."""
    return _set_pinned(context, request.id, pinned=False)


def _set_pinned(context: Context, engram_id: str, *, pinned: bool) -> PinAnswer:
    caller = context.caller
    return context.commit(
        lambda view: set_pinned(view, visible_spaces(caller), engram_id, caller, pinned=pinned), PinAnswer
    )


def _commit_where_found(
    context: Context, rule: Callable[[View, Sequence[str]], tuple[Sequence[Any], T]], answer_type: type[T]
) -> T:
    """Commit `rule` in the store that has the engram: the project's, or for the admin an enabled shared one."""
    try:
        return context.commit(lambda view: rule(view, visible_spaces(context.caller)), answer_type)
    except EngramNotFound:
        # decision 10: a shared store belongs to no run, so only the admin changes what it holds
        for scope in shared_scopes(context.policy) if context.caller.role == ADMIN else ():
            with suppress(EngramNotFound):
                store = context.shared.store(scope)
                answer = store.commit(lambda view: rule(view, (PROJECT_SPACE,)))
                context.shared.deliver(store)
                return answer
        raise
