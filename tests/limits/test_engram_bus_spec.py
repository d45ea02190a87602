"""The Engram Bus specification, section 10 (acceptance) and section 11 (test matrix): one test for each line."""

from __future__ import annotations

from typing import Any

import pytest

from engrambus.core import digest, estimate_tokens
from engrambus.testing import expect_refusal
from tests.limits.team import CHILD, PARENT, PASTED, Team
from tests.projects import FILES, commit_files
from tests.tokens.padding import pad

REPORT = "ROLE: programmer\nTASK_STATUS: done\nOUTPUT:\n  summary: {}\n"


# 11.1 Budget tests


def test_a_message_of_1200_inline_tokens_is_budget_exceeded(team: Team) -> None:  # EB-06
    text = pad(REPORT.format("word " * 900), 1200)
    refusal = team.refusal("send_message", team.paul, text=text)
    assert (refusal.code, refusal.limit, refusal.used) == ("BUDGET_EXCEEDED", 800, 1200)


def test_the_4th_repo_dereference_without_a_grant_is_denied(team: Team) -> None:  # EB-08
    for line in (1, 2, 3):
        team.client.deref(team.paul, team.lines(line, line))
    with expect_refusal("DEREF_DENIED", "turn.repo"):
        team.client.deref(team.paul, team.lines(4, 4))


def test_inline_code_without_a_grant_is_rejected(team: Team) -> None:  # EB-07
    with expect_refusal("BUDGET_EXCEEDED", "OUTPUT.summary"):
        team.client.report(team.paul, PASTED)
    ref = f"repo:src/split.py@{commit_files(team.repository.path, {'src/split.py': PASTED})}"
    grant = team.client.call("issue_grant", team.mia, child_id="paul", pointer=ref, inline_code_chars=500)
    assert team.client.report(team.paul, PASTED, token=grant.budget_token).to == "mia"


# 11.2 Pointer tests


def test_a_pointer_without_a_sha_is_rejected(team: Team) -> None:  # EB-03
    with expect_refusal("POINTER_NOT_PINNED"):
        team.client.put("The parser trusts its input.", team.paul, refs=["repo:src/parser.py#L1-L2"])
    with expect_refusal("POINTER_REVISION"):
        team.client.deref(team.paul, f"repo:src/parser.py#L1-L2@{team.sha[:12]}")


def test_a_pointer_to_a_missing_file_is_refused(team: Team) -> None:  # EB-12
    refusal = team.refusal("deref_pointer", team.paul, pointer=team.lines(file="src/gone.py"))
    assert (refusal.code, refusal.status, refusal.field) == ("FILE_NOT_FOUND", 404, "pointer.ref")
    with expect_refusal("SPAN_NOT_FOUND"):
        team.client.deref(team.paul, team.lines(900, 901))


# 11.3 Engram quality tests


def test_an_engram_without_pointers_is_rejected(team: Team) -> None:  # EB-01
    with expect_refusal("NO_POINTER", "pointers"):
        team.client.call("put_engram", team.paul, claim="The parser trusts its input.")


def test_an_engram_over_length_is_rejected(team: Team) -> None:  # EB-01
    with expect_refusal("CLAIM_TOO_LONG", "claim"):
        team.client.put("x" * 501, team.paul, refs=[team.lines()])


def test_an_engram_whose_ttl_has_expired_is_not_found(team: Team) -> None:  # EB-04
    team.client.put("The parser trusts its input.", team.paul, refs=[team.lines()], ttl="PT1H")
    assert len(team.client.query("parser", team.paul).engrams) == 1
    team.clock.advance(seconds=3600)
    assert team.client.query("parser", team.paul).engrams == []


# 10.1 Functional


def test_agents_coordinate_in_the_published_forms(team: Team) -> None:  # EB-16
    answer = team.send(CHILD.format(sha=team.sha))
    assert (answer.to, len(answer.engrams), len(answer.requests)) == ("mia", 1, 1)
    grant = team.client.call("approve_request", team.mia, id=answer.requests[0], cap_tokens=500)
    sent = team.client.call("broadcast", team.mia, text=PARENT.format(sha=team.sha, token=grant.budget_token))
    assert sent.to == ["paul"]
    assert [mail.kind for mail in team.client.mail(team.paul)] == ["grant", "broadcast"]
    assert team.client.deref(team.paul, team.lines(1, 30), budget_token=grant.budget_token).excerpt


def test_a_message_of_800_tokens_is_accepted_and_of_801_is_not(team: Team) -> None:  # EB-06
    text = REPORT.format("Done.")
    team.send(pad(text, 800))
    with expect_refusal("BUDGET_EXCEEDED"):
        team.send(pad(text, 800) + "#")


