"""The lifecycle of an engram: put, promoted, forgotten, expired; and the project's clock."""

from __future__ import annotations

import msgspec

from engrambus.core import SECOND_US, parse_duration, print_time
from engrambus.evidence.pointers import Pointer, name_repository
from engrambus.gateway import LOCAL_ADMIN, Credential
from engrambus.knowledge.engrams import EngramPromoted, EngramPut
from engrambus.testing.client import NOTE, GatewayClient, expect_refusal, ref_to_test, without_keys
from engrambus.testing.clock import NEW_YEAR
from engrambus.testing.fakes import repo_ref
from engrambus.testing.harness import Harness

OWN_ID = "01KDVP9R000000000000000000"
OWN_UUID = "0b5e1c1e-9f0a-4c59-8a2e-2a7c5a1e9d10"
DAY = 86_400


class LifecycleConformance:
    """Stamping, expiry, forgetting, promotion and idempotency keys."""  # EB-20

    def test_time_and_author_are_stamped(self, harness: Harness) -> None:  # EB-20
        client = GatewayClient(harness)
        ada = client.add_agent("ada", "tool")
        harness.clock.advance(microseconds=1_500_001)
        engram = client.put("Alpha", ada)
        assert engram.provenance.created_at == print_time(NEW_YEAR + 1_500_001)
        assert engram.provenance.created_by.endswith("/ada")
        assert engram.provenance.source == "tool"
        with expect_refusal("PROVENANCE_STAMPED"):
            client.put("Alpha", provenance={"created_at": "2020-01-01T00:00:00Z", "created_by": "x", "source": "agent"})

    # decision 54: answers to agents show the beginning of an id
    def test_the_beginning_of_an_id_names_its_engram(self, harness: Harness) -> None:
        client = GatewayClient(harness)
        first, second = client.put("Alpha"), client.put("Beta")
        assert client.call("get_engram", id=first.id[:16]) == first
        assert client.call("confirm_engram", id=second.id[:16]).id == second.id
        with expect_refusal("ID_AMBIGUOUS", "id"):  # put in the same millisecond
            client.call("get_engram", id=first.id[:10])
        for beginning in (first.id[:3], "7" + first.id[1:16], first.id[:16].lower(), first.id[:15] + "~", ""):
            with expect_refusal("ENGRAM_NOT_FOUND", "id"):
                client.call("get_engram", id=beginning)
        hidden = client.put("Gamma", scope="run")
        client.open_run()
        stranger = client.add_agent("eve", "programmer")
        with expect_refusal("ENGRAM_NOT_FOUND", "id"):
            client.call("get_engram", stranger, id=hidden.id[:16])
        assert client.call("forget_engram", id=first.id[:16]).id == first.id
        with expect_refusal("ENGRAM_NOT_FOUND", "id"):
            client.call("get_engram", id=first.id)

    def test_an_engram_expires_exactly_on_time(self, harness: Harness) -> None:  # EB-20
        client = GatewayClient(harness)
        engram = client.put("Alpha passes", ttl="PT10S")
        client.put("Alpha stays")
        harness.clock.advance(microseconds=10 * SECOND_US - 1)
        assert client.query_claims("alpha") == ["Alpha stays", "Alpha passes"] or client.query_claims("passes") == [
            "Alpha passes"
        ]
        assert client.call("get_engram", id=engram.id) == engram
        harness.clock.advance(microseconds=1)
        assert client.query_claims("alpha") == ["Alpha stays"]
        assert client.query_claims() == ["Alpha stays"]
        assert client.query_claims("passes") == []
        assert client.counts()["engrams"] == 1
        for operation in ("get_engram", "show_engram", "promote_engram"):
            with expect_refusal("ENGRAM_NOT_FOUND"):
                client.call(operation, id=engram.id)

    def test_many_engrams_can_expire_at_once(self, harness: Harness) -> None:  # EB-20
        client = GatewayClient(harness)
        client.put_many([f"The common matter {number}" for number in range(300)], ttl="PT10S")
        client.put("The common matter that stays")
        harness.clock.advance(seconds=10)
        for _ in range(3):
            assert client.query_claims("common") == ["The common matter that stays"]
        client.put("Another common matter")
        assert client.counts()["engrams"] == 2
        assert harness.gateway.store.verify() == []

    # time never goes back past the last commit, or expired engrams would return
    def test_expired_engrams_stay_expired_when_the_wall_clock_goes_back(self, harness: Harness) -> None:  # EB-20
        client = GatewayClient(harness)
        client.put_many([f"The common matter {number}" for number in range(300)], ttl="PT10S")
        harness.clock.advance(seconds=10)
        client.put("Something at that time")
        harness.clock.advance(seconds=-9)
        assert client.query_claims("common") == []

    def test_the_projects_clock_never_goes_back(self, harness: Harness) -> None:  # EB-20
        client = GatewayClient(harness)
        harness.clock.advance(seconds=100)
        first = client.put("Alpha one")
        harness.clock.advance(seconds=-1_000_000)
        second = client.put("Alpha two", ttl="PT10S")
        assert second.provenance.created_at == first.provenance.created_at
        assert client.query().as_of == first.provenance.created_at
        harness.reopen()
        assert client.query().as_of == first.provenance.created_at
        harness.clock.set(NEW_YEAR + 109 * SECOND_US)
        assert client.query_claims("two") == ["Alpha two"]
        harness.clock.advance(seconds=1)
        assert client.query_claims("two") == []

    def test_reading_ahead_of_time_changes_nothing(self, harness: Harness) -> None:  # EB-20
        client = GatewayClient(harness)
        client.put_many([f"The common matter {number}" for number in range(300)], ttl="PT10S")
        harness.clock.advance(seconds=10)
        for _ in range(3):
            assert client.query_claims("common") == []
        assert harness.gateway.store.verify() == []
        harness.reopen()
        assert client.query_claims("common") == []
        assert harness.gateway.store.verify() == []

    def test_forgetting(self, harness: Harness) -> None:  # EB-20
        client = GatewayClient(harness)
        engram, second = client.put("Alpha one"), client.put("Alpha two")
        answer = client.call("forget_engram", id=engram.id)
        assert (answer.id, answer.forgotten) == (engram.id, True)
        assert client.query("alpha").engrams == [without_keys(second)]
        assert client.query().engrams == [without_keys(second)]
        with expect_refusal("ENGRAM_NOT_FOUND"):
            client.call("forget_engram", id=engram.id)
        with expect_refusal("ROLE_FORBIDDEN"):
            client.call("forget_engram", client.add_agent("ada", "architect"), id=second.id)

    def test_a_callers_id_is_used_and_only_once(self, harness: Harness) -> None:  # EB-20
        client = GatewayClient(harness)
        assert client.put("Alpha", id=OWN_ID).id == OWN_ID
        assert client.put("Alpha", id=OWN_UUID).id == OWN_UUID
        with expect_refusal("ID_TAKEN"):
            client.put("Beta", id=OWN_ID)
        with expect_refusal("ID_TAKEN"):
            client.call("put_engrams", engrams=[_sent(id=OWN_ID)])
        with expect_refusal("ID_TAKEN"):
            client.call("put_engrams", engrams=[_sent(id=OWN_ID[:-1] + "1"), _sent(id=OWN_ID[:-1] + "1")])
        assert client.counts()["engrams"] == 2
        with expect_refusal("ID_TAKEN"):  # the same id, in the other case
            client.put("Beta", id=OWN_ID.lower())
        with expect_refusal("ID_INVALID"):
            client.put("Beta", id=OWN_ID[:-1])

    def test_an_id_stays_used_after_its_engram_has_expired_or_was_forgotten(self, harness: Harness) -> None:  # EB-20
        client = GatewayClient(harness)
        client.put("Alpha one", id=OWN_ID)
        client.call("forget_engram", id=OWN_ID)
        client.put("Alpha two", id=OWN_UUID, ttl="PT10S")
        harness.clock.advance(seconds=10)
        for _ in range(2):
            for engram_id in (OWN_ID, OWN_UUID):
                with expect_refusal("ID_TAKEN", "id"):
                    client.put("Alpha three", id=engram_id)
            assert client.query_claims("alpha") == []
            assert harness.gateway.store.verify() == []
            harness.delete_index()

    def test_an_id_belongs_to_its_first_engram_in_all_runs(self, harness: Harness) -> None:  # EB-20
        client = GatewayClient(harness)
        client.put("Alpha one", id=OWN_ID, scope="run")
        first = Credential(local_admin=True, run=client.call("list_runs").runs[0].run_id)
        with expect_refusal("ID_TAKEN"):
            client.put("Alpha two", id=OWN_ID, scope="project")
        client.open_run()
        for scope in ("run", "project"):
            with expect_refusal("ID_TAKEN"):
                client.put("Alpha three", id=OWN_ID, scope=scope)
        assert client.call("promote_engram", first, id=OWN_ID).claim == "Alpha one"
        assert client.call("get_engram", id=OWN_ID).claim == "Alpha one"
        with expect_refusal("ID_TAKEN"):
            client.put("Alpha four", id=OWN_ID, scope="run")

    def test_promotion_keeps_the_id_and_widens_visibility(self, harness: Harness) -> None:  # EB-20
        client = GatewayClient(harness)
        engram = client.put("Alpha", scope="run", confidence=0.5)
        run = client.open_run()
        other_run = Credential(local_admin=True, run=run)
        assert client.query_claims("alpha", other_run) == []
        first = Credential(local_admin=True, run=engram.provenance.created_by.partition("/")[0])
        promoted = client.call("promote_engram", first, id=engram.id)
        assert (promoted.id, promoted.scope, promoted.provenance) == (engram.id, "project", engram.provenance)
        assert client.query("alpha", other_run).engrams == [without_keys(promoted)]
        assert client.query_claims("alpha", first, scope="run") == []
        assert client.call("promote_engram", first, id=engram.id) == promoted

    def test_confirming_resolves_pointers_that_were_unresolved(self, harness: Harness) -> None:  # EB-04
        client = GatewayClient(harness)
        put = client.put("Alpha", refs=[NOTE])
        # As a version without this rule stored it, or while its content was not here.
        unread = msgspec.structs.replace(put, id=OWN_ID, pointers=(Pointer(type="sam", ref=NOTE),), claim="Beta")
        run = put.provenance.created_by.partition("/")[0]
        fact = EngramPut(engram=unread, run=run, expires_at=NEW_YEAR + DAY * SECOND_US)
        harness.gateway.store.commit(lambda view: ([fact], None))
        for _ in range(2):  # before and after a replay
            about = client.query().about[OWN_ID].evidence
            assert about is not None
            assert (about.state, about.unresolved) == ("unresolved", [NOTE])
            with expect_refusal("EVIDENCE_UNRESOLVED", "id"):
                client.call("pin_engram", id=OWN_ID)
            harness.reopen()
            harness.delete_index()
        assert client.call("confirm_engram", id=OWN_ID).resolved == [NOTE]
        for _ in range(2):
            assert client.call("get_engram", id=OWN_ID).pointers == put.pointers
            assert client.call("pin_engram", id=OWN_ID).pinned
            harness.reopen()
            harness.delete_index()

    def test_confirming_with_other_pointers_replaces_them_and_keeps_the_id(self, harness: Harness) -> None:  # BX-01
        client = GatewayClient(harness)
        coder = client.add_agent("coder")
        engram = client.put("The parser is slow", coder, refs=[ref_to_test("Slow.py")])
        with expect_refusal("FIELD_VALUE", "at"):  # the evidence holds, so an agent does not move it
            client.call("confirm_engram", coder, id=engram.id, pointers=[ref_to_test("Fast.py")])
        answer = client.call("confirm_engram", id=engram.id, pointers=[ref_to_test("Fast.py")])
        assert answer.pointers == [ref_to_test("Fast.py")]
        for _ in range(2):
            (found,) = client.call("query_engrams", q="Fast.py").engrams
            assert (found.id, [pointer.ref for pointer in found.pointers]) == (engram.id, [ref_to_test("Fast.py")])
            assert found.pointers[0].digest is not None
            assert client.put("The parser is slow", coder, refs=[ref_to_test("Fast.py")]).id == engram.id
            harness.reopen()
            harness.delete_index()
        assert client.put("The parser is slow", coder, refs=[ref_to_test("Slow.py")]).id != engram.id

    def test_a_promotion_may_change_how_pointers_are_written(self, harness: Harness) -> None:  # EB-04
        client = GatewayClient(harness)
        put = client.put("Alpha", refs=[repo_ref("a.py")], scope="run")
        named = tuple(name_repository(pointer, "lib") for pointer in put.pointers)
        fact = EngramPromoted(id=put.id, space="r1", scope="project", by=put.provenance.created_by, pointers=named)
        harness.gateway.store.commit(lambda view: ([fact], None))
        for _ in range(2):  # before and after a replay
            promoted = client.call("get_engram", id=put.id)
            assert (promoted.scope, promoted.pointers) == ("project", named)
            assert client.query_claims("alpha") == ["Alpha"]
            harness.reopen()
            harness.delete_index()

    def test_promotion_needs_confidence_and_goes_one_scope_at_a_time(self, harness: Harness) -> None:  # EB-20
        client = GatewayClient(harness)
        weak = client.put("Alpha weak", scope="run", confidence=0.49)
        sure = client.put("Alpha sure", scope="run", confidence=0.9)
        with expect_refusal("SCOPE_FORBIDDEN"):
            client.call("promote_engram", id=weak.id)
        with expect_refusal("SCOPE_FORBIDDEN"):
            client.call("promote_engram", id=sure.id, scope="org")
        client.call("promote_engram", id=sure.id)
        with expect_refusal("SCOPE_FORBIDDEN"):
            client.call("promote_engram", id=sure.id, scope="org")
        with expect_refusal("SCOPE_FORBIDDEN"):
            client.call("promote_engram", id=sure.id, scope="run")

    def test_only_a_parent_of_the_author_promotes(self, harness: Harness) -> None:  # EB-20
        client = GatewayClient(harness)
        mia = client.add_agent("mia", "manager")
        paul = client.add_agent("paul", "programmer", mia)
        max_ = client.add_agent("max", "manager")
        engram = client.put("Alpha", paul, scope="run")
        by_manager = client.put("Beta", mia, scope="run")
        with expect_refusal("ROLE_FORBIDDEN"):
            client.call("promote_engram", paul, id=engram.id)
        with expect_refusal("NOT_YOUR_DESCENDANT"):
            client.call("promote_engram", max_, id=engram.id)
        with expect_refusal("ROLE_FORBIDDEN"):
            client.call("promote_engram", mia, id=by_manager.id)
        assert client.call("promote_engram", mia, id=engram.id).scope == "project"
        assert client.call("promote_engram", LOCAL_ADMIN, id=by_manager.id).scope == "project"

    def test_promotion_among_many_engrams_keeps_the_order(self, harness: Harness) -> None:  # EB-20
        client = GatewayClient(harness)
        ids = client.put_many([f"The common matter {number}" for number in range(200)], scope="run")
        for number in (0, 63, 64, 65, 127, 128, 199):
            client.call("promote_engram", id=ids[number])
        client.put("The last common matter", scope="run")
        claims = client.query_claims(scope="project", k=100)
        assert claims == [f"The common matter {number}" for number in (199, 128, 127, 65, 64, 63, 0)]
        assert client.query_claims("common", scope="project", k=100) == client.query_claims(
            keys=["common"], scope="project", k=100
        )
        assert harness.gateway.store.verify() == []

    def test_promotion_replaces_an_expired_engram_with_the_same_id(self, harness: Harness) -> None:  # EB-20
        client = GatewayClient(harness)
        client.put("Alpha passes", id=OWN_ID, scope="project", ttl="PT10S")
        _put_as_before(harness, "Alpha stays", scope="run")
        harness.clock.advance(seconds=10)
        client.call("promote_engram", id=OWN_ID)
        assert client.query_claims("alpha") == ["Alpha stays"]
        harness.delete_index()
        assert client.query_claims("alpha", scope="project") == ["Alpha stays"]
        assert harness.gateway.store.verify() == []

    def test_an_expired_newer_engram_does_not_hide_an_older_one_with_its_id(self, harness: Harness) -> None:  # EB-20
        client = GatewayClient(harness)
        client.put("Alpha stays", id=OWN_ID, scope="run")
        _put_as_before(harness, "Alpha passes", scope="project", ttl="PT10S")
        harness.clock.advance(seconds=10)
        client.call("promote_engram", id=OWN_ID)
        assert client.query_claims("alpha") == ["Alpha stays"]
        client.call("forget_engram", id=OWN_ID)
        assert client.query_claims("alpha") == []
        harness.delete_index()
        assert client.query_claims("alpha") == []
        assert harness.gateway.store.verify() == []

    # a client that lost the answer may send its request again
    def test_an_idempotency_key_answers_once_and_for_a_day(self, harness: Harness) -> None:  # EB-20
        client = GatewayClient(harness)
        with_key = Credential(local_admin=True, idempotency_key="k-1")
        engram = client.put("Alpha", with_key, refs=[NOTE])
        assert client.put("Alpha", with_key, refs=[NOTE]) == engram
        with expect_refusal("IDEMPOTENCY_CONFLICT"):
            client.put("Beta", with_key, refs=[NOTE])
        with expect_refusal("IDEMPOTENCY_CONFLICT"):
            client.call("open_run", with_key, goal="Alpha")
        harness.clock.advance(seconds=DAY - 1)
        harness.delete_index()
        assert client.put("Alpha", with_key, refs=[NOTE]) == engram
        harness.clock.advance(seconds=1)
        assert client.put("Beta", with_key, refs=[NOTE]).id != engram.id
        assert client.counts()["engrams"] == 2

    def test_idempotency_keys_belong_to_their_caller(self, harness: Harness) -> None:  # EB-20
        client = GatewayClient(harness)
        ada = client.add_agent("ada")
        first = client.put("Alpha", Credential(local_admin=True, idempotency_key="k"))
        second = client.put("Alpha", Credential(token=ada.token, idempotency_key="k"))
        assert first.id != second.id
        with expect_refusal("FIELD_VALUE"):
            client.put("Alpha", Credential(local_admin=True, idempotency_key="k" * 129))
        with expect_refusal("FIELD_VALUE"):
            client.put("Alpha", Credential(local_admin=True, idempotency_key=""))

    def test_a_refused_request_leaves_its_key_unused(self, harness: Harness) -> None:  # EB-20
        client = GatewayClient(harness)
        with_key = Credential(local_admin=True, idempotency_key="k")
        with expect_refusal("ENGRAM_NOT_FOUND"):
            client.call("forget_engram", with_key, id=OWN_ID)
        client.put("Alpha", id=OWN_ID)
        assert client.call("forget_engram", with_key, id=OWN_ID).forgotten
        assert client.call("forget_engram", with_key, id=OWN_ID).forgotten


def _sent(**fields: object) -> dict[str, object]:
    return {"claim": "Gamma", "pointers": [{"type": "sam", "ref": "sam:note:anything@2026-01-01"}], **fields}


def _put_as_before(harness: Harness, claim: str, *, scope: str, ttl: str = "P1D") -> None:
    """Put an engram under OWN_ID a second time, as journals of earlier versions have it."""
    client = GatewayClient(harness)
    engram = client.put(claim, scope=scope, ttl=ttl)
    client.call("forget_engram", id=engram.id)
    with harness.gateway.store.read() as view:
        expires_at = view.as_of + parse_duration(ttl)
    run = engram.provenance.created_by.partition("/")[0]
    again = EngramPut(engram=msgspec.structs.replace(engram, id=OWN_ID), run=run, expires_at=expires_at)
    harness.gateway.store.commit(lambda view: ([again], None))
