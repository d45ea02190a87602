"""Overrides of the merge gate, and the fact about them in the journal.

This module imports little, because every command decodes the facts of the journal and so loads it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

import msgspec

from engrambus.core import print_time

GateRule = Literal["open-risk", "stale-decision"]


class GateOverridden(
    msgspec.Struct, frozen=True, kw_only=True, tag="gate.overridden", tag_field="fact", omit_defaults=True
):
    """A finding of the gate was overridden: the branch may pass."""

    fingerprint: str
    """The finding: the engram, and the change of its lines."""
    engram: str
    rule: GateRule
    reason: str
    identity: str
    """The person or agent who answers for it."""
    by: str
    """The caller: `<run>/<name>`."""
    run: str
    base: str
    head: str
    """The branch's head when it was overridden; later commits that leave these lines alone are covered, too."""


class GateOverride(msgspec.Struct, frozen=True, kw_only=True):
    """An override as answers show it."""

    engram: str
    rule: GateRule
    reason: str
    identity: str
    by: str
    at: str
    head: str
    fingerprint: str


class GateReads(Protocol):
    """Reads of the overrides of the merge gate."""

    def gate_overrides(self, fingerprints: Sequence[str]) -> dict[str, GateOverride]:
        """Return the last override of each of these findings that has one."""
        ...

    def newest_gate_overrides(self, *, limit: int) -> list[GateOverride]:
        """Return the last overrides, the newest first."""
        ...


def shown_override(fact: GateOverridden, made_us: int) -> GateOverride:
    """Return an override as answers show it."""
    return GateOverride(
        engram=fact.engram,
        rule=fact.rule,
        reason=fact.reason,
        identity=fact.identity,
        by=fact.by,
        at=print_time(made_us),
        head=fact.head,
        fingerprint=fact.fingerprint,
    )
