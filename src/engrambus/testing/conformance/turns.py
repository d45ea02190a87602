"""Who pays for a read, the ceilings of a run, and what opens the next turn."""  # EB-08, EB-09

from __future__ import annotations

from typing import Any

import msgspec

from engrambus.errors import EngramBusError
from engrambus.gateway import Credential
from engrambus.testing.client import GatewayClient, catch_refusal, expect_refusal, same_changes
from engrambus.testing.conformance.messages import Team
from engrambus.testing.fakes import repo_ref
from engrambus.testing.harness import Harness

FILE = repo_ref("src/a.py")


def speak(speaker: Credential, name: str) -> Credential:
    """Return the credential of an agent that speaks for a descendant."""
    return msgspec.structs.replace(speaker, speak_as=name)


def reads_until_refused(client: GatewayClient, *callers: Credential, most: int = 40) -> int:
    """Return how many reads succeed, each caller reading until it is refused."""
    reads = 0
    for caller in callers:
        for _ in range(most):
            if client.try_call("deref_pointer", caller, pointer=FILE)[0] == "DEREF_DENIED":
                break
            reads += 1
    return reads


class TurnConformance:
    """Turns, the agents that pay with them, and the ceilings of a run."""

    # decision 45: a speaker without proof pays as well
    def test_speaking_for_children_gives_no_more_reads(self, harness: Harness) -> None:
        client = GatewayClient(harness)
        mia = client.add_agent("mia", "manager")
        children = [f"child-{number}" for number in range(6)]
        for name in children:
            client.add_agent(name, "programmer", mia)
        assert reads_until_refused(client, *(speak(mia, name) for name in children)) == 3
        harness.reopen()
        harness.delete_index()
        refusal = catch_refusal(lambda: client.deref(speak(mia, "child-5"), FILE))
        assert (refusal.code, refusal.field, refusal.limit, refusal.used) == ("DEREF_DENIED", "turn.repo", 3, 3)
        assert "'mia'" in refusal.detail
        assert "'child-5'" in str(refusal.hint)

    def test_eight_agents_with_their_own_tokens_have_eight_budgets(self, harness: Harness) -> None:
        client = GatewayClient(harness)
        mia = client.add_agent("mia", "manager")
        children = [client.add_agent(f"child-{number}", "programmer", mia) for number in range(8)]
        assert reads_until_refused(client, *children) == 24
        assert reads_until_refused(client, mia) == 3, "a child's reads are not charged to its parent"

    def test_a_person_who_speaks_for_an_agent_pays_nothing(self, harness: Harness) -> None:
        team = Team(harness)
        as_paul = Credential(local_admin=True, speak_as="paul")
        assert reads_until_refused(team.client, as_paul) == 3
        assert reads_until_refused(team.client, Credential(local_admin=True), most=9) == 9

    def test_a_spoken_read_counts_once_for_the_team(self, harness: Harness) -> None:
        team = Team(harness)
        team.client.deref(speak(team.mia, "paul"), FILE)
        used = {row.agent_id: row.turn.run_tokens for row in team.client.call("stats").agents}
        assert used["paul"] == used["mia"] > 0
        assert used["lead"] == 0
        assert team.client.call("team_budget").used == used["paul"]

    def test_both_turns_must_have_room(self, harness: Harness) -> None:
        team = Team(harness)
        journal = b""
        for _ in range(3):
            team.client.deref(team.paul, FILE)
            journal = harness.journal_bytes()
        with expect_refusal("DEREF_DENIED", "turn.repo"):  # the child has none left
            team.client.deref(speak(team.mia, "paul"), FILE)
        for _ in range(3):
            team.client.deref(team.mia, FILE)
            journal = harness.journal_bytes()
        with expect_refusal("DEREF_DENIED", "turn.repo"):  # the speaker has none left
            team.client.deref(speak(team.mia, "pia"), FILE)
        assert same_changes(harness.journal_bytes(), journal)
        team.client.deref(speak(team.lead, "pia"), FILE)

    def test_a_grant_that_an_agent_gives_its_child_does_not_pay_for_the_agent(self, harness: Harness) -> None:
        team = Team(harness)
        terms: dict[str, Any] = {"child_id": "paul", "pointer": FILE, "cap_tokens": 10_000, "uses": 50}
        reads_until_refused(team.client, team.mia, team.paul)
        by_mia = team.client.call("issue_grant", team.mia, **terms)
        for token in ({}, {"budget_token": by_mia.budget_token}):
            with expect_refusal("DEREF_DENIED", "turn.repo"):
                team.client.deref(speak(team.mia, "paul"), FILE, **token)
        team.client.deref(team.paul, FILE)  # the child itself may use it
        team.client.call("issue_grant", team.lead, **terms)
        team.client.deref(speak(team.mia, "paul"), FILE)

    def test_content_that_is_drawn_is_charged_to_the_speaker_too(self, harness: Harness) -> None:
        team = Team(harness)
        for number in range(8):
            team.client.call("keep_episode", text=f"Rule {number}: " + "words and more words " * 20, importance=0.9)
        for name in ("paul", "pia"):
            team.client.call("inherit", speak(team.mia, name), max_bytes=2_000)
        used = {row.agent_id: row.turn.tokens for row in team.client.call("stats").agents}
        assert used["mia"] == used["paul"] + used["pia"]
        assert used["pia"] > 0
        team.client.call("apply_policy", policy={"deref": {"tokens": used["mia"]}})
        with expect_refusal("DEREF_DENIED", "turn.tokens"):
            team.client.call("inherit", speak(team.mia, "paul"), max_bytes=2_000)

    def test_the_ceiling_of_the_run_refuses_reads_of_every_agent(self, harness: Harness) -> None:
        team = Team(harness)
        team.client.call("apply_policy", policy={"deref": {"tokens": 280, "repo": 50, "team_turns": 2}})
        for _ in range(20):  # a person's reads do not use up what the agents may read
            team.client.deref(Credential(local_admin=True), FILE)

        def read_on(caller: Credential) -> EngramBusError:
            return catch_refusal(lambda: [team.client.deref(caller, FILE) for _ in range(50)])

        refusals = [read_on(caller) for caller in (team.paul, team.pia, team.mia)]
        assert [refusal.field for refusal in refusals] == ["turn.tokens", "turn.tokens", "team.tokens"]
        last = refusals[-1]
        assert (last.code, last.limit) == ("DEREF_DENIED", 560)
        assert "run new" in str(last.hint)
        assert "deref.team_turns" in str(last.hint)
        team.client.report(team.paul)
        with expect_refusal("DEREF_DENIED", "team.tokens"):
            team.client.deref(team.paul, FILE)
        harness.reopen()
        with expect_refusal("DEREF_DENIED", "team.tokens"):
            team.client.deref(team.lead, FILE)
        team.client.deref(Credential(local_admin=True), FILE)

    def test_the_refusal_names_the_ceiling_that_stops_a_valid_grant(self, harness: Harness) -> None:
        team = Team(harness)
        team.client.call("apply_policy", policy={"deref": {"tokens": 200, "run_turns": 1, "repo": 1}})
        team.client.call("issue_grant", team.mia, child_id="paul", pointer=FILE, cap_tokens=10_000, uses=100)
        refusal = catch_refusal(lambda: [team.client.deref(team.paul, FILE) for _ in range(100)])
        assert (refusal.code, refusal.field, refusal.limit) == ("DEREF_DENIED", "run.tokens", 200)
        assert "'paul'" in refusal.detail
        assert "run new" in str(refusal.hint)
        assert "next turn" not in str(refusal.hint)

    def test_in_a_clients_session_the_ceiling_names_a_new_session(self, harness: Harness) -> None:
        client = GatewayClient(harness)
        client.call("apply_policy", policy={"deref": {"tokens": 200, "run_turns": 1, "repo": 100}})
        run = client.call("open_run", goal="A session.", session="s-1").run_id
        client.call("add_agent", Credential(local_admin=True, run=run), name="ed", role="architect")
        ed = Credential(local_admin=True, speak_as=f"{run}/ed")
        hint = catch_refusal(lambda: [client.deref(ed, FILE) for _ in range(100)]).hint
        assert "new session" in str(hint)
        assert "run new" not in str(hint)

    def test_a_session_agent_has_several_turns_worth_in_a_turn(self, harness: Harness) -> None:
        client = GatewayClient(harness)
        ed = client.add_agent("ed", "architect", session_turns=4)
        assert reads_until_refused(client, ed) == 12
        refusal = catch_refusal(lambda: client.deref(ed, FILE))
        assert (refusal.field, refusal.limit) == ("turn.repo", 12)
        (row,) = client.call("stats").agents
        assert (row.limits.repo, row.limits.tokens, row.limits.put_tokens) == (12, 4800, 9600)
        assert (row.limits.session_turns, row.limits.run_tokens) == (4, 24_000)
        assert reads_until_refused(client, client.add_agent("kid", "manager", ed)) == 3

    def test_a_session_agents_turn_ends_after_sixty_idle_seconds(self, harness: Harness) -> None:
        client = GatewayClient(harness)
        ed, ada = client.add_agent("ed", "architect", session_turns=4), client.add_agent("ada")
        assert reads_until_refused(client, ed, ada) == 15
        harness.clock.advance(seconds=60)
        assert reads_until_refused(client, ed) == 0, "a refused read is no activity, and no turn has ended yet"
        harness.clock.advance(seconds=0, microseconds=1)
        assert reads_until_refused(client, ed) == 12
        assert reads_until_refused(client, ada) == 0
        harness.clock.advance(seconds=539)
        assert reads_until_refused(client, ada) == 0
        harness.reopen()
        harness.clock.advance(seconds=1)
        assert reads_until_refused(client, ada) == 3

    def test_activity_keeps_a_session_agents_turn_open(self, harness: Harness) -> None:
        client = GatewayClient(harness)
        ed = client.add_agent("ed", "architect", session_turns=2)
        for _ in range(6):
            client.deref(ed, FILE)
            harness.clock.advance(seconds=59)
        with expect_refusal("DEREF_DENIED", "turn.repo"):
            client.deref(ed, FILE)

    def test_the_ceiling_of_a_session_agent_is_that_of_any_agent(self, harness: Harness) -> None:
        client = GatewayClient(harness)
        client.call("apply_policy", policy={"deref": {"tokens": 100, "run_turns": 3}})
        ed = client.add_agent("ed", "architect", session_turns=4)
        refusal = catch_refusal(lambda: [client.deref(ed, FILE) for _ in range(20)])
        assert (refusal.field, refusal.limit) == ("run.tokens", 300)
        harness.clock.advance(seconds=61)
        with expect_refusal("DEREF_DENIED", "run.tokens"):
            client.deref(ed, FILE)

    def test_prose_that_an_agent_hands_in_itself_refills_nothing(self, harness: Harness) -> None:
        team = Team(harness)
        assert reads_until_refused(team.client, team.paul) == 3
        assert team.client.call("take_answer", team.paul, text="ok").turn == 1
        assert reads_until_refused(team.client, team.paul) == 0
        for reporter in (Credential(local_admin=True, speak_as="paul"), speak(team.mia, "paul")):
            team.client.call("take_answer", reporter, text="ok")  # a hook or a parent says that it stopped
            assert reads_until_refused(team.client, team.paul) == 3

    def test_an_agent_does_not_close_its_own_turn(self, harness: Harness) -> None:
        team = Team(harness)
        team.client.deref(team.mia, FILE)
        with expect_refusal("ROLE_FORBIDDEN", "name"):
            team.client.call("close_turn", team.mia, name="mia")
        assert team.client.call("close_turn", speak(team.lead, "mia"), name="mia").turn == 2

    def test_limits_that_are_not_enforced_are_still_counted(self, harness: Harness) -> None:
        team = Team(harness)
        relaxed = {"deref_count": "warn", "deref_tokens": "off", "run_tokens": {"programmer": "warn"}}
        team.client.call(
            "apply_policy",
            policy={"deref": {"tokens": 200, "run_turns": 2, "team_turns": 4}, "limits": relaxed},
        )
        assert reads_until_refused(team.client, team.paul) > 3
        assert reads_until_refused(team.client, team.mia) == 0, "the team's ceiling is enforced"
        (paul,) = (row for row in team.client.call("stats").agents if row.agent_id == "paul")
        assert paul.turn.repo > paul.limits.repo
        assert paul.turn.run_tokens > paul.limits.run_tokens

    def test_a_speakers_limits_are_those_of_its_own_role(self, harness: Harness) -> None:
        team = Team(harness)
        team.client.call("apply_policy", policy={"limits": {"deref_count": {"programmer": "off"}}})
        assert reads_until_refused(team.client, speak(team.mia, "paul")) == 3
        assert reads_until_refused(team.client, team.paul, most=6) == 6
