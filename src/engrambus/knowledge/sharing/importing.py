"""The rule of importing: engrams of others are taken on as untrusted, and followed where their authors changed them.

The rule takes a view of the store under the write lock and returns facts. It never changes what a person here has
trusted, nor what was stated here: another project's word on those is shown and decides nothing.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Literal, TypeAlias

import msgspec

from engrambus.knowledge.engrams import (
    EngramAdopted,
    EngramForgotten,
    EngramReplaced,
    EngramView,
    PreparedAdoption,
    StoredEngram,
    adopted_fact,
    id_from_elsewhere,
    replaced_fact,
    replaces_key,
)
from engrambus.knowledge.sharing.merging import ImportableEngram
from engrambus.policy import PROJECT_SPACE, UNTRUSTED_SPACE, Caller

ImportFact: TypeAlias = EngramAdopted | EngramForgotten | EngramReplaced
Verdict = Literal["new", "known", "replaced", "withdrawn", "ended", "taken"]
"""`new` is taken on; `replaced` and `withdrawn` leave what was untrusted here; `ended` never arrived before it ended;
`taken` has the id of another claim that was stated here."""


class Arrival(msgspec.Struct, frozen=True, kw_only=True):
    """Relation of an engram of others to this project."""

    verdict: Verdict
    id: str = ""
    """Its id here."""
    stored: StoredEngram | None = None
    """The untrusted engram here that has ended there."""


def arrival_of(view: EngramView, item: ImportableEngram, given_ids: Container[str] = ()) -> Arrival:
    """Return what an engram of others is to this project; `given_ids` are ids that the same commit gives away.

    The answer is the same however often it is asked: what was forgotten or replaced here does not come back.
    """
    elsewhere = id_from_elsewhere(item.key, item.id, item.made_us)
    renewed = id_from_elsewhere(f"{item.key}/{item.foreign.expires_us}", item.id, item.made_us)
    for engram_id in (item.id, elsewhere, renewed):
        stored = view.find((UNTRUSTED_SPACE, PROJECT_SPACE), engram_id)
        if stored is not None and (arrival := _arrival_at(view, item, stored)) is not None:
            return arrival
    engram_id = elsewhere if item.id in given_ids or _is_occupied(view, item) else item.id
    is_used = engram_id in given_ids or view.is_id_used(engram_id)
    if item.withdrawn or item.replaced_by or item.foreign.expires_us <= view.as_of:
        return Arrival(verdict="known" if is_used else "ended", id=engram_id)
    if not is_used:
        return Arrival(verdict="new", id=engram_id)
    past = view.find_past((UNTRUSTED_SPACE,), engram_id)
    if past is not None and past.superseded_us is None and renewed not in given_ids and not view.is_id_used(renewed):
        return Arrival(verdict="new", id=renewed)  # it ran out here, and was confirmed where it comes from
    return Arrival(verdict="known", id=engram_id)


def _arrival_at(view: EngramView, item: ImportableEngram, stored: StoredEngram) -> Arrival | None:
    """Return what an engram of others is if one of its ids belongs to a live engram here; None if that is another."""
    adoption = view.adoptions((stored.engram.id,)).get(stored.engram.id)
    engram_id = stored.engram.id
    is_same = (stored.engram.claim, stored.engram.kind) == item.statement
    if adoption is None or not adoption.key:
        return Arrival(verdict="known" if is_same else "taken", id=engram_id)
    if adoption.key != item.key:
        # The same words under another key are a copy: of somebody with a new key, or of somebody else.
        return Arrival(verdict="known", id=engram_id) if is_same else None
    if stored.space == UNTRUSTED_SPACE and item.withdrawn:
        return Arrival(verdict="withdrawn", id=engram_id, stored=stored)
    if stored.space == UNTRUSTED_SPACE and item.replaced_by:
        return Arrival(verdict="replaced", id=engram_id, stored=stored)
    return Arrival(verdict="known", id=engram_id)


def _is_occupied(view: EngramView, item: ImportableEngram) -> bool:
    """True if the id of an engram of others belongs to a live engram here that another person's key signed."""
    adoption = view.adoptions((item.id,)).get(item.id)
    return adoption is not None and bool(adoption.key) and adoption.key != item.key


def import_engrams(
    view: EngramView, items: Sequence[tuple[ImportableEngram, PreparedAdoption | None]], caller: Caller
) -> tuple[list[ImportFact], list[Arrival]]:
    """Take on engrams of others and follow what became of earlier ones; each comes prepared if it is new and passes."""
    facts: list[ImportFact] = []
    arrivals: list[Arrival] = []
    given_ids: dict[str, tuple[str, str]] = {}
    for item, prepared in items:
        is_copy = given_ids.get(item.id) == item.statement
        arrival = Arrival(verdict="known", id=item.id) if is_copy else arrival_of(view, item, given_ids)
        fact = _fact_of(view, item, prepared, arrival, caller)
        if fact is not None:
            given_ids[arrival.id] = item.statement
        facts.extend([fact] if fact is not None else ())
        arrivals.append(arrival)
    return facts, arrivals


def _fact_of(
    view: EngramView, item: ImportableEngram, prepared: PreparedAdoption | None, arrival: Arrival, caller: Caller
) -> ImportFact | None:
    stored = arrival.stored
    if arrival.verdict == "new" and prepared is not None:
        fact = adopted_fact(view, prepared, arrival.id, item.project, caller)
        adoption = msgspec.structs.replace(fact.adoption, key=item.key, replaces=item.replaces)
        keys = (*fact.more_keys, *map(replaces_key, item.replaces))
        return msgspec.structs.replace(fact, adoption=adoption, more_keys=keys)
    if arrival.verdict == "withdrawn" and stored is not None:
        return EngramForgotten(id=arrival.id, space=stored.space, by=caller.full_name)
    if arrival.verdict == "replaced" and stored is not None:
        return replaced_fact(stored, item.replaced_by, caller, pinned=False)
    return None
