"""The Engram Bus specification: a test for each line of section 8 (guardrails), 10 (acceptance) and 11 (test matrix).

Each runs over HTTP and over MCP, against a server. The times of 10.3 are measured by `make bench`
(docs/performance.md): a test that fails on a busy machine proves nothing.
"""

from __future__ import annotations

from typing import Any

import pytest

from engrambus.core import digest, estimate_tokens
from tests.limits.edges import Edge
from tests.limits.team import CHILD, PARENT, PASTED
from tests.projects import FILES, commit_files
from tests.tokens.padding import pad

CLAIM = "The parser trusts its input."
REPORT = "ROLE: programmer\nTASK_STATUS: done\nOUTPUT:\n  summary: {}\n"
KINDS = ("fact", "decision", "risk", "todo", "constraint", "diff", "test", "perf", "policy")


def pointer(ref: str, **fields: Any) -> dict[str, Any]:
    """Return a pointer as an object."""
    return {"type": ref.partition(":")[0], "ref": ref, **fields}


class TestBudget:
    """11.1 Budget tests."""

    def test_send_message_with_1200_inline_tokens_expect_budget_exceeded(self, edge: Edge) -> None:  # EB-06
        text = pad(REPORT.format("word " * 900), 1200)
        problem = edge.refusal("send_message", edge.team.paul, text=text)
        assert (problem["code"], problem["status"]) == (edge.code("BUDGET_EXCEEDED"), 413)
        assert (problem["limit"], problem["used"]) == (800, 1200)

    def test_attempt_4th_repo_deref_without_grant_deref_denied(self, edge: Edge) -> None:  # EB-08
        for line in (1, 2, 3):
            edge.call("deref_pointer", edge.team.paul, pointer=f"src/parser.py:{line}")
        problem = edge.refusal("deref_pointer", edge.team.paul, pointer="src/parser.py:4")
        assert (problem["code"], problem["status"]) == (edge.code("DEREF_DENIED"), 403)
        assert (problem["field"], problem["limit"], problem["used"]) == ("turn.repo", 3, 3)

    def test_attempt_inline_code_without_grant_rejected(self, edge: Edge) -> None:  # EB-07
        team = edge.team
        for operation, fields in (
            ("send_message", {"text": REPORT.format("|\n" + "".join(f"    {line}\n" for line in PASTED.splitlines()))}),
            ("put_engram", {"claim": PASTED, "at": ["src/parser.py:1"]}),
            ("request_deref", {"pointer": team.lines(), "reason": PASTED}),
        ):
            problem = edge.refusal(operation, team.paul, **fields)
            assert problem["code"] == edge.code("BUDGET_EXCEEDED")
            assert "inline_code_chars" in str(problem["exceeded"])


class TestPointers:
    """11.2 Pointer tests."""

    def test_pointer_missing_sha_rejected(self, edge: Edge) -> None:  # EB-03
        bare = pointer("repo:src/parser.py#L1-L2")
        problem = edge.refusal("put_engram", edge.team.paul, claim=CLAIM, pointers=[bare])
        assert (problem["code"], problem["status"]) == ("POINTER_NOT_PINNED", 422)
        short = pointer(f"repo:src/parser.py#L1-L2@{edge.team.sha[:12]}")
        assert edge.refusal("put_engram", edge.team.paul, claim=CLAIM, pointers=[short])["code"] == "POINTER_REVISION"

    def test_pointer_refers_to_nonexistent_file_deref_fails_with_clear_error(self, edge: Edge) -> None:  # EB-04
        problem = edge.refusal("deref_pointer", edge.team.paul, pointer=edge.team.lines(file="src/gone.py"))
        assert (problem["code"], problem["status"]) == ("FILE_NOT_FOUND", 404)
        problem = edge.refusal("deref_pointer", edge.team.paul, pointer=edge.team.lines(900, 901))
        assert (problem["code"], problem["status"]) == ("SPAN_NOT_FOUND", 404)


class TestEngramQuality:
    """11.3 Engram quality tests."""

    def test_engram_without_pointers_rejected(self, edge: Edge) -> None:  # EB-01
        problem = edge.refusal("put_engram", edge.team.paul, claim=CLAIM)
        assert (problem["code"], problem["status"], problem["field"]) == ("NO_POINTER", 422, "pointers")

    def test_engram_over_length_rejected(self, edge: Edge) -> None:  # EB-01
        problem = edge.refusal("put_engram", edge.team.paul, claim="x" * 501, at=["src/parser.py:1"])
        assert (problem["code"], problem["limit"], problem["used"]) == ("CLAIM_TOO_LONG", 500, 501)

    def test_engram_ttl_expired_excluded_from_queries(self, edge: Edge) -> None:  # EB-13
        edge.put(CLAIM, edge.team.paul, ttl="PT1H")
        assert len(edge.call("query_engrams", edge.team.paul, q="parser")["engrams"]) == 1
        edge.team.clock.advance(seconds=3600)
        assert edge.call("query_engrams", edge.team.paul, q="parser")["engrams"] == []


