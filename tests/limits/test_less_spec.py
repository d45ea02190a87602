"""The LESS specification: a test for each line of sections 6, 7, 12, 13 and 15.

Each runs over HTTP and over MCP, against a server; figures, events and the page exist over HTTP only.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from engrambus.core import estimate_tokens
from engrambus.testing.client import format_message
from tests.limits.edges import Edge
from tests.limits.team import CHILD, PARENT, PASTED
from tests.projects import FILES, commit_files, make_gateway, make_repository, make_settings
from tests.tokens.padding import pad

CLAIM = "The parser trusts its input."
LONG = "And then it went on and on and said very little of use. " * 80
DESIGN = "artifact:docs/design.md#sec=Parser@{sha}"


def report(summary: str = "Done.", **sections: Any) -> str:
    """Return a child's message; its sections are named in lower case."""
    return format_message(role="programmer", task_status="done", **sections, output={"summary": summary})


class TestInlineBudget:
    """6.1 Inline budget (message size)."""

    def test_max_inline_tokens_800(self, edge: Edge) -> None:  # EB-06
        text = pad("ROLE: programmer\nTASK_STATUS: done\nOUTPUT:\n  summary: Done.\n", 800)
        edge.call("send_message", edge.team.paul, text=text)
        problem = edge.refusal("send_message", edge.team.paul, text=text + "#")
        assert (problem["code"], problem["limit"]) == (edge.code("BUDGET_EXCEEDED"), 800)

    def test_max_engrams_12(self, edge: Edge) -> None:  # EB-06
        def engrams(count: int) -> list[dict[str, Any]]:
            return [
                {"kind": "fact", "claim": f"Line {n} is odd.", "at": f"src/parser.py:{n}"} for n in range(1, count + 1)
            ]

        sent = edge.call("send_message", edge.team.paul, text=report(engrams=engrams(12)))
        assert len(sent["engrams"]) == 12
        problem = edge.refusal("send_message", edge.team.paul, text=report(engrams=engrams(13)))
        assert problem["code"] == edge.code("BUDGET_EXCEEDED")
        rows = [(row["what"], row["limit"], row["used"]) for row in problem["exceeded"]]
        assert ("engrams", 12, 13) in rows

    def test_max_inline_code_0_only_via_grant(self, edge: Edge) -> None:  # EB-07
        team = edge.team
        ref = f"repo:src/split.py@{commit_files(team.repository.path, {'src/split.py': PASTED})}"
        problem = edge.refusal("send_message", team.paul, text=report(PASTED))
        assert problem["code"] == edge.code("BUDGET_EXCEEDED")
        grant = edge.call("issue_grant", team.mia, child_id="paul", pointer=ref, inline_code_chars=500)
        edge.call("send_message", team.paul, text=report(PASTED), budget_token=grant["budget_token"])


class TestDerefBudget:
    """6.2 Deref budget (content pulls)."""

    @pytest.mark.parametrize(
        ("line", "count", "allowed"),
        [("MAX_REPO_SPANS", "repo", 3), ("MAX_ARTIFACT_SECTIONS", "artifact", 2), ("MAX_SAM_ITEMS", "sam", 2)],
    )
    def test_max_of_each_type(self, edge: Edge, line: str, count: str, allowed: int) -> None:  # EB-08
        episode = edge.team.client.call("keep_episode", text="We deploy on Thursdays.", kind="decision", slug="deploy")
        refs = {
            "repo": edge.team.lines(),
            "artifact": DESIGN.format(sha=edge.team.sha),
            "sam": episode.ref,
        }
        for _ in range(allowed):
            edge.call("deref_pointer", edge.team.paul, pointer=refs[count])
        problem = edge.refusal("deref_pointer", edge.team.paul, pointer=refs[count])
        assert (problem["code"], problem["field"]) == (edge.code("DEREF_DENIED"), f"turn.{count}")
        assert (problem["limit"], problem["used"]) == (allowed, allowed)

    def test_max_deref_tokens_total_1200(self, edge: Edge) -> None:  # EB-08
        text = "".join(f"line {number} of a long file of lines\n" for number in range(400))
        sha = commit_files(edge.team.repository.path, {"src/long.py": text})
        ref = f"repo:src/long.py@{sha}"
        used = 0
        for _ in range(2):
            answer = edge.call("deref_pointer", edge.team.paul, pointer=ref, max_tokens=700)
            used += estimate_tokens(answer["excerpt"])
        assert used <= 1200
        problem = edge.refusal("deref_pointer", edge.team.paul, pointer=ref, max_tokens=700)
        assert (problem["code"], problem["field"]) == (edge.code("DEREF_DENIED"), "turn.tokens")
        assert problem["limit"] == 1200


