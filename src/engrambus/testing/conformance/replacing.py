"""Replacing an engram, and asking about the past."""  # BX-11

from __future__ import annotations

from functools import partial

from engrambus.core import print_time
from engrambus.gateway import LOCAL_ADMIN, Credential
from engrambus.operations.engram_about import EngramAbout
from engrambus.testing.client import GatewayClient, catch_refusal, expect_refusal, same_changes
from engrambus.testing.clock import NEW_YEAR
from engrambus.testing.conformance.messages import Team, draft
from engrambus.testing.conformance.puts import warnings_of
from engrambus.testing.fakes import repo_ref
from engrambus.testing.harness import Harness

OLD = "Refunds over 500 need a second approval"
NEW = "Refunds over 300 need a second approval"
NEWEST = "Refunds over 200 need a second approval"


def about(client: GatewayClient, engram_id: str, caller: Credential = LOCAL_ADMIN, /) -> EngramAbout:
    """Return what is known about an engram."""
    answer = client.call("show_engram", caller, id=engram_id)
    known: EngramAbout = answer.about[answer.engrams[0].id]
    return known


class ReplacingConformance:
    """Replacing: who may, what becomes of the older engram, and what the past answers."""

    def test_a_replaced_engram_is_found_by_its_id_alone(self, harness: Harness) -> None:  # BX-11
        client = GatewayClient(harness)
        older = client.put(OLD, kind="decision")
        harness.clock.advance(seconds=5)
        newer = client.put(NEW, kind="decision", replaces=older.id[:16])
        for _ in range(2):
            assert client.query_claims("refunds") == client.query_claims() == [NEW]
            assert [row.engram.id for row in client.call("feed").rows] == [newer.id]
            assert OLD not in " ".join(client.call("brief").lines)
            assert client.counts()["engrams"] == 1
            known = about(client, older.id)
            assert (known.replaced_by, known.replaces) == (newer.id, [])
            assert (known.valid_from, known.superseded_at) == (print_time(NEW_YEAR), print_time(NEW_YEAR + 5_000_000))
            assert client.call("show_engram", id=older.id[:16]).engrams == [older]
            assert (about(client, newer.id).replaces, about(client, newer.id).replaced_by) == ([older.id], None)
            (row,) = client.call("feed", id=older.id).rows
            assert row.about.replaced_by == newer.id
            harness.reopen()
            harness.delete_index()
        assert harness.gateway.store.verify() == []

    def test_what_needs_a_live_engram_is_refused_and_names_the_current_one(self, harness: Harness) -> None:  # BX-11
        client = GatewayClient(harness)
        first = client.put(OLD)
        second = client.put(NEW, replaces=first.id)
        third = client.put(NEWEST, replaces=second.id)
        journal = harness.journal_bytes()
        for operation in ("get_engram", "confirm_engram", "promote_engram", "pin_engram", "unpin_engram"):
            refusal = catch_refusal(partial(client.call, operation, id=first.id))
            assert (refusal.code, refusal.status, refusal.limit) == ("ALREADY_REPLACED", 409, third.id)
        with expect_refusal("ALREADY_REPLACED", "replaces"):
            client.put("Refunds need no approval", replaces=second.id)
        with expect_refusal("ALREADY_REPLACED", "used[0]"):
            client.put("Refunds are slow", used=[first.id])
        assert same_changes(harness.journal_bytes(), journal)
        assert [about(client, engram.id).replaced_by for engram in (first, second, third)] == [
            second.id,
            third.id,
            None,
        ]

    def test_the_older_engram_does_not_come_back_when_the_newer_ends(self, harness: Harness) -> None:  # BX-11
        client = GatewayClient(harness)
        older = client.put(OLD, ttl="P90D")
        newer = client.put(NEW, replaces=older.id, ttl="PT10S")
        harness.clock.advance(seconds=10)
        assert client.query_claims("refunds") == []
        refusal = catch_refusal(lambda: client.call("confirm_engram", id=older.id))
        assert (refusal.code, refusal.limit) == ("ALREADY_REPLACED", None)
        client.call("forget_engram", id=newer.id)
        assert client.query_claims("refunds") == []
        assert (about(client, older.id).replaced_by, about(client, older.id).superseded_at) == (
            None,
            print_time(NEW_YEAR),
        )
        client.call("forget_engram", id=older.id)
        with expect_refusal("ENGRAM_NOT_FOUND", "id"):
            client.call("show_engram", id=older.id)
        assert harness.gateway.store.verify() == []

    def test_its_author_a_parent_and_a_person_replace_an_engram(self, harness: Harness) -> None:  # BX-11
        team = Team(harness)
        for number, caller in enumerate((team.paul, team.mia, team.lead, LOCAL_ADMIN)):
            older = team.client.put(f"Lane {number} is closed at night", team.paul)
            newer = team.client.put(f"Lane {number} is open at night", caller, replaces=older.id)
            assert about(team.client, older.id, team.pia).replaced_by == newer.id
        older = team.client.put("Lane nine is closed at night", team.paul)
        of_admin = team.client.put("Lane ten is closed at night")
        journal = harness.journal_bytes()
        for caller, engram in ((team.pia, older), (team.lead, of_admin), (team.paul, of_admin)):
            refusal = catch_refusal(partial(team.client.put, "It is open", caller, replaces=engram.id))
            assert (refusal.code, refusal.field) == ("ROLE_FORBIDDEN", "replaces")
            assert "without `replaces`" in str(refusal.hint)
        assert same_changes(harness.journal_bytes(), journal)
        team.client.open_run()
        stranger = team.client.add_agent("paul", "programmer")  # the same name in another run is another agent
        with expect_refusal("ROLE_FORBIDDEN", "replaces"):
            team.client.put("Lane nine is open at night", stranger, replaces=older.id)

    def test_an_engram_out_of_sight_cannot_be_replaced(self, harness: Harness) -> None:  # BX-11
        client = GatewayClient(harness)
        hidden = client.put(OLD, scope="run")
        client.open_run()
        with expect_refusal("ENGRAM_NOT_FOUND", "replaces"):
            client.put(NEW, replaces=hidden.id)
        for unknown in ("01KDVP9R000000000000000009", "nonsense"):
            with expect_refusal("ENGRAM_NOT_FOUND", "replaces"):
                client.put(NEW, replaces=unknown)
        with expect_refusal("FIELD_VALUE", "replaces"):
            client.put(NEW, replaces="")

    def test_a_runs_engram_does_not_replace_one_of_the_project(self, harness: Harness) -> None:  # BX-11
        client = GatewayClient(harness)
        older = client.put(OLD)
        journal = harness.journal_bytes()
        with expect_refusal("SCOPE_FORBIDDEN", "scope"):
            client.put(NEW, scope="run", replaces=older.id)
        assert same_changes(harness.journal_bytes(), journal)
        narrow = client.put("Lane one is closed", scope="run")
        wide = client.put("Lane one is open", replaces=narrow.id)
        client.open_run()
        assert about(client, wide.id).replaces == []  # the older one is out of sight in this run
        with expect_refusal("ENGRAM_NOT_FOUND", "id"):
            client.call("show_engram", id=narrow.id)

    def test_nothing_replaces_itself(self, harness: Harness) -> None:  # BX-11
        client = GatewayClient(harness)
        first_ref, second_ref = repo_ref("src/a.py", 1, 5), repo_ref("src/a.py", 3, 8)
        older = client.put(OLD, refs=(first_ref,))
        with expect_refusal("FIELD_VALUE", "replaces"):
            client.put(OLD, refs=(first_ref,), replaces=older.id)
        # the same words about other lines are no repeat of what they replace
        newer = client.put(OLD, refs=(second_ref,), replaces=older.id)
        assert newer.id != older.id
        assert about(client, older.id).replaced_by == newer.id

    def test_a_repeat_of_a_replaced_claim_is_a_new_engram(self, harness: Harness) -> None:  # BX-11 # EB-19
        client = GatewayClient(harness)
        ref = repo_ref("src/a.py", 1, 5)
        older = client.put(OLD, refs=(ref,))
        newer = client.put(NEW, refs=(ref,), replaces=older.id)
        again = client.put(OLD, refs=(ref,))
        assert again.id not in (older.id, newer.id)
        # a claim that another engram states already confirms that one, which then replaces the older
        assert client.put(NEW, refs=(ref,), replaces=again.id).id == newer.id
        assert about(client, newer.id).replaces == sorted([older.id, again.id])

    def test_a_replaced_pin_ends_and_the_person_is_told(self, harness: Harness) -> None:  # BX-11
        team = Team(harness)
        older = team.client.put(OLD, team.paul)
        team.client.call("pin_engram", id=older.id)
        pointers = [{"type": "sam", "ref": "sam:note:other@v1"}]
        newer, warnings = warnings_of(harness, "put_engram", team.paul, claim=NEW, pointers=pointers, replaces=older.id)
        assert [(warning.code, warning.used) for warning in warnings if warning.code == "PIN_REPLACED"] == [
            ("PIN_REPLACED", older.id)
        ]
        assert [row.pinned for row in team.client.call("feed").rows] == [False]
        (note,) = team.client.mail()
        assert (note.kind, note.item, note.sender) == ("note", newer.id, "paul")
        assert note.text == f"The pinned engram {older.id} was replaced by {newer.id}, which is not pinned."

    def test_engrams_of_a_batch_and_of_a_message_replace(self, harness: Harness) -> None:  # BX-11
        team = Team(harness)
        first, second = (team.client.put(f"Lane {name} is closed", team.paul) for name in ("one", "two"))
        batch = [draft("Lane one is open", replaces=first.id), draft("Lane one is half open", replaces=first.id)]
        with expect_refusal("ALREADY_REPLACED", "engrams[1].replaces"):
            team.client.call("put_engrams", team.paul, engrams=batch)
        team.client.call("put_engrams", team.paul, engrams=batch[:1])
        team.client.report(team.paul, engrams=[draft("Lane two is open", replaces=second.id)])
        assert sorted(team.client.query_claims("lane")) == ["Lane one is open", "Lane two is open"]

    def test_a_role_rule_hides_what_replaced_an_engram(self, harness: Harness) -> None:  # BX-11 # EB-27
        team = Team(harness)
        older = team.client.put(OLD, team.paul, refs=(repo_ref("src/a.py", 1, 5),))
        team.client.put(NEW, team.paul, refs=(repo_ref("secret/a.py", 1, 5),), replaces=older.id)
        team.client.call("apply_policy", policy={"visibility": {"programmer": {"paths": ["!secret/*"]}}})
        known = about(team.client, older.id, team.pia)
        assert (known.replaced_by, known.superseded_at) == (None, print_time(NEW_YEAR))
        refusal = catch_refusal(lambda: team.client.call("confirm_engram", team.pia, id=older.id))
        assert (refusal.code, refusal.limit) == ("ALREADY_REPLACED", None)

    def test_the_past_is_asked(self, harness: Harness) -> None:  # BX-11
        client = GatewayClient(harness)
        moments: list[str] = []

        def pass_time() -> None:
            moments.append(client.query().as_of)
            harness.clock.advance(seconds=3600)

        first = client.put(OLD, kind="decision", ttl="P2D")
        pass_time()
        second = client.put(NEW, kind="decision", replaces=first.id, ttl="P2D")
        pass_time()
        passing = client.put("Refunds are slow today", ttl="PT30M")
        pass_time()
        client.call("forget_engram", id=client.put("Refunds are secret").id)
        pass_time()
        harness.clock.advance(seconds=10 * 86_400)
        client.put("Something of another day")
        expected = [[OLD], [NEW], [passing.claim, NEW], [NEW]]
        for _ in range(2):
            for moment, claims in zip(moments, expected, strict=True):
                assert client.query_claims(as_of=moment) == claims
                assert sorted(client.query_claims("refunds", as_of=moment)) == sorted(claims)
                assert client.query_claims(as_of=moment, kind="decision") == [
                    claim for claim in claims if claim in (OLD, NEW)
                ]
            answer = client.query("refunds", as_of=moments[0])
            assert answer.as_of == moments[0]
            assert answer.about[first.id].replaced_by == second.id
            assert client.query_claims("refunds") == []
            harness.reopen()
            harness.delete_index()
        assert harness.gateway.store.verify() == []
        client.call("forget_engram", id=first.id)  # also one that was replaced and has expired
        client.call("forget_engram", id=passing.id)
        assert [client.query_claims(as_of=moment) for moment in moments] == [[], [NEW], [NEW], [NEW]]
        assert harness.gateway.store.verify() == []

    def test_times_of_the_past(self, harness: Harness) -> None:  # BX-11
        client = GatewayClient(harness)
        client.put(OLD, ttl="P1D")
        harness.clock.advance(seconds=3 * 86_400)
        for past in ("P3D", "PT71H", "2026-01-01", "2026-01-01T12:00:00+02:00", "2026-01-01T10:00:00.5Z"):
            assert client.query_claims(as_of=past) == [OLD], past
        for past in ("P1D", "2026-01-02", "2026-01-04", "PT1S"):
            assert client.query_claims(as_of=past) == [], past
        for unknown in ("yesterday", "2026-13-01", "2026-01-01T10:00:00", "2026-01-05", "P4D", "9999-12-31", ""):
            refusal = catch_refusal(partial(client.query, as_of=unknown))
            assert (refusal.code, refusal.field) == ("TIME_INVALID", "as_of"), unknown
        with expect_refusal("TTL_INVALID", "as_of"):
            client.query(as_of="P1Y")

    def test_pages_of_the_past(self, harness: Harness) -> None:  # BX-11
        client = GatewayClient(harness)
        ids = client.put_many([f"The common matter {number}" for number in range(200)], ttl="PT1H")
        moment = client.query().as_of
        harness.clock.advance(seconds=10)
        kept = client.put_many([f"A later matter {number}" for number in range(100)])
        harness.clock.advance(seconds=86_400)
        client.put("Something of another day")
        listed: list[str] = []
        cursor = None
        while True:
            answer = client.query(as_of=moment, k=33, cursor=cursor)
            listed += [engram.id for engram in answer.engrams]
            cursor = answer.cursor
            if cursor is None:
                break
        assert listed == ids[::-1]
        assert len(client.query_claims("common matter", as_of=moment, k=100)) == 100
        assert not set(kept) & {engram.id for engram in client.query("matter", as_of=moment, k=100).engrams}

    def test_the_past_of_another_run_stays_hidden(self, harness: Harness) -> None:  # BX-11
        client = GatewayClient(harness)
        hidden = client.put(OLD, scope="run")
        client.put(NEW, scope="run", replaces=hidden.id)
        moment = client.query().as_of
        harness.clock.advance(seconds=1)
        client.open_run()
        stranger = client.add_agent("eve", "programmer")
        assert client.query_claims("refunds", stranger, as_of=moment) == []
        assert client.query_claims("", stranger, as_of=moment) == []
        with expect_refusal("ENGRAM_NOT_FOUND", "id"):
            client.call("show_engram", stranger, id=hidden.id)
