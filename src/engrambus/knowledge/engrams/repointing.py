"""How an engram whose lines have changed gets new pointers: those that its confirmer names, never a guess.

decision 84: lines that only moved are followed without being named, because they are the same lines.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from engrambus.errors import EvidenceStale, FieldValue, PhantomRead
from engrambus.evidence.pointers import EvidenceState, Pointer, describe_state
from engrambus.knowledge.engrams.ports import EngramView
from engrambus.knowledge.engrams.values import MAX_POINTERS, Engram
from engrambus.policy import ADMIN, Caller

_REPLACED = frozenset({"changed", "gone", "unresolved"})

States = Sequence[EvidenceState | None]
"""For each pointer of an engram, how its lines compare with the files now; None where no comparison is possible."""


class Renewal(msgspec.Struct, frozen=True, kw_only=True):
    """What the confirmation of an engram changes in its pointers."""

    engram: Engram | None = None
    """The engram as it was when this was worked out."""
    resolved: tuple[Pointer, ...] = ()
    """Pointers that were unresolved and whose content is here now, with its digest."""
    sent: tuple[Pointer, ...] = ()
    """The pointers that the confirmer named, as it sent them."""
    pointers: tuple[Pointer, ...] = ()
    """All its pointers from now on; empty if they stay."""
    words: tuple[str, ...] = ()
    """Words of the lines that `pointers` lead to."""
    stale: EvidenceState | None = None
    """The worst state of its lines, if it would stay changed or gone."""


def renewed_pointers(
    engram: Engram, states: States, named: Sequence[Pointer], moved: Mapping[str, Pointer]
) -> tuple[Pointer, ...]:
    """Return the pointers of an engram with the `named` ones in place of those that are changed, gone or unresolved.

    If there are none of these, the named ones take the place of all. `moved` has the new pointer of each ref whose
    lines are elsewhere now; they are the same lines.
    """
    unchanged = [
        moved.get(pointer.ref, pointer)
        for pointer, state in zip(engram.pointers, states, strict=True)
        if not named or state is None or state.state not in _REPLACED
    ]
    if named and len(unchanged) == len(engram.pointers):
        unchanged = []
    by_ref = {pointer.ref: pointer for pointer in (*unchanged, *named)}
    if len(by_ref) > MAX_POINTERS:
        raise FieldValue("An engram has at most 12 pointers.", field="at", limit=MAX_POINTERS, used=len(by_ref))
    return tuple(by_ref.values())


def check_may_repoint(caller: Caller, states: States) -> None:
    """Refuse an agent that names other lines for an engram whose lines are what they were."""
    # An agent could otherwise move any claim, also a pinned one, to lines that do not show it.
    if caller.role != ADMIN and all(state is None or state.state == "same" for state in states):
        raise FieldValue(
            "The lines it points at have not changed, so only a person names others.",
            field="at",
            hint="Leave out `at`; or put a claim of your own, with the lines that show it.",
        )


def check_digests_were_read(view: EngramView, pointers: Sequence[Pointer], caller: Caller) -> None:
    """Refuse a phantom read: a digest that no dereference of this run returned."""
    # To send a digest is to claim that the content was read, so a dereference must have returned it.
    if caller.role == ADMIN:
        return
    for position, pointer in enumerate(pointers):
        if pointer.digest is not None and not view.was_read(caller.run.run_id, pointer.digest):
            raise PhantomRead(
                field=f"pointers[{position}].digest",
                used=pointer.digest,
                hint="Leave the digest out, or dereference the pointer first.",
            )


def worst_stale(states: States) -> EvidenceState | None:
    """Return the worst of the states that are changed or gone."""
    stale = [state for state in states if state is not None and state.is_stale]
    return max(stale, key=lambda state: (state.state == "gone", -(state.share or 0.0)), default=None)


def needs_lines(engram_id: str, stale: EvidenceState) -> EvidenceStale:
    """Return the refusal of a confirmation that does not name the lines which show the claim now."""
    place = stale.now or "path:10-20"
    return EvidenceStale(
        f"The lines it points at are not what they were: {describe_state(stale)}.",
        field="at",
        used=engram_id,
        hint=f"Read what is there now. If the claim still holds, confirm it with `at`: {place}.",
    )
