"""Claims near earlier ones, contradictions that wait for a decision, and what a decision does."""  # EB-24 SC-05 SC-09

from __future__ import annotations

from functools import partial
from typing import Any

from engrambus.gateway import LOCAL_ADMIN, Credential
from engrambus.operations.contradictions import ContradictionRow
from engrambus.testing.client import GatewayClient, catch_refusal, expect_refusal, same_changes
from engrambus.testing.conformance.messages import Team, draft
from engrambus.testing.conformance.puts import warnings_of
from engrambus.testing.conformance.replacing import about
from engrambus.testing.fakes import repo_ref
from engrambus.testing.harness import Harness

OLD = "The rate limit is 100 requests per minute."
NEW = "The rate limit is 600 requests per minute."
OTHER = "The rate limit of the public API is counted for each customer."
OLD_REF, NEW_REF = repo_ref("docs/spec.md", 1, 5), repo_ref("src/limits.py", 3, 9)


def waiting(client: GatewayClient, caller: Credential = LOCAL_ADMIN, /, **fields: Any) -> list[ContradictionRow]:
    """Return the contradictions that a caller sees."""
    rows: list[ContradictionRow] = client.call("list_contradictions", caller, **fields).contradictions
    return rows


def put(harness: Harness, claim: str, caller: Credential = LOCAL_ADMIN, /, **fields: Any) -> tuple[Any, list[Any]]:
    """Put a claim about the code; return the engram, and codes of notices with the claims that they name."""
    pointers = [{"type": "repo", "ref": fields.pop("ref", NEW_REF)}]
    engram, warnings = warnings_of(harness, "put_engram", caller, claim=claim, pointers=pointers, **fields)
    return engram, [(warning.code, warning.used) for warning in warnings]


