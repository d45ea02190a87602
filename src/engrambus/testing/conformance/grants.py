"""Reading more than a turn allows: asked for, granted, passed on, spent and taken back."""  # EB-09, EB-10, EB-11

from __future__ import annotations

import threading
from typing import Any

import msgspec

from engrambus.core import SECOND_US
from engrambus.gateway import Credential
from engrambus.policy.grants import MAX_BLOCKS, attenuate
from engrambus.testing.client import expect_refusal
from engrambus.testing.conformance.messages import CODE, Team, sent_back
from engrambus.testing.fakes import SHA, repo_ref
from engrambus.testing.harness import Harness

HOUR = 3600
FILE = f"repo:src/a.py@{SHA}"


def exhaust(team: Team, who: Credential) -> None:
    """Use up what a turn allows of a repository."""
    for line in (1, 2, 3):
        team.hand.deref(who, repo_ref("src/a.py", line, line))


def granted(team: Team, child: str = "paul", pointer: str = FILE, by: Credential | None = None, **more: Any) -> Any:
    """A grant from a manager to a programmer, unless said otherwise."""
    return team.hand.call("issue_grant", by or team.mia, child_id=child, pointer=pointer, **more)


class GrantConformance:
    """Who lets whom read what, how much and until when."""

    def test_a_wish_in_a_message_reaches_the_parent_and_its_answer_lets_the_child_read(self, harness: Harness) -> None:
        team = Team(harness)
        wish = {"pointer": {"type": "repo", "ref": FILE}, "reason": "To see.", "intended_use": "To test it."}
        answer = team.hand.report(team.paul, deref_requests=[wish])
        exhaust(team, team.paul)
        kinds = [(mail.kind, mail.item) for mail in team.hand.mail(team.mia)]
        assert kinds == [("request", answer.requests[0]), ("message", answer.message_id)]
        (asked,) = team.hand.call("list_requests", team.mia).requests
        assert (asked.request_id, asked.agent, asked.ref) == (answer.requests[0], "paul", FILE)
        assert (asked.reason, asked.intended_use) == ("To see.", "To test it.")
        with expect_refusal("DEREF_DENIED"):
            team.hand.deref(team.paul, repo_ref("src/a.py"))
        approved = team.hand.call("approve_request", team.mia, id=asked.request_id, uses=2)
        assert team.hand.call("list_requests", team.mia).requests == []
        assert [mail.item for mail in team.hand.mail(team.paul) if mail.kind == "grant"] == [approved.grant_id]
        team.hand.deref(team.paul, repo_ref("src/a.py"))
        team.hand.deref(team.paul, repo_ref("src/a.py"), budget_token=approved.budget_token)
        with expect_refusal("DEREF_DENIED"):
            team.hand.deref(team.paul, repo_ref("src/a.py"))
        with expect_refusal("GRANT_SPENT", "budget_token"):
            team.hand.deref(team.paul, repo_ref("src/a.py"), budget_token=approved.budget_token)
        assert approved.budget_token.encode() not in harness.journal_bytes()

    def test_a_request_is_answered_once_and_by_whom_it_was_made_to(self, harness: Harness) -> None:
        team = Team(harness)
        ids = [team.hand.call("request_deref", team.paul, pointer=FILE, reason="To see.").request_id for _ in range(3)]
        with expect_refusal("REQUEST_NOT_FOUND"):
            team.hand.call("approve_request", team.lead, id=ids[0])
        with expect_refusal("ROLE_FORBIDDEN"):
            team.hand.call("approve_request", team.paul, id=ids[0])
        assert team.hand.call("list_requests", team.lead).requests == []
        assert not team.hand.call("deny_request", team.mia, id=ids[0]).granted
        harness.reopen()
        harness.delete_index()
        for act in ("approve_request", "deny_request"):
            with expect_refusal("REQUEST_NOT_FOUND"):
                team.hand.call(act, team.mia, id=ids[0])
        team.hand.call("approve_request", team.mia, id=ids[1])
        with expect_refusal("REQUEST_NOT_FOUND"):
            team.hand.call("deny_request", team.mia, id=ids[1])
        team.hand.call("approve_request", id=ids[2])  # a person may answer for anybody
        assert team.hand.call("list_requests").requests == []
        other = Credential(local_admin=True, run=team.hand.open_run())
        with expect_refusal("REQUEST_NOT_FOUND"):
            team.hand.call("deny_request", other, id=ids[0])

    def test_an_answer_keeps_to_the_limits_a_grant_has(self, harness: Harness) -> None:
        team = Team(harness)
        asked = team.hand.call("request_deref", team.paul, pointer=FILE, reason="To see.").request_id
        for bad in ({"cap_tokens": 0}, {"cap_tokens": -1}, {"cap_tokens": 100_001}, {"uses": 0}, {"expires_in": "P1M"}):
            said, _ = team.hand.try_call("approve_request", team.mia, id=asked, **bad)
            assert said in ("FIELD_VALUE", "TTL_INVALID"), bad

    def test_nobody_grants_to_itself_upwards_or_across(self, harness: Harness) -> None:
        team = Team(harness)
        before = harness.journal_bytes()
        with expect_refusal("ROLE_FORBIDDEN", "child_id"):
            granted(team, "mia")
        for child, code in (("lead", "NOT_YOUR_DESCENDANT"), ("nobody", "AGENT_NOT_FOUND"), ("admin", None)):
            with expect_refusal(code or "AGENT_NOT_FOUND", "child_id"):
                granted(team, child)
        with expect_refusal("ROLE_FORBIDDEN"):
            granted(team, "pia", by=team.paul)
        assert harness.journal_bytes() == before
        granted(team, "paul", by=team.lead)

    def test_each_way_a_token_can_fail_has_its_code(self, harness: Harness) -> None:
        team = Team(harness)
        grant = granted(team, cap_tokens=200, uses=2)
        token, ref = grant.budget_token, repo_ref("src/a.py")
        other = Credential(local_admin=True, run=team.hand.open_run())
        namesake = team.hand.add_agent("paul", "programmer", other)
        deep = token
        for _ in range(MAX_BLOCKS - 1):
            deep = attenuate(deep, cap_tokens=200)
        before = harness.journal_bytes()
        for who, shown, asked, code in (
            (team.pia, token, ref, "GRANT_WRONG_CHILD"),
            (team.mia, token, ref, "GRANT_WRONG_CHILD"),
            (team.paul, token, repo_ref("src/b.py"), "GRANT_WRONG_POINTER"),
            (team.paul, token, ref.replace(SHA, "6" * 40), "GRANT_WRONG_POINTER"),
            (namesake, token, ref, "GRANT_FOREIGN"),
            (team.paul, attenuate(token, cap_tokens=20), ref, "GRANT_OVER_CAP"),
            (team.paul, attenuate(token, child="pia"), ref, "GRANT_WRONG_CHILD"),
            (team.paul, attenuate(token, pointer=repo_ref("src/a.py", 3, 4)), ref, "GRANT_WRONG_POINTER"),
            (team.paul, attenuate(token, expires_us=harness.clock.now()), ref, "GRANT_EXPIRED"),
            (team.paul, token[:-8] + "AAAAAAAA", ref, "GRANT_FORGED"),
            (team.paul, "no token", ref, "GRANT_FORGED"),
            (team.paul, "x" * 8000, ref, "GRANT_FORGED"),
        ):
            with expect_refusal(code, "budget_token"):
                team.hand.deref(who, asked, budget_token=shown)
        with expect_refusal("GRANT_TOO_DEEP", "budget_token"):
            attenuate(deep, cap_tokens=200)
        assert harness.journal_bytes() == before
        for _ in range(2):
            team.hand.deref(team.paul, ref, budget_token=token)
        with expect_refusal("GRANT_SPENT", "budget_token"):
            team.hand.deref(team.paul, ref, budget_token=token)

    def test_a_grant_pays_up_to_its_cap_and_not_more(self, harness: Harness) -> None:
        team = Team(harness)
        grant = granted(team, cap_tokens=250, uses=50)
        exhaust(team, team.paul)
        spent = 0
        with expect_refusal("GRANT_OVER_CAP", "budget_token"):
            for _ in range(50):
                answer = team.hand.deref(team.paul, FILE, max_tokens=120, budget_token=grant.budget_token)
                assert answer.truncated
                spent += 1
        assert spent >= 2
        with expect_refusal("DEREF_DENIED"):
            team.hand.deref(team.paul, FILE, max_tokens=120)

    def test_a_grant_is_for_what_its_pointer_says_span_and_all(self, harness: Harness) -> None:
        team = Team(harness)
        grant = granted(team, pointer={"type": "repo", "ref": FILE, "span": "L1-L2"}, uses=9)  # type: ignore[arg-type]
        team.hand.deref(team.paul, repo_ref("src/a.py", 1, 2), budget_token=grant.budget_token)
        with expect_refusal("GRANT_WRONG_POINTER"):
            team.hand.deref(team.paul, repo_ref("src/a.py", 3, 4), budget_token=grant.budget_token)
        with expect_refusal("POINTER_DISAGREES"):
            granted(team, pointer={"type": "sam", "ref": FILE})  # type: ignore[arg-type]

    def test_a_grant_may_be_for_a_folder_or_the_whole_tree(self, harness: Harness) -> None:
        team = Team(harness)
        grant = granted(team, pointer=f"repo:src/auth/*@{SHA}", uses=5)
        team.hand.deref(team.paul, repo_ref("src/auth/x.py"), budget_token=grant.budget_token)
        with expect_refusal("GRANT_WRONG_POINTER"):
            team.hand.deref(team.paul, repo_ref("src/authority.py"), budget_token=grant.budget_token)
        grant = granted(team, pointer=f"repo:*@{SHA}", uses=5)
        team.hand.deref(team.paul, repo_ref("docs/any.md"), budget_token=grant.budget_token)
        odd = granted(team, pointer=f"repo:src/a@b/*@{SHA}", uses=5)
        team.hand.deref(team.paul, repo_ref("src/a@b/x.py"), budget_token=odd.budget_token)

    def test_a_grant_ends_and_a_clock_set_back_does_not_revive_it(self, harness: Harness) -> None:
        team = Team(harness)
        grant = granted(team, expires_in="PT1H", uses=9)
        exhaust(team, team.paul)
        harness.clock.advance(seconds=HOUR - 1)
        team.hand.deref(team.paul, FILE, budget_token=grant.budget_token)
        harness.clock.advance(seconds=1)
        with expect_refusal("GRANT_EXPIRED", "budget_token"):
            team.hand.deref(team.paul, FILE, budget_token=grant.budget_token)
        team.hand.report(team.pia)  # the journal has seen the hour pass
        harness.clock.advance(seconds=-HOUR)
        harness.reopen()
        with expect_refusal("GRANT_EXPIRED", "budget_token"):
            team.hand.deref(team.paul, FILE, budget_token=grant.budget_token)

    def test_a_grant_without_its_token_ends_too(self, harness: Harness) -> None:
        team = Team(harness)
        granted(team, expires_in="PT5M", uses=9)
        exhaust(team, team.paul)
        team.hand.deref(team.paul, FILE)
        harness.clock.advance(seconds=300)
        with expect_refusal("DEREF_DENIED", "turn.repo"):
            team.hand.deref(team.paul, FILE)

    def test_what_is_revoked_allows_nothing_nor_does_anything_narrowed_from_it(self, harness: Harness) -> None:
        team = Team(harness)
        grant = granted(team, "mia", by=team.lead, uses=9)
        less = attenuate(grant.budget_token, child="paul", uses=3)
        team.hand.deref(team.paul, FILE, budget_token=less)
        exhaust(team, team.paul)
        for who in (team.mia, Credential(token=team.hand.add_agent("rex", "manager").token)):
            with expect_refusal("GRANT_NOT_FOUND"):
                team.hand.call("revoke_grant", who, id=grant.grant_id)
        assert team.hand.call("revoke_grant", team.lead, id=grant.grant_id).revoked
        harness.reopen()
        harness.delete_index()
        for who, token in ((team.mia, grant.budget_token), (team.paul, less)):
            with expect_refusal("GRANT_REVOKED", "budget_token"):
                team.hand.deref(who, FILE, budget_token=token)
        with expect_refusal("DEREF_DENIED"):
            team.hand.deref(team.paul, FILE)

    def test_a_child_passes_less_on_without_the_gateway(self, harness: Harness) -> None:
        team = Team(harness)
        grant = granted(team, "mia", by=team.lead, uses=3, cap_tokens=900)
        ref = repo_ref("src/a.py", 3, 4)
        less = attenuate(grant.budget_token, child="paul", pointer=ref, uses=2, cap_tokens=400)
        with expect_refusal("GRANT_WRONG_CHILD"):
            team.hand.deref(team.pia, ref, budget_token=less)
        with expect_refusal("GRANT_WRONG_POINTER"):
            team.hand.deref(team.paul, FILE, budget_token=less)
        for _ in range(2):
            team.hand.deref(team.paul, ref, budget_token=less)
        with expect_refusal("GRANT_SPENT"):
            team.hand.deref(team.paul, ref, budget_token=less)
        again = attenuate(grant.budget_token, child="pia", uses=2)
        team.hand.deref(team.pia, ref, budget_token=again)  # the third use of what mia was given
        harness.reopen()
        harness.delete_index()
        with expect_refusal("GRANT_SPENT"):
            team.hand.deref(team.pia, ref, budget_token=again)
        more = attenuate(less, uses=100, cap_tokens=100_000)
        with expect_refusal("GRANT_SPENT"):
            team.hand.deref(team.paul, ref, budget_token=more)

    def test_a_grant_reads_on_when_the_turn_has_too_few_tokens_left(self, harness: Harness) -> None:
        team = Team(harness)
        team.hand.call("apply_policy", policy={"deref": {"tokens": 100}})
        team.hand.deref(team.paul, repo_ref("src/a.py"), max_tokens=90)
        with expect_refusal("DEREF_DENIED", "turn.tokens"):
            team.hand.deref(team.paul, repo_ref("src/a.py"))
        granted(team, cap_tokens=10)  # too small to pay for anything
        with expect_refusal("DEREF_DENIED", "turn.tokens"):
            team.hand.deref(team.paul, repo_ref("src/a.py"))
        granted(team, cap_tokens=200)
        team.hand.deref(team.paul, repo_ref("src/a.py"))

    def test_the_ceiling_of_a_run_holds_for_grants_too(self, harness: Harness) -> None:
        team = Team(harness)
        team.hand.call("apply_policy", policy={"deref": {"tokens": 200, "run_turns": 1}})
        grant = granted(team, cap_tokens=10_000, uses=100)
        with expect_refusal("DEREF_DENIED", "run.tokens"):
            for _ in range(100):
                team.hand.deref(team.paul, repo_ref("src/a.py"), budget_token=grant.budget_token)

    def test_a_grant_given_twice_under_one_key_is_one_grant(self, harness: Harness) -> None:
        team = Team(harness)
        again = msgspec.structs.replace(team.mia, idempotency_key="once")
        first, second = (granted(team, by=again) for _ in range(2))
        assert first.budget_token
        assert second == msgspec.structs.replace(first, budget_token="")

    def test_what_would_be_refused_is_not_told_to_be_allowed(self, harness: Harness) -> None:
        team = Team(harness)
        ref = repo_ref("src/a.py")
        team.hand.deref(team.paul, ref)
        team.hand.call("apply_policy", policy={"deref": {"tokens": 1, "run_turns": 1}})
        grant = granted(team, cap_tokens=10_000, uses=100)
        shown: dict[str, str]
        for shown in ({}, {"budget_token": grant.budget_token}):
            answer = team.hand.call("validate_deref", team.paul, pointer=ref, **shown)
            assert (answer.ok, [each["field"] for each in answer.problems]) == (False, ["run.tokens"])

    def test_a_grant_may_allow_code_up_to_its_cap(self, harness: Harness) -> None:
        team = Team(harness)
        code = sent_back(team.hand, team.paul, CODE)
        grant = granted(team, inline_code_chars=int(code.used or 0), uses=1)
        none, little = granted(team), granted(team, inline_code_chars=10)
        for token in (none.budget_token, little.budget_token):
            with expect_refusal("BUDGET_EXCEEDED"):
                team.hand.report(team.paul, CODE, token=token)
        with expect_refusal("GRANT_WRONG_CHILD"):
            team.hand.report(team.pia, CODE, token=grant.budget_token)
        with expect_refusal("BUDGET_EXCEEDED"):
            team.hand.report(team.paul, CODE * 2, token=grant.budget_token)
        team.hand.report(team.paul, "Nothing to show.", token=grant.budget_token)  # costs no use
        team.hand.report(team.paul, CODE, token=grant.budget_token)
        with expect_refusal("GRANT_SPENT"):
            team.hand.report(team.paul, CODE, token=grant.budget_token)
        assert grant.budget_token.encode() not in harness.journal_bytes()
        late = granted(team, inline_code_chars=1000)
        team.hand.call("revoke_grant", team.mia, id=late.grant_id)
        with expect_refusal("GRANT_REVOKED"):
            team.hand.report(team.paul, CODE, token=late.budget_token)

    def test_a_broadcast_may_carry_grants_and_keeps_no_token(self, harness: Harness) -> None:
        team = Team(harness)
        grant = granted(team)
        note = {"budget_token": grant.budget_token, "pointer": {"type": "repo", "ref": FILE}, "cap_tokens": 400}
        team.hand.broadcast(team.mia, "Goal: read it.", grants=[note], to=["paul"])
        assert grant.budget_token.encode() not in harness.journal_bytes()
        assert [mail.kind for mail in team.hand.mail(team.paul)] == ["grant", "broadcast"]

    def test_one_process_grants_and_asks_for_a_sub_tree(self, harness: Harness) -> None:
        team = Team(harness)
        as_paul = Credential(token=team.lead.token, speak_as="paul")
        as_mia = Credential(token=team.lead.token, speak_as="mia")
        asked = team.hand.call("request_deref", as_paul, pointer=FILE, reason="To see.")
        assert asked.asked == "mia"
        grant = team.hand.call("approve_request", as_mia, id=asked.request_id)
        team.hand.deref(as_paul, FILE, budget_token=grant.budget_token)
        with expect_refusal("GRANT_WRONG_CHILD"):
            team.hand.deref(as_mia, FILE, budget_token=granted(team).budget_token)

    def test_of_many_racing_for_the_last_use_of_a_grant_one_gets_it(self, harness: Harness) -> None:
        team = Team(harness)
        grant = granted(team, uses=2, cap_tokens=10_000)
        team.hand.deref(team.paul, FILE, budget_token=grant.budget_token)
        exhaust(team, team.paul)
        outcomes: list[str] = []
        gate = threading.Barrier(32)

        def race(number: int) -> None:
            token = {"budget_token": grant.budget_token} if number % 2 else {}
            gate.wait()
            outcomes.append(team.hand.try_call("deref_pointer", team.paul, pointer=repo_ref("src/a.py"), **token)[0])

        threads = [threading.Thread(target=race, args=(number,)) for number in range(32)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert outcomes.count("ok") == 1
        assert set(outcomes) <= {"ok", "GRANT_SPENT", "DEREF_DENIED"}
        assert harness.clock.now() % SECOND_US == 0
        assert harness.gateway.store.verify() == []
