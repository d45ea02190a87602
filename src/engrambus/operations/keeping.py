"""Deciding what becomes of an engram: forget it, or let it be seen further."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Struct

from engrambus.core import print_time
from engrambus.errors import EngramNotFound, IdTaken, RoleForbidden, ScopeForbidden
from engrambus.gateway.declare import ADMINS, KEEPERS, PARENTS, Command, Route, operation
from engrambus.gateway.gateway import Context
from engrambus.gateway.ports import Decide, View
from engrambus.knowledge.engrams import (
    Engram,
    EngramConfirmed,
    EngramForgotten,
    EngramPinned,
    EngramPromoted,
    EngramUnpinned,
    Stored,
)
from engrambus.operations.asking import EngramId
from engrambus.operations.engrams import confirmation
from engrambus.policy import (
    ADMIN,
    PROJECT_SPACE,
    Caller,
    Scope,
    check_descends,
    check_may_promote,
    shared_scopes,
    visible_spaces,
    wider_space,
)

T = TypeVar("T")

_PROMOTIONS = {"run": "project", "project": "org", "org": "global"}


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

    def decide(view: View, found: Stored) -> tuple[list[EngramForgotten], Forgotten]:
        fact = EngramForgotten(id=request.id, space=found.space, by=context.caller.full_name)
        return [fact], Forgotten(id=request.id)

    return _where_it_is(context, request.id, decide, Forgotten)


class Confirmed(Struct, frozen=True, kw_only=True):
    id: str
    votes: int
    """How many lines of agents have confirmed it: a root of the hierarchy with all beneath it is one."""
    expires_at: str


@operation(
    "engram.confirm",
    writes=True,
    route=Route("POST", "/engram/{id}/confirm"),
    command=Command("confirm", ("id",)),
    kept_off={"mcp": "putting the same claim again confirms it"},
)
def confirm_engram(context: Context, request: EngramId) -> Confirmed:
    """Say that an engram still holds: its ttl starts anew."""

    def decide(view: View, found: Stored) -> tuple[list[EngramConfirmed], Confirmed]:
        fact = confirmation(context, view, found)
        votes = view.votes(found.ordinal, besides=fact.root) + 1
        return [fact], Confirmed(id=request.id, votes=votes, expires_at=print_time(fact.expires_at))

    return _where_it_is(context, request.id, decide, Confirmed)


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

    def decide(view: View, found: Stored) -> tuple[list[EngramPromoted], Engram]:
        engram = found.engram
        if caller.role != ADMIN:
            _check_parent(view, caller, engram.provenance.created_by)
        if engram.scope == request.scope:
            return [], engram
        wider = _PROMOTIONS.get(engram.scope)
        if wider != request.scope:
            said = f"From '{engram.scope}' the next scope is '{wider}'." if wider else "There is no wider scope."
            raise ScopeForbidden(said, field="scope", limit=wider)
        _check_floor(context, request.scope, engram)
        if view.find([wider_space(request.scope)], engram.id) is not None:
            raise IdTaken(field="id", used=engram.id)
        fact = EngramPromoted(id=engram.id, space=found.space, scope=request.scope, by=caller.full_name)
        return [fact], msgspec.structs.replace(engram, scope=request.scope)

    engram = _where_it_is(context, request.id, decide, Engram)
    context.deliver(engram.scope)
    return engram


class Pinned(Struct, frozen=True, kw_only=True):
    id: str
    pinned: bool


@operation(
    "engram.pin",
    roles=ADMINS,
    writes=True,
    route=Route("POST", "/engram/{id}/pin"),
    command=Command("pin", ("id",)),
    kept_off={"mcp": "pinning is a person's decision"},
)
def pin_engram(context: Context, request: EngramId) -> Pinned:
    """Have an engram stand first in every brief, until it is unpinned."""
    return _set_pin(context, request.id, EngramPinned, pinned=True)


@operation(
    "engram.unpin",
    roles=ADMINS,
    writes=True,
    route=Route("DELETE", "/engram/{id}/pin"),
    command=Command("unpin", ("id",)),
    kept_off={"mcp": "pinning is a person's decision"},
)
def unpin_engram(context: Context, request: EngramId) -> Pinned:
    """Let an engram take its turn in the briefs again."""
    return _set_pin(context, request.id, EngramUnpinned, pinned=False)


def _set_pin(
    context: Context, engram_id: str, fact: type[EngramPinned] | type[EngramUnpinned], *, pinned: bool
) -> Pinned:
    def decide(view: View) -> tuple[list[EngramPinned | EngramUnpinned], Pinned]:
        found = view.find(visible_spaces(context.caller), engram_id)
        if found is None:
            raise EngramNotFound(field="id")
        is_pinned = found.ordinal in view.pinned((found.space,))
        facts = [fact(id=engram_id, space=found.space, by=context.caller.full_name)] if is_pinned != pinned else []
        return facts, Pinned(id=engram_id, pinned=pinned)

    return context.commit(decide, Pinned)


def _check_parent(view: View, caller: Caller, author: str) -> None:
    """Refuse a promotion by anyone but a parent of the author, in the run they share."""
    run, _, name = author.rpartition("/")
    if run != caller.run.run_id or name in (caller.name, ADMIN):
        raise RoleForbidden("Only a parent of its author promotes an engram.", field="id")
    check_descends(view, caller, name, "id")


def _check_floor(context: Context, scope: Scope, engram: Engram) -> None:
    check_may_promote(context.policy, scope)
    floor = context.policy.floor(scope)
    if engram.confidence < floor:
        raise ScopeForbidden(
            f"An engram needs a confidence of at least {floor} for the scope '{scope}'.",
            field="confidence",
            limit=floor,
            used=engram.confidence,
        )


def _where_it_is(
    context: Context, engram_id: str, decide: Callable[[View, Stored], tuple[Sequence[Any], T]], answer_type: type[T]
) -> T:
    """Change an engram in the store that has it: the project's, or a shared one that is switched on."""

    def in_spaces(spaces: Sequence[str]) -> Decide[T]:
        def found_there(view: View) -> tuple[Sequence[Any], T]:
            found = view.find(spaces, engram_id)
            if found is None:
                raise EngramNotFound(field="id")
            return decide(view, found)

        return found_there

    try:
        return context.commit(in_spaces(visible_spaces(context.caller)), answer_type)
    except EngramNotFound:
        for scope in shared_scopes(context.policy) if context.caller.role == ADMIN else ():
            with suppress(EngramNotFound):
                store = context.shared.store(scope)
                answer = store.commit(in_spaces((PROJECT_SPACE,)))
                context.shared.deliver(store)
                return answer
        raise
