"""The knowledge about engrams that stands outside their closed schema, and helpers to list them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from engrambus.errors import FieldValue
from engrambus.gateway.context import Context
from engrambus.knowledge.engrams import (
    Adoption,
    Capture,
    Engram,
    EngramReads,
    Reader,
    VisibleStore,
    read_by,
)
from engrambus.operations.engram_filters import (
    MemoryAbout,
    memories_about,
)
from engrambus.operations.engram_uses import UsesAbout, used_about, uses_about
from engrambus.operations.evidence_about import EvidenceAbout, EvidenceLookup, evidence_about
from engrambus.operations.learned_about import LearnedAbout, learned_about
from engrambus.operations.replacing_about import past_about, replaced_about
from engrambus.operations.sharing_about import SignerAbout, conflicts_about, replaced_elsewhere, signers_about

MAX_CURSOR_DIGITS = 18


class EngramAbout(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is known about an engram now; it is no part of the engram, whose schema is closed."""

    read_by: list[Reader]
    """Agents that have read the evidence, its author first; empty if it was not read."""
    evidence: EvidenceAbout | None = None
    memory: MemoryAbout | None = None
    """The memory that it is, or that says the same; none if the team does not remember it."""
    used: list[str] = []
    """Ids of the engrams it is based on."""
    used_by: UsesAbout | None = None
    untrusted: Adoption | None = None
    """Where it came from, if it was adopted from elsewhere and no person here has confirmed it."""
    adopted: Adoption | None = None
    """Where it came from and who confirmed it, if it was adopted and a person has."""
    signer: SignerAbout | None = None
    """Owner of the key that signed it, if it came through git."""
    conflicts: list[str] = []
    """Ids of other claims that replace the same engram: nobody here has decided which of them holds."""
    replaced_elsewhere: list[str] = []
    """Ids of claims from elsewhere that replace this engram where they come from, and do not here."""
    replaces: list[str] = []
    """Ids of the older engrams that it replaced."""
    replaced_by: str | None = None
    """Id of the engram that replaced it, or the pointer to a memory that did."""
    valid_from: str | None = None
    """When it was put; only given for one that was replaced."""
    superseded_at: str | None = None
    """When it was replaced."""
    unconfirmed: Capture | None = None
    """The answer in prose that it was taken from, while it is unconfirmed."""
    captured: Capture | None = None
    """The answer in prose that it was taken from, and who confirmed it."""
    learned: LearnedAbout | None = None


def about_engrams(
    context: Context,
    stores: Sequence[VisibleStore],
    engrams: Sequence[Engram],
    *,
    shown_uses: int = 0,
    of_past: bool = False,
    lookup: EvidenceLookup | None = None,
) -> dict[str, EngramAbout]:
    """Return what is known now about each engram, by its id; `shown_uses` is how many of its uses are listed.

    `of_past` says that some may have been replaced.
    """
    readers = read_by(context.view, engrams, context.caller.run.run_id, context.evidence.locate)
    states = (lookup or EvidenceLookup(context)).states(engrams)
    ids = [engram.id for engram in engrams]
    adoptions, captures = context.view.adoptions(ids), context.view.captures(ids)
    replaced = replaced_about(stores, engrams)
    signers, newer = signers_about(context, adoptions), replaced_elsewhere(stores, engrams)
    conflicts = conflicts_about(stores, engrams, adoptions, replaced)
    memories = memories_about(context, engrams)
    learned = context.view.learned([engram.id for engram in engrams])
    about = {}
    for engram in engrams:
        adoption, capture = adoptions.get(engram.id), captures.get(engram.id)
        is_untrusted = adoption is not None and adoption.confirmed_by is None
        about[engram.id] = EngramAbout(
            read_by=readers[engram.id],
            evidence=evidence_about(context, engram, states[engram.id]),
            memory=memories.get(engram.id),
            used=used_about(context, stores, engram.id),
            used_by=uses_about(context, stores, engram.id, shown=shown_uses),
            untrusted=adoption if is_untrusted else None,
            adopted=adoption if not is_untrusted else None,
            unconfirmed=capture if capture is not None and capture.confirmed_by is None else None,
            captured=capture if capture is not None and capture.confirmed_by is not None else None,
            signer=signers.get(engram.id),
            conflicts=conflicts.get(engram.id, []),
            replaced_elsewhere=newer.get(engram.id, []),
            replaces=replaced.get(engram.id, []),
            **(past_about(stores, engram) if of_past else {}),
            learned=learned_about(learned.get(engram.id), context.as_of),
        )
    return about


def list_spaces(stores: Sequence[VisibleStore]) -> tuple[EngramReads, tuple[str, ...]]:
    """Return the nearest store, and its spaces with that of untrusted engrams: by time they are one list."""
    reads = stores[0].reads
    return reads, tuple(space for store in stores if store.reads is reads for space in store.spaces)


def without_keys(engram: Engram) -> Engram:
    """Return an engram as answers show it."""
    # decision 6: a reader does not need the keys, and they would cost it as many tokens as the rest
    return msgspec.structs.replace(engram, hash_keys=())


def read_cursor(cursor: str | None) -> int | None:
    """Return the ordinal that the last page ended with."""
    if cursor is None:
        return None
    if not cursor.isascii() or not cursor.isdigit() or len(cursor) > MAX_CURSOR_DIGITS:
        raise FieldValue("This cursor did not come from an earlier answer.", field="cursor")
    return int(cursor)
