"""Confirming several claims at once: by their ids, or all that wait from one agent's answers."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct, structs

from engrambus.errors import FieldValue
from engrambus.gateway.context import Context
from engrambus.gateway.declare import Route, operation
from engrambus.gateway.role_view import restrict_view
from engrambus.knowledge import engrams
from engrambus.operations.engrams import ConfirmEngram
from engrambus.operations.evidence_renewal import renew_evidence
from engrambus.policy import visible_spaces

MAX_IDS = 100
"""Engrams that one request confirms by their ids."""


class ConfirmClaims(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Several engrams to confirm at once."""

    ids: Annotated[list[str], Meta(max_length=MAX_IDS, description="Ids of the engrams")] = []
    agent: (
        Annotated[str, Meta(max_length=96, description="Every claim in this agent's answers that awaits confirmation")]
        | None
    ) = None


@operation(
    "engram.confirm_claims",
    writes=True,
    route=Route("POST", "/engrams/confirm"),
    absent_from={
        "mcp": "agents confirm one at a time with less_inbox",
        "cli": "engrambus confirm takes several ids, or --from AGENT",
    },
    agent_fields=("agent",),
    span="update_memory",
)
def confirm_several(context: Context, request: ConfirmClaims) -> engrams.ClaimsConfirmed:
    """Confirm several engrams, or every claim in an agent's answers that awaits confirmation: all, or none."""
    if not request.ids and request.agent is None:
        raise FieldValue("Name engrams, or an agent.", field="ids", hint="`engram.feed` lists claims that wait.")
    renewals = {name: renew_evidence(context, ConfirmEngram(id=name)) for name in dict.fromkeys(request.ids)}
    stale: list[str] = []
    for engram_id in _waiting_ids(context, request.agent) if request.agent is not None else ():
        renewal = renew_evidence(context, ConfirmEngram(id=engram_id))
        if renewal.stale is None:
            renewals[engram_id] = renewal
        else:
            stale.append(engram_id)
    spaces = visible_spaces(context.caller)
    answer = context.commit(
        lambda view: engrams.confirm_claims(view, spaces, renewals, context.caller), engrams.ClaimsConfirmed
    )
    return structs.replace(answer, stale=stale)


def _waiting_ids(context: Context, agent: str) -> list[str]:
    """Return the ids of the claims of an agent of the caller's run that the caller may confirm."""
    author = f"{context.caller.run.run_id}/{agent}"
    with context.store.read() as view:
        seen = restrict_view(view, context.role_filter)
        waiting = engrams.waiting_claims(seen, visible_spaces(context.caller), context.caller)
    return [engram.id for engram in waiting if engram.provenance.created_by == author]
