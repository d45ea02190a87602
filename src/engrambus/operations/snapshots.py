"""Snapshots of the team's memory: taken by an agent or for it, and fetched again by their id."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct

from engrambus.core import parse_duration
from engrambus.errors import CortexOff, EngramBusError, EngramNotFound
from engrambus.gateway.context import Context
from engrambus.gateway.declare import Command, Route, Tool, operation
from engrambus.gateway.ports import View
from engrambus.gateway.role_view import project_stores, visible_store
from engrambus.knowledge.cortex import (
    DEFAULT_MAX_BYTES,
    DEFAULT_MAX_ITEMS,
    MAX_SIMILAR_ITEMS,
    SharedContextSnapshot,
    SnapshotLimits,
    SnapshotScope,
    covered_engrams,
    find_snapshot,
    inherit_snapshot,
    log_line,
    snapshot_bytes,
    snapshot_tokens,
)
from engrambus.knowledge.engrams import Engram, find_about, find_shown, has_evidence, query_keys
from engrambus.knowledge.messages import read_payers
from engrambus.operations.cortex import HOW_TO_SWITCH_ON, log_failure
from engrambus.policy import check_may_promote, draw_content, shared_scopes, visible_spaces

DEFAULT_SCOPES = ("run", "project")


class Inherit(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The part of the team's memory to inherit, and its limits."""

    for_agent: Annotated[str, Meta(max_length=96, description="The agent that inherits; you by default")] | None = None
    scope: Annotated[SnapshotScope | None, Meta(description="Which memories to include")] = None
    max_bytes: Annotated[int, Meta(ge=1, le=1_000_000, description="Maximum size of the answer, in bytes")] = (
        DEFAULT_MAX_BYTES
    )
    max_items: Annotated[int, Meta(ge=1, le=10_000, description="Maximum number of items")] = DEFAULT_MAX_ITEMS


@operation(
    "inherit",
    writes=True,
    route=Route("POST", "/snapshot"),
    command=Command(
        "inherit",
        section="team",
        example="engrambus inherit --for coder-1",
        renderer="cortex:snapshot",
        rank=60,
        override="team:inherit",
        option_names={"for_agent": "--for"},
    ),
    tool=Tool(about="Get the team's memory: pinned, important, recent.", hidden=("for_agent", "max_items", "scope")),
    agent_fields=("for_agent",),
)
def inherit(context: Context, request: Inherit) -> SharedContextSnapshot:
    """Get the team's memory: pinned, important and recent items, within a size.

    A new agent starts with it: what was decided, what is preferred, and how the work stands.
    """
    scope = request.scope or SnapshotScope()
    with log_failure(context, "INHERIT_FAIL"):
        # decision 26: both directions are switched by the policy, so the journal says who switched them off.
        if not context.policy.cortex.inherit:
            raise CortexOff(
                "Inheriting is switched off in this project.", field="cortex.inherit", hint=HOW_TO_SWITCH_ON
            )
        for name in scope.visibility:
            check_may_promote(context.policy, name, "scope.visibility")
        window_us = parse_duration(scope.recency_window, "scope.recency_window")
        similar = _similar_engrams(context, scope)
        started: set[str] = set()

        def decide(view: View) -> tuple[list[Any], SharedContextSnapshot]:
            facts, snapshot = inherit_snapshot(
                view,
                scope,
                for_agent=request.for_agent,
                limits=SnapshotLimits(max_chars=request.max_bytes, max_items=request.max_items),
                window_us=window_us,
                engrams=_visible_engrams(context, view, scope),
                similar=similar,
                caller=context.caller,
                payers=read_payers(view, context.policy, context.caller, context.limits),
                rules=context.policy.secrets,
            )
            # The id is a hash of the content, so it is known now; a commit may decide again.
            if snapshot.snapshot_id not in started:
                started.add(snapshot.snapshot_id)
                log = log_line("INHERIT_START", snapshot_id=snapshot.snapshot_id, scope=scope.summary())
                context.note(log)
            return facts, snapshot

        # The answer holds content, so the journal does not remember it under the idempotency key.
        snapshot = context.commit(decide, SharedContextSnapshot, remember=False)
    context.note(
        log_line(
            "INHERIT_DONE",
            snapshot_id=snapshot.snapshot_id,
            items=len(snapshot.items),
            chars=snapshot_bytes(snapshot),
        )
    )
    return snapshot


class ShowSnapshot(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: Annotated[str, Meta(max_length=64, description="The snapshot's id, as `inherit` prints it")]


@operation(
    "snapshot.show",
    writes=True,
    route=Route("GET", "/snapshot/{id}"),
    command=Command(
        "snapshot",
        section="team",
        example="engrambus snapshot 9c56cc51b374c3ba189210d5b6d4bf57790d351c96c47c02190ecf1e430635ab",
        renderer="cortex:snapshot",
        rank=61,
        arguments=("id",),
    ),
    absent_from={"mcp": "an agent inherits what is remembered now"},
)
def show_snapshot(context: Context, request: ShowSnapshot) -> SharedContextSnapshot:
    """Show a snapshot again, as it was inherited.

    For the agent that inherited it, whoever took it, and their parents. It is charged like the first time.
    """
    if not context.policy.cortex.inherit:
        raise CortexOff("Inheriting is switched off in this project.", field="cortex.inherit", hint=HOW_TO_SWITCH_ON)

    def decide(view: View) -> tuple[list[Any], SharedContextSnapshot]:
        with context.shared.visible_stores(shared_scopes(context.policy), context.role_filter) as wider:
            stores = [*project_stores(view, context.caller), *wider]

            def find_engram(engram_id: str) -> Engram | None:
                try:
                    return find_shown(stores, engram_id).stored.engram
                except EngramNotFound:
                    return None

            snapshot = find_snapshot(
                view, request.id, caller=context.caller, find_engram=find_engram, rules=context.policy.secrets
            )
        payers = read_payers(view, context.policy, context.caller, context.limits)
        return [*draw_content(payers, snapshot_tokens(snapshot))], snapshot

    return context.commit(decide, SharedContextSnapshot, remember=False)


def _similar_engrams(context: Context, scope: SnapshotScope) -> list[Engram]:
    """Return what is about the text that the scope names, found by meaning."""
    if scope.about is UNSET:
        return []
    try:
        vectors = context.embeddings.vectors
    except EngramBusError as refusal:
        refusal.field = "scope.about"
        refusal.hint = "Leave it out, or turn search by meaning on with ENGRAMBUS_SEMANTIC=1."
        raise
    scopes = scope.visibility or DEFAULT_SCOPES
    with context.present_stores() as stores:
        similar = find_about(stores, query_keys(scope.about), scope.about, vectors, k=MAX_SIMILAR_ITEMS)
    return [engram for engram in similar if engram.scope in scopes and scope.covers(engram) and has_evidence(engram)]


def _visible_engrams(context: Context, view: View, scope: SnapshotScope) -> list[Engram]:
    if not scope.include_atoms:
        return []
    scopes = scope.visibility or DEFAULT_SCOPES
    spaces = tuple(space for name in scopes for space in visible_spaces(context.caller, name))
    stores = [visible_store(view, spaces)] if spaces else []
    wider_scopes = tuple(name for name in shared_scopes(context.policy) if name in scopes)
    with context.shared.visible_stores(wider_scopes, context.role_filter) as wider_stores:
        return covered_engrams([*stores, *wider_stores], scope)
