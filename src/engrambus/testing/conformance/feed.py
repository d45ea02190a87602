"""The feed, pins and the list of runs: what a person watches."""  # EB-27

from __future__ import annotations

from engrambus.gateway import LOCAL_ADMIN
from engrambus.testing.client import GatewayClient, expect_refusal, ref_to_test
from engrambus.testing.harness import Harness


class FeedConformance:
    """What is shown to whoever looks on."""

    def test_the_feed_is_newest_first_and_goes_on_where_it_ended(self, harness: Harness) -> None:
        hand = GatewayClient(harness)
        ids = hand.put_many([f"Claim number {number}" for number in range(25)])
        seen: list[str] = []
        cursor = None
        for _ in range(9):
            page = hand.call("feed", k=3, cursor=cursor)
            seen += [row.engram.id for row in page.rows]
            cursor = page.cursor
            if cursor is None:
                break
        assert seen == ids[::-1]

    def test_the_feed_is_narrowed_by_role_agent_kind_scope_and_words(self, harness: Harness) -> None:
        hand = GatewayClient(harness)
        lead = hand.add_agent("lead", "architect")
        coder = hand.add_agent("coder")
        hand.put("The ledger loses a lease", lead, kind="risk")
        hand.put("The parser is slow", coder, kind="perf", refs=[ref_to_test("Slow.py")])
        hand.put("Nothing else", coder, kind="fact", scope="run")

        def claims(**asked: object) -> list[str]:
            return [row.engram.claim for row in hand.call("feed", **asked).rows]

        assert claims(role="architect") == ["The ledger loses a lease"]
        assert claims(role="programmer") == ["Nothing else", "The parser is slow"]
        assert claims(agent="coder", kind="perf") == ["The parser is slow"]
        assert claims(scope="run") == ["Nothing else"]
        assert claims(q="SLOW.PY parser") == ["The parser is slow"]
        assert claims(q="slow ledger") == []
        assert claims(stale=True) == []
        (row,) = hand.call("feed", q="ledger").rows
        assert (row.agent, row.role, row.pinned, row.stale) == ("lead", "architect", False, False)

    def test_the_feed_shows_one_by_its_id_and_nothing_a_reader_may_not_see(self, harness: Harness) -> None:
        hand = GatewayClient(harness)
        kept = hand.put("For this run alone", scope="run")
        assert hand.call("feed", id=kept.id).rows[0].engram.claim == "For this run alone"
        hand.open_run("another")
        assert hand.call("feed").rows == []
        with expect_refusal("ENGRAM_NOT_FOUND", "id"):
            hand.call("feed", id=kept.id)
        with expect_refusal("FIELD_VALUE", "cursor"):
            hand.call("feed", cursor="soon")

    def test_a_pinned_engram_stands_first_in_its_section_until_it_is_unpinned(self, harness: Harness) -> None:
        hand = GatewayClient(harness)
        rule = hand.put("The schema is frozen", kind="constraint")
        for number in range(12):
            hand.put(f"Constraint number {number}", kind="constraint")
        assert not any("frozen" in line for line in hand.call("brief").lines)
        before = hand.call("feed", id=rule.id).rows[0]
        assert hand.call("pin_engram", id=rule.id).pinned
        assert hand.call("pin_engram", id=rule.id).pinned
        assert hand.call("brief").lines[2].startswith("- [constraint] The schema is frozen")
        assert hand.call("feed", id=rule.id).rows[0].pinned
        assert not before.pinned
        harness.reopen()
        harness.delete_index()
        assert hand.call("brief").lines[2].startswith("- [constraint] The schema is frozen")
        hand.call("unpin_engram", id=rule.id)
        assert not any("frozen" in line for line in hand.call("brief").lines)
        assert not hand.call("feed", id=rule.id).rows[0].pinned

    def test_the_pinned_one_last_comes_first_and_a_forgotten_one_not_at_all(self, harness: Harness) -> None:
        hand = GatewayClient(harness)
        first = hand.put("The first rule", kind="constraint", scope="run")
        second = hand.put("The second rule", kind="constraint")
        hand.call("pin_engram", id=second.id)
        hand.call("pin_engram", id=first.id)
        hand.call("promote_engram", id=first.id)
        said = [line for line in hand.call("brief").lines if line.startswith("- [constraint]")]
        assert ["first" in line for line in said] == [True, False]
        hand.call("forget_engram", id=first.id)
        assert not any("first rule" in line for line in hand.call("brief").lines)

    def test_only_a_person_pins_and_only_what_there_is(self, harness: Harness) -> None:
        hand = GatewayClient(harness)
        rule = hand.put("The schema is frozen", kind="constraint")
        with expect_refusal("ROLE_FORBIDDEN"):
            hand.call("pin_engram", hand.add_agent("lead", "architect"), id=rule.id)
        with expect_refusal("ENGRAM_NOT_FOUND", "id"):
            hand.call("pin_engram", id="01K7Z3V5QX0000000000000000")

    def test_versions_of_a_brief_are_listed_shown_and_compared_without_making_one(self, harness: Harness) -> None:
        hand = GatewayClient(harness)
        hand.put("Alpha holds", kind="constraint")
        now = hand.call("list_briefs", role="programmer")
        assert (now.version, now.versions) == (None, [])
        assert any("Alpha" in line for line in now.lines)
        hand.call("brief", role="programmer")
        hand.put("Beta holds", kind="constraint")
        hand.call("brief", role="programmer")
        hand.put("Gamma holds", kind="constraint")
        listed = hand.call("list_briefs")
        assert listed.role == "programmer"
        assert [each.version for each in listed.versions] == [2, 1]
        assert listed.version is None
        assert any("Gamma" in line for line in listed.lines)
        first = hand.call("list_briefs", role="programmer", version=1)
        assert first.version == 1
        assert not any("Beta" in line for line in first.lines)
        changed = hand.call("list_briefs", role="programmer", version=2, since=1).changed
        assert [line[:2] for line in changed] == ["+ "]
        assert "Beta" in changed[0]
        with expect_refusal("FIELD_VALUE", "version"):
            hand.call("list_briefs", role="programmer", version=9)

    def test_runs_are_listed_newest_first_and_an_admin_looks_into_any(self, harness: Harness) -> None:
        hand = GatewayClient(harness)
        hand.put("For the first run", scope="run")
        first = hand.call("list_runs").runs[0].run_id
        second = hand.open_run("the second")
        listed = hand.call("list_runs").runs
        assert [(run.run_id, run.current) for run in listed] == [(second, True), (first, False)]
        coder = hand.add_agent("coder")
        with expect_refusal("ROLE_FORBIDDEN"):
            hand.call("list_runs", coder)
        chosen = type(LOCAL_ADMIN)(local_admin=True, run=first)
        assert [row.engram.claim for row in hand.call("feed", chosen).rows] == ["For the first run"]
