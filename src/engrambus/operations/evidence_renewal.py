"""New pointers for engrams whose lines have moved or changed, worked out before the write lock is taken."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

from engrambus.errors import ClaimConfirmed, EngramBusError, EngramNotFound, LinesUncommitted
from engrambus.evidence.pointers import EvidenceState, Pointer, check_pointer
from engrambus.gateway.context import Context
from engrambus.gateway.role_view import restrict_view
from engrambus.knowledge.engrams import (
    Engram,
    PreparedEngram,
    Renewal,
    check_may_repoint,
    every_space,
    find_engram,
    renewed_pointers,
    repoint,
    resolve_again,
    worst_stale,
)
from engrambus.operations.evidence_about import engram_states, pointer_states
from engrambus.policy import visible_spaces


class ConfirmRequest(Protocol):
    """The fields of a confirmation that say what is confirmed, and by which lines."""

    @property
    def id(self) -> str: ...
    @property
    def snapshot(self) -> bool: ...
    @property
    def pointers(self) -> Sequence[Pointer | str]: ...


def renew_evidence(context: Context, request: ConfirmRequest) -> Renewal:
    """Return what becomes of the pointers of an engram that is confirmed."""
    try:
        with context.store.read() as view:
            seen = restrict_view(view, context.role_filter)
            engram = find_engram(seen, every_space(visible_spaces(context.caller)), request.id).engram
    except EngramNotFound:
        if request.pointers:
            raise
        return Renewal()  # possibly one of a shared store, whose files are elsewhere
    resolved = resolve_again(engram, context.evidence, context.project_files.repositories)
    states = engram_states(context, [engram], is_patient=True)[engram.id]
    sent = [check_pointer(pointer, f"pointers[{number}]")[0] for number, pointer in enumerate(request.pointers)]
    if sent:
        check_may_repoint(context.caller, states)
    named = [_stamp(context, pointer, f"pointers[{number}]") for number, pointer in enumerate(sent)]
    if not request.snapshot:
        _check_current(context, named)
    moved = _followed(context, engram, states)
    pointers = renewed_pointers(engram, states, named, moved) if named or moved else ()
    return Renewal(
        engram=engram,
        resolved=resolved,
        sent=tuple(sent),
        pointers=pointers,
        words=_words(context, pointers),
        stale=worst_stale(states) if not named else None,
    )


def follow_repeats(context: Context, puts: Sequence[tuple[PreparedEngram, Engram]]) -> list[Engram]:
    """Give engrams whose lines have moved or changed the pointers of the claims that repeat them.

    Each pair is what was put, and the engram that states the claim now. Returns these engrams as they are then.
    """
    return [
        _follow(context, prepared, engram) if _points_elsewhere(prepared, engram) else engram
        for prepared, engram in puts
    ]


def follow_repeated_ids(context: Context, prepared: Sequence[PreparedEngram], ids: Sequence[str]) -> None:
    """Do the same for engrams of which only the ids are known."""
    if not any(isinstance(warning, ClaimConfirmed) for warning in context.limits.warnings):
        return  # nothing was repeated
    with context.store.read() as view:
        seen, spaces = restrict_view(view, context.role_filter), visible_spaces(context.caller)
        puts = [
            (item, stored.engram)
            for item, engram_id in zip(prepared, ids, strict=True)
            if (stored := seen.find(spaces, engram_id)) is not None
        ]
    follow_repeats(context, puts)


def _points_elsewhere(prepared: PreparedEngram, engram: Engram) -> bool:
    return {pointer.ref for pointer in prepared.pointers} != {pointer.ref for pointer in engram.pointers}


def _follow(context: Context, prepared: PreparedEngram, engram: Engram) -> Engram:
    states = engram_states(context, [engram], is_patient=True)[engram.id]
    if all(state is None or state.state == "same" for state in states):
        return engram  # its own lines still show it
    if any(pointer.digest is None for pointer in prepared.pointers) or _not_current(context, prepared.pointers):
        return engram
    spaces = visible_spaces(context.caller)
    # A commit of its own, only where a stale claim is repeated: git is not asked while others wait for the lock.
    words = _words(context, prepared.pointers)
    return context.commit(
        lambda view: repoint(view, spaces, engram, context.caller, prepared.pointers, words), Engram, remember=False
    )


def _words(context: Context, pointers: Sequence[Pointer]) -> tuple[str, ...]:
    """Return the words of the lines that stamped pointers lead to."""
    return tuple(word for pointer in pointers for word in context.evidence.words(pointer, check_pointer(pointer)[1]))


def _followed(context: Context, engram: Engram, states: Sequence[EvidenceState | None]) -> dict[str, Pointer]:
    """Return the new pointers of moved lines by their ref, as far as the same lines are committed there."""
    followed = {}
    for pointer, state in zip(engram.pointers, states, strict=True):
        if state is not None and state.state == "moved" and state.now is not None:
            with suppress(EngramBusError):
                checked = check_pointer(context.completer.complete(state.now, "at"))[0]
                stamped = _stamp(context, checked, "at")
                if stamped.digest == pointer.digest:
                    followed[pointer.ref] = stamped
    return followed


def _stamp(context: Context, pointer: Pointer, field: str) -> Pointer:
    checked, address = check_pointer(pointer, field)
    stamped = context.evidence.stamp(checked, address, field)
    context.project_files.repositories.retain(address)
    return stamped


def _not_current(context: Context, pointers: Sequence[Pointer]) -> list[int]:
    """Return the positions of pointers whose lines are not the same in the files now."""
    states = pointer_states(context, pointers, is_patient=True)
    return [number for number, state in enumerate(states) if state is not None and state.state != "same"]


def _check_current(context: Context, named: Sequence[Pointer]) -> None:
    """Refuse lines of a commit that the files no longer have."""
    if stale := _not_current(context, named):
        raise LinesUncommitted(
            field=f"pointers[{stale[0]}]",
            used=named[stale[0]].ref,
            hint="Commit the file first, or confirm the engram with `snapshot`.",
        )
