"""What a client's hooks report: sessions, the ends of turns, and last answers."""  # BX-05, EB-16

from __future__ import annotations

import msgspec

from engrambus.gateway import Credential
from engrambus.testing.client import GatewayClient, expect_refusal, format_message
from engrambus.testing.conformance.messages import CODE, LONG, Team, draft
from engrambus.testing.fakes import repo_ref
from engrambus.testing.harness import Harness


class SessionConformance:
    """Where a client's session, turn or sub-agent begins and ends."""

    def test_a_session_has_one_run_however_often_it_is_told(self, harness: Harness) -> None:
        hand = GatewayClient(harness)
        first = hand.call("open_run", goal="one", session="s-1").run_id
        second = hand.call("open_run", goal="two", session="s-2").run_id
        before = harness.journal_bytes()
        assert hand.call("open_run", goal="again", session="s-1").run_id == first != second
        assert harness.journal_bytes() == before
        harness.delete_index()
        harness.reopen()
        assert hand.call("open_run", goal="again", session="s-2").run_id == second
        hand.call("end_run", run_id=first)
        assert hand.call("open_run", goal="again", session="s-1").run_id not in (first, second)
        with expect_refusal("FIELD_VALUE", "session"):
            hand.call("open_run", goal="again", session="a/b")

    def test_a_full_name_is_spoken_for_in_its_own_run(self, harness: Harness) -> None:
        hand = GatewayClient(harness)
        first = hand.call("list_agents").run_id
        lead = hand.add_agent("lead", "architect")
        second = hand.open_run()
        hand.add_agent("lead", "architect")
        as_first = Credential(local_admin=True, speak_as=f"{first}/lead")
        assert hand.call("list_agents", as_first).run_id == first
        assert hand.put("Alpha holds.", as_first, scope="run").provenance.created_by == f"{first}/lead"
        for stranger in (f"{second}/lead", "nowhere/lead", "/lead/", f"{first}/nobody"):
            with expect_refusal("AGENT_NOT_FOUND", "as"):
                hand.call("list_agents", msgspec.structs.replace(lead, speak_as=stranger))
        assert hand.call("list_agents", msgspec.structs.replace(lead, speak_as=f"{first}/lead")).run_id == first

    def test_a_boundary_closes_a_turn_in_which_something_was_read(self, harness: Harness) -> None:
        team = Team(harness)
        before = harness.journal_bytes()
        assert team.hand.call("close_turn", name="paul", why="prompt").turn == 1
        assert harness.journal_bytes() == before
        for _ in range(3):
            team.hand.deref(team.paul, repo_ref("a.py"))
        with expect_refusal("DEREF_DENIED"):
            team.hand.deref(team.paul, repo_ref("a.py"))
        assert team.hand.call("close_turn", team.mia, name="paul").turn == 2
        team.hand.deref(team.paul, repo_ref("a.py"))
        with expect_refusal("NOT_YOUR_DESCENDANT", "name"):
            team.hand.call("close_turn", team.mia, name="lead")
        with expect_refusal("ROLE_FORBIDDEN"):
            team.hand.call("close_turn", team.paul, name="paul")

    def test_boundaries_do_not_lift_the_runs_ceiling(self, harness: Harness) -> None:
        team = Team(harness)
        team.hand.call("apply_policy", policy={"deref": {"tokens": 60, "run_turns": 2}})

        def read_on() -> None:
            for turn in range(1, 9):
                team.hand.deref(team.paul, repo_ref("a.py"), max_tokens=60)
                assert team.hand.call("close_turn", name="paul").turn == turn + 1

        with expect_refusal("DEREF_DENIED", "run.tokens"):
            read_on()

    def test_the_teams_budget_counts_what_everybody_read(self, harness: Harness) -> None:
        team = Team(harness)
        team.hand.call("apply_policy", policy={"deref": {"team_turns": 1}})
        used = []
        for who in (team.paul, team.pia, team.mia):
            team.hand.deref(who, repo_ref("a.py"))
            used.append(team.hand.call("team_budget", team.paul).used)
        assert used == [used[0], 2 * used[0], 3 * used[0]]
        assert used[0] > 0
        budget = team.hand.call("team_budget")
        assert (budget.agents, budget.limit, budget.left) == (4, 1200, 1200 - used[2])

    def test_an_answer_in_the_form_is_a_message(self, harness: Harness) -> None:
        team = Team(harness)
        text = format_message(role="programmer", task_status="done", engrams=[draft("Alpha holds.")], output="Done.")
        answer = team.hand.call("take_answer", team.paul, text=text)
        (mail,) = team.hand.mail(team.mia)
        assert (mail.item, answer.turn, len(answer.engrams)) == (answer.message_id, 2, 1)
        with expect_refusal("MESSAGE_SECTION_MISSING", "TASK_STATUS"):
            team.hand.call("take_answer", team.paul, text="ROLE: programmer\nOUTPUT: Done.")

    def test_an_answer_in_prose_is_held_to_the_budget_and_not_kept(self, harness: Harness) -> None:
        team = Team(harness)
        before = harness.journal_bytes()
        answer = team.hand.call("take_answer", team.paul, text="The lease is released once: see `reserve`.")
        assert (answer.message_id, answer.turn) == (None, 1)
        assert harness.journal_bytes() == before
        for text, what in ((LONG, "inline_tokens"), (f"Here it is:\n\n{CODE}", "inline_code_chars")):
            with expect_refusal("BUDGET_EXCEEDED"):
                team.hand.call("take_answer", team.paul, text=text)
            assert what.encode() in harness.journal_bytes()
            assert text.encode() not in harness.journal_bytes()
        team.hand.deref(team.paul, repo_ref("a.py"))
        assert team.hand.call("take_answer", team.paul, text="Nothing more.").turn == 2
