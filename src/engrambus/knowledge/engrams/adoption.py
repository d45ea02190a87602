"""The rules of adopting: knowledge of another project is taken on as untrusted (decision 68).

It does not matter how it came here: a journal that came with a clone, or a colleague's export. What it says about
itself (author, time, pins) is data; the provenance of an adopted engram is that of the person who adopted it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import msgspec

from engrambus.core import canonical_id, new_ulid, parse_duration, parse_time, print_duration, print_time
from engrambus.errors import EngramBusError, EngramUnconfirmed, EngramUntrusted, ScopeForbidden, TtlInvalid
from engrambus.knowledge.engrams.dedupe import is_same_statement
from engrambus.knowledge.engrams.facts import EngramAdopted
from engrambus.knowledge.engrams.keys import KEY_FORMAT, query_keys
from engrambus.knowledge.engrams.ports import EngramReads, EngramView, VisibleStore
from engrambus.knowledge.engrams.put import MAX_COMPARED, PreparedEngram
from engrambus.knowledge.engrams.ranking import recall
from engrambus.knowledge.engrams.rules import stamp, validate
from engrambus.knowledge.engrams.values import Adoption, CheckedEngram, Provenance
from engrambus.policy import ADMIN, UNTRUSTED_SPACE, Caller, unconfirmed_space, visible_spaces

UNKNOWN_AUTHOR = "unknown"
"""Stands for the name of an author that is no name."""
_AUTHOR = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,39}(?:/[A-Za-z0-9][A-Za-z0-9_.-]{0,63})?")
_TAKEN_FIELDS = ("kind", "claim", "confidence", "tags")
"""Fields of an engram that are adopted as they are; its keys and digests are computed here, its address of an embedding
would be another project's."""


class ForeignEngram(msgspec.Struct, frozen=True, kw_only=True):
    """An engram as another project has it; nothing in it is checked."""

    fields: Mapping[str, Any]
    """The engram by the published schema, or what stands in its place."""
    expires_us: int
    """The end of its ttl by that project's clock."""
    pinned: bool = False


class AdoptableEngram(msgspec.Struct, frozen=True, kw_only=True):
    """An engram of another project that keeps every rule of this one."""

    checked: CheckedEngram
    foreign_id: str
    author: str
    made_us: int
    lifetime_us: int
    """What is left of its ttl."""
    pinned: bool


class PreparedAdoption(msgspec.Struct, frozen=True, kw_only=True):
    """An engram of another project that needs only a time and an id to be adopted."""

    prepared: PreparedEngram
    foreign: AdoptableEngram


def check_foreign(foreign: ForeignEngram, *, now_us: int, max_ttl_us: int) -> AdoptableEngram:
    """Check an engram of another project by the rules of a put; its ttl is what is left of it, up to this project's."""
    fields = foreign.fields
    left_us = foreign.expires_us - now_us
    if left_us <= 0:
        raise TtlInvalid("The engram has expired.", field="ttl")
    if fields.get("scope") != "project":
        # An engram of a run was never meant for more than that run, which does not exist here.
        raise ScopeForbidden(
            "Only engrams of the scope 'project' are adopted.", field="scope", limit="project", used=fields.get("scope")
        )
    draft = {name: fields[name] for name in _TAKEN_FIELDS if name in fields}
    draft |= {"scope": "project", "pointers": _without_digests(fields.get("pointers"))}
    ttl = fields.get("ttl")
    if isinstance(ttl, str):
        draft["ttl"] = print_duration(max_ttl_us) if _is_longer(ttl, max_ttl_us) else ttl
    checked = validate(draft, max_ttl_us=max_ttl_us)
    provenance = fields.get("provenance")
    provenance = provenance if isinstance(provenance, Mapping) else {}
    foreign_id = fields.get("id")
    return AdoptableEngram(
        checked=checked,
        foreign_id=foreign_id if isinstance(foreign_id, str) else "",
        author=author_name(provenance.get("created_by")),
        made_us=_time_us(provenance.get("created_at")),
        lifetime_us=min(left_us, max_ttl_us),
        pinned=foreign.pinned,
    )


def author_name(value: object) -> str:
    """Return an author as another project names it, or `unknown` if a sentence stands in its place."""
    return value if isinstance(value, str) and _AUTHOR.fullmatch(value) else UNKNOWN_AUTHOR


def adopt_engrams(
    view: EngramView, items: Sequence[PreparedAdoption], *, origin: str, caller: Caller
) -> tuple[list[EngramAdopted], list[str]]:
    """Take on engrams of another project, without those that were adopted before; return the ids they have here."""
    facts: list[EngramAdopted] = []
    ids: dict[str, None] = {}
    for item in items:
        engram_id = _id_here(view, item.foreign, origin)
        if engram_id is None or engram_id in ids:
            continue
        ids[engram_id] = None
        facts.append(adopted_fact(view, item, engram_id, origin, caller))
    return facts, list(ids)


