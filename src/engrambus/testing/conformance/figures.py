"""Figures: what is counted, for whom, and that it is what the journal says."""  # EB-26

from __future__ import annotations

import json
from typing import Any

from engrambus.core import estimate_tokens
from engrambus.gateway import LOCAL_ADMIN, Credential
from engrambus.operations.stats import AgentFigures, Figures, StatsAnswer
from engrambus.testing.client import GatewayClient, expect_refusal
from engrambus.testing.conformance.journal_figures import JournalFigures, check_figures
from engrambus.testing.conformance.messages import LONG, Team, draft, sent_back
from engrambus.testing.fakes import BODIES, body_refs, repo_ref
from engrambus.testing.harness import Harness

READ = repo_ref("src/a.py")
A, B = body_refs()
WEIGHT_A, WEIGHT_B = (estimate_tokens(body) for body in BODIES.values())
"""What each costs when it is pasted."""


def stats(hand: GatewayClient, who: Credential = LOCAL_ADMIN, /, **more: Any) -> StatsAnswer:
    """The figures somebody is given."""
    answer: StatsAnswer = hand.call("stats", who, **more)
    return answer


def row(answer: StatsAnswer, name: str) -> AgentFigures:
    """An agent's."""
    return next(each for each in answer.agents if each.agent_id == name)


