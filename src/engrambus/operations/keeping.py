"""Deciding what becomes of an engram: forget it, or let it be seen further."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Annotated, Any, TypeVar

from msgspec import Meta, Struct

from engrambus.errors import EngramNotFound
from engrambus.gateway.context import Context
from engrambus.gateway.declare import ADMINS, PARENTS, TOOLS_AND_ADMINS, Command, Route, operation
from engrambus.gateway.ports import View
from engrambus.knowledge.engrams import (
    ConfirmAnswer,
    Engram,
    ForgetAnswer,
    PinAnswer,
    confirm,
    forget,
    promote,
    set_pinned,
)
from engrambus.operations.asking import EngramId
from engrambus.policy import ADMIN, PROJECT_SPACE, Scope, shared_scopes, visible_spaces

T = TypeVar("T")


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
    return _commit_where_found(
        context, lambda view, spaces: forget(view, spaces, request.id, context.caller), ForgetAnswer
    )


@operation(
    "engram.confirm",
    writes=True,
    route=Route("POST", "/engram/{id}/confirm"),
    command=Command(
        "confirm",
        section="knowledge",
        example="engrambus confirm 01K7Z3V5QX0000000000000000",
        renderer="knowledge:confirmation",
        rank=60,
        arguments=("id",),
    ),
    absent_from={"mcp": "putting the same claim again confirms it"},
    span="update_memory",
)
def confirm_engram(context: Context, request: EngramId) -> ConfirmAnswer:
    """Confirm that an engram is still true; its lifetime starts again."""
    return _commit_where_found(
        context, lambda view, spaces: confirm(view, spaces, request.id, context.caller), ConfirmAnswer
    )


class Promote(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: Annotated[str, Meta(max_length=36, description="The engram's id")]
    scope: Annotated[Scope, Meta(description="How far it is to be seen")] = "project"


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
    absent_from={"mcp": "promoting is a parent's decision, made at the gateway"},
    span="update_memory",
)
def promote_engram(context: Context, request: Promote) -> Engram:
    """Show an engram to more agents: to the project, then to wider scopes.

    Only a parent of its author, or an admin, may decide this.
    """
    engram = _commit_where_found(
        context,
        lambda view, spaces: promote(
            view, spaces, request.id, request.scope, caller=context.caller, policy=context.policy
        ),
        Engram,
    )
    context.deliver(engram.scope)
    return engram


@operation(
    "engram.pin",
    roles=ADMINS,
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
    roles=ADMINS,
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
    """Commit `rule` in the store that has the engram: the project's, or for the admin a shared one in use."""
    try:
        return context.commit(lambda view: rule(view, visible_spaces(context.caller)), answer_type)
    except EngramNotFound:
        for scope in shared_scopes(context.policy) if context.caller.role == ADMIN else ():
            with suppress(EngramNotFound):
                store = context.shared.store(scope)
                answer = store.commit(lambda view: rule(view, (PROJECT_SPACE,)))
                context.shared.deliver(store)
                return answer
        raise
