"""Grants that their holders pass on: less of them, charged to the whole chain, and listed."""  # EB-11

from __future__ import annotations

from typing import Any

from engrambus.errors import EngramBusError
from engrambus.evidence.pointers import compact_ref
from engrambus.gateway import LOCAL_ADMIN, Credential
from engrambus.policy.grants import MAX_BLOCKS, attenuate
from engrambus.testing.client import catch_refusal, expect_refusal
from engrambus.testing.conformance.grants import FILE, exhaust, granted
from engrambus.testing.conformance.messages import Team
from engrambus.testing.fakes import SHA, repo_ref
from engrambus.testing.harness import Harness


def narrowed(team: Team, token: str, child: str = "paul", by: Credential | None = None, **fields: Any) -> Any:
    """Pass a grant on, by default from the manager to a programmer."""
    return team.client.call("narrow_grant", by or team.mia, budget_token=token, child_id=child, **fields)


def refusal_of(team: Team, operation: str, caller: Credential, **fields: Any) -> EngramBusError:
    """Return the refusal of a call."""
    return catch_refusal(lambda: team.client.call(operation, caller, **fields))


class PassedOnGrantConformance:
    """Narrowing, handles, and the list of grants."""

    # decision 51: a grant is for the agent it names; its descendants need a part that was passed on to them
    def test_a_grant_is_not_spent_by_descendants_unless_it_is_passed_on(self, harness: Harness) -> None:
        team = Team(harness)
        grant = granted(team, "mia", by=team.lead, uses=2, cap_tokens=900)
        exhaust(team, team.paul)
        with expect_refusal("DEREF_DENIED", "turn.repo"):
            team.client.deref(team.paul, FILE)
        with expect_refusal("GRANT_WRONG_CHILD", "budget_token"):
            team.client.deref(team.paul, FILE, budget_token=grant.budget_token)
        assert not any(line.startswith("Granted") for line in team.client.call("brief", team.paul).lines)
        (line,) = [line for line in team.client.call("brief", team.mia).lines if line.startswith("Granted")]
        assert line.endswith(f"900 tokens, 2 uses ({grant.budget_token}).")
        less = narrowed(team, grant.budget_token, uses=1)
        (line,) = [line for line in team.client.call("brief", team.paul).lines if line.startswith("Granted")]
        assert line == f"Granted: {compact_ref(FILE)}, 900 tokens, 1 use."
        assert [mail.item for mail in team.client.mail(team.paul) if mail.kind == "grant"] == [less.grant_id]
        team.client.deref(team.paul, FILE)
        with expect_refusal("DEREF_DENIED", "turn.repo"):
            team.client.deref(team.paul, FILE)

    def test_a_holder_passes_on_less_and_each_use_is_charged_to_the_whole_chain(self, harness: Harness) -> None:
        team = Team(harness)
        grant = granted(team, "mia", by=team.lead, uses=3, cap_tokens=900, expires_in="PT2H")
        ref = repo_ref("src/a.py", 3, 4)
        less = narrowed(team, grant.budget_token, pointer=ref, uses=2, cap_tokens=400, expires_in="PT1H")
        assert less.budget_token == f"g_{less.grant_id}"
        assert len(less.budget_token) <= 40
        with expect_refusal("GRANT_WRONG_POINTER", "budget_token"):
            team.client.deref(team.paul, FILE, budget_token=less.budget_token)
        with expect_refusal("GRANT_WRONG_CHILD", "budget_token"):
            team.client.deref(team.pia, ref, budget_token=less.budget_token)
        team.client.deref(team.paul, ref, budget_token=less.budget_token)
        for_pia = narrowed(team, grant.budget_token, "pia")
        harness.reopen()
        harness.delete_index()
        for _ in range(2):
            team.client.deref(team.pia, ref, budget_token=for_pia.budget_token)
        refusal = refusal_of(team, "deref_pointer", team.paul, pointer=ref, budget_token=less.budget_token)
        assert (refusal.code, refusal.limit, refusal.used) == ("GRANT_SPENT", 3, 3)
        assert refusal.detail.startswith(f"Grant {grant.grant_id}, from which grant {less.grant_id} was passed on,")
        rows = {row.child: row for row in team.client.call("list_grants").grants}
        assert {name: (row.state, row.uses_left) for name, row in rows.items()} == dict.fromkeys(
            ("mia", "paul", "pia"), ("spent", 0)
        )
        assert (rows["paul"].narrowed_from, rows["paul"].parent) == (grant.grant_id, "mia")
        assert harness.gateway.store.verify() == []

    def test_a_grant_is_never_passed_on_wider(self, harness: Harness) -> None:
        team = Team(harness)
        grant = granted(
            team, "mia", repo_ref("src/a.py", 1, 4), by=team.lead, uses=2, cap_tokens=500, inline_code_chars=10
        )
        for field, value, limit in (
            ("cap_tokens", 501, 500),
            ("uses", 3, 2),
            ("inline_code_chars", 11, 10),
            ("pointer", FILE, repo_ref("src/a.py", 1, 4)),
            ("pointer", repo_ref("src/a.py", 4, 5), repo_ref("src/a.py", 1, 4)),
            ("pointer", f"repo:src/*@{SHA}", repo_ref("src/a.py", 1, 4)),
        ):
            for operation, token_field in (("narrow_grant", "budget_token"), ("issue_grant", "from_grant")):
                fields = {"pointer": repo_ref("src/a.py", 1, 2), token_field: grant.budget_token, field: value}
                refusal = refusal_of(team, operation, team.mia, child_id="paul", **fields)
                assert (refusal.code, refusal.field, refusal.limit) == ("GRANT_WIDER", field, limit)
        with expect_refusal("GRANT_WIDER", "expires_in"):
            narrowed(team, grant.budget_token, expires_in="PT2H")
        team.client.deref(team.mia, repo_ref("src/a.py", 1, 2), budget_token=grant.budget_token)
        with expect_refusal("GRANT_WIDER", "uses"):  # one of two is left
            narrowed(team, grant.budget_token, uses=2)

    def test_only_the_holder_or_the_admin_passes_a_grant_on_and_only_downwards(self, harness: Harness) -> None:
        team = Team(harness)
        grant = granted(team, "mia", by=team.lead, uses=9)
        for caller, child, code, field in (
            (team.lead, "paul", "GRANT_WRONG_CHILD", "budget_token"),
            (team.paul, "pia", "NOT_YOUR_DESCENDANT", "child_id"),
            (team.mia, "mia", "ROLE_FORBIDDEN", "child_id"),
            (team.mia, "lead", "NOT_YOUR_DESCENDANT", "child_id"),
            (team.mia, "nobody", "AGENT_NOT_FOUND", "child_id"),
            (LOCAL_ADMIN, "lead", "NOT_YOUR_DESCENDANT", "child_id"),
        ):
            refusal = refusal_of(team, "narrow_grant", caller, budget_token=grant.budget_token, child_id=child)
            assert (refusal.code, refusal.field) == (code, field)
        by_admin = narrowed(team, grant.budget_token, by=LOCAL_ADMIN)
        team.client.deref(team.paul, FILE, budget_token=by_admin.budget_token)
        team.client.call("revoke_grant", team.mia, id=by_admin.budget_token)
        with expect_refusal("GRANT_REVOKED", "budget_token"):
            team.client.deref(team.paul, FILE, budget_token=by_admin.budget_token)
        team.client.call("revoke_grant", team.lead, id=grant.grant_id)
        with expect_refusal("GRANT_REVOKED", "budget_token"):
            narrowed(team, grant.budget_token)

    def test_issuing_from_a_grant_passes_it_on(self, harness: Harness) -> None:
        team = Team(harness)
        grant = granted(team, "mia", by=team.lead, uses=2, cap_tokens=900)
        less = granted(team, "paul", repo_ref("src/a.py", 3, 4), from_grant=grant.budget_token)
        row = next(row for row in team.client.call("list_grants").grants if row.grant_id == less.grant_id)
        assert (row.narrowed_from, row.cap_tokens, row.uses) == (grant.grant_id, 900, 2)  # what is left, no defaults
        with expect_refusal("GRANT_WRONG_CHILD", "from_grant"):
            granted(team, "paul", by=team.lead, from_grant=grant.budget_token)

    def test_a_chain_of_grants_has_a_greatest_length(self, harness: Harness) -> None:
        team = Team(harness)
        token = granted(team, "mia", by=team.lead, uses=9, biscuit=True).biscuit
        for _ in range(MAX_BLOCKS - 1):
            token = attenuate(token, uses=9)
        with expect_refusal("GRANT_TOO_DEEP", "budget_token"):
            narrowed(team, token)

    def test_a_biscuit_that_was_narrowed_offline_can_be_passed_on_as_a_handle(self, harness: Harness) -> None:
        team = Team(harness)
        biscuit = granted(team, "mia", by=team.lead, uses=9, cap_tokens=900, biscuit=True).biscuit
        offline = attenuate(biscuit, uses=2, cap_tokens=500)
        less = narrowed(team, offline, biscuit=True)
        with expect_refusal("GRANT_WIDER", "uses"):
            narrowed(team, offline, uses=3)
        harness.reopen()
        harness.delete_index()
        team.client.deref(team.paul, FILE, budget_token=less.budget_token)
        team.client.deref(team.mia, FILE, budget_token=offline)
        for token in (less.budget_token, less.biscuit):
            with expect_refusal("GRANT_SPENT", "budget_token"):  # both uses of what was narrowed offline
                team.client.deref(team.paul, FILE, budget_token=token)

    def test_each_agent_lists_the_grants_it_holds_or_issued(self, harness: Harness) -> None:
        team = Team(harness)
        first = granted(team, "mia", by=team.lead, uses=3, cap_tokens=600, intended_use="To review it.")
        second = granted(team, "paul", uses=1, expires_in="PT5M")
        team.client.deref(team.mia, FILE, budget_token=first.budget_token)
        harness.clock.advance(seconds=300)

        def listed(caller: Credential = LOCAL_ADMIN, **fields: Any) -> list[tuple[str, str]]:
            answer = team.client.call("list_grants", caller, **fields)
            return [(row.grant_id, row.state) for row in answer.grants]

        both = [(second.grant_id, "expired"), (first.grant_id, "usable")]
        assert listed() == listed(team.mia) == both
        assert listed(team.lead) == both[1:]
        assert listed(team.paul) == both[:1]
        assert listed(team.pia) == []
        assert listed(team.mia, usable=True) == both[1:]
        assert listed(cursor=second.grant_id) == both[1:]
        (row,) = team.client.call("list_grants", team.lead).grants
        assert (row.parent, row.child, row.ref, row.budget_token) == ("lead", "mia", FILE, first.budget_token)
        assert (row.uses, row.uses_left, row.cap_tokens, row.intended_use) == (3, 2, 600, "To review it.")
        assert 0 < row.tokens_left < 600
