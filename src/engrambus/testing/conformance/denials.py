"""Denied calls: each leaves a fact and a figure, without any text, and no caller can flood the journal."""  # EB-26

from __future__ import annotations

import json
from typing import Any

import msgspec

from engrambus.gateway import LOCAL_ADMIN, Credential
from engrambus.gateway.denials import MAX_FACTS
from engrambus.testing.client import expect_refusal
from engrambus.testing.conformance.grants import FILE, exhaust, granted
from engrambus.testing.conformance.messages import LONG, Team
from engrambus.testing.fakes import CODE, repo_ref
from engrambus.testing.harness import Harness


def denials(harness: Harness) -> list[dict[str, Any]]:
    """Return the facts about denied calls."""
    lines = (json.loads(line) for line in harness.journal_bytes().splitlines()[1:])
    return [fact for line in lines for fact in line["facts"] if fact["fact"] == "call.denied"]


class DenialConformance:
    """Facts and figures about calls that were refused by a limit, a role or a grant."""

    def test_each_kind_of_denial_leaves_a_fact_with_names_and_numbers(self, harness: Harness) -> None:
        team = Team(harness)
        grant = granted(team)
        exhaust(team, team.paul)
        for operation, caller, fields, code, field in (
            ("deref_pointer", team.paul, {"pointer": repo_ref("src/b.py")}, "DEREF_DENIED", "turn.repo"),
            ("issue_grant", team.paul, {"child_id": "pia", "pointer": FILE}, "ROLE_FORBIDDEN", None),
            ("deref_pointer", team.pia, {"pointer": FILE, "budget_token": grant.budget_token}, "GRANT_WRONG_CHILD",
             "budget_token"),
            ("request_deref", team.paul, {"pointer": FILE, "reason": f"See:\n{CODE}"}, "BUDGET_EXCEEDED", "reason"),
            ("request_deref", team.paul, {"pointer": FILE, "reason": "password = 'Xk29-pQ7v_Lm3'"}, "SECRET_FOUND",
             "reason"),
            ("issue_grant", team.mia, {"child_id": "lead", "pointer": FILE}, "NOT_YOUR_DESCENDANT", "child_id"),
            ("stats", team.paul, {"over": "project"}, "ROLE_FORBIDDEN", "over"),
        ):  # fmt: skip
            before = len(denials(harness))
            with expect_refusal(code):
                team.client.call(operation, caller, **fields)
            (fact,) = denials(harness)[before:]
            assert (fact["operation"], fact["code"], fact.get("field")) == (operation, code, field)
        first = denials(harness)[0]
        assert (first["agent"], first["limit"], first["used"]) == ("paul", 3, 3)
        text = json.dumps(denials(harness))
        assert not [word for word in ("def reserve", "Xk29", "src/a.py", "lead,") if word in text]

    def test_figures_count_denials_by_agent_and_by_code_and_a_rejected_message_once(self, harness: Harness) -> None:
        team = Team(harness)
        with expect_refusal("BUDGET_EXCEEDED"):
            team.client.report(team.paul, LONG)
        assert denials(harness) == []  # the rejection is a fact of its own
        for _ in range(2):
            with expect_refusal("ROLE_FORBIDDEN"):
                team.client.call("issue_grant", team.paul, child_id="pia", pointer=FILE)
        harness.reopen()
        harness.delete_index()
        answer = team.client.call("stats", last=0)
        (paul,) = [row.figures for row in answer.agents if row.agent_id == "paul"]
        assert (paul.denials, paul.rejections) == (3, 1)
        assert paul.denial_codes == {"ROLE_FORBIDDEN": 2, "BUDGET_EXCEEDED": 1}
        assert paul.rejected_tokens > 800
        assert answer.team.denials == 3
        project = team.client.call("stats", over="project", last=0)
        assert {row.role: row.figures.denials for row in project.roles if row.figures.denials} == {"programmer": 3}

    def test_a_limit_that_only_warns_is_recorded_as_a_warning(self, harness: Harness) -> None:
        team = Team(harness)
        team.client.call("apply_policy", policy={"limits": {"deref_count": "warn"}})
        exhaust(team, team.paul)
        team.client.deref(team.paul, repo_ref("src/b.py"))
        (fact,) = denials(harness)
        assert (fact["mode"], fact["code"], fact["field"]) == ("warn", "DEREF_DENIED", "turn.repo")
        (paul,) = [row.figures for row in team.client.call("stats", last=0).agents if row.agent_id == "paul"]
        assert (paul.denials, paul.warnings, paul.denial_codes) == (0, 1, {})

    def test_too_many_denials_in_a_minute_are_added_up(self, harness: Harness) -> None:
        team = Team(harness)
        for _ in range(MAX_FACTS + 5):
            team.client.try_call("issue_grant", team.paul, child_id="pia", pointer=FILE)
        team.client.try_call("issue_grant", team.pia, child_id="paul", pointer=FILE)  # counted for itself
        assert len(denials(harness)) == MAX_FACTS + 2
        assert denials(harness)[MAX_FACTS]["count"] == 5
        harness.clock.advance(seconds=60)
        team.client.try_call("issue_grant", team.paul, child_id="pia", pointer=FILE)
        assert len(denials(harness)) == MAX_FACTS + 3
        assert team.client.call("stats", last=0).team.denials == MAX_FACTS + 7

    def test_callers_that_cannot_be_identified_write_nothing(self, harness: Harness) -> None:
        team = Team(harness)
        journal = harness.journal_bytes()
        forged = Credential(token=str(team.paul.token)[:-4] + "AAAA")
        for caller in (forged, forged, Credential()):
            code, _ = team.client.try_call("put_engram", caller, claim="It holds.", at=["src/a.py:1"])
            assert code in ("TOKEN_INVALID", "TOKEN_MISSING")
        assert harness.journal_bytes() == journal
        assert dict(harness.gateway.unidentified_denials) == {"TOKEN_INVALID": 2, "TOKEN_MISSING": 1}

    def test_speaking_for_another_is_recorded_for_the_speaker(self, harness: Harness) -> None:
        team = Team(harness)
        as_lead = msgspec.structs.replace(team.paul, speak_as="lead")
        code, _ = team.client.try_call("query_engrams", as_lead, q="ledger")
        assert code == "NOT_YOUR_DESCENDANT"
        (fact,) = denials(harness)
        assert (fact["agent"], fact["code"], fact["operation"]) == ("paul", "NOT_YOUR_DESCENDANT", "query_engrams")

    def test_what_is_absent_or_badly_formed_is_no_denial(self, harness: Harness) -> None:
        team = Team(harness)
        for operation, fields in (
            ("get_engram", {"id": "01K7Z3V5QX0000000000000000"}),
            ("revoke_grant", {"id": "01K7Z3V5QX0000000000000000"}),
            ("put_engram", {"claim": "It holds."}),
        ):
            assert team.client.try_call(operation, LOCAL_ADMIN, **fields)[0] != "ok"
        assert denials(harness) == []
