"""The state of an engram's evidence now: whether its lines are still the same, and what is not here at all."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from msgspec import Struct

from engrambus.evidence.pointers import EvidenceState, Pointer, Staleness
from engrambus.gateway.context import Context
from engrambus.knowledge.engrams import Engram
from engrambus.policy import SHARED_SCOPES

STATES: tuple[Staleness, ...] = ("same", "moved", "changed", "gone")
"""States of evidence that is here, from the best to the worst."""
UNRESOLVED = EvidenceState(state="unresolved")
HERE_NOW = "What it points at is here now: confirm the engram."


class EvidenceAbout(Struct, frozen=True, kw_only=True, omit_defaults=True):
    state: Staleness | None = None
    """How the pointed lines compare with the commit that is checked out, of several pointers the worst; `unresolved`
    if no pointer leads to content that is here."""
    share: float | None = None
    """Share of the lines of that pointer that survive, from 0 to 1, if its state is `changed`."""
    now: str | None = None
    """The lines that hold its content now, as `src/a.py:12-14`, if they moved or changed."""
    unresolved: list[str] = []
    """Refs whose content is not here; they are no evidence."""
    hint: str | None = None
    """What makes the first of them readable."""


def evidence_about(context: Context, engram: Engram, states: Sequence[EvidenceState | None]) -> EvidenceAbout | None:
    """Return the state of an engram's evidence, of the states of its pointers; None if nothing is known."""
    known = [state for state in states if state is not None and state.state in STATES]
    absent = [pointer for pointer, state in zip(engram.pointers, states, strict=True) if state == UNRESOLVED]
    worst = max(known, key=lambda state: (STATES.index(state.state), -(state.share or 0.0)), default=None)
    if not absent:
        return EvidenceAbout(state=worst.state, share=worst.share, now=worst.now) if worst is not None else None
    hint = _how_to_resolve(context, absent[0])
    unresolved = [pointer.ref for pointer in absent]
    if len(absent) == len(states) or worst is None:
        state: Staleness | None = "unresolved" if len(absent) == len(states) else None
        return EvidenceAbout(state=state, unresolved=unresolved, hint=hint)
    return EvidenceAbout(state=worst.state, share=worst.share, now=worst.now, unresolved=unresolved, hint=hint)


def engram_states(
    context: Context, engrams: Sequence[Engram], against: str | None = None, *, is_patient: bool = False
) -> dict[str, list[EvidenceState | None]]:
    """Return, by the engram's id and for each pointer, how its lines compare with the files now, or `unresolved`.

    They are compared with the commit `against`, if it is given. Who is not patient gets None for what git could not say
    in a moment.
    """
    # All pointers at once: what is checked out is read from the disk.
    pointers = [pointer for engram in engrams for pointer in engram.pointers]
    compared = iter(pointer_states(context, pointers, against, is_patient=is_patient))
    return {
        engram.id: [
            UNRESOLVED if _is_unresolved(context, engram, pointer) else state
            for pointer, state in zip(engram.pointers, islice(compared, len(engram.pointers)), strict=True)
        ]
        for engram in engrams
    }


def pointer_states(
    context: Context, pointers: Sequence[Pointer], against: str | None = None, *, is_patient: bool = False
) -> list[EvidenceState | None]:
    """Return how the lines of each pointer compare with the files now, or with the commit `against`."""
    files = context.project_files
    if not is_patient:
        return files.staleness_of(pointers, against)
    return [lines.state if lines is not None else None for lines in files.lines_now(pointers, against)]


class EvidenceLookup:
    """The states of engrams' evidence during one call: each engram is compared once, and several at a time."""

    def __init__(self, context: Context, against: str | None = None, *, is_patient: bool = False) -> None:
        self._context = context
        self._against = against
        self._is_patient = is_patient
        self._states: dict[str, list[EvidenceState | None]] = {}

    def states(self, engrams: Sequence[Engram]) -> dict[str, list[EvidenceState | None]]:
        """Return the states of these engrams' pointers, and of all that were looked up before, by the engram's id."""
        unknown = [engram for engram in engrams if engram.id not in self._states]
        if unknown:
            self._states |= engram_states(self._context, unknown, self._against, is_patient=self._is_patient)
        return self._states

    def find_stale(self, engrams: Sequence[Engram]) -> dict[str, Staleness]:
        """Return those of these engrams that have a pointer whose lines are changed or gone: the worst state."""
        states, stale = self.states(engrams), dict[str, Staleness]()
        for engram in engrams:
            worst = [state for state in states[engram.id] if state is not None and state.is_stale]
            if worst:
                stale[engram.id] = "gone" if any(state.state == "gone" for state in worst) else "changed"
        return stale


def _is_unresolved(context: Context, engram: Engram, pointer: Pointer) -> bool:
    # decision 55: a pointer that was resolved has a digest; what another project resolved need not be here
    return pointer.digest is None or (engram.scope in SHARED_SCOPES and context.evidence.problem(pointer) is not None)


def _how_to_resolve(context: Context, pointer: Pointer) -> str | None:
    problem = context.evidence.problem(pointer)
    if problem is not None:
        return problem.hint or problem.detail
    return HERE_NOW if pointer.digest is None and pointer.type != "url" else None
