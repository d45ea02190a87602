"""A learning on its way from a sub-agent to its parent, and what was found out about it on the way in."""

from __future__ import annotations

from typing import Literal

import msgspec

from engrambus.evidence.pointers import Pointer

MAX_CONTENT = 4_000
MAX_EVIDENCE = 12
"""As many as an engram may have pointers."""
MAX_VALUE = 2_000

Status = Literal["submitted", "duplicate", "flagged", "accepted", "rejected", "withdrawn"]
OPEN: tuple[Status, ...] = ("submitted", "flagged", "duplicate")
"""Statuses that still wait for a decision; what was a duplicate is suppressed, and may be decided on all the same."""

Verdict = Literal["clean", "potential_conflict", "conflict"]
EvidenceKind = Literal["path", "url", "command_output", "note"]


class EvidenceItem(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a learning stands on."""

    kind: EvidenceKind
    value: str
    pointer: Pointer | None = None
    """Where it was found in the repository, when it was."""


class ConflictCheck(msgspec.Struct, frozen=True, kw_only=True):
    status: Verdict = "clean"
    against: tuple[str, ...] = ()
    """The pinned memories it contradicts."""


class Dedupe(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    content_hash: str
    similarity_key: str
    duplicate_of: str | None = None
    """The contribution that said the same, within the window."""
    similar_to: tuple[str, ...] = ()
    """What says nearly the same."""


class Security(msgspec.Struct, frozen=True, kw_only=True):
    redacted: bool = False
    redaction_notes: tuple[str, ...] = ()
    """Which kinds of secrets were taken out, and of which field."""


class Contribution(msgspec.Struct, frozen=True, kw_only=True):
    """A candidate for what the team remembers."""

    contribution_id: str
    submitted_at: str
    from_session: str
    """Who submitted it: `<run>/<agent>`."""
    thread_id: str
    """One thread a task."""
    content: str
    proposed_categories: tuple[str, ...]
    confidence: float
    evidence: tuple[EvidenceItem, ...]
    inputs_used: tuple[str, ...]
    """Snapshots and references it was made from."""
    conflict_check: ConflictCheck
    dedupe: Dedupe
    security: Security
    status: Status
    decided_by: str | None = None
    decided_at: str | None = None
    reason: str | None = None
    """Why it was rejected."""
    memory_id: str | None = None
    """What it was remembered as, once accepted."""
