"""The life of an engram: put, promoted, forgotten, past its time."""

from __future__ import annotations

from engrambus.core import SECOND_US, print_time
from engrambus.gateway import LOCAL_ADMIN, Credential
from engrambus.testing.client import NOTE, GatewayClient, expect_refusal, without_keys
from engrambus.testing.clock import NEW_YEAR
from engrambus.testing.harness import Harness

OWN_ID = "01KDVP9R000000000000000000"
OWN_UUID = "0b5e1c1e-9f0a-4c59-8a2e-2a7c5a1e9d10"
DAY = 86_400


class LifecycleConformance:
    """EB-20, and time as the journal tells it."""

    def test_time_and_author_are_stamped(self, harness: Harness) -> None:
        hand = GatewayClient(harness)
        ada = hand.add_agent("ada", "tool")
        harness.clock.advance(microseconds=1_500_001)
        engram = hand.put("Alpha", ada)
        assert engram.provenance.created_at == print_time(NEW_YEAR + 1_500_001)
        assert engram.provenance.created_by.endswith("/ada")
        assert engram.provenance.source == "tool"
        with expect_refusal("PROVENANCE_STAMPED"):
            hand.put("Alpha", provenance={"created_at": "2020-01-01T00:00:00Z", "created_by": "x", "source": "agent"})

    def test_an_engram_is_gone_exactly_when_its_time_is_up(self, harness: Harness) -> None:
        hand = GatewayClient(harness)
        engram = hand.put("Alpha passes", ttl="PT10S")
        hand.put("Alpha stays")
        harness.clock.advance(microseconds=10 * SECOND_US - 1)
        assert hand.query_claims("alpha") == ["Alpha stays", "Alpha passes"] or hand.query_claims("passes") == [
            "Alpha passes"
        ]
        assert hand.call("get_engram", id=engram.id) == engram
        harness.clock.advance(microseconds=1)
        assert hand.query_claims("alpha") == ["Alpha stays"]
        assert hand.query_claims() == ["Alpha stays"]
        assert hand.query_claims("passes") == []
        assert hand.counts()["engrams"] == 1
        for operation in ("get_engram", "forget_engram", "promote_engram"):
            with expect_refusal("ENGRAM_NOT_FOUND"):
                hand.call(operation, id=engram.id)

    def test_many_can_pass_at_once(self, harness: Harness) -> None:
        hand = GatewayClient(harness)
        hand.put_many([f"The common matter {number}" for number in range(300)], ttl="PT10S")
        hand.put("The common matter that stays")
        harness.clock.advance(seconds=10)
        for _ in range(3):
            assert hand.query_claims("common") == ["The common matter that stays"]
        hand.put("Another common matter")
        assert hand.counts()["engrams"] == 2
        assert harness.gateway.store.verify() == []

    def test_what_has_passed_stays_passed_when_the_wall_clock_goes_back(self, harness: Harness) -> None:
        hand = GatewayClient(harness)
        hand.put_many([f"The common matter {number}" for number in range(300)], ttl="PT10S")
        harness.clock.advance(seconds=10)
        hand.put("Something at that time")
        harness.clock.advance(seconds=-9)
        assert hand.query_claims("common") == []

    def test_the_projects_clock_never_goes_back(self, harness: Harness) -> None:
        hand = GatewayClient(harness)
        harness.clock.advance(seconds=100)
        first = hand.put("Alpha one")
        harness.clock.advance(seconds=-1_000_000)
        second = hand.put("Alpha two", ttl="PT10S")
        assert second.provenance.created_at == first.provenance.created_at
        assert hand.query().as_of == first.provenance.created_at
        harness.reopen()
        assert hand.query().as_of == first.provenance.created_at
        harness.clock.set(NEW_YEAR + 109 * SECOND_US)
        assert hand.query_claims("two") == ["Alpha two"]
        harness.clock.advance(seconds=1)
        assert hand.query_claims("two") == []

    def test_reading_ahead_of_time_changes_nothing(self, harness: Harness) -> None:
        hand = GatewayClient(harness)
        hand.put_many([f"The common matter {number}" for number in range(300)], ttl="PT10S")
        harness.clock.advance(seconds=10)
        for _ in range(3):
            assert hand.query_claims("common") == []
        assert harness.gateway.store.verify() == []
        harness.reopen()
        assert hand.query_claims("common") == []
        assert harness.gateway.store.verify() == []

    def test_forgetting(self, harness: Harness) -> None:
        hand = GatewayClient(harness)
        engram, other = hand.put("Alpha one"), hand.put("Alpha two")
        answer = hand.call("forget_engram", id=engram.id)
        assert (answer.id, answer.forgotten) == (engram.id, True)
        assert hand.query("alpha").engrams == [without_keys(other)]
        assert hand.query().engrams == [without_keys(other)]
        with expect_refusal("ENGRAM_NOT_FOUND"):
            hand.call("forget_engram", id=engram.id)
        with expect_refusal("ROLE_FORBIDDEN"):
            hand.call("forget_engram", hand.add_agent("ada", "architect"), id=other.id)

    def test_an_own_id_is_kept_and_taken_only_once(self, harness: Harness) -> None:
        hand = GatewayClient(harness)
        assert hand.put("Alpha", id=OWN_ID).id == OWN_ID
        assert hand.put("Alpha", id=OWN_UUID).id == OWN_UUID
        with expect_refusal("ID_TAKEN"):
            hand.put("Beta", id=OWN_ID)
        with expect_refusal("ID_TAKEN"):
            hand.call("put_engrams", engrams=[_sent(id=OWN_ID)])
        with expect_refusal("ID_TAKEN"):
            hand.call("put_engrams", engrams=[_sent(id=OWN_ID[:-1] + "1"), _sent(id=OWN_ID[:-1] + "1")])
        assert hand.counts()["engrams"] == 2
        with expect_refusal("ID_INVALID"):
            hand.put("Beta", id=OWN_ID.lower())

    def test_an_id_is_free_again_once_its_engram_is_gone(self, harness: Harness) -> None:
        hand = GatewayClient(harness)
        hand.put("Alpha one", id=OWN_ID)
        hand.call("forget_engram", id=OWN_ID)
        hand.put("Alpha two", id=OWN_ID, ttl="PT10S")
        harness.clock.advance(seconds=10)
        hand.put("Alpha three", id=OWN_ID, ttl="PT10S")  # the second has passed, and nobody has swept it out
        harness.clock.advance(seconds=10)
        hand.put("Alpha four", id=OWN_ID)
        assert hand.query_claims("alpha") == ["Alpha four"]
        before = hand.try_call("query_engrams", q="alpha")
        harness.delete_index()
        assert hand.try_call("query_engrams", q="alpha") == before
        assert hand.call("get_engram", id=OWN_ID).claim == "Alpha four"
        hand.call("forget_engram", id=OWN_ID)
        assert hand.query_claims("alpha") == []
        assert harness.gateway.store.verify() == []

    def test_each_run_has_its_own_ids(self, harness: Harness) -> None:
        hand = GatewayClient(harness)
        hand.put("Alpha one", id=OWN_ID, scope="run")
        hand.put("Alpha two", id=OWN_ID, scope="project")
        assert hand.call("get_engram", id=OWN_ID).claim == "Alpha one"
        hand.open_run()
        assert hand.call("get_engram", id=OWN_ID).claim == "Alpha two"
        hand.put("Alpha three", id=OWN_ID, scope="run")
        assert hand.call("get_engram", id=OWN_ID).claim == "Alpha three"
        with expect_refusal("ID_TAKEN"):
            hand.call("promote_engram", id=OWN_ID)

    def test_promoting_keeps_the_id_and_widens_the_view(self, harness: Harness) -> None:
        hand = GatewayClient(harness)
        engram = hand.put("Alpha", scope="run", confidence=0.5)
        run = hand.open_run()
        other = Credential(local_admin=True, run=run)
        assert hand.query_claims("alpha", other) == []
        first = Credential(local_admin=True, run=engram.provenance.created_by.partition("/")[0])
        promoted = hand.call("promote_engram", first, id=engram.id)
        assert (promoted.id, promoted.scope, promoted.provenance) == (engram.id, "project", engram.provenance)
        assert hand.query("alpha", other).engrams == [without_keys(promoted)]
        assert hand.query_claims("alpha", first, scope="run") == []
        assert hand.call("promote_engram", first, id=engram.id) == promoted

    def test_promotion_has_a_floor_and_goes_one_step_at_a_time(self, harness: Harness) -> None:
        hand = GatewayClient(harness)
        weak = hand.put("Alpha weak", scope="run", confidence=0.49)
        sure = hand.put("Alpha sure", scope="run", confidence=0.9)
        with expect_refusal("SCOPE_FORBIDDEN"):
            hand.call("promote_engram", id=weak.id)
        with expect_refusal("SCOPE_FORBIDDEN"):
            hand.call("promote_engram", id=sure.id, scope="org")
        hand.call("promote_engram", id=sure.id)
        with expect_refusal("SCOPE_FORBIDDEN"):
            hand.call("promote_engram", id=sure.id, scope="org")
        with expect_refusal("SCOPE_FORBIDDEN"):
            hand.call("promote_engram", id=sure.id, scope="run")

    def test_only_a_parent_of_the_author_promotes(self, harness: Harness) -> None:
        hand = GatewayClient(harness)
        mia = hand.add_agent("mia", "manager")
        paul = hand.add_agent("paul", "programmer", mia)
        max_ = hand.add_agent("max", "manager")
        engram = hand.put("Alpha", paul, scope="run")
        own = hand.put("Beta", mia, scope="run")
        with expect_refusal("ROLE_FORBIDDEN"):
            hand.call("promote_engram", paul, id=engram.id)
        with expect_refusal("NOT_YOUR_DESCENDANT"):
            hand.call("promote_engram", max_, id=engram.id)
        with expect_refusal("ROLE_FORBIDDEN"):
            hand.call("promote_engram", mia, id=own.id)
        assert hand.call("promote_engram", mia, id=engram.id).scope == "project"
        assert hand.call("promote_engram", LOCAL_ADMIN, id=own.id).scope == "project"

    def test_promotion_in_the_midst_of_many(self, harness: Harness) -> None:
        hand = GatewayClient(harness)
        ids = hand.put_many([f"The common matter {number}" for number in range(200)], scope="run")
        for number in (0, 63, 64, 65, 127, 128, 199):
            hand.call("promote_engram", id=ids[number])
        hand.put("The last common matter", scope="run")
        found = hand.query_claims(scope="project", k=100)
        assert found == [f"The common matter {number}" for number in (199, 128, 127, 65, 64, 63, 0)]
        assert hand.query_claims("common", scope="project", k=100) == hand.query_claims(
            keys=["common"], scope="project", k=100
        )
        assert harness.gateway.store.verify() == []

    def test_promoting_into_a_place_whose_owner_has_passed(self, harness: Harness) -> None:
        hand = GatewayClient(harness)
        hand.put("Alpha passes", id=OWN_ID, scope="project", ttl="PT10S")
        hand.put("Alpha stays", id=OWN_ID, scope="run")
        harness.clock.advance(seconds=10)
        hand.call("promote_engram", id=OWN_ID)
        assert hand.query_claims("alpha") == ["Alpha stays"]
        harness.delete_index()
        assert hand.query_claims("alpha", scope="project") == ["Alpha stays"]
        assert harness.gateway.store.verify() == []

    def test_the_younger_that_has_passed_is_not_taken_for_the_older(self, harness: Harness) -> None:
        hand = GatewayClient(harness)
        hand.put("Alpha stays", id=OWN_ID, scope="run")
        hand.put("Alpha passes", id=OWN_ID, scope="project", ttl="PT10S")
        harness.clock.advance(seconds=10)
        hand.call("promote_engram", id=OWN_ID)
        assert hand.query_claims("alpha") == ["Alpha stays"]
        hand.call("forget_engram", id=OWN_ID)
        assert hand.query_claims("alpha") == []
        harness.delete_index()
        assert hand.query_claims("alpha") == []
        assert harness.gateway.store.verify() == []

    def test_an_idempotency_key_answers_once_and_for_a_day(self, harness: Harness) -> None:
        hand = GatewayClient(harness)
        once = Credential(local_admin=True, idempotency_key="k-1")
        engram = hand.put("Alpha", once, refs=[NOTE])
        assert hand.put("Alpha", once, refs=[NOTE]) == engram
        with expect_refusal("IDEMPOTENCY_CONFLICT"):
            hand.put("Beta", once, refs=[NOTE])
        with expect_refusal("IDEMPOTENCY_CONFLICT"):
            hand.call("open_run", once, goal="Alpha")
        harness.clock.advance(seconds=DAY - 1)
        harness.delete_index()
        assert hand.put("Alpha", once, refs=[NOTE]) == engram
        harness.clock.advance(seconds=1)
        assert hand.put("Beta", once, refs=[NOTE]).id != engram.id
        assert hand.counts()["engrams"] == 2

    def test_idempotency_keys_belong_to_their_caller(self, harness: Harness) -> None:
        hand = GatewayClient(harness)
        ada = hand.add_agent("ada")
        first = hand.put("Alpha", Credential(local_admin=True, idempotency_key="k"))
        second = hand.put("Alpha", Credential(token=ada.token, idempotency_key="k"))
        assert first.id != second.id
        with expect_refusal("FIELD_VALUE"):
            hand.put("Alpha", Credential(local_admin=True, idempotency_key="k" * 129))
        with expect_refusal("FIELD_VALUE"):
            hand.put("Alpha", Credential(local_admin=True, idempotency_key=""))

    def test_a_refused_request_leaves_its_key_unused(self, harness: Harness) -> None:
        hand = GatewayClient(harness)
        once = Credential(local_admin=True, idempotency_key="k")
        with expect_refusal("ENGRAM_NOT_FOUND"):
            hand.call("forget_engram", once, id=OWN_ID)
        hand.put("Alpha", id=OWN_ID)
        assert hand.call("forget_engram", once, id=OWN_ID).forgotten
        assert hand.call("forget_engram", once, id=OWN_ID).forgotten


def _sent(**more: object) -> dict[str, object]:
    return {"claim": "Gamma", "pointers": [{"type": "sam", "ref": "sam:note:anything@2026-01-01"}], **more}
