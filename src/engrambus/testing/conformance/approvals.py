"""Promotion beyond the project: it waits for an admin, and the answer is recorded."""

from __future__ import annotations

from typing import Any

from engrambus.errors import EngramBusError
from engrambus.gateway import LOCAL_ADMIN, Credential, to_request
from engrambus.knowledge.engrams import Engram
from engrambus.operations import OPERATIONS
from engrambus.testing.client import GatewayClient, expect_refusal
from engrambus.testing.harness import Harness

OPEN = {
    "scopes": ["run", "project", "org", "global"],
    "write_scopes": {"programmer": ["run", "project", "org", "global"], "manager": ["run", "project"]},
}


class ApprovalConformance:
    """Requests to promote, and the admin's answers."""  # EB-37

    def test_a_parents_promotion_to_org_waits_for_an_admin(self, harness: Harness) -> None:  # EB-37
        client, mia, _, engram = _team(harness)
        answer, notices = _call(harness, "promote_engram", mia, id=engram.id, scope="org")
        assert answer == engram
        (notice,) = notices
        assert notice.code == "APPROVAL_PENDING"
        assert "waiting for approval" in notice.detail
        assert client.query_claims("alpha", scope="org") == []
        (row,) = client.call("list_promotions").promotions
        assert (row.id, row.scope, row.status, row.claim) == (engram.id, "org", "waiting", engram.claim)
        assert row.asked_by.endswith("/mia")
        assert row.request_id in notice.detail

    def test_an_approval_promotes_and_is_recorded(self, harness: Harness) -> None:  # EB-37
        client, mia, _, engram = _team(harness)
        client.call("promote_engram", mia, id=engram.id, scope="org")
        (row,) = client.call("list_promotions").promotions
        harness.clock.advance(seconds=60)
        approved = client.call("approve_promotion", id=row.request_id)
        assert (approved.status, approved.asked_at) == ("approved", row.asked_at)
        assert approved.answered_by.endswith("/admin")
        assert approved.answered_at > row.asked_at
        assert client.query_claims("alpha", scope="org") == [engram.claim]
        assert client.call("list_promotions").promotions == []
        (listed,) = client.call("list_promotions", all=True).promotions
        assert (listed.status, listed.answered_by) == ("approved", approved.answered_by)
        assert client.call("approve_promotion", id=row.request_id).status == "approved"  # a second time changes nothing
        with expect_refusal("PROMOTION_DECIDED", "id"):
            client.call("decline_promotion", id=row.request_id)

    def test_a_declined_engram_stays_in_its_project(self, harness: Harness) -> None:  # EB-37
        client, mia, _, engram = _team(harness)
        client.call("promote_engram", mia, id=engram.id, scope="org")
        (row,) = client.call("list_promotions").promotions
        assert client.call("decline_promotion", id=row.request_id).status == "declined"
        assert client.query_claims("alpha", scope="org") == []
        assert client.call("get_engram", mia, id=engram.id) == engram
        # It may be asked for again: another request.
        client.call("promote_engram", mia, id=engram.id, scope="org")
        (again,) = client.call("list_promotions").promotions
        assert again.request_id != row.request_id

    def test_asking_again_makes_no_second_request(self, harness: Harness) -> None:  # EB-37
        client, mia, _, engram = _team(harness)
        for _ in range(2):
            client.call("promote_engram", mia, id=engram.id, scope="org")
        assert len(client.call("list_promotions", all=True).promotions) == 1

    def test_an_admins_promotion_is_an_approval(self, harness: Harness) -> None:  # EB-37
        client, mia, _, engram = _team(harness)
        client.call("promote_engram", mia, id=engram.id, scope="org")
        promoted, notices = _call(harness, "promote_engram", LOCAL_ADMIN, id=engram.id, scope="org")
        assert (promoted.scope, notices) == ("org", [])
        assert client.query_claims("alpha", scope="org") == [engram.claim]
        (row,) = client.call("list_promotions", all=True).promotions
        assert row.status == "approved"

    def test_a_put_beyond_the_project_waits_in_the_project(self, harness: Harness) -> None:  # EB-37
        client, _, paul, _ = _team(harness)
        engram, notices = _call(
            harness, "put_engram", paul, claim="Gamma holds everywhere", pointers=_note("gamma"), scope="global"
        )
        assert engram.scope == "project"
        assert [notice.code for notice in notices] == ["APPROVAL_PENDING"]
        assert client.query_claims("gamma", scope="global") == []
        (row,) = client.call("list_promotions").promotions
        assert (row.id, row.scope) == (engram.id, "global")
        client.call("approve_promotion", id=row.request_id)
        assert client.query_claims("gamma", scope="global") == ["Gamma holds everywhere"]

    def test_an_admins_put_needs_no_approval(self, harness: Harness) -> None:  # EB-37
        client = _team(harness)[0]
        policy = {**OPEN, "write_scopes": {"admin": ["run", "project", "org", "global"]}}
        client.call("apply_policy", policy=policy)
        assert client.put("Delta holds", scope="org").scope == "org"
        assert client.query_claims("delta", scope="org") == ["Delta holds"]

    def test_only_an_admin_answers_and_others_see_their_own_requests(self, harness: Harness) -> None:  # EB-37
        client, mia, paul, engram = _team(harness)
        client.call("promote_engram", mia, id=engram.id, scope="org")
        (row,) = client.call("list_promotions", mia).promotions
        assert client.call("list_promotions", paul).promotions == []
        for operation in ("approve_promotion", "decline_promotion"):
            with expect_refusal("ROLE_FORBIDDEN"):
                client.call(operation, mia, id=row.request_id)
            with expect_refusal("REQUEST_NOT_FOUND"):
                client.call(operation, id="00000000000000000000000001")

    def test_a_removed_engram_cannot_be_approved(self, harness: Harness) -> None:  # EB-37
        client, mia, _, engram = _team(harness)
        client.call("promote_engram", mia, id=engram.id, scope="org")
        (row,) = client.call("list_promotions").promotions
        client.call("forget_engram", id=engram.id)
        with expect_refusal("ENGRAM_NOT_FOUND"):
            client.call("approve_promotion", id=row.request_id)
        (row,) = client.call("list_promotions").promotions
        assert (row.status, row.claim) == ("waiting", None)
        client.call("decline_promotion", id=row.request_id)
        assert client.call("list_promotions").promotions == []

    def test_requests_survive_a_rebuild(self, harness: Harness) -> None:  # EB-37
        client, mia, paul, engram = _team(harness)
        client.call("promote_engram", mia, id=engram.id, scope="org")
        _call(harness, "put_engram", paul, claim="Gamma holds", pointers=_note("gamma"), scope="org")
        first = client.call("list_promotions").promotions[-1]
        client.call("approve_promotion", id=first.request_id)
        before = client.call("list_promotions", all=True).promotions
        harness.delete_index()
        harness.reopen()
        assert client.call("list_promotions", all=True).promotions == before


def _team(harness: Harness) -> tuple[GatewayClient, Credential, Credential, Engram]:
    """A manager, a programmer below it, and an engram of the programmer."""
    client = GatewayClient(harness)
    client.call("apply_policy", policy=OPEN)
    mia = client.add_agent("mia", "manager")
    paul = client.add_agent("paul", "programmer", mia)
    return client, mia, paul, client.put("Alpha holds everywhere", paul, confidence=0.9)


def _note(name: str) -> list[dict[str, str]]:
    return [{"type": "sam", "ref": f"sam:note:{name}@2026-01-01"}]


def _call(harness: Harness, operation: str, caller: Credential, /, **fields: Any) -> tuple[Any, list[EngramBusError]]:
    """Return an answer and its notices."""
    declared = OPERATIONS[operation]
    notices: list[EngramBusError] = []
    if operation == "put_engram":
        fields.setdefault("confidence", 0.9)
    return harness.gateway.call(declared, to_request(fields, declared.request), caller, notices.append), notices
