"""A set of signed events as engrams: what was claimed, by whose key, and what became of it since.

The answer depends on the set alone, in whatever order its events were written, merged or read. An engram is named by
its id and by the key that signed its put, so nobody can put words under another one's name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from engrambus.core import canonical_id
from engrambus.knowledge.engrams import ForeignEngram
from engrambus.knowledge.sharing.events import SharedEvent, time_us

MAX_REPLACED = 12
"""Ids of replaced engrams that are remembered of one claim."""


class ImportableEngram(msgspec.Struct, frozen=True, kw_only=True):
    """An engram as the events of others tell it; its texts are not checked yet."""

    foreign: ForeignEngram
    id: str
    key: str
    """Public key that signed its put."""
    project: str
    made_us: int
    replaces: tuple[str, ...] = ()
    """Ids of the engrams that it was put in place of."""
    replaced_by: str = ""
    """What replaced it, as its author or another known key says."""
    withdrawn: bool = False
    """True if its author has withdrawn it."""

    @property
    def statement(self) -> tuple[str, str]:
        """Its claim and its kind."""
        return self.foreign.fields["claim"], self.foreign.fields["kind"]


class MergedEvents(msgspec.Struct, frozen=True, kw_only=True):
    """The engrams of a set of events."""

    engrams: list[ImportableEngram]
    """In the order of their puts; those of known keys first."""
    circles: list[str]
    """Ids of engrams that replace each other in a circle: none of them counts as replaced."""


def merge_events(events: Iterable[SharedEvent], known_keys: Mapping[str, str]) -> MergedEvents:
    """Return the engrams that a set of events tells of; `known_keys` are the project's public keys."""
    by_engram: dict[str, dict[bytes, SharedEvent]] = {}
    for event in events:
        by_engram.setdefault(event.id, {})[event.line()] = event
    groups = {engram_id: [lines[line] for line in sorted(lines)] for engram_id, lines in by_engram.items()}
    successors = {engram_id: _successors(group, known_keys) for engram_id, group in groups.items()}
    circles = _circles(successors)
    engrams = [
        _engram(put, group, known_keys, circles)
        for group in groups.values()
        for put in group
        if _is_first_put(put, group)
    ]
    engrams.sort(key=lambda engram: (engram.key not in known_keys, engram.foreign.fields["provenance"]["created_at"]))
    return MergedEvents(engrams=engrams, circles=sorted(circles))


def may_change(key: str, put: SharedEvent, known_keys: Mapping[str, str]) -> bool:
    """True if the owner of a key may say what became of an engram: its author, or one whom the project knows."""
    return key == put.key or key in known_keys


def _is_first_put(event: SharedEvent, group: Sequence[SharedEvent]) -> bool:
    """True for the put of an engram; of several with one key, which only an edited export has, the earliest counts."""
    if event.event != "put":
        return False
    puts = [put for put in group if put.event == "put" and put.key == event.key]
    return min(puts, key=lambda put: (put.at, put.line())) is event


def _engram(
    put: SharedEvent, group: Sequence[SharedEvent], known_keys: Mapping[str, str], circles: frozenset[str]
) -> ImportableEngram:
    changes = sorted(
        (event for event in group if event.event != "put" and may_change(event.key, put, known_keys)),
        key=lambda event: (event.at, event.line()),
    )
    pinned = [event.event == "pinned" for event in changes if event.event in ("pinned", "unpinned")]
    ends = [put.expires, *(event.expires for event in changes if event.event == "confirmed")]
    replaced = [event.other for event in changes if event.event == "replaced"] if put.id not in circles else []
    return ImportableEngram(
        foreign=ForeignEngram(
            fields=_fields(put),
            expires_us=max(end for end in map(time_us, ends) if end is not None),
            pinned=bool(pinned) and pinned[-1],
        ),
        id=put.id,
        key=put.key,
        project=put.project,
        made_us=time_us(put.at) or 0,
        replaces=tuple(_ids(put.replaces))[:MAX_REPLACED],
        replaced_by=replaced[0] if replaced else "",
        withdrawn=any(event.event == "withdrawn" and event.key == put.key for event in changes),
    )


def _fields(put: SharedEvent) -> dict[str, Any]:
    return {
        "id": put.id,
        "kind": put.kind,
        "claim": put.claim,
        "pointers": msgspec.to_builtins(put.pointers),
        "confidence": put.confidence,
        "ttl": put.ttl,
        "tags": list(put.tags),
        "scope": "project",
        "provenance": {"created_at": put.at, "created_by": put.by},
    }


def _ids(names: Iterable[str]) -> Iterator[str]:
    for name in dict.fromkeys(names):
        if canonical_id(name) == name:
            yield name


def _successors(group: Sequence[SharedEvent], known_keys: Mapping[str, str]) -> frozenset[str]:
    """Return the engrams that replaced an engram, as far as those who say so may."""
    puts = [event for event in group if event.event == "put"]
    return frozenset(
        event.other
        for event in group
        if event.event == "replaced" and any(may_change(event.key, put, known_keys) for put in puts)
    )


def _circles(successors: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """Return the engrams from which, going from each to what replaced it, one comes back to the same engram."""
    # Engrams that lead to none with a successor are no part of a circle; take them away until nothing changes.
    leads = {engram_id: {name for name in names if name in successors} for engram_id, names in successors.items()}
    predecessors: dict[str, set[str]] = {}
    for engram_id, names in leads.items():
        for name in names:
            predecessors.setdefault(name, set()).add(engram_id)
    ends = [engram_id for engram_id, names in leads.items() if not names]
    while ends:
        end = ends.pop()
        del leads[end]
        for engram_id in predecessors.get(end, ()):
            rest = leads.get(engram_id)
            if rest is not None:
                rest.discard(end)
                if not rest:
                    ends.append(engram_id)
    return frozenset(engram_id for engram_id in leads if _returns(engram_id, leads))


def _returns(start: str, leads: Mapping[str, set[str]]) -> bool:
    visited: set[str] = set()
    rest = list(leads[start])
    while rest:
        engram_id = rest.pop()
        if engram_id == start:
            return True
        if engram_id not in visited:
            visited.add(engram_id)
            rest.extend(leads.get(engram_id, ()))
    return False
