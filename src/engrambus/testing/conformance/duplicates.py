"""Near-duplicates, votes and the rate limit."""  # EB-21

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from engrambus.gateway import LOCAL_ADMIN
from engrambus.testing.client import NOTE, GatewayClient, expect_refusal
from engrambus.testing.conformance.puts import warnings_of
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

    # decision 47: a merge says so, and loses neither tags nor confidence
    def test_a_repeated_claim_leaves_its_tags_and_its_confidence(self, harness: Harness) -> None:  # EB-21
        client = GatewayClient(harness)
        mia = client.add_agent("mia", "manager")
        pointers = [{"type": "sam", "ref": NOTE}]
        first = client.put("The gateway drops 1,000 leases", refs=[NOTE], confidence=0.6, tags=["lease"])
        fields = {"claim": "The gateway drops `1000` leases.", "pointers": pointers, "confidence": 0.9}
        engram, (notice,) = warnings_of(harness, "put_engram", mia, **fields, tags=["lease", "outage"])
        assert (notice.code, notice.used) == ("CLAIM_CONFIRMED", first.id)
        assert f"confirmed: {first.id}" in notice.detail
        assert (engram.id, engram.confidence, engram.tags) == (first.id, 0.9, ("lease", "outage"))
        client.put("The gateway drops 1000 leases", refs=[NOTE], confidence=0.5, tags=["slow"])
        for _ in range(2):  # before and after a replay
            stored = client.call("get_engram", id=first.id)
            assert (stored.confidence, stored.tags) == (0.9, ("lease", "outage", "slow"))
            for word in ("outage", "slow", "gateway"):
                assert client.query_claims(word) == [first.claim]
            harness.reopen()
            harness.delete_index()
        client.put("The gateway drops 1000 leases", refs=[NOTE], tags=[f"tag{n}" for n in range(12)])
        assert len(client.call("get_engram", id=first.id).tags) == 12  # as many as the schema allows

    def test_repeats_in_one_commit_are_merged_too(self, harness: Harness) -> None:  # EB-21
        client = GatewayClient(harness)
        pointers = [{"type": "sam", "ref": NOTE}]
        sent = [
            {"claim": "The page is slow", "pointers": pointers, "confidence": 0.6, "tags": ["page"]},
            {"claim": "The page is slow.", "pointers": pointers, "confidence": 0.8, "tags": ["outage"]},
        ]
        answer, (notice,) = warnings_of(harness, "put_engrams", LOCAL_ADMIN, engrams=sent)
        assert (notice.code, notice.field) == ("CLAIM_CONFIRMED", "engrams[1].claim")
        assert answer.ids[0] == answer.ids[1]
        for _ in range(2):
            stored = client.call("get_engram", id=answer.ids[0])
            assert (stored.confidence, stored.tags) == (0.8, ("page", "outage"))
            assert client.query_claims("outage") == ["The page is slow"]
            harness.delete_index()

    def test_several_repeats_in_one_commit_are_told_together(self, harness: Harness) -> None:  # EB-21
        client = GatewayClient(harness)
        claims = [f"The {word} is slow" for word in ("page", "journal", "index")]
        ids = client.put_many(claims)
        pointers = [{"type": "sam", "ref": NOTE}]
        sent = [
            {"claim": claim, "pointers": pointers, "tags": ["outage"]} for claim in [*claims, *claims, "Beta holds"]
        ]
        answer, (notice,) = warnings_of(harness, "put_engrams", LOCAL_ADMIN, engrams=sent)
        assert (notice.code, notice.field, notice.used) == ("CLAIM_CONFIRMED", "engrams", ", ".join(ids))
        assert answer.ids[:6] == [*ids, *ids]
        for engram_id in ids:
            assert client.call("get_engram", id=engram_id).tags == ("outage",)

    def test_concurrent_puts_of_one_claim_leave_one_engram(self, harness: Harness) -> None:  # EB-21
        client = GatewayClient(harness)
        with ThreadPoolExecutor(8) as threads:
            puts = [threads.submit(client.put, "Alpha holds", refs=[NOTE], tags=[f"t{n}"]) for n in range(8)]
            ids = {put.result().id for put in puts}
        assert len(ids) == 1
        assert client.counts()["engrams"] == 1
        assert sorted(client.call("get_engram", id=ids.pop()).tags) == [f"t{n}" for n in range(8)]

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
