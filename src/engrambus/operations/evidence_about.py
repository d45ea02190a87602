"""The state of an engram's evidence now: whether its lines are still the same, and what is not here at all."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from engrambus.evidence.pointers import Pointer, Staleness
from engrambus.gateway.context import Context
from engrambus.knowledge.engrams import Engram
from engrambus.policy import SHARED_SCOPES

STATES: tuple[Staleness, ...] = ("same", "moved", "changed", "gone")
"""States of evidence that is here, from the best to the worst."""
HERE_NOW = "What it points at is here now: confirm the engram."


class EvidenceAbout(Struct, frozen=True, kw_only=True, omit_defaults=True):
    state: Staleness | None = None
    """How the pointed lines compare with the commit that is checked out, of several pointers the worst; `unresolved`
    if no pointer leads to content that is here."""
    unresolved: list[str] = []
    """Refs whose content is not here; they are no evidence."""
    hint: str | None = None
    """What makes the first of them readable."""


def evidence_about(context: Context, engram: Engram, states: Sequence[Staleness | None]) -> EvidenceAbout | None:
    """Return the state of an engram's evidence, of the states of its pointers; None if nothing is known."""
    known = [state for state in states if state in STATES]
    absent = [pointer for pointer, state in zip(engram.pointers, states, strict=True) if state == "unresolved"]
    if not absent:
        return EvidenceAbout(state=max(known, key=STATES.index)) if known else None
    state: Staleness | None = max(known, key=STATES.index, default=None)
    return EvidenceAbout(
        state="unresolved" if len(absent) == len(states) else state,
        unresolved=[pointer.ref for pointer in absent],
        hint=_how_to_resolve(context, absent[0]),
    )


def pointer_states(context: Context, engram: Engram, compared: Sequence[Staleness | None]) -> list[Staleness | None]:
    """Return for each pointer how its lines were `compared` with the checked out commit, or that it is unresolved."""
    return [
        "unresolved" if _is_unresolved(context, engram, pointer) else state
        for pointer, state in zip(engram.pointers, compared, strict=True)
    ]


def _is_unresolved(context: Context, engram: Engram, pointer: Pointer) -> bool:
    # decision 55: a pointer that was resolved has a digest; what another project resolved need not be here
    return pointer.digest is None or (engram.scope in SHARED_SCOPES and context.evidence.problem(pointer) is not None)


def _how_to_resolve(context: Context, pointer: Pointer) -> str | None:
    problem = context.evidence.problem(pointer)
    if problem is not None:
        return problem.hint or problem.detail
    return HERE_NOW if pointer.digest is None and pointer.type != "url" else None
