"""What the team remembers, what is inherited of it, and what becomes of learnings."""  # SC-01…08

from __future__ import annotations

from typing import Any

import msgspec

from engrambus.gateway import LOCAL_ADMIN, Credential
from engrambus.testing.client import GatewayClient, expect_refusal
from engrambus.testing.harness import Harness

DAY = 86_400

NOT_TEXT: tuple[dict[str, Any], ...] = (
    {"content": "an escape \x9b31m"},
    {"content": "over\rwritten"},
    {"thread_id": ""},
    {"thread_id": "two\nlines"},
    {"thread_id": "\x1b[2J"},
    {"proposed_categories": [" "]},
    {"proposed_categories": ["a\x00"]},
    {"proposed_categories": ["x" * 10_000_000]},
    {"inputs_used": ["x" * 10_000_000]},
    {"inputs_used": ["\u2028"]},
    {"evidence": [{"kind": "note", "value": ""}]},
    {"evidence": [{"kind": "command_output", "value": "\x1b[31mFAILED\x1b[0m"}]},
)


def team(harness: Harness) -> tuple[GatewayClient, Credential, Credential, Credential]:
    """A manager with a programmer below it, and a programmer of nobody's."""
    hand = GatewayClient(harness)
    lead = hand.add_agent("lead", "manager")
    return hand, lead, hand.add_agent("coder", "programmer", parent="lead"), hand.add_agent("stranger", "programmer")


def contents(snapshot: Any) -> list[str]:
    """What a snapshot says, in its order."""
    return [item.content for item in snapshot.items]