class ContradictionConformance:
    """Nothing is overwritten: both claims stand until a parent or a person decides."""

    def test_a_claim_is_shown_with_the_nearest_earlier_ones(self, harness: Harness) -> None:  # EB-24
        client = GatewayClient(harness)
        old = client.put(OLD, kind="decision")
        other = client.put(OTHER, kind="constraint")
        client.put("The rate limit is mentioned in the handbook.", kind="fact")  # no agreement of the team
        client.put("Invoices are sent on Mondays.", kind="policy")
        engram, notices = put(harness, NEW)
        # what the rules call contradictory comes first
        assert notices == [("CLAIM_CONTRADICTS", old.id), ("CLAIM_NEAR", other.id)]
        assert engram.claim == NEW
        assert put(harness, "Tooltips disappear when the pointer leaves the chart.")[1] == []
        assert put(harness, "The rate limit is 50 requests per minute.", kind="todo")[1] == []

    def test_one_risk_points_at_both_sources(self, harness: Harness) -> None:  # EB-24
        client = GatewayClient(harness)
        old = client.put(OLD, kind="decision", refs=(OLD_REF,))
        new, _ = put(harness, NEW)
        for _ in range(2):
            (risk,) = client.query(kind="risk").engrams
            assert [pointer.ref for pointer in risk.pointers] == [NEW_REF, OLD_REF]
            assert (risk.tags, risk.provenance.source, risk.scope) == (("conflict/unverified",), "tool", "project")
            assert all(words in risk.claim for words in ("600 requests", "100 requests"))
            (row,) = waiting(client)
            assert (row.status, row.newer.id, row.older.id, row.risk) == ("waiting", new.id, old.id, risk.id)
            assert (row.newer.claim, row.older.claim, row.older.verdict) == (NEW, OLD, "conflict")
            assert client.call("stats").team.contradictions == 1
            put(harness, NEW)  # a repeat confirms: neither another risk nor another contradiction
            harness.reopen()
            harness.delete_index()
        assert harness.gateway.store.verify() == []

    def test_two_claims_about_one_file_are_no_two_sources(self, harness: Harness) -> None:  # EB-24 EB-26
        client = GatewayClient(harness)
        client.put(OLD, kind="decision", refs=(repo_ref("src/limits.py", 20, 30),))
        put(harness, NEW)
        assert len(waiting(client)) == 1
        assert client.call("stats").team.contradictions == 0

    def test_the_newer_claim_is_kept(self, harness: Harness) -> None:  # EB-24 SC-05
        client = GatewayClient(harness)
        old = client.put(OLD, kind="decision", refs=(OLD_REF,))
        client.call("pin_engram", id=old.id)
        new, _ = put(harness, NEW, kind="decision")
        (row,) = waiting(client)
        decided = client.call("decide_contradiction", id=row.contradiction_id, keep="new", reason="Measured again.")
        assert (decided.status, decided.keep, decided.reason) == ("decided", "new", "Measured again.")
        assert client.query_claims("rate limit") == [NEW]  # neither the older one nor the risk
        assert about(client, old.id).replaced_by == new.id
        assert waiting(client) == []
        assert [row.status for row in waiting(client, all=True)] == ["decided"]
        # the same decision again changes nothing, another one is refused
        journal = harness.journal_bytes()
        client.call("decide_contradiction", id=row.contradiction_id, keep="new", reason="Again.")
        with expect_refusal("CONTRADICTION_DECIDED", "id"):
            client.call("decide_contradiction", id=row.contradiction_id, keep="both", reason="Again.")
        assert same_changes(harness.journal_bytes(), journal)
        assert harness.gateway.store.verify() == []

    def test_the_older_claim_is_kept_or_both_are(self, harness: Harness) -> None:  # EB-24 SC-05
        client = GatewayClient(harness)
        old = client.put(OLD, kind="decision", refs=(OLD_REF,))
        for keep, claims in (("old", [OLD]), ("both", [NEW, OLD])):
            harness.clock.advance(seconds=1)
            new, _ = put(harness, NEW, kind="decision")
            (row,) = waiting(client)
            client.call("decide_contradiction", id=row.contradiction_id, keep=keep, reason="The specification says so.")
            assert client.query_claims("rate limit") == claims
            assert about(client, new.id).replaced_by == (old.id if keep == "old" else None)
        assert harness.gateway.store.verify() == []

    def test_a_pinned_memory_is_compared_and_gets_a_new_version(self, harness: Harness) -> None:  # EB-24 SC-05
        client = GatewayClient(harness)
        memory = client.call("keep_episode", text=OLD, kind="decision", slug="rate-limit", pinned=True)
        new, notices = put(harness, NEW)
        assert notices == [("CLAIM_CONTRADICTS", memory.ref)]
        (risk,) = client.query(kind="risk").engrams
        assert [pointer.ref for pointer in risk.pointers] == [NEW_REF, memory.ref]
        (row,) = waiting(client)
        client.call("decide_contradiction", id=row.contradiction_id, keep="new", reason="Measured again.")
        assert client.query_claims("rate limit") == [NEW]
        assert [(pin.version, pin.text) for pin in _pins(harness)] == [(2, NEW)]
        # and the other way round: the pin stays, and the engram names it as what replaced it
        other, _ = put(harness, OLD, kind="policy")
        (row,) = waiting(client)
        assert row.older.id == "sam:decision:rate-limit@2"
        client.call("decide_contradiction", id=row.contradiction_id, keep="old", reason="It was settled.")
        assert about(client, other.id).replaced_by == "sam:decision:rate-limit@2"
        assert new.id in [engram.id for engram in client.query("rate limit").engrams]

    def test_a_parent_or_a_person_decides(self, harness: Harness) -> None:  # EB-24
        team = Team(harness)
        team.client.put(OLD, team.pia, kind="decision", refs=(OLD_REF,))
        put(harness, NEW, team.paul)
        (row,) = waiting(team.client, team.pia)
        fields = {"id": row.contradiction_id, "reason": "Because."}
        stranger = team.client.add_agent("boss", "manager")
        journal = harness.journal_bytes()
        for caller in (team.paul, team.pia):  # the author of neither claim decides
            with expect_refusal("ROLE_FORBIDDEN"):
                team.client.call("decide_contradiction", caller, keep="new", **fields)
        with expect_refusal("ROLE_FORBIDDEN", "id"):
            team.client.call("decide_contradiction", stranger, keep="old", **fields)
        refusal = catch_refusal(partial(team.client.put, "All is well.", team.paul, kind="risk", replaces=row.risk))
        assert (refusal.code, refusal.limit) == ("ROLE_FORBIDDEN", row.contradiction_id)
        assert same_changes(harness.journal_bytes(), journal)
        decided = team.client.call("decide_contradiction", team.mia, keep="new", **fields)
        assert decided.decided_by.endswith("/mia")
        assert team.client.query_claims("rate limit") == [NEW]

    def test_a_parent_of_one_author_does_not_remove_what_others_decided(self, harness: Harness) -> None:  # EB-24
        team = Team(harness)
        team.client.put(OLD, kind="decision", refs=(OLD_REF,))
        put(harness, NEW, team.paul)
        (row,) = waiting(team.client)
        with expect_refusal("ROLE_FORBIDDEN", "keep"):
            team.client.call("decide_contradiction", team.mia, id=row.contradiction_id, keep="new", reason="Because.")
        team.client.call("decide_contradiction", team.mia, id=row.contradiction_id, keep="old", reason="Because.")
        assert team.client.query_claims("rate limit") == [OLD]

    def test_a_contradiction_ends_with_one_of_its_claims(self, harness: Harness) -> None:  # EB-24
        client = GatewayClient(harness)
        old = client.put(OLD, kind="decision", refs=(OLD_REF,), ttl="P10D")
        new, _ = put(harness, NEW, kind="decision")
        # the author corrects the newer one; what it says now contradicts nothing
        client.put(OTHER, replaces=new.id)
        assert waiting(client) == []
        assert client.query(kind="risk").engrams == []
        newer, _ = put(harness, NEW, kind="decision")
        assert len(waiting(client)) == 1
        client.call("forget_engram", id=newer.id)
        assert waiting(client) == []
        assert client.query(kind="risk").engrams == []
        put(harness, NEW, kind="decision")
        assert [row.older.id for row in waiting(client)] == [old.id]
        harness.clock.advance(seconds=11 * 86_400)
        assert waiting(client) == []
        assert [row.status for row in waiting(client, all=True)][:1] == ["ended"]
        assert harness.gateway.store.verify() == []

    def test_what_replaces_a_claim_does_not_contradict_it(self, harness: Harness) -> None:  # EB-24 BX-11
        client = GatewayClient(harness)
        old = client.put(OLD, kind="decision", refs=(OLD_REF,))
        _, notices = put(harness, NEW, kind="decision", replaces=old.id)
        assert notices == []
        assert waiting(client) == []

    def test_a_contradiction_is_seen_by_those_who_see_both_claims(self, harness: Harness) -> None:  # EB-24
        team = Team(harness)
        team.client.put(OLD, team.paul, kind="decision", scope="run", refs=(OLD_REF,))
        put(harness, NEW, team.paul)
        (risk,) = team.client.query(kind="risk").engrams
        assert (risk.scope, len(waiting(team.client, team.pia))) == ("run", 1)
        row = waiting(team.client)[0]
        team.client.open_run()
        stranger = team.client.add_agent("eve", "manager")
        assert waiting(team.client, stranger, all=True) == []
        with expect_refusal("CONTRADICTION_NOT_FOUND", "id"):
            team.client.call("decide_contradiction", stranger, id=row.contradiction_id, keep="old", reason="Because.")
        # what a role may not see is neither near nor contradicted
        hidden = team.client.put("The rate limit is 900 requests per minute.", refs=(repo_ref("secret/a.py", 1, 5),))
        team.client.call("pin_engram", id=hidden.id)
        team.client.call("apply_policy", policy={"visibility": {"manager": {"paths": ["!secret/*"]}}})
        assert put(harness, "The rate limit is 300 requests per minute.", stranger, ref=OLD_REF)[1] == []

    def test_a_message_records_contradictions(self, harness: Harness) -> None:  # EB-24
        team = Team(harness)
        old = team.client.put(OLD, kind="decision", refs=(OLD_REF,))
        team.client.report(team.paul, engrams=[draft(NEW, NEW_REF, kind="fact")])
        assert [row.older.id for row in waiting(team.client)] == [old.id]

    def test_reviewers_see_the_nearest_pins(self, harness: Harness) -> None:  # SC-09
        team = Team(harness)
        pin = team.client.put(OLD, kind="decision", refs=(OLD_REF,))
        team.client.call("pin_engram", id=pin.id)
        memory = team.client.call("keep_episode", text=OTHER, kind="decision", slug="counted", pinned=True)
        for number in range(4):
            text = f"The handbook has {number} pages about the limit of a disk."
            team.client.call("keep_episode", text=text, kind="fact", slug=f"other-{number}", pinned=True)
        sent = team.client.call("contribute", team.paul, content=NEW)
        assert (sent.status, sent.conflict_check.against) == ("flagged", (pin.id,))
        (row,) = team.client.call("list_contributions", team.mia).contributions
        assert row.nearest == sent.nearest
        assert [near.id for near in row.nearest] == [pin.id, memory.ref]
        accepted = team.client.call("accept_contribution", team.mia, id=sent.contribution_id)
        assert accepted.nearest == ()
        unrelated = team.client.call("contribute", team.paul, content="Tooltips disappear after a while.")
        assert unrelated.nearest == ()


def _pins(harness: Harness) -> list[Any]:
    with harness.gateway.store.read() as view:
        return list(view.pins(limit=10))
