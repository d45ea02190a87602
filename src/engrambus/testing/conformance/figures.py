"""Figures of agents, roles and the team, checked against the journal."""  # EB-26

from __future__ import annotations

import json
from typing import Any

from engrambus.core import estimate_tokens
from engrambus.gateway import LOCAL_ADMIN, Credential
from engrambus.operations.stats import AgentFigures, Figures, StatsAnswer
from engrambus.testing.client import GatewayClient, expect_refusal
from engrambus.testing.conformance.journal_figures import JournalFigures, check_figures
from engrambus.testing.conformance.messages import LONG, Team, draft, rejection_of
from engrambus.testing.fakes import BODIES, body_refs, repo_ref
from engrambus.testing.harness import Harness

READ = repo_ref("src/a.py")
A, B = body_refs()
WEIGHT_A, WEIGHT_B = (estimate_tokens(body) for body in BODIES.values())
"""What each costs when it is pasted."""


def stats(client: GatewayClient, caller: Credential = LOCAL_ADMIN, /, **fields: Any) -> StatsAnswer:
    """Return the figures as a caller gets them."""
    answer: StatsAnswer = client.call("stats", caller, **fields)
    return answer


def row(answer: StatsAnswer, name: str) -> AgentFigures:
    """Return the figures of one agent."""
    return next(figures for figures in answer.agents if figures.agent_id == name)


