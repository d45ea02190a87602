"""Signers of engrams that came through git, and other claims that replace the same one (decision 119)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from engrambus.gateway.context import Context
from engrambus.knowledge.engrams import Adoption, Engram, VisibleStore, replaces_key

MAX_CONFLICTS = 8
"""Claims that are named of those that replace the same engram."""


class SignerAbout(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The owner of the key that signed an engram where it was put."""

    key: str
    name: str | None = None
    """The key's name in `project.yaml`; none if the project does not know it."""


def signers_about(context: Context, adoptions: Mapping[str, Adoption]) -> dict[str, SignerAbout]:
    """Return whose keys signed those of these adopted engrams that came through git."""
    signed = {engram_id: adoption.key for engram_id, adoption in adoptions.items() if adoption.key}
    names = context.project_files.known_keys() if signed else {}
    return {engram_id: SignerAbout(key=key, name=names.get(key)) for engram_id, key in signed.items()}


def conflicts_about(
    stores: Sequence[VisibleStore],
    engrams: Sequence[Engram],
    adoptions: Mapping[str, Adoption],
    replaced: Mapping[str, Sequence[str]],
) -> dict[str, list[str]]:
    """Return the ids of other claims that replace the same engram as each of these, here or where they come from."""
    about = {}
    for engram in engrams:
        adoption = adoptions.get(engram.id)
        older = dict.fromkeys((*(adoption.replaces if adoption is not None else ()), *replaced.get(engram.id, ())))
        rivals = dict.fromkeys(rival for older_id in older for rival in _replacing(stores, older_id))
        if conflicts := [rival for rival in rivals if rival != engram.id][:MAX_CONFLICTS]:
            about[engram.id] = conflicts
    return about


def replaced_elsewhere(stores: Sequence[VisibleStore], engrams: Sequence[Engram]) -> dict[str, list[str]]:
    """Return the ids of claims from elsewhere that replace each of these engrams where they come from."""
    about = {}
    for engram in engrams:
        if conflicts := [rival for rival in _posted(stores, engram.id) if rival != engram.id][:MAX_CONFLICTS]:
            about[engram.id] = conflicts
    return about


def _replacing(stores: Sequence[VisibleStore], older_id: str) -> Iterator[str]:
    """Yield the ids of the live claims that a caller sees and that replace an engram."""
    yield from _posted(stores, older_id)
    for store in stores:
        past = store.reads.find_past(store.spaces, older_id)
        newer = past.replaced_by if past is not None else None
        if newer and any(other.reads.find(other.spaces, newer) is not None for other in stores):
            yield newer


def _posted(stores: Sequence[VisibleStore], older_id: str) -> Iterator[str]:
    for store in stores:
        ordinals = store.reads.postings(store.spaces, replaces_key(older_id), kind=None, limit=MAX_CONFLICTS)
        if ordinals:
            yield from (engram.id for engram in store.reads.engrams(store.reads.visible(ordinals)))
