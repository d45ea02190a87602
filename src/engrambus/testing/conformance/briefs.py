"""The shared brief: short, from the store alone, in versions."""  # EB-17

from __future__ import annotations

import msgspec

from engrambus.core import estimate_tokens
from engrambus.testing.client import GatewayClient, expect_refusal
from engrambus.testing.harness import Harness


class BriefConformance:
    """Briefs for each role."""

    def test_a_brief_is_made_for_its_role(self, harness: Harness) -> None:  # EB-17
        client = GatewayClient(harness)
        client.put("Budgets are enforced by the gateway", kind="constraint")
        client.put("The ledger may lose a lease", kind="risk")
        client.put("Split the parser", kind="todo")
        leads = client.call("brief", role="architect").lines
        hands = client.call("brief", role="programmer").lines
        assert any("[risk] The ledger may lose a lease (sam:note:anything@v2)" in line for line in leads)
        assert not any("Split the parser" in line for line in leads)
        assert any("[todo] Split the parser" in line for line in hands)
        assert leads[0] == "Goal: first run"
        assert not any(line.startswith("Left this turn") for line in leads)  # a person has no turn
        ada = client.call("brief", client.add_agent("ada")).lines[-1]
        assert ada.startswith("Left this turn: 3 repo")
        assert ada.endswith("1200 tokens; 2400 tokens to put.")

    def test_a_brief_has_at_most_thirty_lines_and_the_requested_tokens(self, harness: Harness) -> None:  # EB-17
        client = GatewayClient(harness)
        for kind in ("constraint", "risk", "decision", "fact", "policy"):
            client.put_many([f"{kind} number {number} of many" for number in range(20)], kind=kind)
        assert len(client.call("brief", role="architect").lines) <= 30
        for tokens in (60, 120, 200):
            answer = client.call("brief", role="architect", max_tokens=tokens)
            assert estimate_tokens(msgspec.json.encode(answer)) <= tokens
            assert answer.truncated
        with expect_refusal("BUDGET_TOO_SMALL"):
            client.call("brief", max_tokens=3)

    def test_a_new_version_is_made_only_when_the_brief_changes(self, harness: Harness) -> None:  # EB-17
        client = GatewayClient(harness)
        client.put("Alpha holds", kind="constraint")
        first = client.call("brief")
        assert client.call("brief") == first
        harness.reopen()
        harness.delete_index()
        assert client.call("brief") == first
        gone = client.put("Beta is at risk", kind="risk")
        second = client.call("brief")
        assert second.version == first.version + 1
        changed = client.call("brief", since=first.version).lines
        assert changed == ["+ [risk] Beta is at risk (sam:note:anything@v2)"]
        client.call("forget_engram", id=gone.id)
        removed = client.call("brief", since=second.version).lines
        assert removed == ["- [risk] Beta is at risk (sam:note:anything@v2)"]
        with expect_refusal("FIELD_VALUE"):
            client.call("brief", since=99)

    def test_a_brief_shows_only_engrams_its_reader_may_see(self, harness: Harness) -> None:  # EB-17
        client = GatewayClient(harness)
        client.put("Alpha is for this run", kind="risk", scope="run")
        assert any("Alpha" in line for line in client.call("brief").lines)
        client.open_run("another run")
        assert not any("Alpha" in line for line in client.call("brief").lines)