class TestEnforcement:
    """6.3 Enforcement."""

    def test_reject_oversize_messages_less_budget_exceeded(self, edge: Edge) -> None:  # EB-06
        problem = edge.refusal("send_message", edge.team.paul, text=report(LONG))
        assert (problem["code"], problem["status"]) == (edge.code("BUDGET_EXCEEDED"), 413)
        assert (edge.name == "MCP") == problem["code"].startswith("LESS_")

    def test_reject_ungranted_deref_less_deref_denied(self, edge: Edge) -> None:  # EB-08, EB-11
        team = edge.team
        for _ in range(3):
            edge.call("deref_pointer", team.paul, pointer=team.lines())
        problem = edge.refusal("deref_pointer", team.paul, pointer=team.lines())
        assert (problem["code"], problem["status"]) == (edge.code("DEREF_DENIED"), 403)
        assert (edge.name == "MCP") == problem["code"].startswith("LESS_")
        assert "less.request_deref" in problem["hint"]

    def test_require_resend_in_compliant_engram_and_pointer_format(self, edge: Edge) -> None:  # EB-06, EB-10
        team = edge.team
        text = CHILD.format(sha=team.sha).replace("One risk found;", f"One risk found; {LONG}")
        problem = edge.refusal("send_message", team.paul, text=text)
        resend = problem["resend"]
        assert {"ROLE", "TASK_STATUS", "ENGRAMS", "OUTPUT"} <= {line.partition(":")[0] for line in resend.splitlines()}
        assert f"src/parser.py:10-20@{team.sha[:12]}" in resend
        assert edge.refusal("send_message", team.paul, text=resend)["code"] == "MESSAGE_UNFILLED"
        assert edge.call("send_message", team.paul, text=resend.replace("...", "One risk found."))["resends"]


class TestChildToParent:
    """7.1 Child → Parent (compression)."""

    def test_child_outputs_top_k_engrams(self, edge: Edge) -> None:  # EB-16
        sent = edge.call("send_message", edge.team.paul, text=CHILD.format(sha=edge.team.sha))
        (mail,) = edge.mail(edge.team.mia, "message")
        assert mail["engrams"] == sent["engrams"]
        (found,) = edge.call("query_engrams", edge.team.mia, q="parser design")["engrams"]
        assert found["id"] == sent["engrams"][0]

    def test_child_outputs_a_pointer_pack(self, edge: Edge) -> None:  # EB-16
        edge.call("send_message", edge.team.paul, text=CHILD.format(sha=edge.team.sha))
        (mail,) = edge.mail(edge.team.mia, "message")
        assert "POINTER_PACK" in mail["text"]
        assert edge.team.lines(1, 5) in mail["text"]

    def test_child_outputs_optional_deref_requests_with_reasons_and_intended_use(self, edge: Edge) -> None:  # EB-10
        request = {
            "pointer": edge.team.lines(),
            "reason": "To see the input taken.",
            "intended_use": "To write a test.",
        }
        edge.call("send_message", edge.team.paul, text=report(deref_requests=[request]))
        (listed,) = edge.call("list_requests", edge.team.mia)["requests"]
        assert (listed["reason"], listed["intended_use"]) == (request["reason"], request["intended_use"])
        text = report(deref_requests=[{"pointer": edge.team.lines()}])
        problem = edge.refusal("send_message", edge.team.paul, text=text)
        assert (problem["code"], problem["field"]) == ("FIELD_MISSING", "DEREF_REQUESTS[0].reason")

    @pytest.mark.parametrize(
        ("line", "pasted"),
        [
            ("long summaries", LONG),
            ("pasted code", PASTED),
            ("pasted code in a fence", f"```\n{PASTED}```"),
            ("large file sections", FILES["src/parser.py"] * 8),
        ],
    )
    def test_child_must_not_output(self, edge: Edge, line: str, pasted: str) -> None:  # EB-07
        problem = edge.refusal("send_message", edge.team.paul, text=report(pasted))
        assert problem["code"] == edge.code("BUDGET_EXCEEDED")
        assert edge.mail(edge.team.mia, "message") == []


