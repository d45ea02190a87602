"""The Engram Bus specification, section 10 (acceptance) and section 11 (test matrix): a test for each line of it."""

from __future__ import annotations

from typing import Any

import pytest

from engrambus.core import digest, estimate_tokens
from engrambus.testing import expect_refusal
from tests.law.desk import CHILD, PARENT, PASTED, Desk
from tests.projects import FILES

REPORT = "ROLE: programmer\nTASK_STATUS: done\nOUTPUT:\n  summary: {}\n"


# 11.1 Budget tests


def test_a_message_of_1200_inline_tokens_is_budget_exceeded(desk: Desk) -> None:  # EB-06
    text = REPORT.format("word " * 900)
    text += "#" * (1200 * 4 - len(text))
    assert estimate_tokens(text) == 1200
    refusal = desk.refusal("send_message", desk.paul, text=text)
    assert (refusal.code, refusal.limit, refusal.used) == ("BUDGET_EXCEEDED", 800, 1200)


def test_the_4th_repo_dereference_without_a_grant_is_denied(desk: Desk) -> None:  # EB-08
    for line in (1, 2, 3):
        desk.hand.deref(desk.paul, desk.lines(line, line))
    with expect_refusal("DEREF_DENIED", "turn.repo"):
        desk.hand.deref(desk.paul, desk.lines(4, 4))


def test_inline_code_without_a_grant_is_rejected(desk: Desk) -> None:  # EB-07
    with expect_refusal("BUDGET_EXCEEDED", "OUTPUT.summary"):
        desk.hand.report(desk.paul, PASTED)
    grant = desk.hand.call("issue_grant", desk.mia, child_id="paul", pointer=desk.lines(), inline_code_chars=500)
    assert desk.hand.report(desk.paul, PASTED, token=grant.budget_token).to == "mia"


# 11.2 Pointer tests


def test_a_pointer_without_a_sha_is_rejected(desk: Desk) -> None:  # EB-03
    with expect_refusal("POINTER_NOT_PINNED"):
        desk.hand.put("The parser trusts its input.", desk.paul, refs=["repo:src/parser.py#L1-L2"])
    with expect_refusal("POINTER_REVISION"):
        desk.hand.deref(desk.paul, f"repo:src/parser.py#L1-L2@{desk.sha[:12]}")


def test_a_pointer_to_a_file_that_is_not_there_fails_clearly(desk: Desk) -> None:  # EB-12
    refusal = desk.refusal("deref_pointer", desk.paul, pointer=desk.lines(file="src/gone.py"))
    assert (refusal.code, refusal.status, refusal.field) == ("FILE_NOT_FOUND", 404, "pointer.ref")
    with expect_refusal("SPAN_NOT_FOUND"):
        desk.hand.deref(desk.paul, desk.lines(900, 901))


# 11.3 Engram quality tests


def test_an_engram_without_pointers_is_rejected(desk: Desk) -> None:  # EB-01
    with expect_refusal("NO_POINTER", "pointers"):
        desk.hand.call("put_engram", desk.paul, claim="The parser trusts its input.")


def test_an_engram_over_length_is_rejected(desk: Desk) -> None:  # EB-01
    with expect_refusal("CLAIM_TOO_LONG", "claim"):
        desk.hand.put("x" * 501, desk.paul, refs=[desk.lines()])


def test_an_engram_whose_ttl_has_expired_is_not_found(desk: Desk) -> None:  # EB-04
    desk.hand.put("The parser trusts its input.", desk.paul, refs=[desk.lines()], ttl="PT1H")
    assert len(desk.hand.query("parser", desk.paul).engrams) == 1
    desk.clock.advance(seconds=3600)
    assert desk.hand.query("parser", desk.paul).engrams == []


# 10.1 Functional


def test_agents_coordinate_in_the_published_forms(desk: Desk) -> None:  # EB-16
    answer = desk.send(CHILD.format(sha=desk.sha))
    assert (answer.to, len(answer.engrams), len(answer.requests)) == ("mia", 1, 1)
    grant = desk.hand.call("approve_request", desk.mia, id=answer.requests[0])
    told = desk.hand.call("broadcast", desk.mia, text=PARENT.format(sha=desk.sha, token=grant.budget_token))
    assert told.to == ["paul"]
    assert [mail.kind for mail in desk.hand.mail(desk.paul)] == ["grant", "broadcast"]
    assert desk.hand.deref(desk.paul, desk.lines(1, 30), budget_token=grant.budget_token).excerpt
    assert grant.budget_token.encode() not in desk.journal()


def test_a_message_of_exactly_800_tokens_is_taken_and_of_801_is_not(desk: Desk) -> None:  # EB-06
    text = REPORT.format("Done.")
    desk.send(text + "#" * (800 * 4 - len(text)))
    with expect_refusal("BUDGET_EXCEEDED"):
        desk.send(text + "#" * (800 * 4 - len(text) + 1))


