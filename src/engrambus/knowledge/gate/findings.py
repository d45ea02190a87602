"""Findings of the merge gate."""

from __future__ import annotations

import msgspec

from engrambus.evidence.pointers import EvidenceState
from engrambus.knowledge.engrams import Kind
from engrambus.knowledge.gate.values import GateOverride, GateRule


class GateFinding(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An engram that speaks against merging a branch."""

    rule: GateRule
    """`open-risk`: a risk about lines that the branch changes. `stale-decision`: the branch changes the lines that a
    decision, a constraint or a policy rests on."""
    engram: str
    """The engram's id."""
    kind: Kind
    claim: str
    ref: str
    """The pointer whose lines the branch changes."""
    path: str
    """The file at the branch's head; one that the branch deletes, by its old path."""
    first: int
    last: int
    """The changed lines at the branch's head."""
    deleted: bool = False
    """True if the branch deletes the file."""
    evidence: EvidenceState | None = None
    """The pointed lines at the branch's head."""
    by: str
    """The engram's author."""
    created_at: str
    fingerprint: str
    """Names this finding until its lines are changed again; an override covers it."""
    override: GateOverride | None = None
    """Set if it was overridden."""
