"""Messages between parents and children, and the turns they close."""  # EB-06, EB-07, EB-08, EB-16

from __future__ import annotations

import json
from typing import Any

import msgspec

from engrambus.core import estimate_tokens
from engrambus.errors import BudgetExceeded, EngramBusError
from engrambus.gateway import LOCAL_ADMIN, Credential
from engrambus.testing.client import NOTE, GatewayClient, catch_refusal, expect_refusal, format_message
from engrambus.testing.fakes import repo_ref
from engrambus.testing.harness import Harness

LONG = "This sentence says very little and says it slowly. " * 80
CODE = "def reserve(lease):\n    if lease is None:\n        raise ValueError(lease)\n    return lease.token\n"


class Team:
    """A manager, two programmers below it, and their hands."""

    def __init__(self, harness: Harness) -> None:
        self.hand = GatewayClient(harness)
        self.lead = self.hand.add_agent("lead", "architect")
        self.mia = self.hand.add_agent("mia", "manager", self.lead)
        self.paul = self.hand.add_agent("paul", "programmer", self.mia)
        self.pia = self.hand.add_agent("pia", "programmer", self.mia)


def draft(claim: str, ref: str = NOTE, **more: Any) -> dict[str, Any]:
    """An engram as a message carries it."""
    return {"kind": "risk", "claim": claim, "pointers": [{"type": ref.partition(":")[0], "ref": ref}], **more}


def sent_back(hand: GatewayClient, who: Credential, summary: str = LONG, **sections: Any) -> BudgetExceeded:
    """The refusal of a message that is too large."""
    try:
        hand.report(who, summary, **sections)
    except BudgetExceeded as refusal:
        return refusal
    raise AssertionError("the message was taken")