class TestFunctional:
    """10.1 Functional: agents can coordinate on a repo task with these limits."""

    def test_agents_coordinate_on_a_repo_task_in_the_published_forms(self, edge: Edge) -> None:  # EB-16
        team = edge.team
        answer = edge.call("send_message", team.paul, text=CHILD.format(sha=team.sha))
        assert (answer["to"], len(answer["engrams"]), len(answer["requests"])) == ("mia", 1, 1)
        grant = edge.call("approve_request", team.mia, id=answer["requests"][0], cap_tokens=500)
        text = PARENT.format(sha=team.sha, token=grant["budget_token"])
        assert edge.call("broadcast", team.mia, text=text)["to"] == ["paul"]
        assert len(edge.mail(team.paul, "grant")) == len(edge.mail(team.paul, "broadcast")) == 1
        read = edge.call("deref_pointer", team.paul, pointer=team.lines(1, 30), budget_token=grant["budget_token"])
        assert read["excerpt"]

    def test_at_most_800_inline_tokens_per_message(self, edge: Edge) -> None:  # EB-06
        text = pad(REPORT.format("Done."), 800)
        edge.call("send_message", edge.team.paul, text=text)
        problem = edge.refusal("send_message", edge.team.paul, text=text + "#")
        assert (problem["code"], problem["limit"]) == (edge.code("BUDGET_EXCEEDED"), 800)

    def test_at_most_3_repo_dereferences_per_turn(self, edge: Edge) -> None:  # EB-08, EB-09
        team = edge.team
        for _ in range(2):
            for _ in range(3):
                edge.call("deref_pointer", team.paul, pointer="src/parser.py:1")
            problem = edge.refusal("deref_pointer", team.paul, pointer="src/parser.py:1")
            assert (problem["code"], problem["field"]) == (edge.code("DEREF_DENIED"), "turn.repo")
            edge.call("send_message", team.paul, text=REPORT.format("Next turn."))

    def test_no_inline_code_unless_granted(self, edge: Edge) -> None:  # EB-07
        team = edge.team
        ref = f"repo:src/split.py@{commit_files(team.repository.path, {'src/split.py': PASTED})}"
        text = REPORT.format("|\n" + "".join(f"    {line}\n" for line in PASTED.splitlines()))
        assert edge.refusal("send_message", team.paul, text=text)["code"] == edge.code("BUDGET_EXCEEDED")
        grant = edge.call("issue_grant", team.mia, child_id="paul", pointer=ref, inline_code_chars=500)
        sent = edge.call("send_message", team.paul, text=text, budget_token=grant["budget_token"])
        assert sent["to"] == "mia"

    def test_parent_can_broadcast_a_shared_brief_micro_of_at_most_30_lines(self, edge: Edge) -> None:  # EB-17
        team = edge.team
        lines = "".join("- Distrust the input.\n" for _ in range(30))
        edge.call("broadcast", team.mia, text=f"ROLE: manager\nSHARED_BRIEF_MICRO:\n{lines}")
        text = f"ROLE: manager\nSHARED_BRIEF_MICRO:\n{lines}- One more.\n"
        problem = edge.refusal("broadcast", team.mia, text=text)
        assert (problem["code"], problem["field"]) == (edge.code("BUDGET_EXCEEDED"), "SHARED_BRIEF_MICRO")
        for number in range(1, 30):
            edge.put(f"Part {number} of the parser trusts it.", at=[f"src/parser.py:{number}"], kind="constraint")
        assert 10 < len(edge.call("brief", team.mia)["lines"]) <= 30