class TestParentToChild:
    """7.2 Parent → Child (attention allocation)."""

    def broadcast(self, edge: Edge) -> dict[str, Any]:
        """Send the published broadcast with a grant, and return it as the child gets it."""
        team = edge.team
        grant = edge.call("issue_grant", team.mia, child_id="paul", pointer=team.lines(1, 30), cap_tokens=500)
        text = PARENT.format(sha=team.sha, token=grant["budget_token"])
        assert edge.call("broadcast", team.mia, text=text)["to"] == ["paul"]
        return {**edge.mail(team.paul, "broadcast")[-1], "handle": grant["budget_token"]}

    def test_parent_outputs_a_shared_brief_micro(self, edge: Edge) -> None:  # EB-16, EB-17
        assert "Goal: make the parser distrust its input." in self.broadcast(edge)["text"]
        edge.put(CLAIM, edge.team.paul, kind="risk")
        assert any(CLAIM in line for line in edge.call("brief", edge.team.paul)["lines"])

    def test_parent_outputs_budgets(self, edge: Edge) -> None:  # EB-16
        team = edge.team
        edge.call("broadcast", team.mia, text="ROLE: manager\nBUDGETS:\n  max_repo_spans: 1\n  max_engrams: 1\n")
        edge.call("deref_pointer", team.paul, pointer="src/parser.py:1")
        problem = edge.refusal("deref_pointer", team.paul, pointer="src/parser.py:1")
        assert (problem["code"], problem["limit"]) == (edge.code("DEREF_DENIED"), 1)
        assert "max_repo_spans: 3" in self.broadcast(edge)["text"]

    def test_parent_outputs_targeted_pointer_packs_per_role(self, edge: Edge) -> None:  # EB-16
        team = edge.team
        lead = team.client.add_agent("lead", "architect")
        children = {role: team.client.add_agent(f"a-{role}", role, lead) for role in ("manager", "programmer")}
        refs = {"manager": team.lines(1, 5), "programmer": team.lines(6, 9)}
        packs = [{"type": "repo", "ref": ref, "for": f"role:{role}"} for role, ref in refs.items()]
        edge.call("broadcast", lead, text=format_message(role="architect", target_pointer_pack=packs))
        for role, child in children.items():
            (mail,) = edge.mail(child, "broadcast")
            assert [ref for ref in refs.values() if ref in mail["text"]] == [refs[role]]

    def test_parent_outputs_deref_grants(self, edge: Edge) -> None:  # EB-11, EB-16
        mail = self.broadcast(edge)
        assert mail["handle"] in mail["text"]
        team = edge.team
        for _ in range(3):
            edge.call("deref_pointer", team.paul, pointer=team.lines())
        read = edge.call("deref_pointer", team.paul, pointer=team.lines(1, 30), budget_token=mail["handle"])
        assert read["excerpt"]

    def test_parent_is_the_allocator_of_attention(self, edge: Edge) -> None:  # EB-11
        team = edge.team
        problem = edge.refusal("issue_grant", team.paul, child_id="mia", pointer=team.lines())
        assert (problem["code"], problem["status"]) == ("ROLE_FORBIDDEN", 403)
        problem = edge.refusal("issue_grant", team.mia, child_id="mia", pointer=team.lines())
        assert problem["status"] in (403, 404)


class TestEvents:
    """12 LESS emits structured events."""

    def events(self, edge: Edge) -> list[dict[str, Any]]:
        """Return all events so far, as a page."""
        headers = {"Accept": "application/json"}
        page = edge.server.call("GET", "/events?after=0", headers=headers)
        events: list[dict[str, Any]] = page.json["events"]
        return events

    def types(self, edge: Edge) -> set[str]:
        """Return the types of all events so far."""
        return {event["type"] for event in self.events(edge)}

    def test_less_engram_put(self, edge: Edge) -> None:  # EB-26
        assert "less.engram.put" not in self.types(edge)
        engram = edge.put(CLAIM, edge.team.paul)
        (event,) = (event for event in self.events(edge) if event["type"] == "less.engram.put")
        assert engram["id"] in json.dumps(event)
        assert CLAIM not in json.dumps(event)

    def test_less_engram_query(self, edge: Edge) -> None:  # EB-26
        connection = HTTPConnection("127.0.0.1", edge.server.port, timeout=60)
        try:
            connection.request(
                "GET", "/events?type=less.engram.query", headers={"Authorization": f"Bearer {edge.server.token}"}
            )
            stream = connection.getresponse()
            edge.call("query_engrams", edge.team.paul, q="parser")
            line = next(line for line in iter(stream.readline, b"") if line.startswith(b"event:"))
            assert line.split(b":", 1)[1].strip() == b"less.engram.query"
        finally:
            connection.close()

    def test_less_deref_request(self, edge: Edge) -> None:  # EB-26
        edge.call("request_deref", edge.team.paul, pointer=edge.team.lines(), reason="To see the input taken.")
        assert "less.deref.request" in self.types(edge)

    def test_less_deref_grant(self, edge: Edge) -> None:  # EB-26
        edge.call("issue_grant", edge.team.mia, child_id="paul", pointer=edge.team.lines())
        assert "less.deref.grant" in self.types(edge)

    def test_less_budget_reject(self, edge: Edge) -> None:  # EB-26
        edge.refusal("send_message", edge.team.paul, text=report(LONG))
        assert "less.budget.reject" in self.types(edge)


