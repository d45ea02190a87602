"""Sessions, turn boundaries and final answers, as the hooks of editors report them."""  # BX-05, EB-16

from __future__ import annotations

import msgspec

from engrambus.gateway import Credential
from engrambus.testing.client import GatewayClient, expect_refusal, format_message, same_changes
from engrambus.testing.conformance.messages import LONG, Team, draft
from engrambus.testing.fakes import repo_ref
from engrambus.testing.harness import Harness


class SessionConformance:
    """The beginning and end of a client's session, turn or sub-agent."""

    # decision 18: hooks are separate processes, so their state is in the journal
    def test_a_session_has_one_run_however_often_it_is_reported(self, harness: Harness) -> None:
        client = GatewayClient(harness)
        first = client.call("open_run", goal="one", session="s-1").run_id
        second = client.call("open_run", goal="two", session="s-2").run_id
        journal = harness.journal_bytes()
        assert client.call("open_run", goal="again", session="s-1").run_id == first != second
        assert same_changes(harness.journal_bytes(), journal)
        harness.delete_index()
        harness.reopen()
        assert client.call("open_run", goal="again", session="s-2").run_id == second
        client.call("end_run", run_id=first)
        assert client.call("open_run", goal="again", session="s-1").run_id not in (first, second)
        with expect_refusal("FIELD_VALUE", "session"):
            client.call("open_run", goal="again", session="a/b")

    def test_a_full_agent_name_is_resolved_in_its_own_run(self, harness: Harness) -> None:
        client = GatewayClient(harness)
        first = client.call("list_agents").run_id
        lead = client.add_agent("lead", "architect")
        second = client.open_run()
        client.add_agent("lead", "architect")
        as_first = Credential(local_admin=True, speak_as=f"{first}/lead")
        assert client.call("list_agents", as_first).run_id == first
        assert client.put("Alpha holds.", as_first, scope="run").provenance.created_by == f"{first}/lead"
        for stranger in (f"{second}/lead", "nowhere/lead", "/lead/", f"{first}/nobody"):
            with expect_refusal("AGENT_NOT_FOUND", "as"):
                client.call("list_agents", msgspec.structs.replace(lead, speak_as=stranger))
        assert client.call("list_agents", msgspec.structs.replace(lead, speak_as=f"{first}/lead")).run_id == first

    def test_a_boundary_closes_a_turn_with_reads(self, harness: Harness) -> None:
        team = Team(harness)
        journal = harness.journal_bytes()
        assert team.client.call("close_turn", name="paul", why="prompt").turn == 1
        assert same_changes(harness.journal_bytes(), journal)
        for _ in range(3):
            team.client.deref(team.paul, repo_ref("a.py"))
        with expect_refusal("DEREF_DENIED"):
            team.client.deref(team.paul, repo_ref("a.py"))
        assert team.client.call("close_turn", team.mia, name="paul").turn == 2
        team.client.deref(team.paul, repo_ref("a.py"))
        with expect_refusal("NOT_YOUR_DESCENDANT", "name"):
            team.client.call("close_turn", team.mia, name="lead")
        with expect_refusal("ROLE_FORBIDDEN"):
            team.client.call("close_turn", team.paul, name="paul")

    def test_boundaries_do_not_reset_the_ceiling_of_a_run(self, harness: Harness) -> None:
        team = Team(harness)
        team.client.call("apply_policy", policy={"deref": {"tokens": 200, "run_turns": 2}})

        def read_on() -> None:
            for turn in range(1, 9):
                team.client.deref(team.paul, repo_ref("a.py"), max_tokens=200)
                assert team.client.call("close_turn", name="paul").turn == turn + 1

        with expect_refusal("DEREF_DENIED", "run.tokens"):
            read_on()

    def test_the_teams_budget_counts_every_agents_reads(self, harness: Harness) -> None:
        team = Team(harness)
        team.client.call("apply_policy", policy={"deref": {"team_turns": 1}})
        used = []
        for caller in (team.paul, team.pia, team.mia):
            team.client.deref(caller, repo_ref("a.py"))
            used.append(team.client.call("team_budget", team.paul).used)
        assert used == [used[0], 2 * used[0], 3 * used[0]]
        assert used[0] > 0
        budget = team.client.call("team_budget")
        assert (budget.agents, budget.limit, budget.left) == (4, 1200, 1200 - used[2])

    def test_a_final_answer_in_message_form_is_a_message(self, harness: Harness) -> None:
        team = Team(harness)
        text = format_message(role="programmer", task_status="done", engrams=[draft("Alpha holds.")], output="Done.")
        answer = team.client.call("take_answer", team.paul, text=text)
        (mail,) = team.client.mail(team.mia)
        assert (mail.item, answer.turn, len(answer.engrams)) == (answer.message_id, 2, 1)
        with expect_refusal("MESSAGE_SECTION_MISSING", "TASK_STATUS"):
            team.client.call("take_answer", team.paul, text="ROLE: programmer\nOUTPUT: Done.")

    def test_a_final_answer_in_prose_is_sent_to_the_parent(self, harness: Harness) -> None:
        team = Team(harness)
        answer = team.client.call("take_answer", team.paul, text="The lease is released once: see `reserve`.")
        assert (answer.to, answer.turn) == ("mia", 1)
        (mail,) = team.client.mail(team.mia)
        assert (mail.kind, mail.item, mail.sender) == ("message", answer.message_id, "paul")
        assert "The lease is released once: see `reserve`." in mail.text
        team.client.deref(team.paul, repo_ref("a.py"))
        stopped = Credential(local_admin=True, speak_as="paul")  # as a hook hands it in
        assert team.client.call("take_answer", stopped, text="Nothing more.").turn == 2

    def test_an_answer_that_a_client_hands_over_keeps_the_budget_and_is_not_announced(self, harness: Harness) -> None:
        team = Team(harness)
        stopped = Credential(local_admin=True, speak_as="paul")
        with expect_refusal("BUDGET_EXCEEDED"):
            team.client.call("take_answer", stopped, text=LONG, handed_over=True)
        assert b"inline_tokens" in harness.journal_bytes()
        assert LONG.encode() not in harness.journal_bytes()
        team.client.call("take_answer", stopped, text=" ", handed_over=True)
        assert team.client.mail(team.mia) == []
        answer = team.client.call("take_answer", stopped, text="It is small.", handed_over=True, sent_back=True)
        assert answer.resends is not None
        text = format_message(role="programmer", task_status="done", output="Done.")
        second = team.client.call("take_answer", stopped, text=text, handed_over=True)
        assert [(mail.kind, mail.item) for mail in team.client.mail(team.mia)] == [
            ("answer", answer.message_id),
            ("answer", second.message_id),
        ]
        page = team.client.call("inbox", team.mia, unseen=True, short=True, recent=5)
        assert (page.lines, page.waiting, len(page.seen)) == ([], 0, 2)
        sent = team.client.report(team.pia, "Look at this.")
        page = team.client.call("inbox", team.mia, unseen=True, short=True)
        assert [line.partition(" ")[0] for line in page.lines] == [sent.message_id[:13]]
