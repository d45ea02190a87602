"""Engrams whose keys were made by earlier rules are found by questions that are read by today's (decision 86)."""

from __future__ import annotations

import msgspec

from engrambus.gateway import LOCAL_ADMIN
from engrambus.knowledge.engrams import KEY_FORMAT, Engram, EngramConfirmed, EngramPut
from engrambus.policy import PROJECT_SPACE
from engrambus.testing.client import GatewayClient, ref_to_test
from engrambus.testing.clock import NEW_YEAR
from engrambus.testing.harness import Harness

EARLIER_ID = "01KDVP9R000000000000000000"
CLAIM = "VendorClient retries deployments of caches"
EARLIER_KEYS = ("stale+replies", "ops", "vendorclient", "vendor", "client", "retry", "deployment")
EXPIRES_US = NEW_YEAR + 86_400_000_000


class KeyFormatConformance:
    """Facts with keys of the first format, as journals of earlier versions have them."""  # EB-12

    def test_engrams_with_earlier_keys_are_found_by_todays_questions(self, harness: Harness) -> None:
        client = GatewayClient(harness)
        _put_with_earlier_keys(harness)
        for _ in range(2):  # before and after a replay
            for words in ("retried", "deploy", "vendorclient", "vendor_client", "caching", "ops", "slow_parser.py"):
                assert client.query_claims(words) == [CLAIM], words
            assert client.query_claims(keys=["stale replies"]) == [CLAIM]  # its author's own key
            assert client.query_claims("another") == []
            harness.reopen()
            harness.delete_index()

    def test_the_keys_it_shows_stay_as_they_were_stored(self, harness: Harness) -> None:
        client = GatewayClient(harness)
        put = _put_with_earlier_keys(harness)
        assert client.call("get_engram", id=EARLIER_ID).hash_keys == put.hash_keys == EARLIER_KEYS

    def test_tags_that_were_added_with_earlier_keys_are_found(self, harness: Harness) -> None:
        client = GatewayClient(harness)
        engram = _put_with_earlier_keys(harness)
        confirmed = EngramConfirmed(
            id=engram.id,
            space=PROJECT_SPACE,
            by=engram.provenance.created_by,
            root="admin",
            expires_at=EXPIRES_US,
            tags=("policies",),
            more_keys=("policy",),
        )
        harness.gateway.store.commit(lambda view: ([confirmed], None))
        for _ in range(2):
            assert client.query_claims("policy") == [CLAIM]
            assert client.query_claims("retried") == [CLAIM]
            harness.reopen()
            harness.delete_index()

    def test_new_facts_carry_todays_format(self, harness: Harness) -> None:
        client = GatewayClient(harness)
        in_journal = b'"key_format":%d' % KEY_FORMAT
        engram = client.put("Retrying is slow", refs=[ref_to_test("a.py")])
        assert harness.journal_bytes().count(in_journal) == 1
        client.put("Retrying is slow", refs=[ref_to_test("a.py")], tags=["policies"])  # confirms, and adds keys
        assert harness.journal_bytes().count(in_journal) == 2
        client.call("apply_policy", policy={"scopes": ["run", "project", "org"]})
        client.call("promote_engram", LOCAL_ADMIN, id=engram.id, scope="org")
        assert in_journal in harness.shared_bytes("org")

    def test_an_engram_with_earlier_keys_is_found_in_a_shared_store(self, harness: Harness) -> None:
        client = GatewayClient(harness)
        _put_with_earlier_keys(harness)
        client.call("apply_policy", policy={"scopes": ["run", "project", "org"]})
        client.call("promote_engram", LOCAL_ADMIN, id=EARLIER_ID, scope="org")
        assert client.query_claims("retried deploy", scope="org") == [CLAIM]


def _put_with_earlier_keys(harness: Harness) -> Engram:
    """Put an engram as a version with the first rules stored it; return it."""
    client = GatewayClient(harness)
    example = client.put("Alpha", refs=[ref_to_test("slow_parsers.py")], tags=["ops"])
    client.call("forget_engram", id=example.id)
    engram = msgspec.structs.replace(example, id=EARLIER_ID, claim=CLAIM, hash_keys=EARLIER_KEYS)
    run = engram.provenance.created_by.partition("/")[0]
    fact = EngramPut(engram=engram, run=run, expires_at=EXPIRES_US, more_keys=("cache", "slow_parser.py"))
    assert fact.key_format == 1
    harness.gateway.store.commit(lambda view: ([fact], None))
    return engram
