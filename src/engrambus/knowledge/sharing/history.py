"""The events of the engrams that a project may share, read from the facts of its journal in their order.

Shared is what the whole project sees and somebody here stated: no engram of a run that was not promoted, nothing that
awaits confirmation or was adopted and not confirmed, and nothing learned from the repository, which says it itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from engrambus.core import parse_duration, print_time
from engrambus.evidence.pointers import Pointer
from engrambus.knowledge.cortex import ContradictionRecorded
from engrambus.knowledge.engrams import (
    Engram,
    EngramAdopted,
    EngramCaptured,
    EngramConfirmed,
    EngramForgotten,
    EngramPinned,
    EngramPromoted,
    EngramPut,
    EngramReplaced,
    EngramTrusted,
    EngramUnpinned,
)
from engrambus.knowledge.sharing.events import EventName, SharedEvent
from engrambus.policy import PROJECT_SPACE

RENEWED_PART = 4
"""A confirmation is an event if it lengthens an engram's life by at least this part of its ttl, a quarter."""

_KINDS: dict[str, type[msgspec.Struct]] = {
    "engram.put": EngramPut,
    "engram.captured": EngramCaptured,
    "engram.adopted": EngramAdopted,
    "engram.trusted": EngramTrusted,
    "engram.confirmed": EngramConfirmed,
    "engram.promoted": EngramPromoted,
    "engram.forgotten": EngramForgotten,
    "engram.replaced": EngramReplaced,
    "engram.pinned": EngramPinned,
    "engram.unpinned": EngramUnpinned,
    "contradiction.recorded": ContradictionRecorded,
}
_decode_facts = msgspec.json.Decoder(list[dict[str, Any]]).decode


class SharedEngram(msgspec.Struct, frozen=True, kw_only=True):
    """The events of one engram, oldest first, not signed yet."""

    id: str
    """Its id where it was put first; one that was imported may have another id here."""
    live: bool
    """False if it was withdrawn or replaced or has expired: then it is not exported for the first time."""
    events: list[SharedEvent]


class _Entry:
    """State of one engram up to a fact."""

    __slots__ = ("confirmed_us", "engram", "events", "expires_us", "has_ended", "is_shared", "shared_id")

    def __init__(self, engram: Engram, expires_us: int, *, shared_id: str | None = None) -> None:
        self.engram = engram
        self.expires_us = expires_us
        self.confirmed_us = 0
        """The end of its ttl that was told last."""
        self.shared_id = shared_id or engram.id
        self.is_shared = False
        self.has_ended = False
        self.events: list[SharedEvent] = []