class MessageConformance:
    """What may be said, and what saying it does."""

    def test_a_report_lies_in_the_parents_inbox_with_its_engrams_on_the_bus(self, harness: Harness) -> None:
        team = Team(harness)
        answer = team.hand.report(team.paul, engrams=[draft("The ledger may lose a lease.")])
        assert (answer.to, answer.turn, answer.resends) == ("mia", 2, None)
        (mail,) = team.hand.mail(team.mia)
        assert (mail.kind, mail.item, mail.sender) == ("message", answer.message_id, "paul")
        assert "The ledger may lose a lease." in mail.text
        (engram,) = team.hand.query("ledger lease", team.pia).engrams
        assert [engram.id] == answer.engrams
        assert engram.provenance.created_by.endswith("/paul")
        assert engram.provenance.source == "agent"
        assert team.hand.mail(team.pia) == team.hand.mail() == []
        assert team.hand.report(team.lead, role="architect").to == "admin"

    def test_id_and_provenance_are_the_gateways_to_give(self, harness: Harness) -> None:
        team = Team(harness)
        before = harness.journal_bytes()
        forged = {"created_at": "2026-01-01T00:00:00Z", "created_by": "mia", "source": "tool"}
        with expect_refusal("PROVENANCE_STAMPED", "ENGRAMS[0].provenance"):
            team.hand.report(team.paul, engrams=[draft("Alpha holds.", provenance=forged)])
        assert harness.journal_bytes() == before

    def test_one_bad_engram_refuses_the_message_whole_and_is_named(self, harness: Harness) -> None:
        team = Team(harness)
        good = draft("The ledger may lose a lease.")
        taken = team.hand.put("Alpha is here already.", team.paul, scope="run")
        own = "01KDVP9R000000000000000009"
        before = harness.journal_bytes()
        for bad, code, field in (
            (draft("x" * 501), "CLAIM_TOO_LONG", "ENGRAMS[1].claim"),
            (draft("Alpha.", pointers=[]), "NO_POINTER", "ENGRAMS[1].pointers"),
            (draft("Alpha.", "repo:a.py"), "POINTER_NOT_PINNED", "ENGRAMS[1].pointers[0].ref"),
            (draft("Alpha.", ttl="P1M"), "TTL_INVALID", "ENGRAMS[1].ttl"),
            (draft("Alpha.", scope="org"), "SCOPE_FORBIDDEN", "ENGRAMS[1].scope"),
            (draft("Alpha.", scope="run", id=taken.id), "ID_TAKEN", "ENGRAMS[1].id"),
        ):
            with expect_refusal(code, field):
                team.hand.report(team.paul, engrams=[good, bad])
        read = {"type": "sam", "ref": NOTE, "digest": "sha256:" + "1" * 64}
        with expect_refusal("PHANTOM_READ", "ENGRAMS[1].pointers[0].digest"):
            team.hand.report(team.paul, engrams=[good, draft("Alpha.", pointers=[read])])
        with expect_refusal("ID_TAKEN", "ENGRAMS[1].id"):
            team.hand.report(team.paul, engrams=[draft("Alpha.", id=own), draft("Beta is another matter.", id=own)])
        assert harness.journal_bytes() == before
        assert team.hand.mail(team.mia) == []

    def test_nothing_is_kept_of_a_text_that_is_no_message(self, harness: Harness) -> None:
        team = Team(harness)
        before = harness.journal_bytes()
        for text, code in (
            ("", "MESSAGE_EMPTY"),
            ("- a list", "MESSAGE_SHAPE"),
            ("ROLE: programmer", "MESSAGE_SECTION_MISSING"),
            (format_message(role="manager", task_status="done", output="x"), "MESSAGE_ROLE"),
            (format_message(role="programmer", task_status="perhaps", output="x"), "MESSAGE_STATUS"),
            (format_message(role="programmer", task_status="done", output="x", budgets={"max_engrams": 1}), None),
            ("a: &a [1]\nb: *a", "BAD_YAML"),
        ):
            said, _ = team.hand.try_call("send_message", team.paul, text=text)
            assert said == (code or "MESSAGE_SECTION_UNKNOWN"), text
        with expect_refusal("MESSAGE_SECTION_UNKNOWN"):
            team.hand.broadcast(team.mia, "Alpha", output="x")
        assert harness.journal_bytes() == before

    def test_a_message_over_its_budget_is_sent_back_and_its_resend_linked(self, harness: Harness) -> None:
        team = Team(harness)
        kept = draft("The ledger may lose a lease.")
        refusal = sent_back(team.hand, team.paul, engrams=[kept])
        shown = refusal.problem()
        assert (shown["code"], shown["status"]) == ("BUDGET_EXCEEDED", 413)
        assert [each["what"] for each in shown["exceeded"]] == ["inline_tokens"]
        assert LONG[:40].encode() not in harness.journal_bytes()
        assert team.hand.mail(team.mia) == []
        assert team.hand.query("ledger").engrams == []
        harness.reopen()
        harness.delete_index()
        text = str(refusal.resend).replace("...", "The lease is the risk.")
        answer = team.hand.call("send_message", team.paul, text=text)
        assert answer.resends is not None
        assert answer.resends.encode() in harness.journal_bytes()
        assert len(answer.engrams) == 1
        assert team.hand.report(team.paul).resends is None  # a rejection is answered once

    def test_the_template_can_be_sent_as_it_is(self, harness: Harness) -> None:
        team = Team(harness)
        many = [draft(f"Matter {name} stands open.", f"sam:note:{name}@v1") for name in "abcdefghijklmnop"]
        for summary, engrams in ((LONG, []), ("Short.", many), (LONG, many), (CODE, many[:3])):
            refusal = sent_back(team.hand, team.paul, summary, engrams=engrams)
            assert team.hand.call("send_message", team.paul, text=refusal.resend).resends

    def test_every_limit_of_a_message_is_named(self, harness: Harness) -> None:
        team = Team(harness)
        many = [draft(f"Matter {name}.", f"sam:n:{name}@v1") for name in "abcdefghijklm"]
        for summary, engrams, what, limit in (
            (LONG, [], "inline_tokens", 800),
            ("Short.", many, "engrams", 12),
            (CODE, [], "inline_code_chars", 0),
        ):
            found = sent_back(team.hand, team.paul, summary, engrams=engrams).exceeded
            assert [(each["what"], each["limit"]) for each in found] == [(what, limit)]
        refusal = catch_refusal(lambda: team.hand.broadcast(team.mia, *["Keep the lease alive."] * 31)).problem()
        assert [(each["what"], each["used"]) for each in refusal["exceeded"]] == [("brief_lines", 31)]
        team.hand.broadcast(team.mia, *("Keep the lease alive." for _ in range(30)))

    def test_a_refused_broadcast_is_not_what_a_later_report_resends(self, harness: Harness) -> None:
        team = Team(harness)
        with expect_refusal("BUDGET_EXCEEDED"):
            team.hand.broadcast(team.mia, *("Keep the lease alive." for _ in range(31)))
        assert team.hand.report(team.mia, role="manager").resends is None
        assert team.hand.broadcast(team.mia, "Goal: keep the lease.").resends is not None
        assert team.hand.broadcast(team.mia, "Goal: keep on.").resends is None

    def test_a_turn_closes_on_an_accepted_message_and_no_other(self, harness: Harness) -> None:
        team = Team(harness)
        for line in (1, 2, 3):
            team.hand.deref(team.paul, repo_ref("a.py", line, line))
        for act in (
            lambda: sent_back(team.hand, team.paul),
            lambda: team.hand.broadcast(team.mia, "Goal: go on."),
            lambda: team.hand.call("validate_message", team.paul, text=format_message(role="programmer")),
            lambda: team.hand.try_call("send_message", team.paul, text="ROLE: programmer"),
            harness.reopen,
            harness.delete_index,
        ):
            act()
            with expect_refusal("DEREF_DENIED", "turn.repo"):
                team.hand.deref(team.paul, repo_ref("a.py"))
        assert team.hand.report(team.paul).turn == 2
        harness.reopen()
        harness.delete_index()
        for line in (1, 2, 3):
            team.hand.deref(team.paul, repo_ref("a.py", line, line))
        with expect_refusal("DEREF_DENIED", "turn.repo"):
            team.hand.deref(team.paul, repo_ref("a.py"))

    def test_a_turn_that_idled_away_is_the_one_a_message_closes(self, harness: Harness) -> None:
        team = Team(harness)
        team.hand.deref(team.paul, repo_ref("a.py"))
        harness.clock.advance(seconds=601)
        assert team.hand.report(team.paul).turn == 3
        team.hand.deref(team.paul, repo_ref("a.py"))
        assert b'"turn":3,' in harness.journal_bytes().splitlines()[-1]
        harness.clock.advance(seconds=601)
        harness.delete_index()
        assert team.hand.report(team.paul).turn == 5

    def test_a_parent_lowers_what_its_children_may_say(self, harness: Harness) -> None:
        team = Team(harness)
        team.hand.broadcast(team.mia, budgets={"max_engrams": 1, "max_inline_tokens": 5000}, to=["paul"])
        two = [draft("Alpha holds."), draft("Beta is at risk.", "sam:note:b@v1")]
        harness.reopen()
        harness.delete_index()
        assert sent_back(team.hand, team.paul, "x", engrams=two).limit == 1
        assert sent_back(team.hand, team.paul).limit == 800  # nothing is raised
        team.hand.report(team.pia, engrams=two)
        shown = team.hand.call("validate_message", team.paul, text=format_message(role="programmer")).budget
        assert (shown.max_engrams, shown.max_inline_tokens) == (1, 800)
        team.hand.broadcast(team.mia, "Nothing about budgets.")
        assert sent_back(team.hand, team.paul, "x", engrams=two).limit == 1

    def test_limits_hold_down_a_chain_of_parents(self, harness: Harness) -> None:
        team = Team(harness)
        team.hand.broadcast(team.lead, role="architect", budgets={"max_engrams": 2, "max_repo_spans": 1})
        team.hand.broadcast(team.mia, budgets={"max_engrams": 5, "max_repo_spans": 2})
        shown = team.hand.call("validate_message", team.paul, text=format_message(role="programmer")).budget
        assert shown.max_engrams == 2
        team.hand.deref(team.paul, repo_ref("a.py"))
        with expect_refusal("DEREF_DENIED", "turn.repo"):
            team.hand.deref(team.paul, repo_ref("a.py"))

    def test_a_parent_lowers_what_its_children_may_read(self, harness: Harness) -> None:
        team = Team(harness)
        team.hand.broadcast(team.mia, budgets={"max_repo_spans": 1, "max_deref_tokens": 5000}, to=["paul"])
        team.hand.broadcast(team.mia, budgets={"max_deref_tokens": 150}, to=["pia"])
        team.hand.deref(team.paul, repo_ref("a.py"))
        with expect_refusal("DEREF_DENIED", "turn.repo"):
            team.hand.deref(team.paul, repo_ref("a.py"))
        answer = team.hand.deref(team.pia, repo_ref("a.py", 1, 40), max_tokens=1000)
        assert estimate_tokens(msgspec.json.encode(answer)) <= 150
        with expect_refusal("DEREF_DENIED", "turn.tokens"):
            team.hand.deref(team.pia, repo_ref("a.py", 1, 40))
        assert team.hand.call("brief", team.paul).lines[-1].startswith("Left this turn: 0 repo")

    def test_a_broadcast_reaches_children_and_nobody_else(self, harness: Harness) -> None:
        team = Team(harness)
        answer = team.hand.broadcast(team.mia, "Goal: keep the lease.")
        assert answer.to == ["paul", "pia"]
        assert team.hand.broadcast(team.mia, "For one.", to=["pia"]).to == ["pia"]
        with expect_refusal("FIELD_VALUE", "to"):
            team.hand.broadcast(team.mia, "For a stranger.", to=["lead"])
        with expect_refusal("ROLE_FORBIDDEN"):
            team.hand.broadcast(team.paul, "Programmers have no children.", role="programmer")
        assert [mail.kind for mail in team.hand.mail(team.paul)] == ["broadcast"]
        assert team.hand.mail(team.pia)[0].item == answer.broadcast_id
        assert len(team.hand.mail(team.pia)) == 2
        assert team.hand.mail(team.lead) == []

    def test_judging_a_message_changes_nothing(self, harness: Harness) -> None:
        team = Team(harness)
        before = harness.journal_bytes()
        good = format_message(role="programmer", task_status="done", output="x", engrams=[draft("Alpha holds.")])
        assert team.hand.call("validate_message", team.paul, text=good).ok
        assert team.hand.call("validate_message", team.paul, text=good) == team.hand.call(
            "validate_message", team.paul, text=good
        )
        for text, code in ((format_message(role="programmer", output=LONG), "BUDGET_EXCEEDED"), ("no: message", None)):
            verdict = team.hand.call("validate_message", team.paul, text=text)
            assert not verdict.ok
            first = verdict.problems[0]["code"]
            said, _ = team.hand.try_call("send_message", team.paul, text=text)
            assert first == said == (code or first)
            if code is None:
                assert harness.journal_bytes() == before
            before = harness.journal_bytes()
        parent = format_message(role="manager", instructions=["Go on."])
        assert team.hand.call("validate_message", team.mia, text=parent, kind="parent").ok
        assert harness.journal_bytes() == before

    def test_what_is_said_again_in_a_message_confirms(self, harness: Harness) -> None:
        team = Team(harness)
        first = team.hand.put("The ledger may lose a lease after a timeout.", team.pia, kind="risk", refs=[NOTE])
        answer = team.hand.report(team.paul, engrams=[draft("The ledger may lose leases after a timeout.")])
        assert answer.engrams == [first.id]
        twice = [draft("Alpha waits for beta to finish.", "sam:note:a@v1")] * 2
        answer = team.hand.report(team.paul, engrams=twice)
        assert len(set(answer.engrams)) == 1
        assert team.hand.counts()["engrams"] == 2

    def test_a_minutes_share_counts_the_engrams_of_messages(self, harness: Harness) -> None:
        team = Team(harness)
        team.hand.call("apply_policy", policy={"engrams_per_minute": 2})
        three = [draft(f"Matter {name} stands.", f"sam:note:{name}@v1") for name in "abc"]
        before = harness.journal_bytes()
        with expect_refusal("RATE_LIMITED", "engrams_per_minute"):
            team.hand.report(team.paul, engrams=three)
        assert harness.journal_bytes() == before
        team.hand.report(team.paul, engrams=three[:2])

    def test_an_inbox_is_read_in_pages_that_never_exceed_their_tokens(self, harness: Harness) -> None:
        team = Team(harness)
        for number in range(7):
            team.hand.report(team.paul, f"Step {number} is done.")
        whole = team.hand.mail(team.mia, k=100)
        for page in ({"k": 3}, {"max_tokens": 150}):
            seen, cursor = [], 0
            while True:
                answer = team.hand.call("inbox", team.mia, cursor=cursor, **page)
                if not answer.mail:
                    break
                assert answer.cursor > cursor
                cursor = answer.cursor
                if "max_tokens" in page:
                    assert estimate_tokens(msgspec.json.encode(answer)) <= 150
                seen += answer.mail
            assert seen == whole
        harness.reopen()
        harness.delete_index()
        assert team.hand.mail(team.mia, k=100) == whole
        for tokens in (3, 30):  # too few for any answer, and for the first letter
            with expect_refusal("BUDGET_TOO_SMALL", "max_tokens"):
                team.hand.call("inbox", team.mia, max_tokens=tokens)

    def test_a_parent_speaks_for_its_descendants_and_nobody_elses(self, harness: Harness) -> None:
        team = Team(harness)
        spoken = Credential(token=team.lead.token, speak_as="paul")
        assert team.hand.report(spoken, engrams=[draft("Said for another.")]).to == "mia"
        (engram,) = team.hand.query("said another").engrams
        assert engram.provenance.created_by.endswith("/paul")
        assert [mail.sender for mail in team.hand.mail(Credential(token=team.lead.token, speak_as="mia"))] == ["paul"]
        stranger = team.hand.add_agent("rex", "manager")
        for operation, fields in (
            ("send_message", {"text": format_message(role="programmer", task_status="done", output="x")}),
            ("inbox", {}),
            ("deref_pointer", {"pointer": repo_ref("a.py")}),
            ("issue_grant", {"child_id": "paul", "pointer": repo_ref("a.py")}),
        ):
            with expect_refusal("NOT_YOUR_DESCENDANT"):
                team.hand.call(operation, Credential(token=stranger.token, speak_as="mia"), **fields)

    def test_a_run_that_has_ended_takes_no_messages_and_no_grants(self, harness: Harness) -> None:
        team = Team(harness)
        run = team.hand.call("list_agents", team.mia).run_id
        asked = team.hand.call("request_deref", team.paul, pointer=repo_ref("a.py"), reason="To see.")
        team.hand.call("end_run", run_id=run)
        before = harness.journal_bytes()
        text = format_message(role="manager", instructions=["Go on."])
        for who, operation, fields in (
            (team.paul, "send_message", {"text": format_message(role="programmer", task_status="done", output="x")}),
            (team.paul, "send_message", {"text": format_message(role="programmer", task_status="done", output=LONG)}),
            (team.mia, "broadcast", {"text": text}),
            (team.paul, "request_deref", {"pointer": repo_ref("a.py"), "reason": "To see."}),
            (team.mia, "issue_grant", {"child_id": "paul", "pointer": repo_ref("a.py")}),
            (team.mia, "approve_request", {"id": asked.request_id}),
            (team.mia, "deny_request", {"id": asked.request_id}),
        ):
            with expect_refusal("RUN_ENDED"):
                team.hand.call(operation, who, **fields)
        assert harness.journal_bytes() == before
        assert [mail.kind for mail in team.hand.mail(team.mia)] == ["request"]

    def test_another_run_has_inboxes_and_turns_of_its_own(self, harness: Harness) -> None:
        team = Team(harness)
        team.hand.report(team.paul)
        other = Credential(local_admin=True, run=team.hand.open_run())
        namesake = team.hand.add_agent("mia", "manager", other)
        assert team.hand.mail(namesake) == []
        assert len(team.hand.mail(team.mia)) == 1

    def test_a_refusal_is_the_same_when_it_is_read_back(self, harness: Harness) -> None:
        team = Team(harness)
        shown = json.loads(json.dumps(sent_back(team.hand, team.paul).problem()))
        assert EngramBusError.from_problem(shown).problem() == shown
        assert team.hand.mail(LOCAL_ADMIN) == []
