"""The place in the repository that an engram was learned from, as answers show it with the engram."""

from __future__ import annotations

from msgspec import Struct, field

from engrambus.core import SECOND_US, parse_time
from engrambus.knowledge.engrams import Learned


class LearnedAbout(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The place that an engram quotes; no person or agent said it."""

    source: str = field(name="from")
    """The kind of place: commit, changelog, decision, todo and so on."""
    at: str
    """The path of a file, or the beginning of a commit's id."""
    commit: str
    """The commit that was checked out when it was learned."""
    since: str | None = None
    """The day on which what it quotes was written, as far as git knows."""
    age_days: int | None = None
    """Days since then."""


def learned_about(learned: Learned | None, as_of_us: int) -> LearnedAbout | None:
    """Return where an engram was learned; None if a person or an agent stated it."""
    if learned is None:
        return None
    age_days = None
    if learned.since:
        age_days = max(0, (as_of_us - parse_time(f"{learned.since}T00:00:00Z")) // (86_400 * SECOND_US))
    return LearnedAbout(
        source=learned.source, at=learned.at, commit=learned.commit, since=learned.since or None, age_days=age_days
    )


def describe_learned(learned: LearnedAbout) -> str:
    """Return in a few words where an engram was learned."""
    if learned.source == "commit":
        return f"learned from commit {learned.at}"
    if learned.source == "claude-memory":
        return f"learned from CLAUDE memory {learned.at}"
    age = f", {learned.age_days:,} days old" if learned.source == "todo" and learned.age_days is not None else ""
    return f"learned from {learned.at}{age}"
