"""One memory: kept memories and accepted contributions answer queries and stand in briefs with engrams."""  # BX-12

from __future__ import annotations

from typing import Any

from engrambus.gateway import Credential
from engrambus.testing.client import GatewayClient, expect_refusal, ref_to_test
from engrambus.testing.harness import Harness

DAY = 86_400


def claims(client: GatewayClient, credential: Credential | None = None, **fields: Any) -> list[str]:
    """Return the claims that a query finds, in its order."""
    answer = (
        client.call("query_engrams", credential, **fields) if credential else client.call("query_engrams", **fields)
    )
    return [engram.claim for engram in answer.engrams]


class OneMemoryConformance:
    """Memories in queries and briefs."""

    def test_a_kept_memory_answers_a_query_by_its_words(self, harness: Harness) -> None:  # BX-12
        client = GatewayClient(harness)
        client.call("keep_episode", text="We deploy on Thursdays only.", kind="preference", slug="deploys", pinned=True)
        answer = client.call("query_engrams", q="when do we deploy")
        (memory,) = answer.engrams
        assert (memory.id, memory.kind, memory.claim) == (
            "sam:preference:deploys@1",
            "fact",
            "We deploy on Thursdays only.",
        )
        assert [(pointer.type, pointer.ref) for pointer in memory.pointers] == [("sam", "sam:preference:deploys@1")]
        assert (memory.scope, memory.provenance.source) == ("project", "sam")
        about = answer.about[memory.id].memory
        assert (about.ref, about.pinned) == ("sam:preference:deploys@1", True)
        answer = client.call("show_engram", id=memory.id)
        assert answer.engrams[0].claim == memory.claim
        assert answer.about[memory.id].memory.pinned

    def test_engrams_and_memories_are_one_ranking(self, harness: Harness) -> None:  # BX-12
        client = GatewayClient(harness)
        client.put("The ledger rounds down")
        harness.clock.advance(seconds=1)
        client.call("keep_episode", text="The ledger rounds half to even in reports.")
        harness.clock.advance(seconds=1)
        client.put("The ledger is written by one process")
        # The rarest words decide, over engrams and memories alike; of equals, the newest comes first.
        assert claims(client, q="ledger reports") == [
            "The ledger rounds half to even in reports.",
            "The ledger is written by one process",
            "The ledger rounds down",
        ]
        assert claims(client, q="ledger rounds", k=2) == [
            "The ledger rounds half to even in reports.",
            "The ledger rounds down",
        ]
        assert claims(client) == [
            "The ledger is written by one process",
            "The ledger rounds half to even in reports.",
            "The ledger rounds down",
        ]
        first_answer = client.call("query_engrams", q="ledger rounds reports")
        harness.reopen()
        harness.delete_index()
        assert client.call("query_engrams", q="ledger rounds reports").engrams == first_answer.engrams
        assert harness.gateway.store.verify() == []

    def test_words_beyond_the_claim_and_categories_find_a_memory(self, harness: Harness) -> None:  # BX-12
        client = GatewayClient(harness)
        text = "One sentence. Two sentences. Three sentences. Only the fourth names the zeppelin. " + "word " * 200
        client.call("keep_episode", text=text, categories=["Hangar", "x" * 60])
        (memory,) = client.call("query_engrams", q="zeppelin").engrams
        assert len(memory.claim) <= 500
        assert memory.claim.endswith("…")
        assert memory.tags == ("Hangar",)
        assert claims(client, q="hangar") == [memory.claim]

    def test_a_new_version_replaces_the_one_before(self, harness: Harness) -> None:  # BX-12
        client = GatewayClient(harness)
        client.call("keep_episode", text="Requests time out after 30 seconds.", slug="timeout", kind="decision")
        client.call("keep_episode", text="Requests give up after 60 seconds.", slug="timeout", kind="decision")
        assert claims(client, q="requests seconds") == ["Requests give up after 60 seconds."]
        assert claims(client, q="time") == []
        earlier = client.call("show_engram", id="sam:decision:timeout@1")
        assert earlier.about["sam:decision:timeout@1"].replaced_by == "sam:decision:timeout@2"
        assert claims(client, kind="decision") == ["Requests give up after 60 seconds."]
        pinned = client.call("pin_episode", id="decision:timeout")
        answer = client.call("query_engrams", q="requests")
        assert [engram.id for engram in answer.engrams] == [pinned.ref] == ["sam:decision:timeout@3"]
        assert answer.about[pinned.ref].memory.pinned
        client.call("pin_episode", id="decision:timeout", unpin=True)
        answer = client.call("query_engrams", q="requests")
        assert not answer.about["sam:decision:timeout@4"].memory.pinned

    def test_an_expired_memory_is_not_found_and_comes_back_as_a_new_version(self, harness: Harness) -> None:  # BX-12
        client = GatewayClient(harness)
        client.call("keep_episode", text="The freeze holds this week.", slug="freeze", ttl="P7D")
        assert claims(client, q="freeze") == ["The freeze holds this week."]
        harness.clock.advance(seconds=8 * DAY)
        assert claims(client, q="freeze") == []
        client.put("Something else happens")  # sweeps out what has expired
        client.call("keep_episode", text="The freeze holds again.", slug="freeze")
        assert claims(client, q="freeze") == ["The freeze holds again."]
        assert harness.gateway.store.verify() == []

    def test_memories_are_not_counted_as_engrams_and_keep_their_own_rules(self, harness: Harness) -> None:  # BX-12
        client = GatewayClient(harness)
        memory = client.call("keep_episode", text="Refunds need two approvals.", kind="policy")
        client.put("Refunds are slow")
        assert client.counts()["engrams"] == 1
        for name in ("confirm_engram", "pin_engram", "forget_engram"):
            with expect_refusal("ENGRAM_NOT_FOUND"):
                client.call(name, id=memory.ref)
        assert [row.engram.claim for row in client.call("feed").rows] == ["Refunds are slow"]

    def test_an_accepted_contribution_with_evidence_is_shown_once(self, harness: Harness) -> None:  # BX-12, SC-06
        client = GatewayClient(harness)
        lead = client.add_agent("lead", "manager")
        coder = client.add_agent("coder", "programmer", parent="lead")
        content = "Refusals are told by their code."
        sent = client.call(
            "contribute",
            coder,
            content=content,
            evidence=[{"kind": "path", "value": ref_to_test("errors.py")}],
            proposed_categories=["zeppelin"],
        )
        assert claims(client, q="refusals") == []  # what waits for review is not knowledge yet
        accepted = client.call("accept_contribution", lead, id=sent.contribution_id, kind="decision", pinned=True)
        for fields in ({"q": "refusals code"}, {"q": "zeppelin"}, {}, {"q": "refusals", "kind": "fact"}):
            answer = client.call("query_engrams", coder, **fields)
            (engram,) = answer.engrams
            assert (engram.claim, engram.kind) == (content, "fact"), fields
            about = answer.about[engram.id].memory
            assert (about.ref, about.pinned) == (f"sam:{accepted.memory_id}", True)
        # Asked for the memory's own kind, the engram is no answer, and the memory is.
        (memory,) = client.call("query_engrams", q="refusals", kind="decision").engrams
        assert memory.id == f"sam:{accepted.memory_id}"
        (memory,) = client.call("query_engrams", kind="decision").engrams
        assert memory.id == f"sam:{accepted.memory_id}"
        lines = client.call("brief", coder).lines
        assert len([line for line in lines if content in line]) == 1
        client.call("forget_engram", id=engram.id)
        assert claims(client, q="refusals") == claims(client) == [content]
        (memory,) = client.call("query_engrams", q="zeppelin").engrams
        assert memory.id == f"sam:{accepted.memory_id}"

    def test_important_memories_stand_in_the_brief_among_engrams_of_their_kind(self, harness: Harness) -> None:  # BX-12
        client = GatewayClient(harness)
        client.call("keep_episode", text="Prices are in cents.", kind="constraint", slug="cents")
        client.call("keep_episode", text="An aside about tea.", kind="constraint", slug="tea", importance=0.2)
        client.call("keep_episode", text="Ship on Mondays.", kind="policy", slug="ship", pinned=True)
        harness.clock.advance(seconds=1)
        client.put("Budgets are enforced by the gateway", kind="constraint")
        assert client.call("brief", role="programmer").lines[1:4] == [
            "[pinned memory] Ship on Mondays. (sam:policy:ship@1)",
            "[constraint] Budgets are enforced by the gateway (sam:note:anything@v1)",
            "[constraint] Prices are in cents. (sam:constraint:cents@1)",
        ]
        assert not any("tea" in line for line in client.call("brief", role="programmer").lines)
        client.call("pin_episode", id="constraint:cents")
        lines = client.call("brief", role="programmer").lines
        assert [line for line in lines if "cents" in line] == [
            "[pinned memory] Prices are in cents. (sam:constraint:cents@2)"
        ]

    def test_the_budget_of_a_query_covers_engrams_and_memories(self, harness: Harness) -> None:  # BX-12, EB-13
        client = GatewayClient(harness)
        for number in range(6):
            client.put(f"Ledger claim number {number}")
            client.call("keep_episode", text=f"Ledger memory number {number}.", slug=f"m{number}")
        assert len(claims(client, q="ledger", k=5)) == 5
        full = client.call("query_engrams", q="ledger", k=12)
        assert len(full.engrams) == 12
        cut = client.call("query_engrams", q="ledger", k=12, max_tokens=600)
        assert cut.truncated
        assert cut.engrams == full.engrams[: len(cut.engrams)]

    def test_pages_without_words_hold_engrams_and_memories_by_time(self, harness: Harness) -> None:  # BX-12
        client = GatewayClient(harness)
        for number in range(5):
            client.put(f"Claim {number}")
            client.call("keep_episode", text=f"Memory {number}.", slug=f"m{number}")
        seen: list[str] = []
        cursor = None
        for _ in range(10):
            page = client.call("query_engrams", k=3, cursor=cursor)
            seen += [engram.claim for engram in page.engrams]
            cursor = page.cursor
            if cursor is None:
                break
        assert seen == [text for number in range(4, -1, -1) for text in (f"Memory {number}.", f"Claim {number}")]