class FigureConformance:
    """What the team comes to."""

    def test_nothing_done_is_nothing_counted(self, harness: Harness) -> None:
        answer = stats(GatewayClient(harness))
        assert (answer.team.turns, answer.team.engrams, answer.team.kinds) == (0, 0, {})
        assert answer.team.inline_tokens_per_turn == answer.team.resend_rate == answer.team.contradiction_rate == 0
        assert (answer.agents, answer.roles) == ([], [])
        assert len(answer.history.points) == 24

    def test_a_report_counts_for_its_agent_its_role_and_the_team(self, harness: Harness) -> None:
        team = Team(harness)
        team.hand.deref(team.paul, READ)
        sent_back(team.hand, team.paul)
        team.hand.report(team.paul, engrams=[draft("The lease can be lost.", B), draft("It is retried.", A)])
        team.hand.report(team.pia)
        answer = stats(team.hand, team.pia)
        paul = row(answer, "paul").figures
        assert (paul.turns, paul.messages, paul.rejections, paul.resends, paul.resend_rate) == (1, 1, 1, 1, 1.0)
        assert (paul.derefs, paul.derefs_per_turn, paul.engrams, paul.kinds) == (1, 1.0, 2, {"risk": 2})
        assert paul.inline_tokens_per_turn == paul.inline_tokens > 0
        pointed = WEIGHT_A + WEIGHT_B
        assert paul.pointed_tokens == pointed
        assert paul.tokens_not_copied == pointed - paul.deref_tokens
        programmers = next(each for each in answer.roles if each.role == "programmer").figures
        assert (programmers.messages, programmers.turns, programmers.resend_rate) == (2, 2, 0.5)
        assert programmers.inline_tokens == paul.inline_tokens + row(answer, "pia").figures.inline_tokens
        assert answer.team.messages == 2
        assert [each.role for each in answer.roles] == ["architect", "manager", "programmer"]

    def test_a_broadcast_hands_its_pack_to_each_child(self, harness: Harness) -> None:
        team = Team(harness)
        pack = [{"type": "artifact", "ref": A}, {"type": "artifact", "ref": A}, {"type": "sam", "ref": "sam:a:b@v1"}]
        team.hand.broadcast(team.mia, "Look here.", TARGET_POINTER_PACK=pack)
        mia = row(stats(team.hand), "mia").figures
        assert (mia.broadcasts, mia.turns, mia.messages) == (1, 1, 0)
        assert mia.pointed_tokens == 2 * WEIGHT_A  # two children; what nobody can read weighs nothing

    def test_what_a_report_points_at_twice_weighs_once(self, harness: Harness) -> None:
        team = Team(harness)
        pack = [{"type": "artifact", "ref": A}, {"type": "artifact", "ref": B}]
        team.hand.report(team.paul, engrams=[draft("One.", A)], pointer_pack=pack)
        assert row(stats(team.hand), "paul").figures.pointed_tokens == WEIGHT_A + WEIGHT_B

    def test_a_contradiction_is_a_risk_that_points_at_two_sources(self, harness: Harness) -> None:
        hand = GatewayClient(harness)
        hand.put("They disagree.", refs=[A, B], kind="risk")
        hand.put("One source.", refs=[A], kind="risk")
        hand.put("The same source twice over.", refs=[A, A], kind="risk")
        hand.put("Two sources that agree.", refs=[A, B], kind="fact")
        team = stats(hand).team
        assert (team.contradictions, team.engrams, team.contradiction_rate) == (1, 4, 0.25)
        assert list(team.kinds.items()) == [("risk", 3), ("fact", 1)]

    def test_saying_again_puts_nothing(self, harness: Harness) -> None:
        team = Team(harness)
        for who in (team.paul, team.pia):
            team.hand.put("The lease can be lost.", who, refs=[A])
        assert stats(team.hand).team.engrams == 1

    def test_turns_count_when_something_is_read_or_said_in_them(self, harness: Harness) -> None:
        team = Team(harness)
        for _ in range(3):
            team.hand.deref(team.paul, READ)
            harness.clock.advance(seconds=601)
        team.hand.put("Nothing was read or said.", team.pia)
        team.hand.broadcast(team.mia, "One.")
        team.hand.broadcast(team.mia, "Two.")
        answer = stats(team.hand)
        assert row(answer, "paul").figures.turns == row(answer, "paul").turn.number - 1 == 3
        assert row(answer, "pia").figures.turns == 0
        assert row(answer, "mia").figures.turns == 1

    def test_grants_are_left_until_spent_revoked_or_over(self, harness: Harness) -> None:
        team = Team(harness)
        for cap, uses in ((300, 1), (200, 2), (100, 1), (50, 1)):
            team.hand.call("issue_grant", team.mia, child_id="paul", pointer=READ, cap_tokens=cap, uses=uses)
        short = team.hand.call("issue_grant", team.mia, child_id="pia", pointer=READ, expires_in="PT1M")
        figures = row(stats(team.hand), "paul").figures
        assert (figures.grants_left, figures.grant_tokens_left, figures.grants) == (4, 650, 0)
        assert row(stats(team.hand), "mia").figures.grants == 5
        assert stats(team.hand).team.grants_left == 5
        harness.clock.advance(seconds=60)
        assert row(stats(team.hand), "pia").figures.grants_left == 0
        for _ in range(4):
            team.hand.deref(team.paul, READ)
        assert row(stats(team.hand), "paul").figures.grants_left == 3
        other = team.hand.call("issue_grant", team.mia, child_id="pia", pointer=READ, cap_tokens=9)
        assert row(stats(team.hand), "pia").figures.grant_tokens_left == 9
        team.hand.call("revoke_grant", team.mia, id=other.grant_id)
        team.hand.call("revoke_grant", team.mia, id=short.grant_id)
        assert row(stats(team.hand), "pia").figures.grant_tokens_left == 0

    def test_meters_show_the_turn_and_what_it_allows(self, harness: Harness) -> None:
        team = Team(harness)
        team.hand.broadcast(team.mia, "Read little.", BUDGETS={"max_repo_spans": 1, "max_inline_tokens": 300})
        answer = team.hand.deref(team.paul, READ)
        paul = row(stats(team.hand), "paul")
        assert (paul.turn.number, paul.turn.repo, paul.turn.artifact) == (1, 1, 0)
        assert paul.turn.tokens == paul.turn.run_tokens == paul.figures.deref_tokens > 0
        assert answer.truncated is False
        assert paul.limits is not None
        assert (paul.limits.repo, paul.limits.tokens, paul.limits.inline_tokens, paul.parent) == (1, 1200, 300, "mia")
        lead = row(stats(team.hand), "lead")
        assert lead.limits is not None
        assert (lead.limits.repo, lead.limits.run_tokens, lead.limits.inline_tokens) == (3, 24_000, 800)

    def test_history_has_a_point_for_each_bucket(self, harness: Harness) -> None:
        team = Team(harness)
        team.hand.put("At first.", team.paul)
        harness.clock.advance(seconds=3600)
        team.hand.put("Later.", team.paul)
        team.hand.report(team.mia, role="manager")
        hours = stats(team.hand, team.pia, bucket="PT1H", last=3).history.points
        assert [point.team.engrams for point in hours] == [0, 1, 1]
        assert {role: tally.messages for role, tally in hours[-1].roles.items()} == {"programmer": 0, "manager": 1}
        minutes = stats(team.hand, bucket="PT1M", last=61).history.points
        assert (minutes[0].team.engrams, minutes[-1].team.engrams) == (1, 1)
        assert sum(point.team.engrams for point in minutes) == 2
        (day,) = stats(team.hand, bucket="P1D", last=1).history.points
        assert day.team.engrams == 2
        assert stats(team.hand, last=0).history.points == []

    def test_figures_are_those_of_the_callers_run(self, harness: Harness) -> None:
        team = Team(harness)
        team.hand.put("Of the run.", team.paul, scope="run")
        team.hand.put("Of the project.", team.paul, scope="project", kind="risk")
        team.hand.open_run()
        ada = team.hand.add_agent("ada", "architect")
        answer = stats(team.hand, ada)
        assert (answer.team.engrams, answer.held.engrams, answer.held.kinds) == (0, 1, {"risk": 1})
        assert [each.agent_id for each in answer.agents] == ["ada"]
        assert answer.counts is None
        assert sum(point.team.engrams for point in answer.history.points) == 0
        assert stats(team.hand, team.pia).held.kinds == {"fact": 1, "risk": 1}
        with expect_refusal("ROLE_FORBIDDEN", "over"):
            stats(team.hand, ada, over="project")

    def test_the_projects_figures_are_the_admins_and_have_no_names(self, harness: Harness) -> None:
        team = Team(harness)
        team.hand.report(team.paul, engrams=[draft("One.", A)])
        team.hand.open_run()
        bob = team.hand.add_agent("bob")
        team.hand.report(bob, engrams=[draft("Two.", A)])
        answer = stats(team.hand, over="project")
        assert answer.agents == []
        assert {each.role: each.figures.messages for each in answer.roles} == {"programmer": 2}
        assert (answer.team.engrams, answer.team.kinds) == (2, {"risk": 2})
        assert answer.history.points[-1].team.messages == 2

    def test_what_is_held_follows_engrams_that_pass_move_and_go(self, harness: Harness) -> None:
        hand = GatewayClient(harness)
        kept = hand.put("Stays.", scope="run", confidence=0.9)
        gone = hand.put("Goes.", kind="risk")
        hand.put_many([f"Passes {number}." for number in range(300)], ttl="PT10S", kind="todo")
        assert stats(hand).held.kinds == {"todo": 300, "fact": 1, "risk": 1}
        hand.call("promote_engram", id=kept.id)
        hand.call("forget_engram", id=gone.id)
        harness.clock.advance(seconds=10)
        for _ in range(2):
            assert stats(hand).held.kinds == {"fact": 1}
        hand.put("And one more.")
        assert (stats(hand).held.kinds, hand.counts()["kinds"]) == ({"fact": 2}, {"fact": 2})
        assert harness.gateway.store.verify() == []

    def test_figures_are_what_the_journal_says_and_survive_its_reading(self, harness: Harness) -> None:
        team = Team(harness)
        hand = team.hand
        for _ in range(3):
            hand.deref(team.paul, READ)
        hand.call("request_deref", team.paul, pointer=READ, reason="To compare.")
        hand.call("issue_grant", team.mia, child_id="paul", pointer=READ, cap_tokens=900)
        hand.deref(team.paul, READ)
        sent_back(hand, team.paul, LONG)
        hand.report(team.paul, engrams=[draft("They disagree.", A), draft("One.", B)])
        harness.clock.advance(seconds=4000)
        hand.broadcast(team.mia, "Go on.", TARGET_POINTER_PACK=[{"type": "artifact", "ref": B}])
        hand.put("By the admin.")
        hand.deref(team.pia, READ)
        before = [hand.try_call("stats", bucket=bucket, last=100) for bucket in ("PT1M", "PT1H", "P1D")]
        for bucket in ("PT1M", "PT1H", "P1D"):
            check_figures(stats(hand, bucket=bucket, last=100), JournalFigures(harness.journal_bytes()))
        harness.reopen()
        assert [hand.try_call("stats", bucket=bucket, last=100) for bucket in ("PT1M", "PT1H", "P1D")] == before
        harness.delete_index()
        assert [hand.try_call("stats", bucket=bucket, last=100) for bucket in ("PT1M", "PT1H", "P1D")] == before
        assert harness.gateway.store.verify() == []

    def test_figures_tell_counts_and_names_and_nothing_else(self, harness: Harness) -> None:
        team = Team(harness)
        team.hand.report(team.paul, "Something quite particular.", engrams=[draft("A singular claim.", A)])
        told = json.loads(team.hand.try_call("stats", team.pia)[1])
        words = json.dumps(told)
        assert "particular" not in words
        assert "singular" not in words
        assert A not in words
        assert set(told) == set(StatsAnswer.__struct_fields__)
        assert set(told["team"]) == set(Figures.__struct_fields__)
