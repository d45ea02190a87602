"""Grants to read more than a turn allows: requested, issued, attenuated, spent and revoked."""  # EB-09, EB-10, EB-11

from __future__ import annotations

import threading
from typing import Any

import msgspec

from engrambus.core import SECOND_US
from engrambus.gateway import Credential
from engrambus.policy.grants import MAX_BLOCKS, attenuate
from engrambus.testing.client import expect_refusal, format_message, same_changes
from engrambus.testing.conformance.messages import Team, rejection_of
from engrambus.testing.fakes import CODE, CODE_PATH, SHA, repo_ref
from engrambus.testing.harness import Harness

HOUR = 3600
FILE = f"repo:src/a.py@{SHA}"


def exhaust(team: Team, caller: Credential) -> None:
    """Use up the repository reads of a turn."""
    for line in (1, 2, 3):
        team.client.deref(caller, repo_ref("src/a.py", line, line))


def granted(team: Team, child: str = "paul", pointer: str = FILE, by: Credential | None = None, **fields: Any) -> Any:
    """Issue a grant, by default from the manager to a programmer."""
    return team.client.call("issue_grant", by or team.mia, child_id=child, pointer=pointer, **fields)


class GrantConformance:
    """Requests, grants, budget tokens and their limits."""

    def test_a_request_in_a_message_reaches_the_parent_whose_grant_lets_the_child_read(self, harness: Harness) -> None:
        team = Team(harness)
        wish = {"pointer": {"type": "repo", "ref": FILE}, "reason": "To see.", "intended_use": "To test it."}
        answer = team.client.report(team.paul, deref_requests=[wish])
        exhaust(team, team.paul)
        kinds = [(mail.kind, mail.item) for mail in team.client.mail(team.mia)]
        assert kinds == [("request", answer.requests[0]), ("message", answer.message_id)]
        (request,) = team.client.call("list_requests", team.mia).requests
        assert (request.request_id, request.agent, request.ref) == (answer.requests[0], "paul", FILE)
        assert (request.reason, request.intended_use) == ("To see.", "To test it.")
        with expect_refusal("DEREF_DENIED"):
            team.client.deref(team.paul, repo_ref("src/a.py"))
        approved = team.client.call("approve_request", team.mia, id=request.request_id, uses=2)
        assert team.client.call("list_requests", team.mia).requests == []
        assert [mail.item for mail in team.client.mail(team.paul) if mail.kind == "grant"] == [approved.grant_id]
        team.client.deref(team.paul, repo_ref("src/a.py"))
        team.client.deref(team.paul, repo_ref("src/a.py"), budget_token=approved.budget_token)
        with expect_refusal("DEREF_DENIED"):
            team.client.deref(team.paul, repo_ref("src/a.py"))
        with expect_refusal("GRANT_SPENT", "budget_token"):
            team.client.deref(team.paul, repo_ref("src/a.py"), budget_token=approved.budget_token)

    def test_a_request_is_answered_once_and_only_by_its_addressee(self, harness: Harness) -> None:
        team = Team(harness)
        ids = [
            team.client.call("request_deref", team.paul, pointer=FILE, reason="To see.").request_id for _ in range(3)
        ]
        with expect_refusal("REQUEST_NOT_FOUND"):
            team.client.call("approve_request", team.lead, id=ids[0])
        with expect_refusal("ROLE_FORBIDDEN"):
            team.client.call("approve_request", team.paul, id=ids[0])
        assert team.client.call("list_requests", team.lead).requests == []
        assert not team.client.call("deny_request", team.mia, id=ids[0]).granted
        harness.reopen()
        harness.delete_index()
        for act in ("approve_request", "deny_request"):
            with expect_refusal("REQUEST_NOT_FOUND"):
                team.client.call(act, team.mia, id=ids[0])
        team.client.call("approve_request", team.mia, id=ids[1])
        with expect_refusal("REQUEST_NOT_FOUND"):
            team.client.call("deny_request", team.mia, id=ids[1])
        team.client.call("approve_request", id=ids[2])  # a person may answer for anybody
        assert team.client.call("list_requests").requests == []
        other_run = Credential(local_admin=True, run=team.client.open_run())
        with expect_refusal("REQUEST_NOT_FOUND"):
            team.client.call("deny_request", other_run, id=ids[0])

    def test_approving_a_request_obeys_the_limits_of_grants(self, harness: Harness) -> None:
        team = Team(harness)
        request_id = team.client.call("request_deref", team.paul, pointer=FILE, reason="To see.").request_id
        for bad in ({"cap_tokens": 0}, {"cap_tokens": -1}, {"cap_tokens": 100_001}, {"uses": 0}, {"expires_in": "P1M"}):
            code, _ = team.client.try_call("approve_request", team.mia, id=request_id, **bad)
            assert code in ("FIELD_VALUE", "TTL_INVALID"), bad

    def test_grants_go_only_to_descendants(self, harness: Harness) -> None:
        team = Team(harness)
        journal = harness.journal_bytes()
        with expect_refusal("ROLE_FORBIDDEN", "child_id"):
            granted(team, "mia")
        for child, code in (("lead", "NOT_YOUR_DESCENDANT"), ("nobody", "AGENT_NOT_FOUND"), ("admin", None)):
            with expect_refusal(code or "AGENT_NOT_FOUND", "child_id"):
                granted(team, child)
        with expect_refusal("ROLE_FORBIDDEN"):
            granted(team, "pia", by=team.paul)
        assert same_changes(harness.journal_bytes(), journal)
        granted(team, "paul", by=team.lead)

    # decision 14: a known token's signature is not checked again, everything else is
    def test_each_reason_to_refuse_a_token_has_its_code(self, harness: Harness) -> None:
        team = Team(harness)
        grant = granted(team, cap_tokens=200, uses=2, biscuit=True)
        token, ref = grant.biscuit, repo_ref("src/a.py")
        other_run = Credential(local_admin=True, run=team.client.open_run())
        namesake = team.client.add_agent("paul", "programmer", other_run)
        deep = token
        for _ in range(MAX_BLOCKS - 1):
            deep = attenuate(deep, cap_tokens=200)
        journal = harness.journal_bytes()
        for caller, presented, target, code in (
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
            (team.pia, grant.budget_token, ref, "GRANT_WRONG_CHILD"),
            (team.mia, grant.budget_token, ref, "GRANT_WRONG_CHILD"),
            (team.paul, grant.budget_token, repo_ref("src/b.py"), "GRANT_WRONG_POINTER"),
            (namesake, grant.budget_token, ref, "GRANT_FOREIGN"),
            (team.paul, "g_01K7Z3V5QX0000000000000000", ref, "GRANT_FOREIGN"),
            (team.paul, "x" * 8000, ref, "GRANT_FORGED"),
        ):
            with expect_refusal(code, "budget_token"):
                team.client.deref(caller, target, budget_token=presented)
        with expect_refusal("GRANT_TOO_DEEP", "budget_token"):
            attenuate(deep, cap_tokens=200)
        assert same_changes(harness.journal_bytes(), journal)
        for _ in range(2):
            team.client.deref(team.paul, ref, budget_token=token)
        with expect_refusal("GRANT_SPENT", "budget_token"):
            team.client.deref(team.paul, ref, budget_token=token)

    def test_a_grant_pays_up_to_its_cap(self, harness: Harness) -> None:
        team = Team(harness)
        grant = granted(team, cap_tokens=500, uses=50)
        exhaust(team, team.paul)
        spent = 0
        with expect_refusal("GRANT_OVER_CAP", "budget_token"):
            for _ in range(50):
                answer = team.client.deref(team.paul, FILE, max_tokens=240, budget_token=grant.budget_token)
                assert answer.truncated
                spent += 1
        assert spent >= 2
        with expect_refusal("DEREF_DENIED"):
            team.client.deref(team.paul, FILE, max_tokens=240)

    def test_a_grant_covers_only_the_span_of_its_pointer(self, harness: Harness) -> None:
        team = Team(harness)
        grant = granted(team, pointer={"type": "repo", "ref": FILE, "span": "L1-L2"}, uses=9)  # type: ignore[arg-type]
        team.client.deref(team.paul, repo_ref("src/a.py", 1, 2), budget_token=grant.budget_token)
        with expect_refusal("GRANT_WRONG_POINTER"):
            team.client.deref(team.paul, repo_ref("src/a.py", 3, 4), budget_token=grant.budget_token)
        with expect_refusal("POINTER_DISAGREES"):
            granted(team, pointer={"type": "sam", "ref": FILE})  # type: ignore[arg-type]

    # decision 11: blocks have one fixed shape, a pointer or a prefix
    def test_a_grant_may_be_for_a_folder_or_the_whole_tree(self, harness: Harness) -> None:
        team = Team(harness)
        grant = granted(team, pointer=f"repo:src/auth/*@{SHA}", uses=5)
        team.client.deref(team.paul, repo_ref("src/auth/x.py"), budget_token=grant.budget_token)
        with expect_refusal("GRANT_WRONG_POINTER"):
            team.client.deref(team.paul, repo_ref("src/authority.py"), budget_token=grant.budget_token)
        grant = granted(team, pointer=f"repo:*@{SHA}", uses=5)
        team.client.deref(team.paul, repo_ref("docs/any.md"), budget_token=grant.budget_token)
        odd = granted(team, pointer=f"repo:src/a@b/*@{SHA}", uses=5)
        team.client.deref(team.paul, repo_ref("src/a@b/x.py"), budget_token=odd.budget_token)

    def test_a_grant_ends_and_a_clock_set_back_does_not_revive_it(self, harness: Harness) -> None:
        team = Team(harness)
        grant = granted(team, expires_in="PT1H", uses=9)
        exhaust(team, team.paul)
        harness.clock.advance(seconds=HOUR - 1)
        team.client.deref(team.paul, FILE, budget_token=grant.budget_token)
        harness.clock.advance(seconds=1)
        with expect_refusal("GRANT_EXPIRED", "budget_token"):
            team.client.deref(team.paul, FILE, budget_token=grant.budget_token)
        team.client.report(team.pia)  # the journal has seen the hour pass
        harness.clock.advance(seconds=-HOUR)
        harness.reopen()
        with expect_refusal("GRANT_EXPIRED", "budget_token"):
            team.client.deref(team.paul, FILE, budget_token=grant.budget_token)

    def test_a_grant_used_without_its_token_expires_too(self, harness: Harness) -> None:
        team = Team(harness)
        granted(team, expires_in="PT5M", uses=9)
        exhaust(team, team.paul)
        team.client.deref(team.paul, FILE)
        harness.clock.advance(seconds=300)
        with expect_refusal("DEREF_DENIED", "turn.repo"):
            team.client.deref(team.paul, FILE)

    # decision 11: each block has a revocation id, which covers everything below it
    def test_revoking_a_grant_revokes_every_token_narrowed_from_it(self, harness: Harness) -> None:
        team = Team(harness)
        grant = granted(team, "mia", by=team.lead, uses=9, biscuit=True)
        less = attenuate(grant.biscuit, child="paul", uses=3)
        team.client.deref(team.paul, FILE, budget_token=less)
        exhaust(team, team.paul)
        for caller in (team.mia, Credential(token=team.client.add_agent("rex", "manager").token)):
            with expect_refusal("GRANT_NOT_FOUND"):
                team.client.call("revoke_grant", caller, id=grant.grant_id)
        assert team.client.call("revoke_grant", team.lead, id=grant.grant_id).revoked
        harness.reopen()
        harness.delete_index()
        for caller, token in ((team.mia, grant.budget_token), (team.mia, grant.biscuit), (team.paul, less)):
            with expect_refusal("GRANT_REVOKED", "budget_token"):
                team.client.deref(caller, FILE, budget_token=token)
        with expect_refusal("DEREF_DENIED"):
            team.client.deref(team.paul, FILE)

    # decision 11: a holder narrows its token without the gateway, and cannot widen it
    def test_a_child_attenuates_a_token_offline(self, harness: Harness) -> None:
        team = Team(harness)
        grant = granted(team, "mia", by=team.lead, uses=3, cap_tokens=900, biscuit=True)
        ref = repo_ref("src/a.py", 3, 4)
        less = attenuate(grant.biscuit, child="paul", pointer=ref, uses=2, cap_tokens=400)
        with expect_refusal("GRANT_WRONG_CHILD"):
            team.client.deref(team.pia, ref, budget_token=less)
        with expect_refusal("GRANT_WRONG_POINTER"):
            team.client.deref(team.paul, FILE, budget_token=less)
        for _ in range(2):
            team.client.deref(team.paul, ref, budget_token=less)
        with expect_refusal("GRANT_SPENT"):
            team.client.deref(team.paul, ref, budget_token=less)
        for_pia = attenuate(grant.biscuit, child="pia", uses=2)
        team.client.deref(team.pia, ref, budget_token=for_pia)  # the third use of what mia was given
        harness.reopen()
        harness.delete_index()
        with expect_refusal("GRANT_SPENT"):
            team.client.deref(team.pia, ref, budget_token=for_pia)
        wider = attenuate(less, uses=100, cap_tokens=100_000)
        with expect_refusal("GRANT_SPENT"):
            team.client.deref(team.paul, ref, budget_token=wider)

    def test_a_grant_pays_when_the_turn_has_too_few_tokens_left(self, harness: Harness) -> None:
        team = Team(harness)
        team.client.call("apply_policy", policy={"deref": {"tokens": 160}})
        team.client.deref(team.paul, repo_ref("src/a.py"), max_tokens=150)
        with expect_refusal("DEREF_DENIED", "turn.tokens"):
            team.client.deref(team.paul, repo_ref("src/a.py"))
        granted(team, cap_tokens=10)  # too small to pay for anything
        with expect_refusal("DEREF_DENIED", "turn.tokens"):
            team.client.deref(team.paul, repo_ref("src/a.py"))
        granted(team, cap_tokens=400)
        team.client.deref(team.paul, repo_ref("src/a.py"))

    def test_the_token_ceiling_of_a_run_applies_to_grants_too(self, harness: Harness) -> None:
        team = Team(harness)
        team.client.call("apply_policy", policy={"deref": {"tokens": 200, "run_turns": 1}})
        grant = granted(team, cap_tokens=10_000, uses=100)
        with expect_refusal("DEREF_DENIED", "run.tokens"):
            for _ in range(100):
                team.client.deref(team.paul, repo_ref("src/a.py"), budget_token=grant.budget_token)

    def test_an_idempotency_key_issues_one_grant(self, harness: Harness) -> None:
        team = Team(harness)
        with_key = msgspec.structs.replace(team.mia, idempotency_key="once")
        first, second = (granted(team, by=with_key) for _ in range(2))
        assert second == first
        with_key = msgspec.structs.replace(team.mia, idempotency_key="with a Biscuit")
        first, second = (granted(team, by=with_key, biscuit=True) for _ in range(2))
        assert (second.grant_id, second.biscuit != first.biscuit) == (first.grant_id, True)
        assert first.biscuit.encode() not in harness.journal_bytes()
        for biscuit, code in ((first.biscuit, "ok"), (second.biscuit, "GRANT_SPENT")):  # one use, whichever is shown
            assert team.client.try_call("deref_pointer", team.paul, pointer=FILE, budget_token=biscuit)[0] == code

    def test_validating_a_dereference_reports_what_would_refuse_it(self, harness: Harness) -> None:
        team = Team(harness)
        ref = repo_ref("src/a.py")
        team.client.deref(team.paul, ref)
        team.client.call("apply_policy", policy={"deref": {"tokens": 1, "run_turns": 1}})
        grant = granted(team, cap_tokens=10_000, uses=100)
        token_field: dict[str, str]
        for token_field in ({}, {"budget_token": grant.budget_token}):
            answer = team.client.call("validate_deref", team.paul, pointer=ref, **token_field)
            assert (answer.ok, [problem["field"] for problem in answer.problems]) == (False, ["run.tokens"])

    def test_a_grant_may_allow_code_up_to_its_cap(self, harness: Harness) -> None:
        team = Team(harness)
        code = rejection_of(team.client, team.paul, CODE)
        file = f"repo:{CODE_PATH}@{SHA}"
        grant = granted(team, pointer=file, inline_code_chars=int(code.used or 0), uses=1)
        none, little = granted(team, pointer=file), granted(team, pointer=file, inline_code_chars=10)
        other = granted(team, inline_code_chars=1000)  # for a file without this code
        part = granted(team, pointer=f"repo:{CODE_PATH}#L1-L3@{SHA}", inline_code_chars=1000)
        for token in (none.budget_token, little.budget_token, other.budget_token, part.budget_token):
            with expect_refusal("BUDGET_EXCEEDED"):
                team.client.report(team.paul, CODE, token=token)
        with expect_refusal("BUDGET_EXCEEDED", "OUTPUT.summary"):
            team.client.report(team.paul, CODE.replace("token", "name"), token=grant.budget_token)
        with expect_refusal("GRANT_WRONG_CHILD"):
            team.client.report(team.pia, CODE, token=grant.budget_token)
        with expect_refusal("BUDGET_EXCEEDED"):
            team.client.report(team.paul, CODE * 2, token=grant.budget_token)
        team.client.report(team.paul, "Nothing to show.", token=grant.budget_token)  # costs no use
        team.client.report(team.paul, CODE, token=grant.budget_token)
        with expect_refusal("GRANT_SPENT"):
            team.client.report(team.paul, CODE, token=grant.budget_token)
        late = granted(team, pointer=file, inline_code_chars=1000)
        team.client.call("revoke_grant", team.mia, id=late.grant_id)
        with expect_refusal("GRANT_REVOKED"):
            team.client.report(team.paul, CODE, token=late.budget_token)

    # EB-16: a message in YAML carries its budget token
    def test_a_message_may_name_its_grant_in_a_section_that_is_never_stored(self, harness: Harness) -> None:
        team = Team(harness)
        file = f"repo:{CODE_PATH}@{SHA}"
        team.client.call("apply_policy", policy={"inline": {"max_inline_tokens": 3000}})  # a Biscuit is long
        grant = granted(team, pointer=file, inline_code_chars=1000, uses=4, biscuit=True)
        other = granted(team, pointer=file, inline_code_chars=1000)
        for token in (grant.budget_token, grant.biscuit):
            assert team.client.call("validate_message", team.paul, text=_with_token(token)).ok
            team.client.report(team.paul, CODE, budget_token=token)
            assert token not in team.client.mail(team.mia)[-1].text
        for token, code in (("bogus", "GRANT_FORGED"), (granted(team, "pia").budget_token, "GRANT_WRONG_CHILD")):
            journal = harness.journal_bytes()
            with expect_refusal(code, "BUDGET_TOKEN"):
                team.client.report(team.paul, CODE, budget_token=token)
            assert not team.client.call("validate_message", team.paul, text=_with_token(token)).ok
            assert same_changes(harness.journal_bytes(), journal)
        with expect_refusal("FIELD_VALUE", "BUDGET_TOKEN"):
            team.client.report(team.paul, CODE, budget_token=grant.budget_token, token=other.budget_token)
        refusal = rejection_of(team.client, team.paul, "So it goes on. " * 900, budget_token=grant.budget_token)
        assert refusal.resend is not None
        assert grant.budget_token not in refusal.resend
        assert grant.biscuit.encode() not in harness.journal_bytes()

    # EB-16: a parent hands over grants in the published form
    def test_grants_in_a_broadcast_are_checked_and_delivered_as_handles(self, harness: Harness) -> None:
        team = Team(harness)
        grant = granted(team, biscuit=True)
        team.client.call("apply_policy", policy={"inline": {"max_inline_tokens": 3000}})  # a Biscuit is long

        def send(token: str, cap_tokens: int = 400, ref: str = FILE, to: str = "paul") -> None:
            note = {"budget_token": token, "pointer": {"type": "repo", "ref": ref}, "cap_tokens": cap_tokens}
            team.client.broadcast(team.mia, "Goal: read it.", grants=[note], to=[to])

        for token in (grant.budget_token, grant.biscuit):
            send(token)
            mail = team.client.mail(team.paul)[-1]
            assert (mail.kind, grant.budget_token in mail.text, FILE in mail.text) == ("broadcast", True, True)
            assert mail.grants == [grant.budget_token]
            brief = "\n".join(team.client.call("brief", team.paul).lines)
            assert brief.count("Granted: ") == 1, "the child's brief shows it"
        own = granted(team, "mia", by=team.lead, uses=9)
        for token, cap_tokens, ref, to, code, field in (
            ("bogus", 400, FILE, "paul", "GRANT_FORGED", "budget_token"),
            ("g_01K7Z3V5QX0000000000000000", 400, FILE, "paul", "GRANT_FOREIGN", "budget_token"),
            (grant.budget_token, 400, FILE, "pia", "GRANT_WRONG_CHILD", "budget_token"),
            (own.budget_token, 400, FILE, "paul", "GRANT_WRONG_CHILD", "budget_token"),
            (grant.budget_token, 401, FILE, "paul", "GRANT_WIDER", "cap_tokens"),
            (grant.budget_token, 400, repo_ref("src/b.py"), "paul", "GRANT_WIDER", "pointer"),
        ):
            with expect_refusal(code, f"GRANTS[0].{field}"):
                send(token, cap_tokens, ref, to)
        team.client.call("revoke_grant", team.mia, id=grant.grant_id)
        with expect_refusal("GRANT_REVOKED", "GRANTS[0].budget_token"):
            send(grant.budget_token)
        assert grant.biscuit.encode() not in harness.journal_bytes()

    def test_a_biscuit_narrowed_offline_and_sent_in_a_broadcast_becomes_a_grant(self, harness: Harness) -> None:
        team = Team(harness)
        biscuit = granted(team, "mia", by=team.lead, uses=9, cap_tokens=900, biscuit=True).biscuit
        for_pia = attenuate(biscuit, child="pia", uses=1)
        team.client.call("apply_policy", policy={"inline": {"max_inline_tokens": 3000}})  # a Biscuit is long
        note = {"budget_token": for_pia, "pointer": {"type": "repo", "ref": FILE}, "cap_tokens": 900}
        team.client.broadcast(team.mia, "Goal: read it.", grants=[note], to=["pia"])
        told, message = team.client.mail(team.pia)
        assert (told.kind, message.kind) == ("grant", "broadcast")
        assert f"g_{told.item}" in message.text
        assert message.grants == [f"g_{told.item}"]
        granted_line = next(line for line in team.client.call("brief", team.pia).lines if line.startswith("Granted: "))
        assert "900 tokens, 1 use" in granted_line
        assert for_pia.encode() not in harness.journal_bytes()
        team.client.deref(team.pia, FILE, budget_token=f"g_{told.item}")
        for token in (for_pia, f"g_{told.item}"):
            with expect_refusal("GRANT_SPENT", "budget_token"):
                team.client.deref(team.pia, FILE, budget_token=token)

    def test_a_parent_requests_and_grants_on_behalf_of_its_descendants(self, harness: Harness) -> None:
        team = Team(harness)
        as_paul = Credential(token=team.lead.token, speak_as="paul")
        as_mia = Credential(token=team.lead.token, speak_as="mia")
        request = team.client.call("request_deref", as_paul, pointer=FILE, reason="To see.")
        assert request.asked == "mia"
        grant = team.client.call("approve_request", as_mia, id=request.request_id)
        team.client.deref(as_paul, FILE, budget_token=grant.budget_token)
        with expect_refusal("GRANT_WRONG_CHILD"):
            team.client.deref(as_mia, FILE, budget_token=granted(team).budget_token)

    def test_exactly_one_of_many_callers_gets_the_last_use_of_a_grant(self, harness: Harness) -> None:
        team = Team(harness)
        grant = granted(team, uses=2, cap_tokens=10_000)
        team.client.deref(team.paul, FILE, budget_token=grant.budget_token)
        exhaust(team, team.paul)
        outcomes: list[str] = []
        gate = threading.Barrier(32)

        def race(number: int) -> None:
            token = {"budget_token": grant.budget_token} if number % 2 else {}
            gate.wait()
            outcomes.append(team.client.try_call("deref_pointer", team.paul, pointer=repo_ref("src/a.py"), **token)[0])

        threads = [threading.Thread(target=race, args=(number,)) for number in range(32)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert outcomes.count("ok") == 1
        assert set(outcomes) <= {"ok", "GRANT_SPENT", "DEREF_DENIED"}
        assert harness.clock.now() % SECOND_US == 0
        assert harness.gateway.store.verify() == []


def _with_token(token: str) -> str:
    return format_message(role="programmer", task_status="done", output=CODE, budget_token=token)