def adopted_fact(
    view: EngramView, item: PreparedAdoption, engram_id: str, origin: str, caller: Caller
) -> EngramAdopted:
    """Return the fact that a person takes on an engram of another project, under this id."""
    prepared, foreign, now = item.prepared, item.foreign, print_time(view.as_of)
    provenance = Provenance(created_at=now, created_by=caller.full_name, source="agent")
    return EngramAdopted(
        engram=stamp(
            prepared.checked,
            id=engram_id,
            provenance=provenance,
            hash_keys=prepared.keys.public,
            pointers=prepared.pointers,
        ),
        run=caller.run.run_id,
        expires_at=view.as_of + foreign.lifetime_us,
        more_keys=prepared.keys.extra,
        key_format=KEY_FORMAT,
        adoption=Adoption(
            origin=origin,
            by=foreign.author,
            made_at=print_time(min(foreign.made_us, view.as_of)),
            adopted_at=now,
            pinned=foreign.pinned,
            id=own_id if (own_id := canonical_id(foreign.foreign_id)) != engram_id else None,
        ),
    )


def check_own_words(view: EngramReads, text: str, caller: Caller, used: Sequence[str] = ()) -> None:
    """Refuse an agent's text for the team's memory that repeats an untrusted engram, or that is based on one."""
    if caller.role == ADMIN:
        return
    _check_confirmed(view, caller, used)
    untrusted = VisibleStore(view, (UNTRUSTED_SPACE,), is_untrusted=True)
    found = [stored for name in used if (stored := view.find(untrusted.spaces, name)) is not None]
    repeated = (
        engram.id
        for engram in recall([untrusted], query_keys(text), k=MAX_COMPARED)
        if is_same_statement(text, engram.claim)
    )
    engram_id = next(chain((stored.engram.id for stored in found), repeated), None)
    if engram_id is not None:
        raise EngramUntrusted(
            f"It repeats or is based on the engram {engram_id}, which came from elsewhere and which no person here has "
            "confirmed.",
            field="content",
            used=engram_id,
            hint="A person confirms that engram, or accepts this.",
        )


def _check_confirmed(view: EngramReads, caller: Caller, used: Sequence[str]) -> None:
    """Refuse an agent's text for the team's memory that is based on an unconfirmed claim from prose."""
    spaces = tuple(map(unconfirmed_space, visible_spaces(caller)))
    for engram_id in used:
        stored = view.find(spaces, engram_id)
        if stored is not None:
            raise EngramUnconfirmed(
                f"It is based on the engram {engram_id}, which was taken from an agent's prose and is not confirmed.",
                field="content",
                used=engram_id,
                hint="A parent of its author, or a person, confirms it with `engrambus confirm ID`.",
            )


def id_from_elsewhere(origin: str, foreign_id: str, made_us: int) -> str:
    """Return the id that a thing of another project has here if its own is taken: the same one every time."""
    digest = hashlib.blake2b(f"{origin}\n{foreign_id}".encode("utf-8", "surrogatepass"), digest_size=16).digest()
    return new_ulid(made_us, lambda size: digest[:size])


def _id_here(view: EngramView, foreign: AdoptableEngram, origin: str) -> str | None:
    """Return the id that an engram gets here: its own if that is free; None if it was adopted before."""
    own_id = canonical_id(foreign.foreign_id)
    other_id = id_from_elsewhere(origin, foreign.foreign_id, foreign.made_us)
    for engram_id in (own_id, other_id):
        if engram_id is None:
            continue
        known = view.adoptions((engram_id,)).get(engram_id)
        if known is not None and known.origin == origin:
            return None
        if not view.is_id_used(engram_id):
            return engram_id
    return None


def _without_digests(pointers: Any) -> Any:
    """Return pointers without their digests: each claims that an agent here has read the content."""
    if not isinstance(pointers, list):
        return pointers
    return [
        {name: value for name, value in pointer.items() if name != "digest"} if isinstance(pointer, dict) else pointer
        for pointer in pointers
    ]


def _is_longer(ttl: str, max_ttl_us: int) -> bool:
    try:
        return parse_duration(ttl) > max_ttl_us
    except EngramBusError:  # refused by the rules of a put
        return False


def _time_us(value: object) -> int:
    try:
        return max(parse_time(value), 0) if isinstance(value, str) else 0
    except (ValueError, OverflowError, EngramBusError):
        return 0
