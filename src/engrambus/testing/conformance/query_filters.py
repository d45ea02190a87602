"""Filters of queries, and what others learned since an agent last asked."""  # EB-30

from __future__ import annotations

from typing import Any

from engrambus.gateway import Credential
from engrambus.testing.client import GatewayClient, expect_refusal, ref_to_test
from engrambus.testing.harness import Harness

HOUR = 3_600


class QueryFilterConformance:
    """Filters by author, role, path and time; `others` and `since_last`."""

    def test_filters_work_with_words_and_without(self, harness: Harness) -> None:  # EB-30
        client = GatewayClient(harness)
        lead, coder = client.add_agent("lead", "architect"), client.add_agent("coder")
        client.put("The ledger loses a lease", lead, kind="risk", refs=[ref_to_test("ledger.py")])
        harness.clock.advance(seconds=2 * HOUR)
        client.put("The ledger is slow", coder, kind="perf", refs=[ref_to_test("slow/ledger.py")])
        client.call("keep_episode", lead, text="The ledger is rebuilt every night.", slug="nightly")
        claims = ["The ledger is rebuilt every night.", "The ledger is slow", "The ledger loses a lease"]
        cases: tuple[tuple[dict[str, Any], list[str]], ...] = (
            ({"agent": "lead"}, [claims[0], claims[2]]),
            ({"role": "programmer"}, [claims[1]]),
            ({"role": "architect", "kind": "risk"}, [claims[2]]),
            ({"path": "tests"}, [claims[1], claims[2]]),
            ({"path": "tests/slow/"}, [claims[1]]),
            ({"path": "tests/ledger.py"}, [claims[2]]),
            ({"path": "tests/*.py"}, [claims[1], claims[2]]),
            ({"path": "*/slow"}, [claims[1]]),
            ({"path": "tests/led"}, []),
            ({"since": "PT1H"}, [claims[0], claims[1]]),
            ({"until": "PT1H"}, [claims[2]]),
            ({"since": "2100-01-01T00:00:00Z"}, []),
            ({"agent": "lead", "since": "PT1H"}, [claims[0]]),
        )
        for fields, expected in cases:
            for words in ("", "ledger"):
                answers = [engram.claim for engram in client.call("query_engrams", q=words, **fields).engrams]
                assert sorted(answers) == sorted(expected), (fields, words)
                assert answers == expected or words, fields
        for field in ("since", "until"):
            for moment in ("soon", "P1M", "2026-01-31", ""):
                with expect_refusal("FIELD_VALUE", field):
                    client.call("query_engrams", **{field: moment})

    def test_filters_are_applied_before_the_best_are_chosen_and_change_no_weight(self, harness: Harness) -> None:
        client = GatewayClient(harness)  # EB-30
        coder = client.add_agent("coder")
        client.put("The ledger rounds down", coder)
        client.put("The ledger rounds reports", coder)
        client.put_many([f"Ledger rounds number {number}" for number in range(100)])  # more than one word's postings
        claims = client.call("query_engrams", q="ledger rounds reports", agent="coder", k=2).engrams
        assert [engram.claim for engram in claims] == ["The ledger rounds reports", "The ledger rounds down"]

    def test_others_leaves_out_only_what_the_caller_put(self, harness: Harness) -> None:  # EB-30
        client = GatewayClient(harness)
        lead = client.add_agent("lead", "manager")
        coder = client.add_agent("coder", "programmer", parent="lead")
        client.put("The parser is slow", lead)
        client.put("The parser is linear", coder)
        client.put("The parser is old")  # by the admin

        def others(who: Credential | None, q: str = "") -> list[str]:
            fields = {"q": q, "others": True}
            answer = client.call("query_engrams", who, **fields) if who else client.call("query_engrams", **fields)
            return [engram.claim for engram in answer.engrams]

        assert others(lead) == ["The parser is old", "The parser is linear"]  # a child is another agent
        assert others(coder) == ["The parser is old", "The parser is slow"]
        assert others(None) == ["The parser is linear", "The parser is slow"]
        assert sorted(others(coder, "parser")) == ["The parser is old", "The parser is slow"]
        client.open_run("another")
        assert others(None) == ["The parser is linear", "The parser is slow"]  # a person is the same in every run

    def test_since_last_shows_each_thing_once_in_pages(self, harness: Harness) -> None:  # EB-30
        client = GatewayClient(harness)
        coder = client.add_agent("coder")
        client.put_many([f"Claim {number}" for number in range(5)])

        def ask(**fields: Any) -> tuple[list[str], str | None]:
            answer = client.call("query_engrams", coder, others=True, since_last=True, **fields)
            return [engram.claim for engram in answer.engrams], answer.cursor

        first, cursor = ask(k=3)
        assert first == ["Claim 4", "Claim 3", "Claim 2"]
        assert ask(k=3) == (first, cursor)  # nothing counts as shown before the last page is
        client.put("Came in between")
        second, end = ask(k=3, cursor=cursor)
        assert (second, end) == (["Claim 1", "Claim 0"], None)
        assert ask() == (["Came in between"], None)
        journal = harness.journal_bytes()
        assert ask() == ([], None)
        assert client.call("query_engrams", coder, others=True).engrams
        assert harness.journal_bytes() == journal  # a query without news, or without since_last, writes nothing
        client.put("One more", coder)
        client.call("keep_episode", text="The team ships on Mondays.")
        harness.reopen()
        harness.delete_index()
        assert ask() == (["The team ships on Mondays."], None)
        assert harness.gateway.store.verify() == []

    def test_words_and_filters_narrow_since_last_and_mark_nothing(self, harness: Harness) -> None:  # EB-30
        client = GatewayClient(harness)
        coder, tester = client.add_agent("coder"), client.add_agent("tester")
        client.put("The ledger is slow", kind="perf")
        client.put("The parser is old")

        def new(who: Credential, **fields: Any) -> list[str]:
            return [engram.claim for engram in client.call("query_engrams", who, since_last=True, **fields).engrams]

        assert new(coder, q="ledger") == ["The ledger is slow"]
        assert new(coder, kind="perf") == ["The ledger is slow"]
        assert new(coder, agent="admin") == ["The parser is old", "The ledger is slow"]
        assert new(coder) == ["The parser is old", "The ledger is slow"]
        assert new(coder, q="ledger") == []
        assert new(tester) == ["The parser is old", "The ledger is slow"]  # each agent has its own position

    def test_a_cursor_of_since_last_is_checked(self, harness: Harness) -> None:  # EB-30
        client = GatewayClient(harness)
        coder = client.add_agent("coder")
        client.put("Alpha")
        for bad in ("x", "1", "1.", ".1", "1.x", "1.2.3", "1." + "1" * 19):
            with expect_refusal("FIELD_VALUE", "cursor"):
                client.call("query_engrams", coder, since_last=True, cursor=bad)
        client.call("query_engrams", coder, since_last=True, cursor="2.999999")  # shows Alpha, and claims much more
        client.put("Beta")
        answer = client.call("query_engrams", coder, since_last=True)
        assert [engram.claim for engram in answer.engrams] == ["Beta"]
