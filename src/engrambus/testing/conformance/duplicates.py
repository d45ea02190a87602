"""Saying it again, and saying too much."""  # EB-21

from __future__ import annotations

from engrambus.testing.client import NOTE, GatewayClient, expect_refusal
from engrambus.testing.harness import Harness

DAY = 86_400


class DuplicateConformance:
    """What is said twice confirms; what is said too fast is refused."""

    def test_saying_it_again_confirms_it(self, harness: Harness) -> None:
        hand = GatewayClient(harness)
        first = hand.put("The gateway drops the lease after a timeout", refs=[NOTE], ttl="P7D")
        harness.clock.advance(seconds=3 * DAY)
        again = hand.put("The gateway drops leases after a timeout", refs=[NOTE])
        assert again.id == first.id
        assert hand.counts()["engrams"] == 1
        harness.clock.advance(seconds=5 * DAY)  # past the first ttl, inside the one its confirmation began
        assert hand.query_claims("gateway lease") == [first.claim]
        harness.reopen()
        harness.delete_index()
        harness.clock.advance(seconds=2 * DAY - 1)
        assert hand.query_claims("gateway lease") == [first.claim]
        harness.clock.advance(seconds=1)
        assert hand.query_claims("gateway lease") == []

    def test_many_at_once_are_held_against_what_was_said_and_against_each_other(self, harness: Harness) -> None:
        hand = GatewayClient(harness)
        first = hand.put("The gateway drops the lease", refs=[NOTE])
        said = ["The gateway drops leases", "The ledger holds rows", "The ledger holds the rows", "The page is slow"]
        ids = hand.put_many(said)
        assert (ids[0], ids[1], len(set(ids))) == (first.id, ids[2], 3)
        assert hand.put_many(said) == ids
        assert hand.counts()["engrams"] == 3
        hand.put_many(said[:1], id="01KDVP9R000000000000000001")  # an id of one's own is put whatever it says
        assert hand.counts()["engrams"] == 4

    def test_what_differs_is_not_the_same(self, harness: Harness) -> None:
        hand = GatewayClient(harness)
        said = "The gateway retries the vendor call 3 times before it gives up"
        hand.put(said, refs=[NOTE])
        for other in (
            said.replace("3", "5"),
            said.replace("retries", "never retries"),
            "The gateway doesn't retry the vendor call 3 times before it gives up",  # the same again
            "The ledger holds the budget",
        ):
            hand.put(other, refs=[NOTE])
        hand.put(said, refs=[NOTE], kind="risk")
        hand.put(said, refs=[NOTE, "sam:note:else@v1"])
        hand.put(said, refs=[NOTE], scope="run")
        assert hand.counts()["engrams"] == 7

    def test_one_vote_for_each_line_of_agents(self, harness: Harness) -> None:
        hand = GatewayClient(harness)
        mia, rex = hand.add_agent("mia", "manager"), hand.add_agent("rex", "manager")
        paul, pia = hand.add_agent("paul", "programmer", mia), hand.add_agent("pia", "programmer", mia)
        engram = hand.put("Alpha holds", refs=[NOTE])
        votes = [hand.call("confirm_engram", who, id=engram.id).votes for who in (paul, pia, mia, rex, paul)]
        assert votes == [1, 1, 1, 2, 2]
        with expect_refusal("ENGRAM_NOT_FOUND"):
            hand.call("confirm_engram", mia, id="01KDVP9R000000000000000000")

    def test_an_agent_has_its_share_of_a_minute(self, harness: Harness) -> None:
        hand = GatewayClient(harness)
        mia = hand.add_agent("mia", "manager")
        hand.call("apply_policy", policy={"engrams_per_minute": 3})
        hand.put_many(["Alpha one", "Alpha two"], mia)
        with expect_refusal("RATE_LIMITED"):
            hand.put_many(["Alpha three", "Alpha four"], mia)
        hand.put("Alpha three", mia)
        with expect_refusal("RATE_LIMITED"):
            hand.put("Alpha four", mia)
        harness.reopen()
        with expect_refusal("RATE_LIMITED"):
            hand.put("Alpha four", mia)
        hand.put("Alpha four", hand.add_agent("rex", "manager"))
        hand.put_many([f"Alpha {word}" for word in ("five", "six", "seven", "eight")])  # the admin is not counted
        harness.clock.advance(seconds=60)
        hand.put("Alpha nine", mia)