class FigureConformance:
    """Totals of messages, engrams, turns, grants and tokens."""

    def test_a_new_project_has_zero_figures(self, harness: Harness) -> None:  # EB-26
        answer = stats(GatewayClient(harness))
        assert (answer.team.turns, answer.team.engrams, answer.team.kinds) == (0, 0, {})
        assert answer.team.inline_tokens_per_turn == answer.team.resend_rate == answer.team.contradiction_rate == 0
        assert (answer.agents, answer.roles) == ([], [])
        assert len(answer.history.points) == 24

    def test_a_report_counts_for_its_agent_its_role_and_the_team(self, harness: Harness) -> None:  # EB-26
        team = Team(harness)
        team.client.deref(team.paul, READ)
        engrams = [draft("The lease can be lost.", B), draft("It is retried.", A)]
        rejection_of(team.client, team.paul, engrams=engrams)
        team.client.report(team.paul, engrams=engrams)
        team.client.report(team.pia)
        answer = stats(team.client, team.pia)
        paul = row(answer, "paul").figures
        assert (paul.turns, paul.messages, paul.rejections, paul.resends, paul.resend_rate) == (1, 1, 1, 1, 1.0)
        assert (paul.derefs, paul.derefs_per_turn, paul.engrams, paul.kinds) == (1, 1.0, 2, {"risk": 2})
        assert paul.inline_tokens_per_turn == paul.inline_tokens > 0
        assert paul.pointed_tokens == paul.tokens_not_copied == 0  # nobody pointed paul at anything
        assert row(answer, "mia").figures.pointed_tokens == WEIGHT_A + WEIGHT_B
        programmers = next(row for row in answer.roles if row.role == "programmer").figures
        assert (programmers.messages, programmers.turns, programmers.resend_rate) == (2, 2, 0.5)
        assert programmers.inline_tokens == paul.inline_tokens + row(answer, "pia").figures.inline_tokens
        assert answer.team.messages == 2
        assert [row.role for row in answer.roles] == ["architect", "manager", "programmer"]

    def test_the_trend_compares_the_first_half_of_an_agents_messages_with_the_second(
        self, harness: Harness
    ) -> None:  # EB-34
        team = Team(harness)
        for number in range(3):
            claims = [draft(f"Lease {number} can be lost.", A)]
            rejection_of(team.client, team.paul, engrams=claims)
            team.client.report(team.paul, engrams=claims)
        for number in range(6):
            team.client.report(team.paul, f"Part {number} is done.")
        team.client.report(team.pia)
        answer = stats(team.client)
        trend = row(answer, "paul").trend
        assert trend is not None
        assert (trend.sent, trend.direction) == (12, "falling")
        assert (trend.earlier_rejection_rate, trend.later_rejection_rate) == (0.5, 0.0)
        assert (trend.earlier_resend_rate, trend.later_resend_rate) == (1.0, 0.0)
        assert row(answer, "pia").trend is None
        assert row(answer, "paul").figures.rejected_tokens > 3 * 800

    # decision 80: for each agent, the content that it was pointed at, minus what it then read of that
    def test_what_an_agent_reads_of_what_it_was_pointed_at_is_subtracted(self, harness: Harness) -> None:  # EB-26
        team = Team(harness)
        team.client.report(team.paul, engrams=[draft("The lease can be lost.", B)])
        assert row(stats(team.client), "mia").figures.tokens_not_copied == WEIGHT_B
        read = team.client.deref(team.mia, B, max_tokens=150)
        assert read.truncated
        mia = row(stats(team.client), "mia").figures
        assert mia.pointed_read_tokens == mia.deref_tokens > 0
        assert mia.tokens_not_copied == WEIGHT_B - mia.deref_tokens > 0
        team.client.deref(team.mia, B)
        answer = stats(team.client)
        mia = row(answer, "mia").figures
        assert mia.deref_tokens > WEIGHT_B
        assert (mia.pointed_read_tokens, mia.tokens_not_copied) == (WEIGHT_B, 0)
        assert (answer.team.pointed_tokens, answer.team.tokens_not_copied) == (WEIGHT_B, 0)
        check_figures(answer, JournalFigures(harness.journal_bytes()))

    def test_what_agents_read_on_their_own_is_not_compared(self, harness: Harness) -> None:  # EB-26
        team = Team(harness)
        team.client.deref(team.mia, A)  # before anybody pointed at it
        team.client.report(team.paul, engrams=[draft("The lease can be lost.", A)])
        team.client.deref(team.mia, READ)
        team.client.deref(team.paul, A)  # who sent it
        for _ in range(3):
            team.client.deref(LOCAL_ADMIN, A)
        answer = stats(team.client)
        assert (answer.team.pointed_tokens, answer.team.pointed_read_tokens) == (WEIGHT_A, 0)
        assert answer.team.tokens_not_copied == WEIGHT_A
        assert answer.team.deref_tokens > WEIGHT_A
        assert stats(team.client, over="project").team.tokens_not_copied == WEIGHT_A

    def test_lines_inside_or_around_those_an_agent_was_pointed_at_are_reads_of_them(
        self, harness: Harness
    ) -> None:  # EB-26
        team = Team(harness)
        pack = [{"type": "repo", "ref": repo_ref("src/a.py", 10, 39)}]
        team.client.broadcast(team.mia, "Look here.", TARGET_POINTER_PACK=pack)
        pointed = row(stats(team.client), "paul").figures.pointed_tokens
        for name, caller, ref in (
            ("paul", team.paul, repo_ref("src/a.py", 12, 13)),
            ("pia", team.pia, repo_ref("src/a.py", 1, 40)),
        ):
            team.client.deref(caller, repo_ref("src/a.py", 1, 9))
            team.client.deref(caller, repo_ref("src/b.py", 10, 39))
            assert row(stats(team.client), name).figures.pointed_read_tokens == 0
            team.client.deref(caller, ref)
        paul, pia = (row(stats(team.client), name).figures for name in ("paul", "pia"))
        assert 0 < paul.pointed_read_tokens < pointed
        assert (pia.pointed_read_tokens, pia.tokens_not_copied) == (pointed, 0)

    def test_only_what_an_agent_got_counts_as_not_copied(self, harness: Harness) -> None:  # EB-26
        team = Team(harness)
        team.client.put("The lease can be lost.", team.paul, refs=[A])
        team.client.put("The lease is kept.", refs=[B])  # by a person
        team.client.report(team.lead, role="architect", engrams=[draft("It is retried.", B)])  # to a person
        nothing = stats(team.client).team
        assert (nothing.engrams, nothing.pointed_tokens, nothing.tokens_not_copied) == (3, 0, 0)
        for _ in range(2):  # a claim that is repeated was sent to mia, but only once
            team.client.report(team.paul, engrams=[draft("The lease can be lost.", A)])
        assert stats(team.client).team.pointed_tokens == WEIGHT_A

    def test_a_broadcast_counts_its_pointers_for_each_child(self, harness: Harness) -> None:  # EB-26
        team = Team(harness)
        pack = [{"type": "artifact", "ref": A}, {"type": "artifact", "ref": A}]
        for _ in range(2):
            team.client.broadcast(team.mia, "Look here.", TARGET_POINTER_PACK=pack)
        answer = stats(team.client)
        mia = row(answer, "mia").figures
        assert (mia.broadcasts, mia.turns, mia.messages, mia.pointed_tokens) == (2, 1, 0, 0)
        assert [row(answer, name).figures.pointed_tokens for name in ("paul", "pia")] == [WEIGHT_A, WEIGHT_A]

    def test_a_pointer_for_one_child_counts_for_that_child_only(self, harness: Harness) -> None:  # EB-26
        team = Team(harness)
        pack = [{"type": "artifact", "ref": A, "for": ["pia"]}, {"type": "artifact", "ref": B}]
        team.client.broadcast(team.mia, "Look here.", TARGET_POINTER_PACK=pack)
        answer = stats(team.client)
        assert row(answer, "paul").figures.pointed_tokens == WEIGHT_B
        assert row(answer, "pia").figures.pointed_tokens == WEIGHT_A + WEIGHT_B
        check_figures(answer, JournalFigures(harness.journal_bytes()))

    def test_a_pointer_repeated_in_a_report_counts_once(self, harness: Harness) -> None:  # EB-26
        team = Team(harness)
        pack = [{"type": "artifact", "ref": A}, {"type": "artifact", "ref": B}]
        team.client.report(team.paul, engrams=[draft("One.", A)], pointer_pack=pack)
        assert row(stats(team.client), "mia").figures.pointed_tokens == WEIGHT_A + WEIGHT_B

    def test_a_contradiction_is_a_risk_that_points_at_two_sources(self, harness: Harness) -> None:  # EB-26
        client = GatewayClient(harness)
        client.put("They disagree.", refs=[A, B], kind="risk")
        client.put("One source.", refs=[A], kind="risk")
        client.put("The same source twice over.", refs=[A, A], kind="risk")
        client.put("Two sources that agree.", refs=[A, B], kind="fact")
        team = stats(client).team
        assert (team.contradictions, team.engrams, team.contradiction_rate) == (1, 4, 0.25)
        assert list(team.kinds.items()) == [("risk", 3), ("fact", 1)]

    def test_two_spans_or_versions_of_one_source_are_no_contradiction(self, harness: Harness) -> None:  # EB-24 EB-26
        client = GatewayClient(harness)
        spans = [repo_ref("src/a.py", 1, 5), repo_ref("src/a.py", 20, 25)]
        client.put("Two spans of one file.", refs=spans, kind="risk")
        client.put("Two versions of one memory.", refs=["sam:note:other@v1", "sam:note:other@v2"], kind="risk")
        assert stats(client).team.contradictions == 0
        client.put("Two files.", refs=[*spans, repo_ref("src/b.py", 1, 5)], kind="risk")
        client.put("A file and a memory.", refs=[spans[0], "sam:note:other@v1"], kind="risk")
        assert stats(client).team.contradictions == 2

    def test_a_repeated_claim_counts_no_engram(self, harness: Harness) -> None:  # EB-26
        team = Team(harness)
        for author in (team.paul, team.pia):
            team.client.put("The lease can be lost.", author, refs=[A])
        assert stats(team.client).team.engrams == 1

    def test_a_turn_counts_when_something_is_read_put_or_sent_in_it(self, harness: Harness) -> None:  # EB-26
        team = Team(harness)
        for _ in range(3):
            team.client.deref(team.paul, READ)
            harness.clock.advance(seconds=601)
        team.client.put("The ledger is small.", team.pia)
        team.client.query("ledger", team.lead)
        team.client.broadcast(team.mia, "One.")
        team.client.broadcast(team.mia, "Two.")
        answer = stats(team.client)
        assert row(answer, "paul").figures.turns == row(answer, "paul").turn.number - 1 == 3
        assert (row(answer, "pia").figures.turns, row(answer, "lead").figures.turns) == (1, 0)
        assert row(answer, "mia").figures.turns == 1

    def test_grants_count_as_left_until_spent_revoked_or_expired(self, harness: Harness) -> None:  # EB-26
        team = Team(harness)
        for cap, uses in ((300, 1), (200, 2), (100, 1), (50, 1)):
            team.client.call("issue_grant", team.mia, child_id="paul", pointer=READ, cap_tokens=cap, uses=uses)
        short = team.client.call("issue_grant", team.mia, child_id="pia", pointer=READ, expires_in="PT1M")
        figures = row(stats(team.client), "paul").figures
        assert (figures.grants_left, figures.grant_tokens_left, figures.grants) == (4, 650, 0)
        assert row(stats(team.client), "mia").figures.grants == 5
        assert stats(team.client).team.grants_left == 5
        harness.clock.advance(seconds=60)
        assert row(stats(team.client), "pia").figures.grants_left == 0
        for _ in range(4):
            team.client.deref(team.paul, READ)
        assert row(stats(team.client), "paul").figures.grants_left == 3
        second = team.client.call("issue_grant", team.mia, child_id="pia", pointer=READ, cap_tokens=9)
        assert row(stats(team.client), "pia").figures.grant_tokens_left == 9
        team.client.call("revoke_grant", team.mia, id=second.grant_id)
        team.client.call("revoke_grant", team.mia, id=short.grant_id)
        assert row(stats(team.client), "pia").figures.grant_tokens_left == 0

    def test_meters_show_the_turn_and_its_limits(self, harness: Harness) -> None:  # EB-26
        team = Team(harness)
        team.client.broadcast(team.mia, "Read little.", BUDGETS={"max_repo_spans": 1, "max_inline_tokens": 300})
        answer = team.client.deref(team.paul, READ)
        paul = row(stats(team.client), "paul")
        assert (paul.turn.number, paul.turn.repo, paul.turn.artifact) == (1, 1, 0)
        assert paul.turn.tokens == paul.turn.run_tokens == paul.figures.deref_tokens > 0
        assert answer.truncated is False
        assert paul.limits is not None
        assert (paul.limits.repo, paul.limits.tokens, paul.limits.inline_tokens, paul.parent) == (1, 1200, 300, "mia")
        lead = row(stats(team.client), "lead")
        assert lead.limits is not None
        assert (lead.limits.repo, lead.limits.run_tokens, lead.limits.inline_tokens) == (3, 24_000, 800)

    # decision 20: minutes, hours and days are stored, in UTC
    def test_history_has_a_point_for_each_bucket(self, harness: Harness) -> None:  # EB-26
        team = Team(harness)
        team.client.put("At first.", team.paul)
        harness.clock.advance(seconds=3600)
        team.client.put("Later.", team.paul)
        team.client.report(team.mia, role="manager")
        hours = stats(team.client, team.pia, bucket="PT1H", last=3).history.points
        assert [point.team.engrams for point in hours] == [0, 1, 1]
        assert {role: tally.messages for role, tally in hours[-1].roles.items()} == {"programmer": 0, "manager": 1}
        minutes = stats(team.client, bucket="PT1M", last=61).history.points
        assert (minutes[0].team.engrams, minutes[-1].team.engrams) == (1, 1)
        assert sum(point.team.engrams for point in minutes) == 2
        (day,) = stats(team.client, bucket="P1D", last=1).history.points
        assert day.team.engrams == 2
        assert stats(team.client, last=0).history.points == []

    def test_figures_are_of_the_callers_run(self, harness: Harness) -> None:  # EB-26
        team = Team(harness)
        team.client.put("Of the run.", team.paul, scope="run")
        team.client.put("Of the project.", team.paul, scope="project", kind="risk")
        team.client.open_run()
        ada = team.client.add_agent("ada", "architect")
        answer = stats(team.client, ada)
        assert (answer.team.engrams, answer.held.engrams, answer.held.kinds) == (0, 1, {"risk": 1})
        assert [row.agent_id for row in answer.agents] == ["ada"]
        assert answer.counts is None
        assert sum(point.team.engrams for point in answer.history.points) == 0
        assert stats(team.client, team.pia).held.kinds == {"fact": 1, "risk": 1}
        with expect_refusal("ROLE_FORBIDDEN", "over"):
            stats(team.client, ada, over="project")

    def test_project_figures_are_for_admins_and_name_no_agents(self, harness: Harness) -> None:  # EB-26
        team = Team(harness)
        team.client.report(team.paul, engrams=[draft("One.", A)])
        team.client.open_run()
        bob = team.client.add_agent("bob")
        team.client.report(bob, engrams=[draft("Two.", A)])
        answer = stats(team.client, over="project")
        assert answer.agents == []
        assert {row.role: row.figures.messages for row in answer.roles} == {"manager": 0, "programmer": 2}
        assert (answer.team.engrams, answer.team.kinds) == (2, {"risk": 2})
        assert answer.history.points[-1].team.messages == 2

    def test_live_counts_follow_expiry_promotion_and_forgetting(self, harness: Harness) -> None:  # EB-26
        client = GatewayClient(harness)
        engram = client.put("Stays.", scope="run", confidence=0.9)
        gone = client.put("Goes.", kind="risk")
        client.put_many([f"Passes {number}." for number in range(300)], ttl="PT10S", kind="todo")
        assert stats(client).held.kinds == {"todo": 300, "fact": 1, "risk": 1}
        client.call("promote_engram", id=engram.id)
        client.call("forget_engram", id=gone.id)
        harness.clock.advance(seconds=10)
        for _ in range(2):
            assert stats(client).held.kinds == {"fact": 1}
        client.put("And one more.")
        assert (stats(client).held.kinds, client.counts()["kinds"]) == ({"fact": 2}, {"fact": 2})
        assert harness.gateway.store.verify() == []

    # decision 20: figures are added up as facts are applied, and must equal a second count
    def test_figures_equal_the_journal_and_survive_a_rebuild(self, harness: Harness) -> None:  # EB-26
        team = Team(harness)
        client = team.client
        for _ in range(3):
            client.deref(team.paul, READ)
        client.call("request_deref", team.paul, pointer=READ, reason="To compare.")
        client.call("issue_grant", team.mia, child_id="paul", pointer=READ, cap_tokens=900)
        client.deref(team.paul, READ)
        rejection_of(client, team.paul, LONG)
        client.report(team.paul, engrams=[draft("They disagree.", A), draft("One.", B)])
        harness.clock.advance(seconds=4000)
        client.broadcast(team.mia, "Go on.", TARGET_POINTER_PACK=[{"type": "artifact", "ref": B}])
        client.put("By the admin.")
        client.deref(team.pia, READ)
        client.deref(team.pia, B)
        client.deref(team.mia, A)
        expected = [client.try_call("stats", bucket=bucket, last=100) for bucket in ("PT1M", "PT1H", "P1D")]
        for bucket in ("PT1M", "PT1H", "P1D"):
            check_figures(stats(client, bucket=bucket, last=100), JournalFigures(harness.journal_bytes()))
        harness.reopen()
        assert [client.try_call("stats", bucket=bucket, last=100) for bucket in ("PT1M", "PT1H", "P1D")] == expected
        harness.delete_index()
        assert [client.try_call("stats", bucket=bucket, last=100) for bucket in ("PT1M", "PT1H", "P1D")] == expected
        assert harness.gateway.store.verify() == []

    def test_figures_reveal_no_texts(self, harness: Harness) -> None:  # EB-26
        team = Team(harness)
        team.client.report(team.paul, "Something quite particular.", engrams=[draft("A singular claim.", A)])
        answer = json.loads(team.client.try_call("stats", team.pia)[1])
        words = json.dumps(answer)
        assert "particular" not in words
        assert "singular" not in words
        assert A not in words
        assert set(answer) == set(StatsAnswer.__struct_fields__)
        assert set(answer["team"]) == set(Figures.__struct_fields__)
