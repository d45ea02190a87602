"""Snapshots that are fetched again, what contributions are based on, and engrams that are made from them."""

from __future__ import annotations

from typing import Any

import msgspec

from engrambus.core import estimate_tokens
from engrambus.gateway import LOCAL_ADMIN
from engrambus.testing.client import GatewayClient, expect_refusal
from engrambus.testing.conformance.cortex import contents, team
from engrambus.testing.harness import Harness

LONG_TEXT = " ".join(f"Queue {number} is drained by worker {number}, one tuple after the other." for number in range(8))


def without_time(snapshot: Any) -> dict[str, Any]:
    """Return a snapshot as plain values, without the time at which it was taken."""
    fields = msgspec.to_builtins(snapshot)
    assert isinstance(fields, dict)
    return {name: value for name, value in fields.items() if name != "created_at"}


class SnapshotConformance:
    """Snapshots by their id, `inputs_used`, origins, and what an accepted contribution is divided into."""

    def test_a_snapshot_is_fetched_again_as_it_was(self, harness: Harness) -> None:
        client, lead, coder, _ = team(harness)  # SC-09
        client.call("keep_episode", text="Refunds need two approvals.", slug="refunds", pinned=True)
        client.call("keep_episode", text="Use spaces.", kind="preference", importance=0.9, categories=["style"])
        client.put("The ledger may lose a lease.", kind="risk", tags=["ledger"], scope="project")
        snapshot = client.call("inherit", coder, scope={"include_atoms": True})
        assert len(snapshot.items) == 3
        client.call("keep_episode", text="Refunds need three approvals.", slug="refunds", pinned=True)
        client.put("The ledger may lose a lease.", kind="risk", tags=["lease"], confidence=1.0, scope="project")
        harness.reopen()
        harness.delete_index()
        for caller in (coder, lead, LOCAL_ADMIN):
            fetched = client.call("show_snapshot", caller, id=snapshot.snapshot_id)
            assert without_time(fetched) == without_time(snapshot)
            assert fetched.created_at == snapshot.created_at

    def test_only_who_inherited_a_snapshot_and_its_parents_see_it(self, harness: Harness) -> None:
        client, lead, coder, stranger = team(harness)  # SC-09
        client.call("keep_episode", text="Refunds need two approvals.", pinned=True)
        snapshot = client.call("inherit", lead, for_agent="coder", scope={"min_importance": 0.6})
        for caller in (coder, lead):
            assert client.call("show_snapshot", caller, id=snapshot.snapshot_id).items == snapshot.items
        for snapshot_id in (snapshot.snapshot_id, "0" * 64, "", "x"):
            with expect_refusal("SNAPSHOT_NOT_FOUND"):
                client.call("show_snapshot", stranger, id=snapshot_id)
        client.call("inherit", stranger, scope={"min_importance": 0.6})  # of another parent, so another id
        with expect_refusal("SNAPSHOT_NOT_FOUND"):
            client.call("show_snapshot", stranger, id=snapshot.snapshot_id)
        mine = client.call("inherit", lead)
        with expect_refusal("SNAPSHOT_NOT_FOUND"):
            client.call("show_snapshot", coder, id=mine.snapshot_id)

    def test_a_snapshot_that_is_fetched_again_is_charged_again(self, harness: Harness) -> None:
        client, _, coder, _ = team(harness)  # SC-09
        for number in range(10):
            client.call("keep_episode", text=f"Detail {number}: " + "words and more words " * 12, importance=0.9)
        snapshot = client.call("inherit", coder, max_bytes=2500)
        assert estimate_tokens(msgspec.json.encode(snapshot)) > 400
        with expect_refusal("DEREF_DENIED"):
            for _ in range(3):
                client.call("show_snapshot", coder, id=snapshot.snapshot_id)
        client.call("apply_policy", policy={"cortex": {"inherit": False}})
        with expect_refusal("CORTEX_OFF"):
            client.call("show_snapshot", LOCAL_ADMIN, id=snapshot.snapshot_id)

    def test_what_was_forgotten_is_missing_from_a_snapshot(self, harness: Harness) -> None:
        client = GatewayClient(harness)  # SC-09
        put = client.put("The ledger may lose a lease.", kind="risk", scope="project")
        client.put("The ledger has one writer.", scope="project")
        snapshot = client.call("inherit", scope={"include_atoms": True})
        client.call("forget_engram", id=put.id)
        fetched = client.call("show_snapshot", id=snapshot.snapshot_id)
        assert contents(fetched) == ["The ledger has one writer."]
        assert fetched.missing == (put.id,)

    # decision 109: the journal has every text once
    def test_the_journal_describes_a_snapshot_once_and_without_its_texts(self, harness: Harness) -> None:
        client, _, coder, _ = team(harness)  # SC-09
        text = "Refunds over 500 need a second approval."
        client.call("keep_episode", text=text, pinned=True)
        before = harness.journal_bytes()
        first = client.call("inherit", LOCAL_ADMIN, for_agent="coder")
        described = harness.journal_bytes()[len(before) :]
        assert text.encode() not in described
        assert b"fact:refunds-over-500-need-a-second-approval@1" in described
        assert client.call("inherit", coder).snapshot_id == first.snapshot_id
        assert b"refunds-over" not in harness.journal_bytes()[len(before) + len(described) :]

    def test_origins_tell_what_a_person_added_by_hand(self, harness: Harness) -> None:
        client, lead, coder, _ = team(harness)  # SC-09
        client.call("keep_episode", text="Pinned by a person.", pinned=True, importance=0.9)
        client.call("keep_episode", text="Added by a person.", importance=0.8)
        client.call("keep_episode", lead, text="Added by an agent.", importance=0.7)
        sent = client.call("contribute", coder, content="Learned by an agent.", confidence=0.6)
        client.call("accept_contribution", LOCAL_ADMIN, id=sent.contribution_id)
        items = client.call("inherit").items
        assert [(item.content, item.provenance.origin) for item in items] == [
            ("Pinned by a person.", "working_memory"),
            ("Added by a person.", "manual"),
            ("Added by an agent.", "stm"),
            ("Learned by an agent.", "stm"),
        ]

    def test_inputs_of_a_contribution_exist_and_are_visible_to_its_author(self, harness: Harness) -> None:
        client, _, coder, stranger = team(harness)  # SC-02, SC-09
        memory = client.call("keep_episode", text="Refunds need two approvals.", slug="refunds", pinned=True)
        engram = client.put("The ledger has one writer.", scope="project")
        mine, theirs = client.call("inherit", coder), client.call("inherit", stranger, max_items=1)
        inputs = [mine.snapshot_id, memory.memory_id, memory.ref, engram.id, engram.pointers[0].ref]
        sent = client.call("contribute", coder, content="Refunds are slow.", inputs_used=inputs)
        assert sent.inputs_used == tuple(inputs)
        journal = harness.journal_bytes()
        for name in (theirs.snapshot_id, "0" * 64, "01K7Z3V5QX0000000000000000", "no such thing"):
            with expect_refusal("INPUT_NOT_FOUND"):
                client.call("contribute", coder, content="Refunds are quick.", inputs_used=[memory.ref, name])
        assert harness.journal_bytes() == journal

    def test_an_accepted_contribution_is_divided_into_engrams_that_point_at_its_memory(self, harness: Harness) -> None:
        client, lead, coder, _ = team(harness)  # SC-09
        sent = client.call("contribute", coder, content=LONG_TEXT, confidence=0.8)
        accepted = client.call("accept_contribution", lead, id=sent.contribution_id, atomize=True)
        assert len(accepted.atoms) > 1
        engrams = [client.call("get_engram", lead, id=engram_id) for engram_id in accepted.atoms]
        assert " ".join(engram.claim for engram in engrams) == LONG_TEXT
        for engram in engrams:
            assert [pointer.ref for pointer in engram.pointers] == [f"sam:{accepted.memory_id}"]
            assert (engram.confidence, engram.scope) == (0.8, "project")
        assert "Queue 7" in client.query_claims("who drains queue 7", coder)[0]
        harness.reopen()
        harness.delete_index()
        assert client.call("show_contribution", lead, id=sent.contribution_id).atoms == accepted.atoms

    def test_a_contribution_with_evidence_is_divided_into_engrams_that_point_at_it(self, harness: Harness) -> None:
        client, lead, coder, _ = team(harness)  # SC-09
        ref = client.put("The ledger has one writer.", scope="project").pointers[0].ref
        evidence = [{"kind": "path", "value": ref}]
        whole = client.call("contribute", coder, content=LONG_TEXT + " In order.", evidence=evidence)
        assert len(client.call("accept_contribution", lead, id=whole.contribution_id).atoms) == 1
        parts = client.call("contribute", coder, content=LONG_TEXT, evidence=evidence)
        atoms = client.call("accept_contribution", lead, id=parts.contribution_id, atomize=True).atoms
        assert len(atoms) > 1
        assert all(client.call("get_engram", lead, id=name).pointers[0].ref == ref for name in atoms)
        plain = client.call("contribute", coder, content="Without evidence, and whole.")
        assert client.call("accept_contribution", lead, id=plain.contribution_id).atoms == ()

    def test_reviewers_see_the_three_nearest_pins(self, harness: Harness) -> None:
        client, lead, coder, _ = team(harness)  # SC-09
        for number in range(5):
            text = f"Refunds over {number}00 need an approval."
            client.call("keep_episode", text=text, slug=f"r{number}", pinned=True)
        client.call("keep_episode", text="Backups run at night.", slug="backups", pinned=True)
        sent = client.call("contribute", coder, content="Refunds need an approval of the lead.")
        for answer in (
            client.call("show_contribution", lead, id=sent.contribution_id),
            client.call("list_contributions", lead).contributions[0],
        ):
            assert len(answer.nearest) == 3
            assert all("Refunds" in near.claim and near.pinned for near in answer.nearest)
