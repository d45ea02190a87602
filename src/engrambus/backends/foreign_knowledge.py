"""The knowledge in the journals of another project, read as hostile input: what is live in it, one item at a time.

The journal is read twice. The first reading remembers a few numbers for each engram and memory; the second one yields
those that are live. Facts of any other kind, unknown ones and broken ones are passed over.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from engrambus.core import SECOND_US, parse_time
from engrambus.core.journal import Line, UnkeyedJournal
from engrambus.errors import FormatUnknown
from engrambus.knowledge.cortex import ForeignMemory
from engrambus.knowledge.engrams import ForeignEngram
from engrambus.operations.adoption import ForeignSummary
from engrambus.policy import JOURNAL

MAX_ENGRAMS = 1_000_000
"""Engrams of one journal that are remembered; reading stops there."""
MAX_MEMORIES = 100_000
MAX_NAME_CHARS = 128
"""Longest id, kind or slug that is remembered."""
LATEST_US = 253_402_300_799 * SECOND_US
WORK_JOURNAL = "tuples.jsonl"
_TUPLE_PUT = b'"fact":"tuple.out"'

Fact = Mapping[str, Any]
OnProgress = Callable[[int, int], None]


class _Slot:
    """What is remembered of one engram."""

    __slots__ = ("confidence", "expires_us", "pinned", "place", "scope", "tags")

    def __init__(self, place: tuple[int, int], scope: str, expires_us: int) -> None:
        self.place = place
        self.scope = scope
        self.expires_us = expires_us
        self.pinned = False
        self.confidence: float | None = None
        self.tags: list[Any] | None = None


class ForeignKnowledge:
    """The engrams, memories and contributions in a folder with the journals of another project."""

    def __init__(self, folder: Path, now_us: int, on_progress: OnProgress | None = None) -> None:
        self._folder = folder
        self._now_us = now_us
        self._on_progress = on_progress or (lambda done, total: None)
        self._journal = UnkeyedJournal(folder / JOURNAL)
        if self._journal.header.kind != "memory":
            raise FormatUnknown(f"{folder / JOURNAL} is not a journal of knowledge.", used=self._journal.header.kind)
        self._engrams: dict[tuple[str, str], _Slot] = {}
        self._memories: dict[tuple[str, str], tuple[int, int]] = {}
        self._captured: dict[str, tuple[int, int]] = {}
        self._contributions: dict[str, tuple[int, int]] = {}
        self._accepted: dict[str, str] = {}
        self._unreadable = 0
        self.summary = self._survey()

    def items(self) -> Iterator[ForeignEngram | ForeignMemory]:
        """Yield what is live: engrams of the scope project, memories in their last version, accepted contributions."""
        live = {slot.place: slot for slot in self._engrams.values() if self._is_taken(slot)}
        memories = set(self._memories.values())
        accepted = {
            self._contributions[name]
            for name, memory in self._accepted.items()
            if name in self._contributions and _memory_name(memory) not in self._memories
        }
        for line in self._read():
            for position, fact in enumerate(self._facts(line)):
                place = (line.seq, position)
                if (slot := live.get(place)) is not None:
                    yield _engram(fact, slot)
                elif place in memories:
                    yield from self._memory(fact)
                elif place in accepted:
                    yield _contribution(fact)

    def _survey(self) -> ForeignSummary:
        commits = first_us = last_us = 0
        problem = None
        for line in self._read():
            commits, first_us, last_us = line.seq, first_us or line.at_us, line.at_us
            for position, fact in enumerate(self._facts(line)):
                self._follow(fact, (line.seq, position))
            if len(self._engrams) > MAX_ENGRAMS or len(self._memories) > MAX_MEMORIES:
                problem = f"It has too many engrams or memories; what comes after line {line.seq} is left out."
                break
        live = [slot for slot in self._engrams.values() if slot.expires_us > self._now_us]
        scopes = Counter(slot.scope for slot in live)
        return ForeignSummary(
            project=self._journal.header.project,
            commits=commits,
            first_us=first_us,
            last_us=last_us,
            engrams=scopes["project"],
            pins=sum(slot.pinned for slot in live if slot.scope == "project"),
            run_engrams=scopes["run"],
            shared_engrams=len(live) - scopes["project"] - scopes["run"],
            expired=len(self._engrams) - len(live),
            memories=len(self._memories),
            contributions=len(self._contributions),
            tuples=self._count_tuples(),
            unreadable=self._unreadable,
            problem=problem or self._journal.problem,
        )

    def _read(self) -> Iterator[Line]:
        self._unreadable = 0
        for line in self._journal.lines():
            self._on_progress(self._journal.done_bytes, self._journal.total_bytes)
            yield line

    def _facts(self, line: Line) -> list[Fact]:
        try:
            facts = msgspec.json.decode(line.facts)
        except (msgspec.MsgspecError, UnicodeDecodeError, ValueError, RecursionError):
            facts = None
        if not isinstance(facts, list):
            self._unreadable += 1
            return []
        self._unreadable += sum(not isinstance(fact, dict) for fact in facts)
        return [fact if isinstance(fact, dict) else {} for fact in facts]

    def _follow(self, fact: Fact, place: tuple[int, int]) -> None:
        """Remember what a fact changes."""
        match fact:
            case {"fact": "engram.put" | "engram.adopted", "engram": {"id": str(name)} as engram} if _is_name(name):
                scope, expires_us = str(engram.get("scope"))[:16], fact.get("expires_at")
                if isinstance(expires_us, int):
                    self._engrams[_space_kind(scope), name] = _Slot(place, scope, expires_us)
            case {"fact": "engram.captured", "engram": {"id": str(name)}} if _is_name(name):
                if len(self._captured) < MAX_MEMORIES:
                    self._captured[name] = place  # no engram of that project, unless it was confirmed there
            case {"fact": "sam.kept", "episode": {"kind": str(kind), "slug": str(slug)}}:
                if _is_name(kind) and _is_name(slug):
                    self._memories[kind, slug] = place
            case {"fact": "contribution.submitted", "contribution": {"contribution_id": str(name)}}:
                if _is_name(name) and len(self._contributions) < MAX_MEMORIES:
                    self._contributions[name] = place
            case {"fact": "contribution.moved", "contribution_id": str(name), "status": "accepted"}:
                if name in self._contributions:
                    self._accepted[name] = str(fact.get("memory_id"))[: 2 * MAX_NAME_CHARS]
            case {"fact": str(tag), "id": str(name), "space": str(space)} if tag.startswith("engram."):
                if tag == "engram.confirmed" and fact.get("captured_in") and name in self._captured:
                    scope = "project" if _space_kind(space) == "p" else "run"
                    self._engrams[_space_kind(space), name] = _Slot(self._captured.pop(name), scope, 0)
                self._follow_change(tag, (_space_kind(space), name), fact)

    def _follow_change(self, tag: str, key: tuple[str, str], fact: Fact) -> None:
        slot = self._engrams.get(key)
        if slot is None:
            return
        match tag:
            case "engram.confirmed":
                if isinstance(expires_us := fact.get("expires_at"), int):
                    slot.expires_us = expires_us
                if isinstance(confidence := fact.get("confidence"), float):
                    slot.confidence = confidence
                if isinstance(tags := fact.get("tags"), list) and tags:
                    slot.tags = [*(slot.tags or ()), *tags][:MAX_NAME_CHARS]
            case "engram.promoted":
                scope = str(fact.get("scope"))[:16]
                slot.scope = scope
                self._engrams[_space_kind(scope), key[1]] = self._engrams.pop(key)
            case "engram.forgotten" | "engram.replaced":
                del self._engrams[key]
            case "engram.pinned" | "engram.unpinned":
                slot.pinned = tag == "engram.pinned"

    def _is_taken(self, slot: _Slot) -> bool:
        return slot.scope == "project" and slot.expires_us > self._now_us

    def _memory(self, fact: Fact) -> Iterator[ForeignMemory]:
        episode = fact["episode"]
        expires_us = episode.get("expires_at")
        if isinstance(expires_us, int) and expires_us <= self._now_us:
            return
        confidence = episode.get("confidence")
        yield ForeignMemory(
            key=f"{episode['kind']}:{episode['slug']}",
            text=episode.get("text"),
            categories=episode.get("categories", ()),
            confidence=episode.get("importance") if confidence is None else confidence,
            by=episode.get("by"),
            made_us=_time_us(episode.get("at")),
            pinned=episode.get("pinned") is True,
        )

    def _count_tuples(self) -> int:
        path = self._folder / WORK_JOURNAL
        try:
            return sum(line.facts.count(_TUPLE_PUT) for line in UnkeyedJournal(path).lines())
        except (OSError, FormatUnknown):  # there is none, or it is none: tuples stay behind anyway
            return 0


def _engram(fact: Fact, slot: _Slot) -> ForeignEngram:
    fields = {**fact["engram"], "scope": slot.scope}
    if slot.confidence is not None:
        fields["confidence"] = slot.confidence
    if slot.tags and isinstance(fields.get("tags", []), list):
        tags = [tag for tag in (*fields.get("tags", []), *slot.tags) if isinstance(tag, str)]
        fields["tags"] = list(dict.fromkeys(tags))[:12]
    return ForeignEngram(fields=fields, expires_us=slot.expires_us, pinned=slot.pinned)


def _contribution(fact: Fact) -> ForeignMemory:
    contribution = fact["contribution"]
    return ForeignMemory(
        key=contribution["contribution_id"],
        text=contribution.get("content"),
        categories=contribution.get("proposed_categories", ()),
        confidence=contribution.get("confidence"),
        by=contribution.get("from_session"),
        made_us=_time_us(contribution.get("submitted_at")),
    )


def _space_kind(space_or_scope: str) -> str:
    """Return `p` for the project's space and scope, `r` for any run's, `o` for all others."""
    if space_or_scope in ("p", "u", "project"):
        return "p"
    return "r" if space_or_scope.startswith("r") else "o"


def _memory_name(memory_id: str) -> tuple[str, str]:
    kind, _, slug = memory_id.rpartition("@")[0].partition(":")
    return kind, slug


def _is_name(text: str) -> bool:
    return 0 < len(text) <= MAX_NAME_CHARS


def _time_us(value: object) -> int:
    """Return a time of another project, as far as it can be printed; 0 if it is none."""
    try:
        moment_us = parse_time(value) if isinstance(value, str) else value
    except (ValueError, OverflowError):
        return 0
    return moment_us if isinstance(moment_us, int) and 0 <= moment_us <= LATEST_US else 0
