"""The rules of the merge gate: which engrams speak against a branch, and who may let it pass (decision 85)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import msgspec

from engrambus.core import digest_of
from engrambus.errors import FieldValue, GateFindingNotFound, ambiguous_id
from engrambus.evidence.pointers import EvidenceState, Pointer, Touch
from engrambus.knowledge.engrams import Engram
from engrambus.knowledge.gate.findings import GateFinding
from engrambus.knowledge.gate.values import GateOverridden, GateOverride, GateRule
from engrambus.policy import Caller

GATED_KINDS: dict[str, GateRule] = {
    "risk": "open-risk",
    "decision": "stale-decision",
    "constraint": "stale-decision",
    "policy": "stale-decision",
}
"""The kinds of engram that can speak against a branch. A risk is open as long as it is live."""
MIN_REASON_CHARS = 10
"""A reason has to say something: "ok" does not."""


class Branch(Protocol):
    """A branch that is to be merged, as evidence sees it."""

    def touched_at(self, pointer: Pointer) -> Touch | None:
        """Return where the branch changes the lines of a pointer; None if it does not."""
        ...

    def state(self, pointer: Pointer) -> EvidenceState | None:
        """Compare the lines of a pointer with the branch's head."""
        ...


def find_findings(engrams: Iterable[Engram], branch: Branch) -> list[GateFinding]:
    """Return what speaks against a branch, by path and line; at most one finding for each engram."""
    findings = (_judge(engram, branch) for engram in engrams)
    return sorted(
        (finding for finding in findings if finding is not None),
        key=lambda finding: (finding.path, finding.first, finding.engram),
    )


def _judge(engram: Engram, branch: Branch) -> GateFinding | None:
    rule = GATED_KINDS.get(engram.kind)
    if rule is None:
        return None
    for pointer in engram.pointers:
        if pointer.digest is None:  # decision 55: an unresolved pointer is no evidence
            continue
        touch = branch.touched_at(pointer)
        if touch is None:
            continue
        state = branch.state(pointer)
        # A decision whose lines only moved still says what it said.
        if rule == "stale-decision" and (state is None or not state.is_stale):
            continue
        return GateFinding(
            rule=rule,
            engram=engram.id,
            kind=engram.kind,
            claim=engram.claim,
            ref=pointer.ref,
            path=touch.path,
            first=touch.first,
            last=touch.last,
            deleted=touch.deleted,
            evidence=state,
            by=engram.provenance.created_by,
            created_at=engram.provenance.created_at,
            fingerprint=digest_of([rule, engram.id, touch.path, touch.digest]),
        )
    return None


def with_overrides(findings: Iterable[GateFinding], overrides: Mapping[str, GateOverride]) -> list[GateFinding]:
    """Return the findings with their overrides, those without one first."""
    marked = [msgspec.structs.replace(finding, override=overrides.get(finding.fingerprint)) for finding in findings]
    return sorted(marked, key=lambda finding: finding.override is not None)


def find_finding(findings: Sequence[GateFinding], engram_id: str) -> GateFinding:
    """Return the finding about an engram, named by its id or by the beginning of it; refuse where there is none."""
    named = [finding for finding in findings if finding.engram.startswith(engram_id)]
    if not named:
        raise GateFindingNotFound(
            field="id", used=engram_id, hint="`gate.check` lists what it found, each with the id of its engram."
        )
    if len(named) > 1:
        raise ambiguous_id([finding.engram for finding in named], engram_id)
    return named[0]


def override_finding(
    finding: GateFinding, *, reason: str, identity: str | None, base: str, head: str, caller: Caller
) -> GateOverridden:
    """Override a finding; refuse without a reason, or without the name of a person or agent who answers for it."""
    if len(reason.strip()) < MIN_REASON_CHARS:
        raise FieldValue(
            "An override needs a reason.",
            field="reason",
            limit=MIN_REASON_CHARS,
            used=len(reason.strip()),
            hint="Say why the branch may be merged although this was found.",
        )
    if not identity or not identity.strip():
        raise FieldValue(
            "An override needs the name of a person who answers for it.",
            field="identity",
            hint="Name yourself. At the command line git's user.name and user.email are the default.",
        )
    return GateOverridden(
        fingerprint=finding.fingerprint,
        engram=finding.engram,
        rule=finding.rule,
        reason=reason.strip(),
        identity=identity.strip(),
        by=caller.full_name,
        run=caller.run.run_id,
        base=base,
        head=head,
    )