class TestMetrics:
    """12 Metrics."""

    def figures(self, edge: Edge, role: str = "programmer") -> dict[str, Any]:
        """Return the figures of a role in this run."""
        rows = edge.call("stats", edge.team.mia)["roles"]
        figures: dict[str, Any] = next(row["figures"] for row in rows if row["role"] == role)
        return figures

    def test_avg_inline_tokens_per_turn_by_role(self, edge: Edge) -> None:  # EB-26
        text = report("One.")
        edge.call("send_message", edge.team.paul, text=text)
        assert self.figures(edge)["inline_tokens_per_turn"] == estimate_tokens(text)

    def test_derefs_per_turn_by_role(self, edge: Edge) -> None:  # EB-26
        for _ in range(2):
            edge.call("deref_pointer", edge.team.paul, pointer="src/parser.py:1")
        edge.call("send_message", edge.team.paul, text=report())
        assert self.figures(edge)["derefs_per_turn"] == 2

    def test_top_engram_kinds(self, edge: Edge) -> None:  # EB-26
        for line, kind in enumerate(("risk", "fact", "risk"), 1):
            edge.put(f"Line {line} is odd.", edge.team.paul, at=[f"src/parser.py:{line}"], kind=kind)
        assert list(self.figures(edge)["kinds"].items()) == [("risk", 2), ("fact", 1)]

    def test_contradiction_rate(self, edge: Edge) -> None:  # EB-26
        sources = [{"type": "repo", "ref": edge.team.lines()}]
        sources += [{"type": "artifact", "ref": DESIGN.format(sha=edge.team.sha)}]
        edge.call("put_engram", edge.team.paul, claim="Code and design disagree.", kind="risk", pointers=sources)
        edge.put(CLAIM, edge.team.paul)
        assert self.figures(edge)["contradiction_rate"] == 0.5

    def test_resend_rate_after_budget_rejection(self, edge: Edge) -> None:  # EB-26
        problem = edge.refusal("send_message", edge.team.paul, text=report(LONG))
        edge.call("send_message", edge.team.paul, text=problem["resend"].replace("...", "Done."))
        assert self.figures(edge)["resend_rate"] == 1.0
        edge.call("send_message", edge.team.paul, text=report("Done again."))
        assert self.figures(edge)["resend_rate"] == 0.5


class TestPointerIntegrity:
    """13.1 Pointer integrity."""

    def test_pointer_deref_returns_content_digest(self, edge: Edge) -> None:  # EB-05
        whole = edge.call("deref_pointer", edge.team.paul, pointer=edge.team.lines(1, 30))
        cut = edge.call("deref_pointer", edge.team.paul, pointer=edge.team.lines(1, 30), max_tokens=150)
        assert cut["truncated"]
        assert cut["content_digest"] == whole["content_digest"]

    def test_engrams_referencing_dereferenced_content_record_the_digest(self, edge: Edge) -> None:  # EB-22
        answer = edge.call("deref_pointer", edge.team.paul, pointer=edge.team.lines())
        read = {"type": "repo", "ref": edge.team.lines(), "digest": answer["content_digest"]}
        engram = edge.call("put_engram", edge.team.paul, claim=CLAIM, pointers=[read])
        assert engram["pointers"][0]["digest"] == answer["content_digest"]

    def test_phantom_reads_are_prevented(self, edge: Edge) -> None:  # EB-22
        stamped = edge.put(CLAIM)["pointers"][0]
        problem = edge.refusal("put_engram", edge.team.paul, claim="I have read it.", pointers=[stamped])
        assert problem["code"] == "PHANTOM_READ"
        wrong = {**stamped, "digest": "sha256:" + "0" * 64}
        problem = edge.refusal("put_engram", edge.team.paul, claim="I have read it.", pointers=[wrong])
        assert problem["code"] == "DIGEST_MISMATCH"
        assert stamped["digest"] not in json.dumps(problem)


