"""The shared cortex: episodes, the snapshots inherited from them, and contributions under review."""  # SC-01…08

from __future__ import annotations

from typing import Any

import msgspec

from engrambus.core import estimate_tokens
from engrambus.gateway import LOCAL_ADMIN, Credential
from engrambus.testing.client import GatewayClient, expect_refusal, same_changes
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
    """Return a client, a manager, a programmer below it, and a programmer without a parent."""
    client = GatewayClient(harness)
    lead = client.add_agent("lead", "manager")
    return (
        client,
        lead,
        client.add_agent("coder", "programmer", parent="lead"),
        client.add_agent("stranger", "programmer"),
    )


def contents(snapshot: Any) -> list[str]:
    """Return the texts of a snapshot in its order."""
    return [item.content for item in snapshot.items]


class CortexConformance:
    """Episodes, snapshots and contributions."""

    def test_a_snapshot_has_pins_first_then_important_then_recent_episodes(self, harness: Harness) -> None:
        client = GatewayClient(harness)  # SC-01
        client.call("keep_episode", text="An old detail", importance=0.1)
        client.call("keep_episode", text="An old rule", importance=0.8)
        harness.clock.advance(seconds=30 * DAY)
        client.call("keep_episode", text="A recent detail", importance=0.2)
        client.call("keep_episode", text="A small pin", importance=0.1, pinned=True)
        client.call("keep_episode", text="A great pin", importance=0.9, pinned=True)
        snapshot = client.call("inherit")
        assert contents(snapshot) == ["A great pin", "A small pin", "An old rule", "A recent detail"]
        assert [item.provenance.origin for item in snapshot.items] == ["working_memory"] * 2 + ["manual"] * 2
        assert all(item.provenance.source.endswith("/admin") for item in snapshot.items)
        assert snapshot.items[2].provenance.memory_id == "fact:an-old-rule@1"
        without = client.call("inherit", scope={"include_working_memory": False, "recency_window": "P60D"})
        assert contents(without) == ["An old rule", "A recent detail", "An old detail"]

    def test_the_same_episodes_and_scope_give_the_same_snapshot_at_any_time(self, harness: Harness) -> None:
        client = GatewayClient(harness)  # SC-01
        client.call("keep_episode", text="Refunds need two approvals", importance=0.9)
        first = client.call("inherit")
        harness.clock.advance(seconds=3600)
        harness.reopen()
        harness.delete_index()
        second = client.call("inherit")
        assert second.snapshot_id == first.snapshot_id
        assert second.created_at != first.created_at
        client.call("keep_episode", text="Refunds need three approvals", slug="refunds-need-two-approvals")
        assert client.call("inherit").snapshot_id != first.snapshot_id

    def test_categories_filter_episodes_and_atoms_are_optional(self, harness: Harness) -> None:
        client = GatewayClient(harness)
        client.call("keep_episode", text="About billing", categories=["Billing"], importance=0.9)
        client.call("keep_episode", text="About search", categories=["search"], importance=0.9)
        client.put("The ledger may lose a lease", kind="risk")
        assert contents(client.call("inherit", scope={"categories": ["billing"]})) == ["About billing"]
        assert contents(client.call("inherit", scope={"categories": ["risk"], "include_atoms": True})) == [
            "The ledger may lose a lease"
        ]
        with expect_refusal("SCOPE_FORBIDDEN"):
            client.call("inherit", scope={"include_atoms": True, "visibility": ["org"]})

    def test_a_category_is_found_behind_any_number_of_other_episodes(self, harness: Harness) -> None:
        client = GatewayClient(harness)
        client.call("keep_episode", text="About billing", categories=["Billing"], importance=0.7)
        for number in range(9):
            client.call("keep_episode", text=f"About search {number}", categories=["search"], importance=0.9)
            client.call("keep_episode", text=f"A pin {number}", importance=1.0, pinned=True)
        billing = {"categories": ["BILLING"], "include_working_memory": False}
        assert contents(client.call("inherit", scope=billing, max_items=2)) == ["About billing"]
        unpinned = client.call("inherit", scope={"include_working_memory": False}, max_items=2)
        assert contents(unpinned) == ["About search 8", "About search 7"]
        assert unpinned.left_out >= 2
        client.put("The ledger may lose a lease", kind="risk", tags=["Ledger"])
        for number in range(105):
            client.put(f"Queue {number} is drained by worker {number}")
            harness.clock.advance(seconds=1)
        for category in ("risk", "ledger"):
            scope = {"categories": [category], "include_atoms": True, "include_working_memory": False}
            assert contents(client.call("inherit", scope=scope)) == ["The ledger may lose a lease"]

    def test_the_same_snapshot_has_the_same_id_for_every_caller(self, harness: Harness) -> None:
        client, lead, coder, _ = team(harness)  # SC-01
        client.call("keep_episode", text="Refunds need two approvals", importance=0.9)
        snapshots = [client.call("inherit", caller, for_agent="coder") for caller in (LOCAL_ADMIN, lead, coder, coder)]
        assert len({snapshot.snapshot_id for snapshot in snapshots}) == 1
        assert snapshots[0].source_session.endswith("/lead")
        assert snapshots[0].limits.max_chars == 50_000
        assert client.call("inherit", lead).source_session.endswith("/admin")

    def test_a_snapshot_is_never_larger_than_requested(self, harness: Harness) -> None:
        client = GatewayClient(harness)
        for number in range(60):
            client.call("keep_episode", text=f"Detail {number}: " + "words and more words " * 12, importance=0.9)
        for most in (1_000, 5_000, 20_000):
            snapshot = client.call("inherit", max_bytes=most)
            assert len(msgspec.json.encode(snapshot)) <= most
            assert snapshot.items
            assert snapshot.left_out == 60 - len(snapshot.items)
        with expect_refusal("BUDGET_TOO_SMALL"):
            client.call("inherit", max_bytes=100)

    def test_inheriting_is_charged_to_the_agents_turn_and_limited_by_it(self, harness: Harness) -> None:
        client, _, coder, _ = team(harness)
        for number in range(60):
            client.call("keep_episode", text=f"Detail {number}: " + "words and more words " * 12, importance=0.9)
        snapshot = client.call("inherit", coder)
        assert 1000 < estimate_tokens(msgspec.json.encode(snapshot)) <= 1200
        with expect_refusal("DEREF_DENIED"):
            for _ in range(9):
                client.call("inherit", coder, max_bytes=1000)

    # decision 26: pointers lead to old versions for ever
    def test_every_version_is_stored_and_the_last_one_applies(self, harness: Harness) -> None:
        client = GatewayClient(harness)
        first = client.call("keep_episode", text="Use tabs", kind="preference", slug="indent")
        harness.clock.advance(seconds=DAY)
        second = client.call("keep_episode", text="Use spaces", kind="preference", slug="indent")
        assert (first.version, second.version) == (1, 2)
        assert contents(client.call("inherit")) == ["Use spaces"]
        with harness.gateway.store.read() as view:
            then = view.episode("preference", "indent", before_us=harness.clock.now())
            assert then is not None
            assert then.text == "Use tabs"
            assert [episode.version for episode in view.episodes_after(0, limit=9)] == [1, 2]
        pinned = client.call("pin_episode", id="preference:indent")
        assert (pinned.version, pinned.pinned) == (3, True)
        assert client.call("pin_episode", id="preference:indent@2") == pinned
        assert client.call("pin_episode", id="sam:preference:indent@3", unpin=True).version == 4
        with expect_refusal("EPISODE_NOT_FOUND"):
            client.call("pin_episode", id="preference:none")

    def test_expired_episodes_are_not_inherited(self, harness: Harness) -> None:
        client = GatewayClient(harness)
        client.call("keep_episode", text="For a day", ttl="P1D", pinned=True)
        assert contents(client.call("inherit")) == ["For a day"]
        harness.clock.advance(seconds=DAY + 1)
        assert contents(client.call("inherit")) == []
        with expect_refusal("EPISODE_NOT_FOUND"):
            client.call("pin_episode", id="fact:for-a-day")
        assert client.call("keep_episode", text="For a day", pinned=True).version == 2
        assert contents(client.call("inherit")) == ["For a day"]

    def test_a_contribution_is_decided_once_and_becomes_an_episode(self, harness: Harness) -> None:
        client, lead, coder, stranger = team(harness)  # SC-02, SC-03
        sent = client.call(
            "contribute",
            coder,
            content="The parser trusts its input.",
            confidence=0.8,
            thread_id="billing",
            proposed_categories=["parser"],
            evidence=[{"kind": "note", "value": "Seen while reading it."}],
        )
        assert (sent.status, sent.conflict_check.status, sent.security.redacted) == ("submitted", "clean", False)
        assert sent.from_session.endswith("/coder")
        for caller in (stranger, coder):
            with expect_refusal("ROLE_FORBIDDEN"):
                client.call("accept_contribution", caller, id=sent.contribution_id)
        assert client.call("list_contributions", stranger).contributions == []
        assert [
            contribution.contribution_id for contribution in client.call("list_contributions", lead).contributions
        ] == [sent.contribution_id]
        accepted = client.call("accept_contribution", lead, id=sent.contribution_id, kind="decision", pinned=True)
        assert (accepted.status, accepted.memory_id) == ("accepted", "decision:the-parser-trusts-its-input@1")
        assert accepted.decided_by is not None
        assert accepted.decided_by.endswith("/lead")
        for operation in ("accept_contribution", "reject_contribution"):
            fields = {"reason": "Late"} if operation == "reject_contribution" else {}
            with expect_refusal("CONTRIBUTION_DECIDED"):
                client.call(operation, lead, id=sent.contribution_id, **fields)
        with harness.gateway.store.read() as view:
            episode = view.episode("decision", "the-parser-trusts-its-input")
            assert episode is not None
            assert episode.acceptance is not None
            assert episode.acceptance.contribution_id == sent.contribution_id
            assert episode.by.endswith("/coder")
        harness.reopen()
        harness.delete_index()
        assert client.call("show_contribution", lead, id=sent.contribution_id) == accepted
        assert client.call("list_contributions", lead).contributions == []
        assert len(client.call("list_contributions", lead, status="accepted").contributions) == 1

    def test_an_agent_decides_only_on_contributions_of_its_descendants(self, harness: Harness) -> None:
        client, lead, _, stranger = team(harness)
        contribution = client.call("contribute", lead, content="Managers know best.")
        with expect_refusal("ROLE_FORBIDDEN"):
            client.call("accept_contribution", lead, id=contribution.contribution_id)
        theirs = client.call("contribute", stranger, content="Strangers know more.")
        with expect_refusal("CONTRIBUTION_NOT_FOUND"):
            client.call("accept_contribution", lead, id=theirs.contribution_id)
        with expect_refusal("CONTRIBUTION_NOT_FOUND"):
            client.call("show_contribution", lead, id="0" * 26)
        assert client.call("accept_contribution", LOCAL_ADMIN, id=contribution.contribution_id).status == "accepted"

    def test_a_rejection_has_a_reason_and_an_author_may_withdraw(self, harness: Harness) -> None:
        client, lead, coder, _ = team(harness)  # SC-03
        bad = client.call("contribute", coder, content="Tests are slow.")
        rejected = client.call("reject_contribution", lead, id=bad.contribution_id, reason="Measured once.")
        assert (rejected.status, rejected.reason) == ("rejected", "Measured once.")
        mine = client.call("contribute", coder, content="Tests are fast.")
        with expect_refusal("CONTRIBUTION_NOT_FOUND"):
            client.call("withdraw_contribution", lead, id=mine.contribution_id)
        assert client.call("withdraw_contribution", coder, id=mine.contribution_id).status == "withdrawn"
        with expect_refusal("CONTRIBUTION_DECIDED"):
            client.call("accept_contribution", lead, id=mine.contribution_id)

    def test_the_same_text_within_a_day_is_stored_as_a_duplicate(self, harness: Harness) -> None:
        client, lead, coder, stranger = team(harness)  # SC-04
        first = client.call("contribute", coder, content="Retries are idempotent.")
        repeated = client.call("contribute", coder, content="  retries ARE\tidempotent. ")
        assert (repeated.status, repeated.dedupe.duplicate_of) == ("duplicate", first.contribution_id)
        by_stranger = client.call("contribute", stranger, content="Retries are idempotent.")
        assert (by_stranger.status, by_stranger.dedupe.similar_to) == (
            "submitted",
            (),
        )  # it may not know what others have said
        contribution = client.call("show_contribution", LOCAL_ADMIN, id=by_stranger.contribution_id)
        assert set(contribution.dedupe.similar_to) == {first.contribution_id, repeated.contribution_id}
        assert len(client.call("list_contributions", lead).contributions) == 1
        assert len(client.call("list_contributions", lead, status="duplicate").contributions) == 1
        harness.clock.advance(seconds=DAY + 1)
        later = client.call("contribute", coder, content="Retries are idempotent.")
        assert later.status == "submitted"
        assert first.contribution_id in later.dedupe.similar_to

    def test_a_withdrawn_contribution_may_be_submitted_again(self, harness: Harness) -> None:
        client, lead, coder, _ = team(harness)  # SC-04
        first = client.call("contribute", coder, content="Retries are idempotent.")
        client.call("withdraw_contribution", coder, id=first.contribution_id)
        assert client.call("contribute", coder, content="Retries are idempotent.").status == "submitted"
        assert len(client.call("list_contributions", lead).contributions) == 1

    def test_the_dedupe_window_is_set_by_policy(self, harness: Harness) -> None:
        client, _, coder, _ = team(harness)  # SC-04
        client.call("apply_policy", policy={"cortex": {"dedupe_window": "PT1H"}})
        client.call("contribute", coder, content="Retries are idempotent.")
        harness.clock.advance(seconds=3599)
        assert client.call("contribute", coder, content="Retries are idempotent.").status == "duplicate"
        harness.clock.advance(seconds=3602)
        assert client.call("contribute", coder, content="Retries are idempotent.").status == "submitted"
        with expect_refusal("POLICY_INVALID"):
            client.call("apply_policy", policy={"cortex": {"dedupe_window": "a while"}})

    def test_all_contributions_of_a_thread_are_listed(self, harness: Harness) -> None:
        client, lead, coder, stranger = team(harness)  # SC-03
        sent = []
        for content in ("Tests are slow.", "tests are SLOW.", "Tests are many.", "Tests are few."):
            sent.append(client.call("contribute", coder, content=content, thread_id="tests").contribution_id)
            harness.clock.advance(seconds=1)
        client.call("contribute", stranger, content="Tests are nice.", thread_id="tests")
        client.call("reject_contribution", lead, id=sent[0], reason="Measured once.")
        client.call("withdraw_contribution", coder, id=sent[2])
        contributions = client.call("list_contributions", lead, thread_id="tests", status="all").contributions
        assert [contribution.contribution_id for contribution in reversed(contributions)] == sent
        assert [contribution.status for contribution in reversed(contributions)] == [
            "rejected",
            "duplicate",
            "withdrawn",
            "submitted",
        ]

    def test_a_token_limit_too_small_for_one_contribution_is_refused(self, harness: Harness) -> None:
        client, lead, coder, _ = team(harness)
        client.call("contribute", coder, content="Retries are idempotent.")
        with expect_refusal("BUDGET_TOO_SMALL"):
            client.call("list_contributions", lead, max_tokens=60)
        assert client.call("list_contributions", lead, max_tokens=60, thread_id="none").contributions == []

    # decision 26: an accepted contribution never replaces an episode
    def test_a_slug_in_use_gets_a_number_and_stays_valid(self, harness: Harness) -> None:
        client, lead, coder, _ = team(harness)
        content = "x" * 57 + " and more words"
        for number in range(2):
            sent = client.call("contribute", coder, content=content + "." * number)
            accepted = client.call("accept_contribution", lead, id=sent.contribution_id)
        slug = str(accepted.memory_id).partition(":")[2].partition("@")[0]
        assert slug == "x" * 57 + "-2"
        assert client.call("pin_episode", lead, id=f"learning:{slug}").pinned

    # decision 34: two values of one attribute exclude each other
    def test_a_contribution_that_contradicts_a_pin_is_flagged_and_does_not_replace_it(self, harness: Harness) -> None:
        client, lead, coder, _ = team(harness)  # SC-05
        client.call("keep_episode", text="The gateway times out after 30 seconds.", kind="learning", pinned=True)
        sent = client.call("contribute", coder, content="The gateway times out after 60 seconds.")
        pin = "learning:the-gateway-times-out-after-30-seconds@1"
        assert (sent.status, sent.conflict_check.status, sent.conflict_check.against) == ("flagged", "conflict", (pin,))
        accepted = client.call("accept_contribution", lead, id=sent.contribution_id)
        with harness.gateway.store.read() as view:
            episode = view.episode("learning", str(accepted.memory_id).partition(":")[2].partition("@")[0])
            assert episode is not None
            assert "conflict/unverified" in episode.categories
            assert [pinned.memory_id for pinned in view.pins(limit=9)] == [pin]
        same = client.call("contribute", coder, content="The gateway times out after 30 seconds!")
        accepted_copy = client.call("accept_contribution", lead, id=same.contribution_id)
        assert accepted_copy.memory_id == "learning:the-gateway-times-out-after-30-seconds-2@1"

    def test_secrets_are_redacted_in_every_field_of_a_contribution(self, harness: Harness) -> None:
        client, _, coder, _ = team(harness)  # SC-06
        secret = "AKIA" + "IOSFODNN7EXAMPLQ"
        sent = client.call(
            "contribute",
            coder,
            content=f"The key {secret} works.",
            evidence=[{"kind": "command_output", "value": f"export AWS_ACCESS_KEY_ID={secret}"}],
        )
        assert sent.security.redacted
        assert sent.security.redaction_notes[0].startswith("content: ")
        assert secret.encode() not in harness.journal_bytes()
        with expect_refusal("SECRET_FOUND"):
            client.call("keep_episode", text=f"The key {secret} works.")

    def test_inherit_and_ingest_can_be_switched_off(self, harness: Harness) -> None:
        client, lead, coder, _ = team(harness)  # SC-08
        client.call("apply_policy", policy={"cortex": {"inherit": False, "ingest": False}})
        with expect_refusal("CORTEX_OFF"):
            client.call("inherit", coder)
        sent = client.call("contribute", coder, content="Kept all the same.")
        with expect_refusal("CORTEX_OFF"):
            client.call("accept_contribution", lead, id=sent.contribution_id)
        client.call("apply_policy", policy={})
        assert client.call("accept_contribution", lead, id=sent.contribution_id).status == "accepted"

    def test_bad_input_is_refused_by_name_and_changes_nothing(self, harness: Harness) -> None:
        client, _, coder, _ = team(harness)
        journal = harness.journal_bytes()
        for code, operation, caller, fields in (
            ("FIELD_VALUE", "contribute", coder, {"content": "bell \x07"}),
            ("FIELD_VALUE", "contribute", coder, {"content": " \n "}),
            ("FIELD_VALUE", "contribute", coder, {"content": "x" * 4001}),
            *(("FIELD_VALUE", "contribute", coder, {"content": "x", **bad}) for bad in NOT_TEXT),
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
                client.call(operation, caller, **fields)
        assert same_changes(harness.journal_bytes(), journal)
