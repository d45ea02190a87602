"""The feed, pins and the list of runs, as the page shows them."""  # EB-27

from __future__ import annotations

from engrambus.gateway import LOCAL_ADMIN
from engrambus.testing.client import GatewayClient, expect_refusal, ref_to_test
from engrambus.testing.harness import Harness


class FeedConformance:
    """The feed, pins, brief versions and runs."""

    def test_the_feed_is_newest_first_and_continues_at_its_cursor(self, harness: Harness) -> None:  # EB-27
        client = GatewayClient(harness)
        ids = client.put_many([f"Claim number {number}" for number in range(25)])
        seen: list[str] = []
        cursor = None
        for _ in range(9):
            page = client.call("feed", k=3, cursor=cursor)
            seen += [row.engram.id for row in page.rows]
            cursor = page.cursor
            if cursor is None:
                break
        assert seen == ids[::-1]

    def test_the_feed_is_filtered_by_role_agent_kind_scope_and_words(self, harness: Harness) -> None:  # EB-27
        client = GatewayClient(harness)
        lead = client.add_agent("lead", "architect")
        coder = client.add_agent("coder")
        client.put("The ledger loses a lease", lead, kind="risk")
        client.put("The parser is slow", coder, kind="perf", refs=[ref_to_test("Slow.py")])
        client.put("Nothing else", coder, kind="fact", scope="run")

        def claims(**fields: object) -> list[str]:
            return [row.engram.claim for row in client.call("feed", **fields).rows]

        assert claims(role="architect") == ["The ledger loses a lease"]
        assert claims(role="programmer") == ["Nothing else", "The parser is slow"]
        assert claims(agent="coder", kind="perf") == ["The parser is slow"]
        assert claims(scope="run") == ["Nothing else"]
        assert claims(q="SLOW.PY parser") == ["The parser is slow"]
        assert claims(q="slow ledger") == []
        assert claims(stale=True) == []
        (row,) = client.call("feed", q="ledger").rows
        assert (row.agent, row.role, row.pinned, row.stale) == ("lead", "architect", False, False)

    def test_the_feed_finds_an_engram_by_id_only_if_the_reader_may_see_it(self, harness: Harness) -> None:  # EB-27
        client = GatewayClient(harness)
        private = client.put("For this run alone", scope="run")
        assert client.call("feed", id=private.id).rows[0].engram.claim == "For this run alone"
        client.open_run("another")
        assert client.call("feed").rows == []
        with expect_refusal("ENGRAM_NOT_FOUND", "id"):
            client.call("feed", id=private.id)
        with expect_refusal("FIELD_VALUE", "cursor"):
            client.call("feed", cursor="soon")

    def test_a_pinned_engram_comes_first_until_it_is_unpinned(self, harness: Harness) -> None:  # EB-27
        client = GatewayClient(harness)
        rule = client.put("The schema is frozen", kind="constraint")
        for number in range(30):
            harness.clock.advance(seconds=1)
            client.put(f"Constraint number {number}", kind="constraint")
        assert not any("frozen" in line for line in client.call("brief").lines)
        row = client.call("feed", id=rule.id).rows[0]
        assert client.call("pin_engram", id=rule.id).pinned
        assert client.call("pin_engram", id=rule.id).pinned
        assert client.call("brief").lines[1].startswith("[pinned constraint] The schema is frozen")
        assert client.call("feed", id=rule.id).rows[0].pinned
        assert not row.pinned
        harness.reopen()
        harness.delete_index()
        assert client.call("brief").lines[1].startswith("[pinned constraint] The schema is frozen")
        client.call("unpin_engram", id=rule.id)
        assert not any("frozen" in line for line in client.call("brief").lines)
        assert not client.call("feed", id=rule.id).rows[0].pinned

    def test_the_last_pinned_engram_comes_first_and_a_forgotten_one_disappears(self, harness: Harness) -> None:  # EB-27
        client = GatewayClient(harness)
        first = client.put("The first rule", kind="constraint", scope="run")
        second = client.put("The second rule", kind="constraint")
        client.call("pin_engram", id=second.id)
        client.call("pin_engram", id=first.id)
        client.call("promote_engram", id=first.id)
        constraints = [line for line in client.call("brief").lines if line.startswith("[pinned constraint]")]
        assert ["first" in line for line in constraints] == [True, False]
        client.call("forget_engram", id=first.id)
        assert not any("first rule" in line for line in client.call("brief").lines)

    def test_only_an_admin_pins_and_only_existing_engrams(self, harness: Harness) -> None:  # EB-27
        client = GatewayClient(harness)
        rule = client.put("The schema is frozen", kind="constraint")
        with expect_refusal("ROLE_FORBIDDEN"):
            client.call("pin_engram", client.add_agent("lead", "architect"), id=rule.id)
        with expect_refusal("ENGRAM_NOT_FOUND", "id"):
            client.call("pin_engram", id="01K7Z3V5QX0000000000000000")

    def test_listing_and_comparing_brief_versions_makes_no_new_one(self, harness: Harness) -> None:  # EB-27
        client = GatewayClient(harness)
        client.put("Alpha holds", kind="constraint")
        now = client.call("list_briefs", role="programmer")
        assert (now.version, now.versions) == (None, [])
        assert any("Alpha" in line for line in now.lines)
        client.call("brief", role="programmer")
        client.put("Beta holds", kind="constraint")
        client.call("brief", role="programmer")
        client.put("Gamma holds", kind="constraint")
        listed = client.call("list_briefs")
        assert listed.role == "programmer"
        assert [version.version for version in listed.versions] == [2, 1]
        assert listed.version is None
        assert any("Gamma" in line for line in listed.lines)
        first = client.call("list_briefs", role="programmer", version=1)
        assert first.version == 1
        assert not any("Beta" in line for line in first.lines)
        changed = client.call("list_briefs", role="programmer", version=2, since=1).changed
        assert [line[:2] for line in changed] == ["+ "]
        assert "Beta" in changed[0]
        with expect_refusal("FIELD_VALUE", "version"):
            client.call("list_briefs", role="programmer", version=9)

    def test_runs_are_listed_newest_first_and_an_admin_reads_any(self, harness: Harness) -> None:  # EB-27
        client = GatewayClient(harness)
        client.put("For the first run", scope="run")
        first = client.call("list_runs").runs[0].run_id
        second = client.open_run("the second")
        listed = client.call("list_runs").runs
        assert [(run.run_id, run.current) for run in listed] == [(second, True), (first, False)]
        coder = client.add_agent("coder")
        with expect_refusal("ROLE_FORBIDDEN"):
            client.call("list_runs", coder)
        chosen = type(LOCAL_ADMIN)(local_admin=True, run=first)
        assert [row.engram.claim for row in client.call("feed", chosen).rows] == ["For the first run"]