class TestAntiSpam:
    """13.2 Anti-spam."""

    def test_max_engrams_per_agent_per_minute(self, edge: Edge) -> None:  # EB-21
        edge.team.client.call("apply_policy", policy={"engrams_per_minute": 2})
        for line in (1, 2):
            edge.put(f"Line {line} is odd.", edge.team.paul, at=[f"src/parser.py:{line}"])
        problem = edge.refusal("put_engram", edge.team.paul, claim="Line 3 is odd.", at=["src/parser.py:3"])
        assert (problem["code"], problem["status"], problem["limit"]) == ("RATE_LIMITED", 429, 2)
        edge.team.clock.advance(seconds=61)
        edge.put("Line 3 is odd.", edge.team.paul, at=["src/parser.py:3"])

    def test_ttl_eviction(self, edge: Edge) -> None:  # EB-13, EB-21
        edge.put(CLAIM, edge.team.paul, ttl="PT1.5H", kind="risk")
        assert any(CLAIM in line for line in edge.call("brief", edge.team.mia)["lines"])
        edge.team.clock.advance(seconds=5400)
        assert edge.call("query_engrams", edge.team.mia, q="parser")["engrams"] == []
        assert not any(CLAIM in line for line in edge.call("brief", edge.team.mia)["lines"])

    def test_confidence_floor_for_promotion_beyond_run_scope(self, edge: Edge) -> None:  # EB-20
        team = edge.team
        guess = edge.put("Perhaps the lexer is slow.", team.paul, scope="run", confidence=0.3)
        problem = edge.refusal("promote_engram", team.mia, id=guess["id"])
        assert (problem["code"], problem["field"]) == ("SCOPE_FORBIDDEN", "confidence")
        assert edge.put(CLAIM, team.paul, at=["src/parser.py:5"], confidence=0.01)["scope"] == "run"
        sure = edge.put("The lexer is small.", team.paul, at=["src/parser.py:9"], scope="run", confidence=0.9)
        assert edge.refusal("promote_engram", team.paul, id=sure["id"])["code"] == "ROLE_FORBIDDEN"
        assert edge.call("promote_engram", team.mia, id=sure["id"])["scope"] == "project"


class TestPrivacy:
    """13.3 Privacy boundaries."""

    @pytest.fixture
    def stranger(self, edge: Edge, tmp_path: Path) -> Iterator[Edge]:
        """Calls to another project of the same account."""
        from tests.http.running_server import run_server

        repository = make_repository(tmp_path / "other")
        gateway = make_gateway(repository.path, make_settings(tmp_path / "home"), edge.team.clock)
        with run_server(gateway, repository) as server:
            yield Edge(edge.name, edge.team, server)
        gateway.close()

    def test_project_scope_cannot_be_queried_from_another_project(self, edge: Edge, stranger: Edge) -> None:  # EB-20
        engram = edge.put(CLAIM, scope="project")
        assert len(edge.call("query_engrams", q="parser")["engrams"]) == 1
        assert stranger.call("query_engrams", q="parser")["engrams"] == []
        assert stranger.refusal("get_engram", id=engram["id"])["code"] == "ENGRAM_NOT_FOUND"
        answer = stranger.server.call("GET", "/engram/query?q=parser", token=str(edge.team.paul.token))
        assert (answer.status, answer.code) == (401, "TOKEN_INVALID")

    def test_run_scope_cannot_be_queried_from_another_run(self, edge: Edge) -> None:  # EB-20
        edge.put(CLAIM, edge.team.paul, scope="run")
        edge.team.client.open_run()
        other = edge.team.client.add_agent("otto", "manager")
        assert edge.call("query_engrams", other, q="parser")["engrams"] == []

    def test_org_and_global_require_explicit_admin_enablement(self, edge: Edge) -> None:  # EB-20
        for scope in ("org", "global"):
            for agent in (edge.team.paul, edge.team.mia):
                problem = edge.refusal("put_engram", agent, claim=CLAIM, at=["src/parser.py:1"], scope=scope)
                assert (problem["code"], problem["status"]) == ("SCOPE_FORBIDDEN", 403)