class TestCorrectness:
    """10.2 Correctness."""

    @pytest.mark.parametrize("kind", KINDS)
    def test_every_engram_used_in_decision_making_has_at_least_one_pointer(
        self, edge: Edge, kind: str
    ) -> None:  # EB-01
        team = edge.team
        problem = edge.refusal("put_engram", team.paul, claim=CLAIM, kind=kind)
        assert problem["code"] == "NO_POINTER"
        engram = edge.put(CLAIM, team.paul, kind=kind)
        assert engram["pointers"]
        decision = edge.put(
            "We check it first.", team.paul, at=["src/parser.py:9"], kind="decision", used=[engram["id"]]
        )
        (about,) = edge.call("query_engrams", team.paul, q="check first", k=1)["about"].values()
        assert about["used"] == [engram["id"]]
        assert decision["pointers"]
        assert "used" not in decision

    def test_dereferenced_excerpts_are_provably_tied_to_pointers_via_content_digest(self, edge: Edge) -> None:  # EB-05
        team = edge.team
        answer = edge.call("deref_pointer", team.paul, pointer="src/parser.py:3-4")
        lines = "".join(FILES["src/parser.py"].splitlines(keepends=True)[2:4])
        assert (answer["excerpt"], answer["content_digest"]) == (lines, digest(lines.encode()))
        assert answer["pointer"]["ref"] == team.lines(3, 4)
        last = team.journal().splitlines()[-1]
        for recorded in (answer["content_digest"], answer["pointer"]["ref"], '"deref.proved"'):
            assert recorded.encode() in last

    def test_oversized_messages_are_rejected_and_successfully_resent_in_compliant_format(self, edge: Edge) -> None:
        team = edge.team  # EB-06, EB-10
        text = CHILD.format(sha=team.sha).replace("One risk found;", "One risk found; " + "and so it goes on " * 200)
        problem = edge.refusal("send_message", team.paul, text=text)
        assert problem["code"] == edge.code("BUDGET_EXCEEDED")
        resend = problem["resend"]
        assert estimate_tokens(resend) <= 800
        answer = edge.call("send_message", team.paul, text=resend.replace("...", "One risk found."))
        assert (len(answer["engrams"]), len(answer["requests"])) == (1, 1)
        assert answer["resends"]


class TestGuardrails:
    """8.2 and 8.3 Guardrails and pointer integrity."""

    def test_reject_engrams_with_no_pointers_or_unresolvable_references_or_long_claims(self, edge: Edge) -> None:
        team = edge.team  # EB-02, EB-04
        for changes, code in (
            ({"pointers": []}, "NO_POINTER"),
            ({"pointers": [{"type": "sam", "ref": "sam:decision@1"}]}, "POINTER_SYNTAX"),
            ({"pointers": [pointer(f"test:t.py::x@sha256:{'c' * 64}")]}, "RECEIPT_NOT_FOUND"),
            ({"pointers": [pointer("sam:decision:never-made@7")]}, "EPISODE_NOT_FOUND"),
            ({"pointers": [pointer(team.lines())], "claim": "x" * 501}, "CLAIM_TOO_LONG"),
        ):
            assert edge.refusal("put_engram", team.paul, **{"claim": CLAIM, **changes})["code"] == code

    def test_deref_responses_include_content_digest_and_the_exact_pointer_used(self, edge: Edge) -> None:  # EB-05
        answer = edge.call("deref_pointer", edge.team.paul, pointer=edge.team.lines(5, 6))
        assert answer["pointer"]["ref"] == edge.team.lines(5, 6)
        assert answer["content_digest"].startswith("sha256:")

    def test_hallucinated_deref_is_refused(self, edge: Edge) -> None:  # EB-22
        team = edge.team
        engram = edge.put(CLAIM)
        claimed = pointer(team.lines(), digest=engram["pointers"][0]["digest"])
        problem = edge.refusal("put_engram", team.paul, claim="I have read it.", pointers=[claimed])
        assert (problem["code"], problem["field"]) == ("PHANTOM_READ", "pointers[0].digest")
        edge.call("deref_pointer", team.paul, pointer=team.lines())
        edge.call("put_engram", team.paul, claim="I have read it.", pointers=[claimed])

    def test_the_digest_of_read_content_is_stored_with_the_engram(self, edge: Edge) -> None:  # EB-22
        answer = edge.call("deref_pointer", edge.team.paul, pointer="src/parser.py:1-2")
        assert edge.put(CLAIM, edge.team.paul)["pointers"][0]["digest"] == answer["content_digest"]

    def test_engram_spam_is_limited(self, edge: Edge) -> None:  # EB-21
        edge.team.client.call("apply_policy", policy={"engrams_per_minute": 1})
        edge.put(CLAIM, edge.team.paul)
        problem = edge.refusal("put_engram", edge.team.paul, claim="The lexer is small.", at=["src/parser.py:5"])
        assert (problem["code"], problem["status"], problem["limit"]) == ("RATE_LIMITED", 429, 1)
