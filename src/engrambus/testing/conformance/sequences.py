"""What one author put in a row lends words; what is hidden lends nothing; what others used gains a little."""

from __future__ import annotations

from engrambus.testing.client import GatewayClient
from engrambus.testing.fakes import repo_ref
from engrambus.testing.harness import Harness


class SequenceConformance:
    """The behaviour of neighbours in a question."""

    def test_an_answer_is_found_with_the_words_of_the_question_before_it(self, harness: Harness) -> None:  # EB-13
        client = GatewayClient(harness)
        client.put("Ada: Where do you keep the spare keys of the workshop?")
        client.put("Bob: The keys hang behind the blue door.")
        client.put("Ada: Thanks, see you on Monday.")
        bob = client.add_agent("other")
        client.put("Keys of the parser are sorted.", bob)
        assert client.query_claims("spare keys of the workshop")[:2] == [
            "Ada: Where do you keep the spare keys of the workshop?",
            "Bob: The keys hang behind the blue door.",
        ]

    def test_a_neighbour_without_any_word_of_the_question_is_not_shown(self, harness: Harness) -> None:  # EB-13
        client = GatewayClient(harness)
        client.put("Ada: The harbour is closed in winter.")
        client.put("Bob: I see.")
        assert client.query_claims("harbour winter") == ["Ada: The harbour is closed in winter."]

    def test_equal_engrams_in_a_row_keep_their_order(self, harness: Harness) -> None:  # EB-13
        client = GatewayClient(harness)
        for number in range(5):
            client.put(f"Alpha beta {number}")
            harness.clock.advance(seconds=1)
        assert client.query_claims("alpha beta") == [f"Alpha beta {number}" for number in (4, 3, 2, 1, 0)]

    def test_engrams_of_different_authors_are_no_sequence(self, harness: Harness) -> None:  # EB-13
        client = GatewayClient(harness)
        ada, bob = client.add_agent("ada"), client.add_agent("bob")
        client.put("The ledger is balanced at night", bob)
        client.put("Workshop matters", ada)
        client.put_many([f"Something else {number}" for number in range(20)])
        harness.clock.advance(seconds=1)
        client.put("The ledger of the day", bob)
        claims = client.query_claims("ledger workshop", k=3)
        # With the neighbour's "workshop", the older one would come first.
        ledgers = [claim for claim in claims if "ledger" in claim]
        assert ledgers == ["The ledger of the day", "The ledger is balanced at night"]

    def test_claims_about_code_lend_nothing(self, harness: Harness) -> None:  # EB-13
        client = GatewayClient(harness)
        client.put("The parser reads a header", refs=[repo_ref("src/a.py", 1, 9)])
        client.put("The parser skips blanks", refs=[repo_ref("src/a.py", 10, 19)])
        harness.clock.advance(seconds=1)
        bob = client.add_agent("other")
        client.put("The parser is new", bob, refs=[repo_ref("src/b.py", 3, 30)])
        # "skips" would gain from its neighbour's "header" and overtake the newer one.
        assert client.query_claims("parser header")[1] == "The parser is new"

    def test_neighbours_that_a_filter_hides_lend_nothing(self, harness: Harness) -> None:  # EB-36
        client = GatewayClient(harness)
        client.put("The budget of the workshop", kind="risk")
        client.put("The keys of the door", kind="fact")
        harness.clock.advance(seconds=1)
        bob = client.add_agent("other")
        client.put("The keys of the car", bob, kind="fact")
        assert client.query_claims("workshop keys", kind="fact") == ["The keys of the car", "The keys of the door"]

    def test_what_a_role_may_not_see_lends_nothing_and_changes_no_weight(self, harness: Harness) -> None:  # EB-36
        client = GatewayClient(harness)
        bob = client.add_agent("bob")
        client.put("The workshop of the harbour", kind="risk")
        client.put("The keys of the door", kind="fact")
        client.put("A rare zeppelin", bob, kind="fact")
        harness.clock.advance(seconds=1)
        client.put("The keys of the car", bob, kind="fact")
        client.put_many([f"The keys number {number}" for number in range(30)], kind="risk")
        answer = client.query_claims("workshop keys zeppelin", kind="fact")
        client.call("apply_policy", policy={"visibility": {"programmer": {"kinds": ["fact"]}}})
        # The door's neighbour has "workshop" and is hidden; the keys are as common as they were.
        assert client.query_claims("workshop keys zeppelin", bob) == answer
        assert answer[:2] == ["A rare zeppelin", "The keys of the car"]

    def test_what_another_team_confirmed_comes_first_among_equals(self, harness: Harness) -> None:  # EB-28
        client = GatewayClient(harness)
        ada, bob = client.add_agent("ada", "architect"), client.add_agent("bob", "architect")
        older = client.put("The gateway retries reads", ada, scope="project")
        harness.clock.advance(seconds=5)
        newer = client.put("The gateway retries writes", ada, scope="project")
        assert [engram.id for engram in client.query("gateway retries").engrams] == [newer.id, older.id]
        client.call("confirm_engram", bob, id=older.id)
        assert [engram.id for engram in client.query("gateway retries").engrams] == [older.id, newer.id]