class TestAcceptance:
    """15 Acceptance criteria."""

    def test_pas_run_completes_with_at_most_800_inline_tokens_per_agent_turn(self, edge: Edge) -> None:  # EB-06, EB-16
        team = edge.team
        for number in range(4):
            edge.put(f"Line {number + 1} is odd.", team.paul, at=[f"src/parser.py:{number + 1}"])
            edge.call("send_message", team.paul, text=report(f"Step {number} is done."))
        edge.call("send_message", team.paul, text=CHILD.format(sha=team.sha))
        (programmers,) = (row for row in edge.call("stats", team.mia)["roles"] if row["role"] == "programmer")
        assert 0 < programmers["figures"]["inline_tokens_per_turn"] <= 800

    def test_every_decision_and_risk_engram_includes_pointers(self, edge: Edge) -> None:  # EB-01
        for kind in ("decision", "risk"):
            problem = edge.refusal("put_engram", edge.team.paul, claim=CLAIM, kind=kind)
            assert problem["code"] == "NO_POINTER"
            text = report(engrams=[{"kind": kind, "claim": CLAIM, "pointers": []}])
            problem = edge.refusal("send_message", edge.team.paul, text=text)
            assert (problem["code"], problem["field"]) == ("NO_POINTER", "ENGRAMS[0].pointers")

    def test_deref_attempts_beyond_budget_are_blocked_unless_granted(self, edge: Edge) -> None:  # EB-08, EB-11
        team = edge.team
        for _ in range(3):
            edge.call("deref_pointer", team.paul, pointer=team.lines())
        assert edge.refusal("deref_pointer", team.paul, pointer=team.lines())["code"] == edge.code("DEREF_DENIED")
        edge.call("issue_grant", team.mia, child_id="paul", pointer=team.lines())
        edge.call("deref_pointer", team.paul, pointer=team.lines())
        assert edge.refusal("deref_pointer", team.paul, pointer=team.lines())["code"] == edge.code("DEREF_DENIED")

    def test_dereferenced_content_is_traceable_via_content_digest(self, edge: Edge) -> None:  # EB-05
        answer = edge.call("deref_pointer", edge.team.paul, pointer=edge.team.lines(3, 4))
        assert answer["content_digest"].encode() in edge.team.journal().splitlines()[-1]

    def test_contradictions_are_a_single_risk_engram_referencing_both_sources(self, edge: Edge) -> None:  # EB-01
        sources = [edge.team.lines(1, 5), DESIGN.format(sha=edge.team.sha)]
        engram = edge.call(
            "put_engram",
            edge.team.paul,
            claim="Code and design disagree on the input.",
            kind="risk",
            pointers=[{"type": ref.partition(":")[0], "ref": ref} for ref in sources],
        )
        assert [pointer["ref"] for pointer in engram["pointers"]] == sources
        assert all(pointer["digest"] for pointer in engram["pointers"])


class TestPanel:
    """15 UX: the panel "Shared Brief (LESS)"."""

    def panel(self, edge: Edge, name: str) -> str:
        """Return a panel of the page as HTML, for a person who is signed in."""
        session = {"Engrambus-Session": edge.server.open_session()}
        answer = edge.server.call("GET", f"/page/{name}", token=None, headers=session)
        assert answer.status == 200, answer.body
        return answer.body.decode()

    def test_panel_shows_the_current_micro_brief(self, edge: Edge) -> None:  # EB-17, EB-27
        edge.put(CLAIM, edge.team.paul, kind="risk")
        assert CLAIM in self.panel(edge, "brief")

    def test_panel_shows_budgets_and_remaining_derefs(self, edge: Edge) -> None:  # EB-27
        edge.call("deref_pointer", edge.team.paul, pointer="src/parser.py:1")
        assert "paul" in self.panel(edge, "budgets")
        assert "Left this turn: 2 repo" in "\n".join(edge.call("brief", edge.team.paul)["lines"])

    def test_panel_shows_top_engrams_with_click_to_open_pointers(self, edge: Edge) -> None:  # EB-27
        edge.put(CLAIM, edge.team.paul, kind="risk")
        page = self.panel(edge, "feed")
        assert CLAIM in page
        assert "data-drawer" in page
        assert "parser.py" in page
