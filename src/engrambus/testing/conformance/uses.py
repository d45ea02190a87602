"""The engrams that engrams, messages, contributions and reviews name as used, shown both ways."""  # EB-35

from __future__ import annotations

from engrambus.gateway import LOCAL_ADMIN, Credential
from engrambus.operations.engram_about import EngramAbout
from engrambus.testing.client import GatewayClient, expect_refusal, format_message, same_changes
from engrambus.testing.harness import Harness


def about(client: GatewayClient, engram_id: str, caller: Credential = LOCAL_ADMIN) -> EngramAbout:
    """Return what is known about an engram."""
    known: EngramAbout = client.call("show_engram", caller, id=engram_id).about[engram_id]
    return known


class UseConformance:
    """What was used, and by what."""

    def test_a_decision_names_what_it_used_and_both_show_it(self, harness: Harness) -> None:  # EB-35
        client = GatewayClient(harness)
        ada = client.add_agent("ada", "architect")
        first = client.put("The ledger loses a lease")
        second = client.put("Retries are idempotent")
        decision = client.put("We keep the ledger.", ada, kind="decision", used=[second.id, first.id[:16], second.id])
        assert about(client, decision.id).used == [second.id, first.id]
        used_by = about(client, first.id).used_by
        assert used_by is not None
        assert used_by.count == 1
        (use,) = used_by.newest
        assert (use.kind, use.id, use.agent.partition("/")[2]) == ("engram", decision.id, "ada")
        assert about(client, decision.id).used_by is None
        (row,) = client.call("feed", id=first.id).rows
        assert row.about.used_by == used_by
        found = client.query("ledger lease").about[first.id].used_by
        assert found is not None
        assert (found.count, found.newest) == (1, [])

    def test_a_repeated_decision_adds_what_it_used_to_the_first(self, harness: Harness) -> None:  # EB-35
        client = GatewayClient(harness)
        first = client.put("The ledger loses a lease")
        second = client.put("Retries are idempotent")
        ref = "sam:note:anything@2026-03-01"
        decision = client.put("We keep the ledger.", kind="decision", refs=[ref], used=[first.id])
        again = client.put("We keep the ledger.", kind="decision", refs=[ref], used=[first.id, second.id])
        assert again.id == decision.id
        assert about(client, decision.id).used == [first.id, second.id]
        used_by = about(client, first.id).used_by
        assert used_by is not None
        assert used_by.count == 1

    def test_an_answer_that_a_client_handed_over_shows_what_it_used(self, harness: Harness) -> None:  # EB-35
        client = GatewayClient(harness)
        ada = client.add_agent("ada", "architect")
        client.add_agent("paul", "programmer", ada)
        first = client.put("The ledger loses a lease")
        text = format_message(role="programmer", task_status="done", output="Done.", used=[first.id])
        stopped = Credential(local_admin=True, speak_as="paul")
        client.call("take_answer", stopped, text=text, handed_over=True)
        (mail,) = client.mail(ada)
        assert (mail.kind, mail.used) == ("answer", [first.id])

    def test_an_engram_that_is_not_visible_is_no_engram_to_use(self, harness: Harness) -> None:  # EB-35
        client = GatewayClient(harness)
        private = client.put("For this run alone", scope="run")
        gone = client.put("It was forgotten")
        client.call("forget_engram", id=gone.id)
        client.open_run("another")
        ada = client.add_agent("ada", "architect")
        seen = client.put("The ledger loses a lease")
        before = harness.journal_bytes()
        for absent in (private.id, gone.id, "01K7Z3V5QX0000000000000000", "short"):
            with expect_refusal("ENGRAM_NOT_FOUND", "used[1]"):
                client.put("We keep the ledger.", ada, kind="decision", used=[seen.id, absent])
            with expect_refusal("ENGRAM_NOT_FOUND", "USED[1]"):
                client.report(ada, role="architect", used=[seen.id, absent])
            with expect_refusal("ENGRAM_NOT_FOUND", "used[1]"):
                client.call("contribute", ada, content="The ledger holds.", used=[seen.id, absent])
        assert same_changes(harness.journal_bytes(), before)
        assert client.query_claims("keep ledger") == ["The ledger loses a lease"]
        with expect_refusal("FIELD_VALUE", "used"):
            client.put("We keep the ledger.", ada, kind="decision", used=[seen.id] * 13)

    def test_a_message_and_a_broadcast_name_what_they_used(self, harness: Harness) -> None:  # EB-35
        client = GatewayClient(harness)
        lead = client.add_agent("lead", "architect")
        kid = client.add_agent("kid", "programmer", lead)
        first, second = client.put("The ledger loses a lease"), client.put("Retries are idempotent")
        decision = {
            "kind": "decision",
            "claim": "We keep the ledger.",
            "pointers": [{"type": "sam", "ref": "sam:note:anything@2026-03-01"}],
            "used": [second.id],
        }
        report = client.report(kid, engrams=[decision], used=[first.id[:16]])
        (mail,) = client.mail(lead)
        assert (mail.item, mail.used) == (report.message_id, [first.id])
        assert about(client, report.engrams[0]).used == [second.id]
        text = format_message(ROLE="architect", INSTRUCTIONS=["Go on."], USED=[first.id])
        sent = client.call("broadcast", lead, text=text, used=[second.id])
        (mail,) = client.mail(kid)
        assert (mail.item, mail.used) == (sent.broadcast_id, [first.id, second.id])
        used_by = about(client, first.id).used_by
        assert used_by is not None
        assert [(use.kind, use.id) for use in used_by.newest] == [
            ("broadcast", sent.broadcast_id),
            ("message", report.message_id),
        ]

    def test_a_contribution_and_its_review_name_what_they_used(self, harness: Harness) -> None:  # EB-35
        client = GatewayClient(harness)
        lead = client.add_agent("lead", "architect")
        kid = client.add_agent("kid", "programmer", lead)
        first, second = client.put("The ledger loses a lease"), client.put("Retries are idempotent")
        made = client.call("contribute", kid, content="Leases want a second look.", used=[first.id])
        assert made.used == (first.id,)
        other = client.call("contribute", kid, content="Retries cost nothing at all.")
        accepted = client.call("accept_contribution", lead, id=made.contribution_id, used=[second.id[:16]])
        assert (accepted.used, accepted.review_used) == ((first.id,), (second.id,))
        with expect_refusal("ENGRAM_NOT_FOUND", "used[0]"):
            client.call("reject_contribution", lead, id=other.contribution_id, reason="No.", used=["absent-id"])
        rejected = client.call("reject_contribution", lead, id=other.contribution_id, reason="No.", used=[second.id])
        assert rejected.review_used == (second.id,)
        shown = client.call("list_contributions", LOCAL_ADMIN, status="all").contributions
        assert {item.contribution_id: (item.used, item.review_used) for item in shown} == {
            other.contribution_id: ((), (second.id,)),
            made.contribution_id: ((first.id,), (second.id,)),
        }
        used_by = about(client, second.id).used_by
        assert used_by is not None
        assert [(use.kind, use.id) for use in used_by.newest] == [
            ("review", other.contribution_id),
            ("review", made.contribution_id),
        ]

    def test_uses_in_another_run_are_seen_only_through_visible_engrams(self, harness: Harness) -> None:  # EB-35
        client = GatewayClient(harness)
        ada = client.add_agent("ada", "architect")
        fact = client.put("The ledger loses a lease")
        for number in range(7):
            client.put(f"We keep ledger {number}.", ada, kind="decision", used=[fact.id])
        client.put("Only here", ada, scope="run", used=[fact.id])
        client.report(ada, role="architect", used=[fact.id])
        here = about(client, fact.id, ada).used_by
        assert here is not None
        assert (here.count, len(here.newest), here.newest[0].kind) == (9, 5, "message")
        client.open_run("another")
        eve = client.add_agent("eve", "architect")
        there = about(client, fact.id, eve).used_by
        assert there is not None
        assert there.count == 7
        assert {use.kind for use in there.newest} == {"engram"}

    def test_a_used_engram_that_was_forgotten_or_promoted_stays_named(self, harness: Harness) -> None:  # EB-35
        client = GatewayClient(harness)
        lead = client.add_agent("lead", "architect")
        kid = client.add_agent("kid", "programmer", lead)
        gone = client.put("The ledger loses a lease")
        found = client.put("Retries are idempotent", kid, scope="run")
        decision = client.put("We keep the ledger.", kid, kind="decision", used=[gone.id, found.id])
        client.call("forget_engram", id=gone.id)
        client.call("promote_engram", lead, id=found.id)
        assert about(client, decision.id).used == [gone.id, found.id]
        used_by = about(client, found.id).used_by
        assert used_by is not None
        assert used_by.count == 1
