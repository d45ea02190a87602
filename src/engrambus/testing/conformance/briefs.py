"""The shared brief: short, from the store alone, in versions."""  # EB-17

from __future__ import annotations

import msgspec

from engrambus.core import estimate_tokens
from engrambus.testing.client import GatewayClient, expect_refusal
from engrambus.testing.harness import Harness


class BriefConformance:
    """What a role is told."""

    def test_a_brief_tells_each_role_what_is_for_it(self, harness: Harness) -> None:
        hand = GatewayClient(harness)
        hand.put("Budgets are enforced by the gateway", kind="constraint")
        hand.put("The ledger may lose a lease", kind="risk")
        hand.put("Split the parser", kind="todo")
        leads = hand.call("brief", role="architect").lines
        hands = hand.call("brief", role="programmer").lines
        assert any("[risk] The ledger may lose a lease (sam:note:anything@v2)" in line for line in leads)
        assert not any("Split the parser" in line for line in leads)
        assert any("[todo] Split the parser" in line for line in hands)
        assert leads[0] == "Goal: first run"
        assert leads[-1].startswith("Left this turn: 3 repo")

    def test_a_brief_never_has_more_than_thirty_lines_nor_more_tokens_than_asked(self, harness: Harness) -> None:
        hand = GatewayClient(harness)
        for kind in ("constraint", "risk", "decision", "fact", "policy"):
            hand.put_many([f"{kind} number {number} of many" for number in range(20)], kind=kind)
        assert len(hand.call("brief", role="architect").lines) <= 30
        for tokens in (60, 120, 200):
            answer = hand.call("brief", role="architect", max_tokens=tokens)
            assert estimate_tokens(msgspec.json.encode(answer)) <= tokens
            assert answer.truncated
        with expect_refusal("BUDGET_TOO_SMALL"):
            hand.call("brief", max_tokens=3)

    def test_versions_move_only_when_the_brief_does_and_can_be_compared(self, harness: Harness) -> None:
        hand = GatewayClient(harness)
        hand.put("Alpha holds", kind="constraint")
        first = hand.call("brief")
        assert hand.call("brief") == first
        harness.reopen()
        harness.delete_index()
        assert hand.call("brief") == first
        gone = hand.put("Beta is at risk", kind="risk")
        second = hand.call("brief")
        assert second.version == first.version + 1
        changed = hand.call("brief", since=first.version).lines
        assert changed[:2] == ["+ Risks:", "+ - [risk] Beta is at risk (sam:note:anything@v2)"]
        hand.call("forget_engram", id=gone.id)
        assert hand.call("brief", since=second.version).lines[:2] == [
            "- Risks:",
            "- - [risk] Beta is at risk (sam:note:anything@v2)",
        ]
        with expect_refusal("FIELD_VALUE"):
            hand.call("brief", since=99)

    def test_a_brief_shows_only_what_its_reader_may_see(self, harness: Harness) -> None:
        hand = GatewayClient(harness)
        hand.put("Alpha is for this run", kind="risk", scope="run")
        assert any("Alpha" in line for line in hand.call("brief").lines)
        hand.open_run("another run")
        assert not any("Alpha" in line for line in hand.call("brief").lines)
