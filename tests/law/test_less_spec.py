"""The LESS specification: sections 6.3 and 7 (enforcement, contract), 13 (trust) and 15 (acceptance), line by line."""

from __future__ import annotations

import json

from engrambus.testing import expect_refusal
from tests.law.desk import PASTED, Desk
from tests.projects import FILES

LONG = "And then it went on and on and said very little of use. " * 80


# 6.3 Enforcement; the LESS_ names of these codes are the MCP tools' and are tested there


def test_oversize_messages_are_rejected_and_a_resend_in_form_is_asked_for(desk: Desk) -> None:  # EB-06
    problem = desk.refusal("send_message", desk.paul, text=f"ROLE: programmer\n{LONG}").problem()
    assert (problem["code"], problem["status"]) == ("BUDGET_EXCEEDED", 413)
    assert {"ROLE", "TASK_STATUS", "OUTPUT"} <= {line.partition(":")[0] for line in problem["resend"].splitlines()}


def test_ungranted_dereferences_are_rejected_and_granted_ones_are_not(desk: Desk) -> None:  # EB-08, EB-11
    for _ in range(3):
        desk.hand.deref(desk.paul, desk.lines())
    refusal = desk.refusal("deref_pointer", desk.paul, pointer=desk.lines())
    assert (refusal.code, refusal.status) == ("DEREF_DENIED", 403)
    assert "less.request_deref" in str(refusal.hint)
    desk.hand.call("issue_grant", desk.mia, child_id="paul", pointer=desk.lines())
    desk.hand.deref(desk.paul, desk.lines())
    with expect_refusal("DEREF_DENIED"):
        desk.hand.deref(desk.paul, desk.lines())


# 7 The contract between parents and children


def test_a_child_does_not_paste_code_nor_file_sections_nor_write_at_length(desk: Desk) -> None:  # EB-07
    for pasted in (PASTED, f"```\n{PASTED}```", LONG):
        with expect_refusal("BUDGET_EXCEEDED"):
            desk.hand.report(desk.paul, pasted)


def test_a_child_asks_with_a_reason_and_the_intended_use(desk: Desk) -> None:  # EB-10
    wish = {"pointer": desk.lines(), "reason": "To see the input taken.", "intended_use": "To write a test."}
    desk.hand.report(desk.paul, deref_requests=[wish])
    (asked,) = desk.hand.call("list_requests", desk.mia).requests
    assert (asked.reason, asked.intended_use) == (wish["reason"], wish["intended_use"])
    with expect_refusal("FIELD_MISSING", "DEREF_REQUESTS[0].reason"):
        desk.hand.report(desk.paul, deref_requests=[{"pointer": desk.lines()}])


def test_only_a_parent_issues_grants(desk: Desk) -> None:  # EB-11
    desk.hand.add_agent("pia", "programmer", desk.mia)
    with expect_refusal("ROLE_FORBIDDEN"):
        desk.hand.call("issue_grant", desk.paul, child_id="pia", pointer=desk.lines())


# 13.1 Pointer integrity


def test_what_was_dereferenced_can_be_traced_by_its_digest(desk: Desk) -> None:  # EB-09, EB-22
    answer = desk.hand.deref(desk.paul, desk.lines())
    read = {"type": "repo", "ref": desk.lines(), "digest": answer.content_digest}
    engram = desk.hand.call("put_engram", desk.paul, claim="The parser trusts its input.", pointers=[read])
    assert engram.pointers[0].digest == answer.content_digest
    with expect_refusal("DIGEST_MISMATCH"):
        wrong = {**read, "digest": "sha256:" + "0" * 64}
        desk.hand.call("put_engram", desk.paul, claim="The parser ends here.", pointers=[wrong])


# 13.2 Anti-spam


def test_saying_it_again_confirms_and_adds_nothing(desk: Desk) -> None:  # EB-21
    first = desk.hand.put("The parser trusts its input.", desk.paul, refs=[desk.lines()])
    assert desk.hand.put("The parser trusts the input.", desk.mia, refs=[desk.lines()]).id == first.id


def test_a_guess_is_not_promoted_and_a_promotion_says_whose_it_was(desk: Desk) -> None:  # EB-20
    guess = desk.hand.put("Perhaps the lexer is slow.", desk.paul, refs=[desk.lines()], scope="run", confidence=0.4)
    with expect_refusal("SCOPE_FORBIDDEN", "confidence"):
        desk.hand.call("promote_engram", desk.mia, id=guess.id)
    sure = desk.hand.put("The parser trusts its input.", desk.paul, refs=[desk.lines()], scope="run", confidence=0.9)
    with expect_refusal("ROLE_FORBIDDEN"):
        desk.hand.call("promote_engram", desk.paul, id=sure.id)
    promoted = desk.hand.call("promote_engram", desk.mia, id=sure.id)
    assert promoted.provenance == sure.provenance
    (fact,) = json.loads(desk.journal().splitlines()[-1])["facts"]
    assert (fact["fact"], fact["id"], fact["by"].rpartition("/")[2]) == ("engram.promoted", sure.id, "mia")


# 13.3 Privacy


def test_a_run_does_not_see_what_another_keeps_to_itself(desk: Desk) -> None:  # EB-20
    desk.hand.put("The parser trusts its input.", desk.paul, refs=[desk.lines()], scope="run")
    desk.hand.open_run()
    assert desk.hand.query("parser").engrams == []


def test_org_and_global_need_an_admin(desk: Desk) -> None:  # EB-20
    for scope in ("org", "global"):
        with expect_refusal("SCOPE_FORBIDDEN"):
            desk.hand.put("The parser trusts its input.", desk.paul, refs=[desk.lines()], scope=scope)


# 15 Acceptance


def test_decisions_and_risks_include_pointers(desk: Desk) -> None:  # EB-01
    for kind in ("decision", "risk"):
        with expect_refusal("NO_POINTER"):
            desk.hand.call("put_engram", desk.paul, claim="The parser trusts its input.", kind=kind)


def test_a_contradiction_is_one_risk_that_points_at_both_sources(desk: Desk) -> None:  # EB-01
    both = [desk.lines(1, 5), f"artifact:docs/design.md#sec=Parser@{desk.sha}"]
    engram = desk.hand.put("Code and design disagree on the input.", desk.paul, refs=both, kind="risk")
    assert [pointer.ref for pointer in engram.pointers] == both
    assert all(pointer.digest for pointer in engram.pointers)


def test_the_brief_shows_what_matters_what_is_left_and_where_to_look(desk: Desk) -> None:  # EB-17
    desk.hand.put("The parser trusts its input.", desk.paul, refs=[desk.lines()], kind="risk")
    desk.hand.deref(desk.paul, desk.lines())
    lines = desk.hand.call("brief", desk.paul).lines
    assert f"- [risk] The parser trusts its input. ({desk.lines()})" in lines
    assert lines[-1].startswith("Left this turn: 2 repo, 2 artifact and 2 sam dereferences")
    assert FILES["src/parser.py"].splitlines()[0] not in "\n".join(lines)