class CortexConformance:
    """Episodes, snapshots and contributions."""

    def test_a_snapshot_has_pins_first_then_what_matters_then_what_is_recent(self, harness: Harness) -> None:
        hand = GatewayClient(harness)  # SC-01
        hand.call("keep_episode", text="An old detail", importance=0.1)
        hand.call("keep_episode", text="An old rule", importance=0.8)
        harness.clock.advance(seconds=30 * DAY)
        hand.call("keep_episode", text="A recent detail", importance=0.2)
        hand.call("keep_episode", text="A small pin", importance=0.1, pinned=True)
        hand.call("keep_episode", text="A great pin", importance=0.9, pinned=True)
        snapshot = hand.call("inherit")
        assert contents(snapshot) == ["A great pin", "A small pin", "An old rule", "A recent detail"]
        assert [item.provenance.origin for item in snapshot.items] == ["working_memory"] * 2 + ["stm"] * 2
        assert all(item.provenance.source.endswith("/admin") for item in snapshot.items)
        assert snapshot.items[2].provenance.memory_id == "fact:an-old-rule@1"
        without = hand.call("inherit", scope={"include_working_memory": False, "recency_window": "P60D"})
        assert contents(without) == ["An old rule", "A recent detail", "An old detail"]

    def test_the_same_memories_and_scope_give_the_same_snapshot_at_any_time(self, harness: Harness) -> None:
        hand = GatewayClient(harness)  # SC-01
        hand.call("keep_episode", text="Refunds need two approvals", importance=0.9)
        first = hand.call("inherit")
        harness.clock.advance(seconds=3600)
        harness.reopen()
        harness.delete_index()
        second = hand.call("inherit")
        assert second.snapshot_id == first.snapshot_id
        assert second.created_at != first.created_at
        hand.call("keep_episode", text="Refunds need three approvals", slug="refunds-need-two-approvals")
        assert hand.call("inherit").snapshot_id != first.snapshot_id

    def test_categories_choose_and_atoms_come_when_asked_for(self, harness: Harness) -> None:
        hand = GatewayClient(harness)
        hand.call("keep_episode", text="About billing", categories=["Billing"], importance=0.9)
        hand.call("keep_episode", text="About search", categories=["search"], importance=0.9)
        hand.put("The ledger may lose a lease", kind="risk")
        assert contents(hand.call("inherit", scope={"categories": ["billing"]})) == ["About billing"]
        assert contents(hand.call("inherit", scope={"categories": ["risk"], "include_atoms": True})) == [
            "The ledger may lose a lease"
        ]
        with expect_refusal("SCOPE_FORBIDDEN"):
            hand.call("inherit", scope={"include_atoms": True, "visibility": ["org"]})

    def test_what_is_asked_for_is_found_behind_any_number_of_other_memories(self, harness: Harness) -> None:
        hand = GatewayClient(harness)
        hand.call("keep_episode", text="About billing", categories=["Billing"], importance=0.7)
        for number in range(9):
            hand.call("keep_episode", text=f"About search {number}", categories=["search"], importance=0.9)
            hand.call("keep_episode", text=f"A pin {number}", importance=1.0, pinned=True)
        billing = {"categories": ["BILLING"], "include_working_memory": False}
        assert contents(hand.call("inherit", scope=billing, max_items=2)) == ["About billing"]
        unpinned = hand.call("inherit", scope={"include_working_memory": False}, max_items=2)
        assert contents(unpinned) == ["About search 8", "About search 7"]
        assert unpinned.left_out >= 2
        hand.put("The ledger may lose a lease", kind="risk", tags=["Ledger"])
        for number in range(105):
            hand.put(f"Queue {number} is drained by worker {number}")
            harness.clock.advance(seconds=1)
        for category in ("risk", "ledger"):
            asked = {"categories": [category], "include_atoms": True, "include_working_memory": False}
            assert contents(hand.call("inherit", scope=asked)) == ["The ledger may lose a lease"]

    def test_whoever_takes_it_and_whatever_the_turn_has_left_the_same_snapshot_has_the_same_id(
        self, harness: Harness
    ) -> None:
        hand, lead, coder, _ = team(harness)  # SC-01
        hand.call("keep_episode", text="Refunds need two approvals", importance=0.9)
        taken = [hand.call("inherit", who, for_agent="coder") for who in (LOCAL_ADMIN, lead, coder, coder)]
        assert len({each.snapshot_id for each in taken}) == 1
        assert taken[0].source_session.endswith("/lead")
        assert taken[0].limits.max_chars == 50_000
        assert hand.call("inherit", lead).source_session.endswith("/admin")

    def test_a_snapshot_is_never_larger_than_asked(self, harness: Harness) -> None:
        hand = GatewayClient(harness)
        for number in range(60):
            hand.call("keep_episode", text=f"Detail {number}: " + "words and more words " * 12, importance=0.9)
        for most in (1_000, 5_000, 20_000):
            snapshot = hand.call("inherit", max_bytes=most)
            assert len(msgspec.json.encode(snapshot)) <= most
            assert snapshot.items
            assert snapshot.left_out == 60 - len(snapshot.items)
        with expect_refusal("BUDGET_TOO_SMALL"):
            hand.call("inherit", max_bytes=100)

    def test_an_agent_pays_for_what_it_inherits_and_gets_no_more_than_it_can_pay(self, harness: Harness) -> None:
        hand, _, coder, _ = team(harness)
        for number in range(60):
            hand.call("keep_episode", text=f"Detail {number}: " + "words and more words " * 12, importance=0.9)
        snapshot = hand.call("inherit", coder)
        size = len(msgspec.json.encode(snapshot))
        assert 4000 < size <= 4800
        with expect_refusal("DEREF_DENIED"):
            for _ in range(9):
                hand.call("inherit", coder, max_bytes=1000)

    def test_versions_stay_and_the_last_one_holds(self, harness: Harness) -> None:
        hand = GatewayClient(harness)
        first = hand.call("keep_episode", text="Use tabs", kind="preference", slug="indent")
        harness.clock.advance(seconds=DAY)
        second = hand.call("keep_episode", text="Use spaces", kind="preference", slug="indent")
        assert (first.version, second.version) == (1, 2)
        assert contents(hand.call("inherit")) == ["Use spaces"]
        with harness.gateway.store.read() as view:
            then = view.episode("preference", "indent", before_us=harness.clock.now())
            assert then is not None
            assert then.text == "Use tabs"
            assert [each.version for each in view.episodes_after(0, limit=9)] == [1, 2]
        pinned = hand.call("pin_episode", id="preference:indent")
        assert (pinned.version, pinned.pinned) == (3, True)
        assert hand.call("pin_episode", id="preference:indent@2") == pinned
        assert hand.call("pin_episode", id="sam:preference:indent@3", unpin=True).version == 4
        with expect_refusal("EPISODE_NOT_FOUND"):
            hand.call("pin_episode", id="preference:none")

    def test_what_has_expired_is_not_inherited(self, harness: Harness) -> None:
        hand = GatewayClient(harness)
        hand.call("keep_episode", text="For a day", ttl="P1D", pinned=True)
        assert contents(hand.call("inherit")) == ["For a day"]
        harness.clock.advance(seconds=DAY + 1)
        assert contents(hand.call("inherit")) == []
        with expect_refusal("EPISODE_NOT_FOUND"):
            hand.call("pin_episode", id="fact:for-a-day")
        assert hand.call("keep_episode", text="For a day", pinned=True).version == 2
        assert contents(hand.call("inherit")) == ["For a day"]

    def test_a_learning_is_submitted_decided_on_once_and_remembered(self, harness: Harness) -> None:
        hand, lead, coder, stranger = team(harness)  # SC-02, SC-03
        sent = hand.call(
            "contribute",
            coder,
            content="The parser trusts its input.",
            confidence=0.8,
            thread_id="billing",
            proposed_categories=["parser"],
            evidence=[{"kind": "note", "value": "Seen while reading it."}],
            inputs_used=["a snapshot"],
        )
        assert (sent.status, sent.conflict_check.status, sent.security.redacted) == ("submitted", "clean", False)
        assert sent.from_session.endswith("/coder")
        for who in (stranger, coder):
            with expect_refusal("ROLE_FORBIDDEN"):
                hand.call("accept_contribution", who, id=sent.contribution_id)
        assert hand.call("list_contributions", stranger).contributions == []
        assert [each.contribution_id for each in hand.call("list_contributions", lead).contributions] == [
            sent.contribution_id
        ]
        accepted = hand.call("accept_contribution", lead, id=sent.contribution_id, kind="decision", pinned=True)
        assert (accepted.status, accepted.memory_id) == ("accepted", "decision:the-parser-trusts-its-input@1")
        assert accepted.decided_by is not None
        assert accepted.decided_by.endswith("/lead")
        for again in ("accept_contribution", "reject_contribution"):
            more = {"reason": "Late"} if again == "reject_contribution" else {}
            with expect_refusal("CONTRIBUTION_DECIDED"):
                hand.call(again, lead, id=sent.contribution_id, **more)
        with harness.gateway.store.read() as view:
            kept = view.episode("decision", "the-parser-trusts-its-input")
            assert kept is not None
            assert kept.acceptance is not None
            assert kept.acceptance.contribution_id == sent.contribution_id
            assert kept.by.endswith("/coder")
        harness.reopen()
        harness.delete_index()
        assert hand.call("show_contribution", lead, id=sent.contribution_id) == accepted
        assert hand.call("list_contributions", lead).contributions == []
        assert len(hand.call("list_contributions", lead, status="accepted").contributions) == 1

    def test_a_parent_may_not_decide_on_its_own_nor_anyone_on_a_strangers(self, harness: Harness) -> None:
        hand, lead, _, stranger = team(harness)
        own = hand.call("contribute", lead, content="Managers know best.")
        with expect_refusal("ROLE_FORBIDDEN"):
            hand.call("accept_contribution", lead, id=own.contribution_id)
        theirs = hand.call("contribute", stranger, content="Strangers know more.")
        with expect_refusal("CONTRIBUTION_NOT_FOUND"):
            hand.call("accept_contribution", lead, id=theirs.contribution_id)
        with expect_refusal("CONTRIBUTION_NOT_FOUND"):
            hand.call("show_contribution", lead, id="0" * 26)
        assert hand.call("accept_contribution", LOCAL_ADMIN, id=own.contribution_id).status == "accepted"

    def test_a_rejection_keeps_its_reason_and_an_author_may_withdraw(self, harness: Harness) -> None:
        hand, lead, coder, _ = team(harness)  # SC-03
        bad = hand.call("contribute", coder, content="Tests are slow.")
        rejected = hand.call("reject_contribution", lead, id=bad.contribution_id, reason="Measured once.")
        assert (rejected.status, rejected.reason) == ("rejected", "Measured once.")
        mine = hand.call("contribute", coder, content="Tests are fast.")
        with expect_refusal("CONTRIBUTION_NOT_FOUND"):
            hand.call("withdraw_contribution", lead, id=mine.contribution_id)
        assert hand.call("withdraw_contribution", coder, id=mine.contribution_id).status == "withdrawn"
        with expect_refusal("CONTRIBUTION_DECIDED"):
            hand.call("accept_contribution", lead, id=mine.contribution_id)

    def test_the_same_words_within_a_day_are_a_duplicate_and_not_lost(self, harness: Harness) -> None:
        hand, lead, coder, stranger = team(harness)  # SC-04
        first = hand.call("contribute", coder, content="Retries are idempotent.")
        again = hand.call("contribute", coder, content="  retries ARE\tidempotent. ")
        assert (again.status, again.dedupe.duplicate_of) == ("duplicate", first.contribution_id)
        other = hand.call("contribute", stranger, content="Retries are idempotent.")
        assert (other.status, other.dedupe.similar_to) == ("submitted", ())  # it may not know what others have said
        shown = hand.call("show_contribution", LOCAL_ADMIN, id=other.contribution_id)
        assert set(shown.dedupe.similar_to) == {first.contribution_id, again.contribution_id}
        assert len(hand.call("list_contributions", lead).contributions) == 1
        assert len(hand.call("list_contributions", lead, status="duplicate").contributions) == 1
        harness.clock.advance(seconds=DAY + 1)
        later = hand.call("contribute", coder, content="Retries are idempotent.")
        assert later.status == "submitted"
        assert first.contribution_id in later.dedupe.similar_to

    def test_what_was_withdrawn_may_be_said_again(self, harness: Harness) -> None:
        hand, lead, coder, _ = team(harness)  # SC-04
        first = hand.call("contribute", coder, content="Retries are idempotent.")
        hand.call("withdraw_contribution", coder, id=first.contribution_id)
        assert hand.call("contribute", coder, content="Retries are idempotent.").status == "submitted"
        assert len(hand.call("list_contributions", lead).contributions) == 1

    def test_how_long_words_count_as_said_before_is_the_projects_choice(self, harness: Harness) -> None:
        hand, _, coder, _ = team(harness)  # SC-04
        hand.call("apply_policy", policy={"cortex": {"dedupe_window": "PT1H"}})
        hand.call("contribute", coder, content="Retries are idempotent.")
        harness.clock.advance(seconds=3599)
        assert hand.call("contribute", coder, content="Retries are idempotent.").status == "duplicate"
        harness.clock.advance(seconds=3602)
        assert hand.call("contribute", coder, content="Retries are idempotent.").status == "submitted"
        with expect_refusal("POLICY_INVALID"):
            hand.call("apply_policy", policy={"cortex": {"dedupe_window": "a while"}})

    def test_a_thread_can_be_read_whole(self, harness: Harness) -> None:
        hand, lead, coder, stranger = team(harness)  # SC-03
        sent = []
        for content in ("Tests are slow.", "tests are SLOW.", "Tests are many.", "Tests are few."):
            sent.append(hand.call("contribute", coder, content=content, thread_id="tests").contribution_id)
            harness.clock.advance(seconds=1)
        hand.call("contribute", stranger, content="Tests are nice.", thread_id="tests")
        hand.call("reject_contribution", lead, id=sent[0], reason="Measured once.")
        hand.call("withdraw_contribution", coder, id=sent[2])
        told = hand.call("list_contributions", lead, thread_id="tests", status="all").contributions
        assert [each.contribution_id for each in reversed(told)] == sent
        assert [each.status for each in reversed(told)] == ["rejected", "duplicate", "withdrawn", "submitted"]

    def test_an_answer_that_would_show_nothing_of_the_queue_is_refused(self, harness: Harness) -> None:
        hand, lead, coder, _ = team(harness)
        hand.call("contribute", coder, content="Retries are idempotent.")
        with expect_refusal("BUDGET_TOO_SMALL"):
            hand.call("list_contributions", lead, max_tokens=40)
        assert hand.call("list_contributions", lead, max_tokens=40, thread_id="none").contributions == []

    def test_a_name_that_is_taken_gets_a_number_and_stays_a_name(self, harness: Harness) -> None:
        hand, lead, coder, _ = team(harness)
        content = "x" * 57 + " and more words"
        for number in range(2):
            sent = hand.call("contribute", coder, content=content + "." * number)
            accepted = hand.call("accept_contribution", lead, id=sent.contribution_id)
        slug = str(accepted.memory_id).partition(":")[2].partition("@")[0]
        assert slug == "x" * 57 + "-2"
        assert hand.call("pin_episode", lead, id=f"learning:{slug}").pinned

    def test_what_contradicts_a_pin_is_flagged_and_never_takes_its_place(self, harness: Harness) -> None:
        hand, lead, coder, _ = team(harness)  # SC-05
        hand.call("keep_episode", text="The gateway times out after 30 seconds.", kind="learning", pinned=True)
        sent = hand.call("contribute", coder, content="The gateway times out after 60 seconds.")
        pin = "learning:the-gateway-times-out-after-30-seconds@1"
        assert (sent.status, sent.conflict_check.status, sent.conflict_check.against) == ("flagged", "conflict", (pin,))
        accepted = hand.call("accept_contribution", lead, id=sent.contribution_id)
        with harness.gateway.store.read() as view:
            kept = view.episode("learning", str(accepted.memory_id).partition(":")[2].partition("@")[0])
            assert kept is not None
            assert "conflict/unverified" in kept.categories
            assert [each.memory_id for each in view.pins(limit=9)] == [pin]
        same = hand.call("contribute", coder, content="The gateway times out after 30 seconds!")
        taken = hand.call("accept_contribution", lead, id=same.contribution_id)
        assert taken.memory_id == "learning:the-gateway-times-out-after-30-seconds-2@1"

    def test_secrets_are_taken_out_of_everything_a_contribution_says(self, harness: Harness) -> None:
        hand, _, coder, _ = team(harness)  # SC-06
        secret = "AKIA" + "IOSFODNN7EXAMPLQ"
        sent = hand.call(
            "contribute",
            coder,
            content=f"The key {secret} works.",
            evidence=[{"kind": "command_output", "value": f"export AWS_ACCESS_KEY_ID={secret}"}],
        )
        assert sent.security.redacted
        assert sent.security.redaction_notes[0].startswith("content: ")
        assert secret.encode() not in harness.journal_bytes()
        with expect_refusal("SECRET_FOUND"):
            hand.call("keep_episode", text=f"The key {secret} works.")

    def test_each_part_can_be_switched_off(self, harness: Harness) -> None:
        hand, lead, coder, _ = team(harness)  # SC-08
        hand.call("apply_policy", policy={"cortex": {"inherit": False, "ingest": False}})
        with expect_refusal("CORTEX_OFF"):
            hand.call("inherit", coder)
        sent = hand.call("contribute", coder, content="Kept all the same.")
        with expect_refusal("CORTEX_OFF"):
            hand.call("accept_contribution", lead, id=sent.contribution_id)
        hand.call("apply_policy", policy={})
        assert hand.call("accept_contribution", lead, id=sent.contribution_id).status == "accepted"

    def test_bad_input_is_refused_by_name_and_changes_nothing(self, harness: Harness) -> None:
        hand, _, coder, _ = team(harness)
        before = harness.journal_bytes()
        for code, operation, who, fields in (
            ("FIELD_VALUE", "contribute", coder, {"content": "bell \x07"}),
            ("FIELD_VALUE", "contribute", coder, {"content": " \n "}),
            ("FIELD_VALUE", "contribute", coder, {"content": "x" * 4001}),
            *(("FIELD_VALUE", "contribute", coder, {"content": "x", **more}) for more in NOT_TEXT),
            ("FIELD_VALUE", "contribute", coder, {"content": "x", "confidence": 1.5}),
            ("FIELD_VALUE", "contribute", coder, {"content": "x", "confidence": float("nan")}),
            ("FIELD_TYPE", "contribute", coder, {"content": "x", "confidence": "0.5"}),
            ("FIELD_VALUE", "contribute", coder, {"content": "x", "evidence": [{"kind": "rumour", "value": "y"}]}),
            ("FIELD_VALUE", "keep_episode", LOCAL_ADMIN, {"text": "x", "importance": float("nan")}),
            ("FIELD_VALUE", "keep_episode", LOCAL_ADMIN, {"text": "x", "importance": -0.1}),
            ("FIELD_VALUE", "keep_episode", LOCAL_ADMIN, {"text": "x", "slug": "Not a slug"}),
            ("FIELD_VALUE", "keep_episode", LOCAL_ADMIN, {"text": "x", "categories": [""]}),
            ("FIELD_VALUE", "keep_episode", LOCAL_ADMIN, {"text": "x", "categories": ["two\nlines"]}),
            ("FIELD_VALUE", "keep_episode", LOCAL_ADMIN, {"text": "x", "categories": ["x" * 65]}),
            ("FIELD_VALUE", "keep_episode", LOCAL_ADMIN, {"text": "x", "kind": "../up"}),
            ("TTL_INVALID", "keep_episode", LOCAL_ADMIN, {"text": "x", "ttl": "P1M"}),
            ("ROLE_FORBIDDEN", "keep_episode", coder, {"text": "x"}),
            ("TTL_INVALID", "inherit", LOCAL_ADMIN, {"scope": {"recency_window": "soon"}}),
            ("FIELD_VALUE", "inherit", LOCAL_ADMIN, {"scope": {"visibility": ["everywhere"]}}),
            ("AGENT_NOT_FOUND", "inherit", LOCAL_ADMIN, {"for_agent": "nobody"}),
            ("NOT_YOUR_DESCENDANT", "inherit", coder, {"for_agent": "lead"}),
        ):
            with expect_refusal(code):
                hand.call(operation, who, **fields)
        assert harness.journal_bytes() == before
