"""Overrides of the merge gate."""

from __future__ import annotations

from engrambus.knowledge.gate import GateOverridden, GateOverride
from engrambus.testing.harness import Harness


class GateConformance:
    """Overridden findings in the store."""  # EB-24

    def test_overrides_are_found_by_their_finding_and_listed_newest_first(self, harness: Harness) -> None:  # EB-24
        for name, reason in (("one", "The first reason."), ("two", "Another finding."), ("one", "A better reason.")):
            _override(harness, name, reason)
            harness.clock.advance(seconds=1)
        for _ in range(2):
            with harness.gateway.store.read() as view:
                found = view.gate_overrides(["one", "three"])
                assert {name: override.reason for name, override in found.items()} == {"one": "A better reason."}
                newest = [override.reason for override in view.newest_gate_overrides(limit=2)]
                assert newest == ["A better reason.", "Another finding."]
            harness.delete_index()
            harness.reopen()


def _override(harness: Harness, fingerprint: str, reason: str) -> None:
    fact = GateOverridden(
        fingerprint=fingerprint,
        engram="01K7Z3V5QX0000000000000000",
        rule="open-risk",
        reason=reason,
        identity="Ada",
        by="run/admin",
        run="run",
        base="b" * 40,
        head="a" * 40,
    )
    overrides: list[GateOverride] = []
    harness.gateway.store.commit(lambda view: ([fact], overrides))