class ShareableHistory:
    """Follows the facts of a journal and remembers the events of what may be shared."""

    def __init__(self, project: str) -> None:
        self._project = project
        self._entries: dict[str, _Entry] = {}

    def take(self, facts: bytes, at_us: int) -> None:
        """Follow the facts of one commit."""
        if b'"engram.' not in facts and b'"contradiction.' not in facts:
            return
        changes = [
            msgspec.convert({name: value for name, value in fact.items() if name != "fact"}, _KINDS[fact["fact"]])
            for fact in _decode_facts(facts)
            if fact.get("fact") in _KINDS
        ]
        older = self._replaced_in(changes)
        # The risk that the rules put beside two claims quotes both; what is shared of it is the event `contradicted`.
        risks = {fact.risk for fact in changes if isinstance(fact, ContradictionRecorded)}
        for fact in changes:
            if not (isinstance(fact, EngramPut) and fact.engram.id in risks):
                self._follow(fact, at_us, older)

    def engrams(self, now_us: int) -> list[SharedEngram]:
        """Return the engrams that may be shared, in the order in which they were put."""
        return [
            SharedEngram(
                id=entry.shared_id, live=not entry.has_ended and entry.expires_us > now_us, events=entry.events
            )
            for entry in self._entries.values()
            if entry.events
        ]

    def _replaced_in(self, facts: Sequence[Any]) -> dict[str, list[str]]:
        """Return the shared engrams that a commit replaces, by the engram that replaces them."""
        older: dict[str, list[str]] = {}
        for fact in facts:
            if isinstance(fact, EngramReplaced) and (entry := self._shared(fact.id)) is not None:
                older.setdefault(fact.replaced_by, []).append(entry.shared_id)
        return older

    def _follow(self, fact: Any, at_us: int, older: dict[str, list[str]]) -> None:
        match fact:
            case EngramPut(learned=None):
                self._enter(fact.engram, fact.expires_at, older, is_shared=fact.engram.scope == "project")
            case EngramCaptured():
                self._enter(fact.engram, fact.expires_at, older, is_shared=False)
            case EngramAdopted():
                entry = _Entry(fact.engram, fact.expires_at, shared_id=fact.adoption.id)
                self._entries[fact.engram.id] = entry
                # From a shared folder or ref: its put is there already. From a journal: nobody has shared it yet.
                entry.confirmed_us = 0 if fact.adoption.key else -1
            case EngramTrusted():
                self._trust(fact.id)
            case EngramConfirmed():
                self._confirm(fact, at_us, older)
            case EngramPromoted(scope="project"):
                self._promote(fact, older)
            case ContradictionRecorded(space="p"):
                self._contradict(fact, at_us)
            case EngramForgotten() | EngramReplaced() | EngramPinned() | EngramUnpinned() if (
                fact.space == PROJECT_SPACE
            ):
                self._change(fact, at_us)

    def _enter(self, engram: Engram, expires_us: int, older: dict[str, list[str]], *, is_shared: bool) -> None:
        entry = self._entries[engram.id] = _Entry(engram, expires_us)
        if is_shared:
            self._put(entry, older)

    def _put(self, entry: _Entry, older: dict[str, list[str]]) -> None:
        engram, entry.is_shared, entry.confirmed_us = entry.engram, True, entry.expires_us
        entry.events.append(
            SharedEvent(
                event="put",
                id=entry.shared_id,
                at=engram.provenance.created_at,
                by=engram.provenance.created_by,
                kind=engram.kind,
                claim=engram.claim,
                pointers=engram.pointers,
                confidence=engram.confidence,
                ttl=engram.ttl,
                expires=print_time(entry.expires_us),
                tags=engram.tags,
                replaces=tuple(older.get(engram.id, ())),
                project=self._project,
            )
        )

    def _trust(self, engram_id: str) -> None:
        """Share an adopted engram from now on, with the confirmation that follows in the same commit."""
        entry = self._entries.get(engram_id)
        if entry is None:
            return
        if entry.confirmed_us < 0:
            entry.shared_id = engram_id
            self._put(entry, {})
        entry.is_shared = True

    def _confirm(self, fact: EngramConfirmed, at_us: int, older: dict[str, list[str]]) -> None:
        entry = self._entries.get(fact.id)
        if entry is None:
            return
        entry.expires_us = fact.expires_at
        changes: dict[str, Any] = {"pointers": fact.pointers} if fact.pointers else {}
        if fact.confidence is not None:
            changes["confidence"] = fact.confidence
        entry.engram = msgspec.structs.replace(entry.engram, **changes)
        if fact.captured_in and fact.space == PROJECT_SPACE:
            self._put(entry, older)
        elif entry.is_shared and _is_longer(entry):
            entry.confirmed_us = entry.expires_us
            self._add(entry, "confirmed", at_us, fact.by, expires=print_time(entry.expires_us))

    def _promote(self, fact: EngramPromoted, older: dict[str, list[str]]) -> None:
        entry = self._entries.get(fact.id)
        if entry is not None and not entry.is_shared:
            pointers: tuple[Pointer, ...] = fact.pointers or entry.engram.pointers
            entry.engram = msgspec.structs.replace(entry.engram, pointers=pointers, scope="project")
            self._put(entry, older)

    def _contradict(self, fact: ContradictionRecorded, at_us: int) -> None:
        newer, older = self._shared(fact.newer), self._shared(fact.older)
        if newer is not None and older is not None:
            self._add(newer, "contradicted", at_us, fact.by, other=older.shared_id)

    def _change(self, fact: EngramForgotten | EngramReplaced | EngramPinned | EngramUnpinned, at_us: int) -> None:
        entry = self._shared(fact.id)
        if entry is None:
            return
        match fact:
            case EngramForgotten():
                entry.has_ended = True
                self._add(entry, "withdrawn", at_us, fact.by)
            case EngramReplaced():
                entry.has_ended = True
                newer = self._shared(fact.replaced_by)
                other = newer.shared_id if newer is not None else fact.replaced_by
                self._add(entry, "replaced", at_us, fact.by, other=other)
            case EngramPinned():
                self._add(entry, "pinned", at_us, fact.by)
            case EngramUnpinned():
                self._add(entry, "unpinned", at_us, fact.by)

    def _shared(self, engram_id: str) -> _Entry | None:
        entry = self._entries.get(engram_id)
        return entry if entry is not None and entry.is_shared else None

    def _add(self, entry: _Entry, event: EventName, at_us: int, by: str, *, expires: str = "", other: str = "") -> None:
        entry.events.append(
            SharedEvent(
                event=event,
                id=entry.shared_id,
                at=print_time(at_us),
                by=by,
                expires=expires,
                other=other,
                project=self._project,
            )
        )


def texts_of(events: Iterable[SharedEvent]) -> dict[str, Any]:
    """Return the texts in some events that a person or an agent wrote, by field, for the checks of texts."""
    puts = [event for event in events if event.event == "put"]
    return {
        "claim": [event.claim for event in puts],
        "tags": [tag for event in puts for tag in event.tags],
        "pointers": [pointer.ref for event in puts for pointer in event.pointers],
        "other": [event.other for event in events if event.other],
    }


def _is_longer(entry: _Entry) -> bool:
    """True if a confirmation lengthens an engram's life enough to be written down."""
    return entry.expires_us - entry.confirmed_us >= parse_duration(entry.engram.ttl) // RENEWED_PART