@pytest.mark.parametrize(
    ("ref", "allowed", "count"),
    [("repo:src/parser.py#L1-L1@{}", 3, "repo"), ("artifact:docs/design.md#sec=Parser@{}", 2, "artifact")],
)
def test_each_type_of_pointer_has_its_number_a_turn(desk: Desk, ref: str, allowed: int, count: str) -> None:  # EB-08
    for _ in range(allowed):
        desk.hand.deref(desk.paul, ref.format(desk.sha))
    with expect_refusal("DEREF_DENIED", f"turn.{count}"):
        desk.hand.deref(desk.paul, ref.format(desk.sha))


def test_a_parent_broadcasts_a_brief_of_at_most_30_lines(desk: Desk) -> None:  # EB-17
    desk.hand.broadcast(desk.mia, *["Distrust the input."] * 30)
    with expect_refusal("BUDGET_EXCEEDED", "SHARED_BRIEF_MICRO"):
        desk.hand.broadcast(desk.mia, *["Distrust the input."] * 31)
    desk.hand.put("The parser trusts its input.", desk.paul, refs=[desk.lines()], kind="risk")
    assert len(desk.hand.call("brief", desk.mia).lines) <= 30


# 10.2 Correctness


@pytest.mark.parametrize("kind", ["fact", "decision", "risk", "todo", "constraint", "diff", "test", "perf", "policy"])
def test_every_engram_has_a_pointer_whatever_its_kind(desk: Desk, kind: str) -> None:  # EB-01
    engram: dict[str, Any] = {"kind": kind, "claim": "The parser trusts its input."}
    with expect_refusal("NO_POINTER"):
        desk.hand.call("put_engram", desk.paul, **engram)
    with expect_refusal("NO_POINTER", "ENGRAMS[0].pointers"):
        desk.hand.report(desk.paul, engrams=[{**engram, "pointers": []}])


def test_a_dereferenced_excerpt_is_tied_to_its_pointer_by_the_digest(desk: Desk) -> None:  # EB-09
    answer = desk.hand.deref(desk.paul, desk.lines(3, 4))
    lines = "".join(FILES["src/parser.py"].splitlines(keepends=True)[2:4])
    assert (answer.excerpt, answer.content_digest) == (lines, digest(lines.encode()))
    assert answer.pointer.ref == desk.lines(3, 4)
    for proved in (answer.content_digest, answer.pointer.ref, '"deref.proved"'):
        assert proved.encode() in desk.journal().splitlines()[-1]


def test_an_oversized_message_is_rejected_and_resent_in_compliant_form(desk: Desk) -> None:  # EB-06
    text = CHILD.format(sha=desk.sha).replace("One risk found;", "One risk found; " + "and so it goes on " * 200)
    refusal = desk.refusal("send_message", desk.paul, text=text).problem()
    assert refusal["code"] == "BUDGET_EXCEEDED"
    resend = refusal["resend"]
    assert estimate_tokens(resend) <= 800
    answer = desk.send(resend.replace("...", "One risk found."))
    assert (len(answer.engrams), len(answer.requests)) == (1, 1)
    assert answer.resends is not None


# 8 Guardrails


def test_a_dereference_nobody_made_is_found_out(desk: Desk) -> None:  # EB-22
    other = desk.hand.add_agent("rex", "manager")
    found = desk.hand.put("The parser trusts its input.", refs=[desk.lines()])
    claimed = {"type": "repo", "ref": desk.lines(), "digest": found.pointers[0].digest}
    with expect_refusal("PHANTOM_READ", "ENGRAMS[0].pointers[0].digest"):
        desk.hand.report(desk.paul, engrams=[{"kind": "fact", "claim": "I read it.", "pointers": [claimed]}])
    desk.hand.deref(other, desk.lines())
    desk.hand.report(desk.paul, engrams=[{"kind": "fact", "claim": "I read it.", "pointers": [claimed]}])


def test_an_engram_keeps_the_digest_of_what_was_read(desk: Desk) -> None:  # EB-09
    answer = desk.hand.deref(desk.paul, desk.lines())
    engram = desk.hand.put("The parser trusts its input.", desk.paul, refs=[desk.lines()])
    assert engram.pointers[0].digest == answer.content_digest


def test_engrams_are_limited_by_the_minute(desk: Desk) -> None:  # EB-21
    desk.hand.call("apply_policy", policy={"engrams_per_minute": 1})
    desk.hand.put("The parser trusts its input.", desk.paul, refs=[desk.lines()])
    with expect_refusal("RATE_LIMITED"):
        desk.hand.put("The lexer is small.", desk.paul, refs=[desk.lines(5, 6)])
