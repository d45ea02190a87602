"""Claims from prose: found and marked, in no brief, and the team's own once they are confirmed."""  # BX-10, EB-18

from __future__ import annotations

from collections.abc import Sequence

from engrambus.errors import UsedUntrusted
from engrambus.gateway import LOCAL_ADMIN, Credential, to_request
from engrambus.knowledge.engrams import Capture
from engrambus.operations import OPERATIONS
from engrambus.operations.answers import AnswerTaken
from engrambus.testing.client import expect_refusal
from engrambus.testing.conformance.messages import Team
from engrambus.testing.fakes import repo_ref
from engrambus.testing.harness import Harness

LEASE = repo_ref("src/lease.py", 3, 9)
CLAIM = "The lease is renewed twice before it expires."
SENTENCE = f"The lease is renewed twice before it expires ({LEASE})."
DAY_SECONDS = 86_400
STOPPED = Credential(local_admin=True, speak_as="paul")
"""How a hook hands in what a sub-agent answered."""


class Capturing(Team):
    """A manager, a programmer below it, and an answer in prose."""

    def answer(self, text: str = SENTENCE, caller: Credential = STOPPED) -> AnswerTaken:
        """Hand in an answer."""
        taken: AnswerTaken = self.client.call("take_answer", caller, text=text)
        return taken

    def captured(self, text: str = SENTENCE) -> str:
        """Hand in an answer with one claim and return the id of its engram."""
        (engram_id,) = self.answer(text).unconfirmed
        return engram_id

    def mark(self, engram_id: str, caller: Credential = LOCAL_ADMIN) -> Capture | None:
        """Return the mark of an unconfirmed engram."""
        mark: Capture | None = self.client.call("show_engram", caller, id=engram_id).about[engram_id].unconfirmed
        return mark

    def brief(self, caller: Credential = LOCAL_ADMIN) -> str:
        """Return the caller's brief."""
        return "\n".join(self.client.call("brief", caller).lines)


