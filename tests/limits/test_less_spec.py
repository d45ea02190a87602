"""The LESS specification, sections 6.3, 7 (contract), 13 (trust) and 15 (acceptance): one test for each line."""

from __future__ import annotations

import json

from engrambus.testing import expect_refusal
from tests.limits.team import PASTED, Team
from tests.projects import FILES

LONG = "And then it went on and on and said very little of use. " * 80


# 6.3 Enforcement; the LESS_ names of these codes are the MCP tools' and are tested there


def test_oversized_messages_are_rejected_with_a_template(team: Team) -> None:  # EB-06
    problem = team.refusal("send_message", team.paul, text=f"ROLE: programmer\n{LONG}").problem()
    assert (problem["code"], problem["status"]) == ("BUDGET_EXCEEDED", 413)
    assert {"ROLE", "TASK_STATUS", "OUTPUT"} <= {line.partition(":")[0] for line in problem["resend"].splitlines()}


def test_a_grant_allows_a_dereference_beyond_the_turn(team: Team) -> None:  # EB-08, EB-11
    for _ in range(3):
        team.client.deref(team.paul, team.lines())
    refusal = team.refusal("deref_pointer", team.paul, pointer=team.lines())
    assert (refusal.code, refusal.status) == ("DEREF_DENIED", 403)
    assert "less.request_deref" in str(refusal.hint)
    team.client.call("issue_grant", team.mia, child_id="paul", pointer=team.lines())
    team.client.deref(team.paul, team.lines())
    with expect_refusal("DEREF_DENIED"):
        team.client.deref(team.paul, team.lines())


# 7 The contract between parents and children


def test_pasted_code_and_long_texts_are_rejected(team: Team) -> None:  # EB-07
    for pasted in (PASTED, f"```\n{PASTED}```", LONG):
        with expect_refusal("BUDGET_EXCEEDED"):
            team.client.report(team.paul, pasted)


def test_a_request_has_a_reason_and_an_intended_use(team: Team) -> None:  # EB-10
    request = {"pointer": team.lines(), "reason": "To see the input taken.", "intended_use": "To write a test."}
    team.client.report(team.paul, deref_requests=[request])
    (listed,) = team.client.call("list_requests", team.mia).requests
    assert (listed.reason, listed.intended_use) == (request["reason"], request["intended_use"])
    with expect_refusal("FIELD_MISSING", "DEREF_REQUESTS[0].reason"):
        team.client.report(team.paul, deref_requests=[{"pointer": team.lines()}])


def test_only_a_parent_can_issue_grants(team: Team) -> None:  # EB-11
    team.client.add_agent("pia", "programmer", team.mia)
    with expect_refusal("ROLE_FORBIDDEN"):
        team.client.call("issue_grant", team.paul, child_id="pia", pointer=team.lines())


# 13.1 Pointer integrity


def test_a_digest_that_was_read_can_be_cited(team: Team) -> None:  # EB-09, EB-22
    answer = team.client.deref(team.paul, team.lines())
    pointer = {"type": "repo", "ref": team.lines(), "digest": answer.content_digest}
    engram = team.client.call("put_engram", team.paul, claim="The parser trusts its input.", pointers=[pointer])
    assert engram.pointers[0].digest == answer.content_digest
    with expect_refusal("DIGEST_MISMATCH"):
        wrong = {**pointer, "digest": "sha256:" + "0" * 64}
        team.client.call("put_engram", team.paul, claim="The parser ends here.", pointers=[wrong])


# 13.2 Anti-spam


def test_a_repeated_claim_confirms_the_first_one(team: Team) -> None:  # EB-21
    first = team.client.put("The parser trusts its input.", team.paul, refs=[team.lines()])
    assert team.client.put("The parser trusts the input.", team.mia, refs=[team.lines()]).id == first.id


def test_a_promotion_needs_confidence_and_keeps_the_provenance(team: Team) -> None:  # EB-20
    guess = team.client.put("Perhaps the lexer is slow.", team.paul, refs=[team.lines()], scope="run", confidence=0.4)
    with expect_refusal("SCOPE_FORBIDDEN", "confidence"):
        team.client.call("promote_engram", team.mia, id=guess.id)
    sure = team.client.put("The parser trusts its input.", team.paul, refs=[team.lines()], scope="run", confidence=0.9)
    with expect_refusal("ROLE_FORBIDDEN"):
        team.client.call("promote_engram", team.paul, id=sure.id)
    promoted = team.client.call("promote_engram", team.mia, id=sure.id)
    assert promoted.provenance == sure.provenance
    (fact,) = json.loads(team.journal().splitlines()[-1])["facts"]
    assert (fact["fact"], fact["id"], fact["by"].rpartition("/")[2]) == ("engram.promoted", sure.id, "mia")


# 13.3 Privacy


def test_a_run_does_not_see_the_run_scope_of_another(team: Team) -> None:  # EB-20
    team.client.put("The parser trusts its input.", team.paul, refs=[team.lines()], scope="run")
    team.client.open_run()
    assert team.client.query("parser").engrams == []


def test_org_and_global_need_an_admin(team: Team) -> None:  # EB-20
    for scope in ("org", "global"):
        with expect_refusal("SCOPE_FORBIDDEN"):
            team.client.put("The parser trusts its input.", team.paul, refs=[team.lines()], scope=scope)


# 15 Acceptance


def test_decisions_and_risks_include_pointers(team: Team) -> None:  # EB-01
    for kind in ("decision", "risk"):
        with expect_refusal("NO_POINTER"):
            team.client.call("put_engram", team.paul, claim="The parser trusts its input.", kind=kind)


def test_a_contradiction_is_one_risk_with_both_sources(team: Team) -> None:  # EB-01
    sources = [team.lines(1, 5), f"artifact:docs/design.md#sec=Parser@{team.sha}"]
    engram = team.client.put("Code and design disagree on the input.", team.paul, refs=sources, kind="risk")
    assert [pointer.ref for pointer in engram.pointers] == sources
    assert all(pointer.digest for pointer in engram.pointers)


def test_the_brief_shows_risks_pointers_and_the_remaining_budget(team: Team) -> None:  # EB-17
    team.client.put("The parser trusts its input.", team.paul, refs=[team.lines()], kind="risk")
    team.client.deref(team.paul, team.lines())
    lines = team.client.call("brief", team.paul).lines
    assert f"[risk] The parser trusts its input. (src/parser.py:1-2@{team.sha[:7]})" in lines
    assert lines[-1].startswith("Left this turn: 2 repo, 2 artifact and 2 sam dereferences")
    assert FILES["src/parser.py"].splitlines()[0] not in "\n".join(lines)