@pytest.mark.parametrize(
    ("ref", "allowed", "count"),
    [("repo:src/parser.py#L1-L1@{}", 3, "repo"), ("artifact:docs/design.md#sec=Parser@{}", 2, "artifact")],
)
def test_each_type_of_pointer_has_a_limit_per_turn(team: Team, ref: str, allowed: int, count: str) -> None:  # EB-08
    for _ in range(allowed):
        team.client.deref(team.paul, ref.format(team.sha))
    with expect_refusal("DEREF_DENIED", f"turn.{count}"):
        team.client.deref(team.paul, ref.format(team.sha))


def test_a_parent_broadcasts_a_brief_of_at_most_30_lines(team: Team) -> None:  # EB-17
    team.client.broadcast(team.mia, *["Distrust the input."] * 30)
    with expect_refusal("BUDGET_EXCEEDED", "SHARED_BRIEF_MICRO"):
        team.client.broadcast(team.mia, *["Distrust the input."] * 31)
    team.client.put("The parser trusts its input.", team.paul, refs=[team.lines()], kind="risk")
    assert len(team.client.call("brief", team.mia).lines) <= 30


# 10.2 Correctness


@pytest.mark.parametrize("kind", ["fact", "decision", "risk", "todo", "constraint", "diff", "test", "perf", "policy"])
def test_engrams_of_every_kind_need_a_pointer(team: Team, kind: str) -> None:  # EB-01
    engram: dict[str, Any] = {"kind": kind, "claim": "The parser trusts its input."}
    with expect_refusal("NO_POINTER"):
        team.client.call("put_engram", team.paul, **engram)
    with expect_refusal("NO_POINTER", "ENGRAMS[0].pointers"):
        team.client.report(team.paul, engrams=[{**engram, "pointers": []}])


def test_a_dereference_records_the_digest_of_its_content(team: Team) -> None:  # EB-09
    answer = team.client.deref(team.paul, team.lines(3, 4))
    lines = "".join(FILES["src/parser.py"].splitlines(keepends=True)[2:4])
    assert (answer.excerpt, answer.content_digest) == (lines, digest(lines.encode()))
    assert answer.pointer.ref == team.lines(3, 4)
    for recorded in (answer.content_digest, answer.pointer.ref, '"deref.proved"'):
        assert recorded.encode() in team.journal().splitlines()[-1]


def test_the_template_of_a_rejected_message_can_be_sent(team: Team) -> None:  # EB-06
    text = CHILD.format(sha=team.sha).replace("One risk found;", "One risk found; " + "and so it goes on " * 200)
    refusal = team.refusal("send_message", team.paul, text=text).problem()
    assert refusal["code"] == "BUDGET_EXCEEDED"
    resend = refusal["resend"]
    assert estimate_tokens(resend) <= 800
    answer = team.send(resend.replace("...", "One risk found."))
    assert (len(answer.engrams), len(answer.requests)) == (1, 1)
    assert answer.resends is not None


# 8 Guardrails


def test_a_digest_that_was_not_read_in_the_run_is_refused(team: Team) -> None:  # EB-22
    rex = team.client.add_agent("rex", "manager")
    engram = team.client.put("The parser trusts its input.", refs=[team.lines()])
    claimed = {"type": "repo", "ref": team.lines(), "digest": engram.pointers[0].digest}
    with expect_refusal("PHANTOM_READ", "ENGRAMS[0].pointers[0].digest"):
        team.client.report(team.paul, engrams=[{"kind": "fact", "claim": "I read it.", "pointers": [claimed]}])
    team.client.deref(rex, team.lines())
    team.client.report(team.paul, engrams=[{"kind": "fact", "claim": "I read it.", "pointers": [claimed]}])


def test_an_engram_has_the_digest_of_the_content_that_was_read(team: Team) -> None:  # EB-09
    answer = team.client.deref(team.paul, team.lines())
    engram = team.client.put("The parser trusts its input.", team.paul, refs=[team.lines()])
    assert engram.pointers[0].digest == answer.content_digest


def test_engrams_per_minute_are_limited(team: Team) -> None:  # EB-21
    team.client.call("apply_policy", policy={"engrams_per_minute": 1})
    team.client.put("The parser trusts its input.", team.paul, refs=[team.lines()])
    with expect_refusal("RATE_LIMITED"):
        team.client.put("The lexer is small.", team.paul, refs=[team.lines(5, 6)])