class CaptureConformance:
    """What becomes of the sentences of an answer in prose."""

    def test_a_sentence_that_cites_lines_is_found_and_marked(self, harness: Harness) -> None:
        team = Capturing(harness)
        taken = team.answer()
        assert (len(taken.unconfirmed), taken.cited, taken.unresolved_citations) == (1, [LEASE], 0)
        found = team.client.query("lease renewed", team.mia)
        (engram,) = found.engrams
        assert (engram.claim, engram.kind, [pointer.ref for pointer in engram.pointers]) == (CLAIM, "fact", [LEASE])
        assert engram.pointers[0].digest is not None
        assert engram.provenance.created_by.rpartition("/")[2] == "paul"
        assert engram.provenance.source == "agent"
        mark = found.about[engram.id].unconfirmed
        assert mark is not None
        assert (mark.by, mark.marked, mark.confirmed_by) == (engram.provenance.created_by, False, None)

    def test_it_stands_in_no_brief_and_in_no_list_by_time(self, harness: Harness) -> None:
        team = Capturing(harness)
        team.client.put("Ada works on the lease.", team.mia)
        team.captured()
        for caller in (LOCAL_ADMIN, team.lead, team.mia, team.paul):
            assert CLAIM not in team.brief(caller)
            assert CLAIM not in team.client.query_claims("", caller)
        snapshot = team.client.call("inherit", scope={"include_atoms": True})
        assert CLAIM not in [item.content for item in snapshot.items]
        (row,) = team.client.call("feed", unconfirmed=True).rows
        assert (row.engram.claim, row.about.unconfirmed is not None) == (CLAIM, True)

    def test_recall_unasked_never_shows_it(self, harness: Harness) -> None:
        team = Capturing(harness)
        engram_id = team.captured()
        fields = {"text": CLAIM, "paths": ["src/lease.py"]}
        for occasion in ("prompt", "subagent", "edit"):
            assert CLAIM not in "\n".join(team.client.call("recall", team.mia, occasion=occasion, **fields).lines)
        team.client.call("confirm_engram", id=engram_id)
        assert CLAIM in "\n".join(team.client.call("recall", team.mia, occasion="prompt", **fields).lines)

    def test_no_agent_makes_it_the_teams_memory(self, harness: Harness) -> None:
        team = Capturing(harness)
        engram_id = team.captured()
        waiting = team.client.call("contribute", team.paul, content="Leases are renewed by hand.", used=[engram_id])
        with expect_refusal("ENGRAM_UNCONFIRMED", "content"):
            team.client.call("accept_contribution", team.mia, id=waiting.contribution_id)
        with expect_refusal("ENGRAM_UNCONFIRMED", "replaces"):
            team.client.put("Leases are renewed by hand.", team.mia, refs=(LEASE,), replaces=engram_id)

    def test_confirmed_engrams_of_the_same_rank_come_first(self, harness: Harness) -> None:
        team = Capturing(harness)
        own = team.client.put("The lease is renewed by its holder.", team.mia)
        harness.clock.advance(seconds=60)
        captured = team.captured()
        assert [engram.id for engram in team.client.query("lease renewed").engrams] == [own.id, captured]

    def test_a_parent_or_a_person_confirms_it(self, harness: Harness) -> None:
        team = Capturing(harness)
        for confirmer in (team.mia, team.lead, LOCAL_ADMIN):
            lease = repo_ref(f"src/lease{confirmer == LOCAL_ADMIN:d}{confirmer == team.mia:d}.py")
            engram_id = team.captured(f"The lease in this file is renewed by its holder ({lease}).")
            answer = team.client.call("confirm_engram", confirmer, id=engram_id[:16])
            assert (answer.id, answer.accepted, answer.votes) == (engram_id, True, 1)
            about = team.client.call("show_engram", id=engram_id).about[engram_id]
            assert about.unconfirmed is None
            assert (about.captured.by.rpartition("/")[2], about.captured.confirmed_by is not None) == ("paul", True)
            assert team.client.call("confirm_engram", confirmer, id=engram_id).accepted is False
            harness.delete_index()
            harness.reopen()
            assert team.client.call("show_engram", id=engram_id).about[engram_id] == about
            assert harness.gateway.store.verify() == []
        assert "renewed by its holder" in team.brief(team.mia)

    def test_neither_its_author_nor_another_agent_confirms_it(self, harness: Harness) -> None:
        team = Capturing(harness)
        eve = team.client.add_agent("eve", "architect")
        engram_id = team.captured()
        for caller in (team.paul, eve):
            with expect_refusal("ENGRAM_UNCONFIRMED", "id"):
                team.client.call("confirm_engram", caller, id=engram_id)
        with expect_refusal("ENGRAM_UNCONFIRMED"):
            team.client.call("pin_engram", id=engram_id)
        with expect_refusal("ENGRAM_UNCONFIRMED"):
            team.client.call("promote_engram", team.mia, id=engram_id, scope="org")
        with expect_refusal("ENGRAM_UNCONFIRMED"):
            team.client.call("get_engram", id=engram_id)
        assert team.mark(engram_id) is not None

    def test_another_agent_that_puts_the_claim_with_its_own_evidence_confirms_it(self, harness: Harness) -> None:
        team = Capturing(harness)
        eve = team.client.add_agent("eve", "architect")
        engram_id = team.captured()
        put = team.client.put(CLAIM, eve, refs=(repo_ref("src/lease.py", 5, 6),))
        assert put.id == engram_id
        assert team.mark(engram_id) is None
        assert CLAIM in team.brief(eve)

    def test_it_lives_a_week_and_as_long_as_others_once_it_is_confirmed(self, harness: Harness) -> None:
        team = Capturing(harness)
        dropped, kept = team.captured(), team.captured(f"Leases are never extended by hand ({repo_ref('b.py')}).")
        team.client.call("confirm_engram", id=kept)
        harness.clock.advance(seconds=7 * DAY_SECONDS + 1)
        with expect_refusal("ENGRAM_NOT_FOUND"):
            team.client.call("show_engram", id=dropped)
        assert [engram.id for engram in team.client.query("lease").engrams] == [kept]
        assert team.answer().known_claims == 0, "what has expired may be said again"

    def test_a_person_forgets_it(self, harness: Harness) -> None:
        team = Capturing(harness)
        engram_id = team.captured()
        team.client.call("forget_engram", id=engram_id)
        assert team.client.query("lease").engrams == []
        assert harness.gateway.store.verify() == []

    def test_a_claim_that_is_known_is_neither_kept_nor_counted_as_a_vote(self, harness: Harness) -> None:
        team = Capturing(harness)
        put = team.client.put(CLAIM, team.mia, refs=(LEASE,))
        taken = team.answer(f"{SENTENCE} The lease is renewed twice before it expires ({LEASE}).")
        assert (taken.unconfirmed, taken.known_claims) == ([], 2)
        assert team.client.call("confirm_engram", team.mia, id=put.id).votes == 1
        other = f"Leases are never extended by hand ({repo_ref('src/hand.py')})."
        taken = team.answer(f"{other} {other}")
        assert (len(taken.unconfirmed), taken.known_claims) == (1, 1)
        assert team.answer(other).known_claims == 1

    def test_an_answer_leaves_at_most_twelve_claims_and_counts_the_others(self, harness: Harness) -> None:
        team = Capturing(harness)
        taken = team.answer(_many(3), team.paul)
        assert (len(taken.unconfirmed), taken.claims_left_out) == (3, 0)
        team.client.call("apply_policy", policy={"engrams_per_minute": 5})
        taken = team.answer(_many(3, first=10), team.paul)
        assert (len(taken.unconfirmed), taken.claims_left_out) == (2, 1)
        harness.clock.advance(seconds=61)
        team.client.call("apply_policy", policy={"put_tokens_per_turn": 70})
        taken = team.answer(_many(3, first=20), team.paul)
        assert len(taken.unconfirmed) + taken.claims_left_out == 3
        assert taken.claims_left_out, "the turn has paid for the earlier ones"
        harness.clock.advance(seconds=61)
        assert len(team.answer(_many(3, first=30)).unconfirmed) == 3, "a hook's answer ends the turn"

    def test_the_policy_turns_it_off(self, harness: Harness) -> None:
        team = Capturing(harness)
        team.client.call("apply_policy", policy={"capture": False})
        taken = team.answer()
        assert (taken.unconfirmed, taken.cited) == ([], [LEASE])
        assert team.client.query("lease").engrams == []

    def test_whoever_uses_it_is_warned(self, harness: Harness) -> None:
        team = Capturing(harness)
        engram_id = team.captured()
        warnings: list[object] = []
        operation = OPERATIONS["put_engram"]
        draft = {"claim": "So it needs a lock.", "pointers": [{"type": "repo", "ref": LEASE}], "used": [engram_id]}
        request = to_request(draft, operation.request)
        harness.gateway.call(operation, request, team.mia, on_warning=warnings.append)
        assert [type(warning) for warning in warnings] == [UsedUntrusted]

    def test_a_role_that_may_not_write_the_project_keeps_it_in_its_run(self, harness: Harness) -> None:
        team = Capturing(harness)
        team.client.call("apply_policy", policy={"write_scopes": {"programmer": ["run"]}})
        engram_id = team.captured()
        assert team.client.call("show_engram", team.mia, id=engram_id).engrams[0].scope == "run"
        team.client.open_run("another run")
        assert team.client.query("lease").engrams == []
        team.client.call("confirm_engram", team.mia, id=engram_id)
        assert CLAIM in team.brief(team.mia)

    def test_a_parent_finds_waiting_claims_in_its_inbox(self, harness: Harness) -> None:
        team = Capturing(harness)
        engram_id = team.captured()
        for caller in (team.mia, team.lead, LOCAL_ADMIN):
            for fields in ({}, {"unseen": True, "short": True, "max_tokens": 400}):
                answer = team.client.call("inbox", caller, **fields)
                (row,) = answer.claims
                assert (row.id, row.agent, row.claim, answer.claims_waiting) == (engram_id, "paul", CLAIM, 1)
        assert team.client.call("inbox", team.paul).claims_waiting == 0
        answer = team.client.call("inbox", team.mia, unseen=True, short=True, max_tokens=40)
        assert (answer.claims, answer.claims_waiting) == ([], 1)
        team.client.call("confirm_engram", team.mia, id=engram_id)
        assert team.client.call("inbox", team.lead).claims_waiting == 0

    def test_several_are_confirmed_together_or_not_at_all(self, harness: Harness) -> None:
        team = Capturing(harness)
        eve = team.client.add_agent("eve", "architect")
        ids = team.answer(_many(3)).unconfirmed
        with expect_refusal("ENGRAM_NOT_FOUND"):
            team.client.call("confirm_several", team.mia, ids=[ids[0], "01K7Z3V5QX0000000000000000"])
        with expect_refusal("ENGRAM_UNCONFIRMED"):
            team.client.call("confirm_several", eve, ids=ids)
        with expect_refusal("FIELD_VALUE", "ids"):
            team.client.call("confirm_several", team.mia)
        assert team.client.call("inbox", team.mia).claims_waiting == 3
        assert team.client.call("confirm_several", team.mia, ids=[ids[0], ids[0]]).ids == [ids[0]]
        assert set(team.client.call("confirm_several", agent="paul").ids) == set(ids[1:])
        assert team.client.call("confirm_several", team.mia, agent="paul").ids == []
        assert team.client.call("inbox", team.mia).claims_waiting == 0
        assert harness.gateway.store.verify() == []


def _many(count: int, first: int = 0) -> str:
    """Return a text with several claims."""
    sentences: Sequence[str] = [
        f"The part number {number} of it is renewed by hand ({repo_ref(f'src/{number}.py')})."
        for number in range(first, first + count)
    ]
    return " ".join(sentences)
