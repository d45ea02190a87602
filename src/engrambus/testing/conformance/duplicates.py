"""Near-duplicates, votes and the rate limit."""  # EB-21

from __future__ import annotations

from engrambus.testing.client import NOTE, GatewayClient, expect_refusal
from engrambus.testing.harness import Harness

DAY = 86_400


class DuplicateConformance:
    """A repeated claim confirms an engram; too many puts in a minute are refused."""

    # decision 37: articles and plurals do not make another claim
    def test_a_repeated_claim_confirms_the_engram(self, harness: Harness) -> None:  # EB-21
        client = GatewayClient(harness)
        first = client.put("The gateway drops the lease after a timeout", refs=[NOTE], ttl="P7D")
        harness.clock.advance(seconds=3 * DAY)
        repeated = client.put("The gateway drops leases after a timeout", refs=[NOTE])
        assert repeated.id == first.id
        assert client.counts()["engrams"] == 1
        harness.clock.advance(seconds=5 * DAY)  # past the first ttl, inside the one its confirmation began
        assert client.query_claims("gateway lease") == [first.claim]
        harness.reopen()
        harness.delete_index()
        harness.clock.advance(seconds=2 * DAY - 1)
        assert client.query_claims("gateway lease") == [first.claim]
        harness.clock.advance(seconds=1)
        assert client.query_claims("gateway lease") == []

    # decision 13: duplicates are found by a twin key, so a bulk put stays fast
    def test_a_bulk_put_finds_duplicates_in_the_store_and_in_itself(self, harness: Harness) -> None:  # EB-21
        client = GatewayClient(harness)
        first = client.put("The gateway drops the lease", refs=[NOTE])
        claims = ["The gateway drops leases", "The ledger holds rows", "The ledger holds the rows", "The page is slow"]
        ids = client.put_many(claims)
        assert (ids[0], ids[1], len(set(ids))) == (first.id, ids[2], 3)
        assert client.put_many(claims) == ids
        assert client.counts()["engrams"] == 3
        # An engram with an id is never merged into another.
        client.put_many(claims[:1], id="01KDVP9R000000000000000001")
        assert client.counts()["engrams"] == 4

    # decision 37: losing a contradiction is worse than an engram too many
    def test_claims_that_differ_in_meaning_are_not_duplicates(self, harness: Harness) -> None:  # EB-21
        client = GatewayClient(harness)
        claim = "The gateway retries the vendor call 3 times before it gives up"
        client.put(claim, refs=[NOTE])
        for different in (
            claim.replace("3", "5"),
            claim.replace("retries", "never retries"),
            "The gateway doesn't retry the vendor call 3 times before it gives up",  # the same again
            "The ledger holds the budget",
        ):
            client.put(different, refs=[NOTE])
        client.put(claim, refs=[NOTE], kind="risk")
        client.put(claim, refs=[NOTE, "sam:note:else@v1"])
        client.put(claim, refs=[NOTE], scope="run")
        assert client.counts()["engrams"] == 7

    def test_agents_with_the_same_root_have_one_vote(self, harness: Harness) -> None:  # EB-21
        client = GatewayClient(harness)
        mia, rex = client.add_agent("mia", "manager"), client.add_agent("rex", "manager")
        paul, pia = client.add_agent("paul", "programmer", mia), client.add_agent("pia", "programmer", mia)
        engram = client.put("Alpha holds", refs=[NOTE])
        votes = [client.call("confirm_engram", voter, id=engram.id).votes for voter in (paul, pia, mia, rex, paul)]
        assert votes == [1, 1, 1, 2, 2]
        with expect_refusal("ENGRAM_NOT_FOUND"):
            client.call("confirm_engram", mia, id="01KDVP9R000000000000000000")

    def test_puts_per_minute_are_limited(self, harness: Harness) -> None:  # EB-21
        client = GatewayClient(harness)
        mia = client.add_agent("mia", "manager")
        client.call("apply_policy", policy={"engrams_per_minute": 3})
        client.put_many(["Alpha one", "Alpha two"], mia)
        with expect_refusal("RATE_LIMITED"):
            client.put_many(["Alpha three", "Alpha four"], mia)
        client.put("Alpha three", mia)
        with expect_refusal("RATE_LIMITED"):
            client.put("Alpha four", mia)
        harness.reopen()
        with expect_refusal("RATE_LIMITED"):
            client.put("Alpha four", mia)
        client.put("Alpha four", client.add_agent("rex", "manager"))
        client.put_many([f"Alpha {word}" for word in ("five", "six", "seven", "eight")])  # the admin is not counted
        harness.clock.advance(seconds=60)
        client.put("Alpha nine", mia)
