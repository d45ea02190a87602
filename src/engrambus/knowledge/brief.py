"""The shared brief: at most thirty lines that tell one role what matters now, built from the store alone.

Which kinds a role is told of, and in which order, is a table; inside a kind the newest come first, and of equally new
ones the surer. A line is one engram: its kind, its claim and where to look. What was said is never reworded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from engrambus.knowledge.engrams import Engram

MAX_LINES = 30
MAX_CLAIM = 160
POINTERS = 5

NOW, CONSTRAINTS, RISKS = "Now", "Constraints", "Risks"


class Section(NamedTuple):
    """One part of the brief: which kinds it shows, and how many lines it may take."""

    title: str
    kinds: tuple[str, ...]
    lines: int


_LEADS = (
    Section(CONSTRAINTS, ("constraint", "policy"), 5),
    Section(RISKS, ("risk",), 6),
    Section(NOW, ("decision", "diff", "fact"), 6),
)
_HANDS = (
    Section(CONSTRAINTS, ("constraint", "policy"), 6),
    Section(RISKS, ("risk",), 4),
    Section(NOW, ("todo", "decision", "test", "diff", "fact", "perf"), 7),
)
SECTIONS: dict[str, tuple[Section, ...]] = {
    "admin": _LEADS,
    "architect": _LEADS,
    "director": _LEADS,
    "manager": _HANDS,
    "programmer": _HANDS,
    "tool": _HANDS,
}
"""What each role is told of: those who lead see risks and decisions first, those who build what is to be done."""


class BriefMade(msgspec.Struct, frozen=True, kw_only=True, tag="brief.made", tag_field="fact"):
    """The brief of a role changed."""

    run: str
    role: str
    version: int
    lines: tuple[str, ...]


class Brief(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a role's brief."""

    version: int
    at: int
    """When it was made."""
    lines: tuple[str, ...]


def kinds_for(role: str) -> tuple[str, ...]:
    """Every kind a role is told of."""
    return tuple(kind for section in SECTIONS[role] for kind in section.kinds)


def write_brief(
    role: str, goal: str, newest: Mapping[str, Sequence[Engram]], pinned: Sequence[Engram] = ()
) -> tuple[str, ...]:
    """The lines of a role's brief, from the newest engrams of each kind; in each section the pinned stand first."""
    lines = [f"Goal: {_short(goal)}"]
    shown: list[Engram] = []
    for section in SECTIONS[role]:
        picked = _pick(section, newest, pinned)
        if picked:
            lines.append(f"{section.title}:")
            lines += [f"- [{engram.kind}] {_short(engram.claim)} ({_place(engram)})" for engram in picked]
            shown += picked
    if not shown:
        lines.append("Nothing is known yet. Put what you find, with a pointer to it.")
    return tuple(lines[: MAX_LINES - POINTERS])


def brief_diff(old: Sequence[str], new: Sequence[str]) -> list[str]:
    """What changed between two versions, line by line: `- ` was there, `+ ` is there now."""
    before, after = set(old), set(new)
    return [f"- {line}" for line in old if line not in after] + [f"+ {line}" for line in new if line not in before]


def _pick(section: Section, newest: Mapping[str, Sequence[Engram]], pinned: Sequence[Engram]) -> list[Engram]:
    first = [engram for engram in pinned if engram.kind in section.kinds]
    known = {engram.id for engram in first}
    candidates = [engram for kind in section.kinds for engram in newest.get(kind, ()) if engram.id not in known]
    candidates.sort(key=lambda engram: (engram.provenance.created_at, engram.confidence, engram.id), reverse=True)
    return [*first, *candidates][: section.lines]


def _place(engram: Engram) -> str:
    more = f" +{len(engram.pointers) - 1}" if len(engram.pointers) > 1 else ""
    return f"{engram.pointers[0].ref}{more}"


def _short(text: str) -> str:
    return text if len(text) <= MAX_CLAIM else text[: MAX_CLAIM - 1].rstrip() + "…"
