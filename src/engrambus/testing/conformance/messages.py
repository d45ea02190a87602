"""Messages between parents and children, and the turns they close."""  # EB-06, EB-07, EB-08, EB-16

from __future__ import annotations

import json
from typing import Any

import msgspec

from engrambus.core import estimate_tokens
from engrambus.errors import BudgetExceeded, EngramBusError
from engrambus.gateway import LOCAL_ADMIN, Credential
from engrambus.testing.client import NOTE, GatewayClient, catch_refusal, expect_refusal, format_message, same_changes
from engrambus.testing.fakes import CODE, repo_ref
from engrambus.testing.harness import Harness

LONG = "This sentence says very little and says it slowly. " * 80


class Team:
    """A lead, a manager below it, two programmers below that, and a client to act for them."""

    def __init__(self, harness: Harness) -> None:
        self.client = GatewayClient(harness)
        self.lead = self.client.add_agent("lead", "architect")
        self.mia = self.client.add_agent("mia", "manager", self.lead)
        self.paul = self.client.add_agent("paul", "programmer", self.mia)
        self.pia = self.client.add_agent("pia", "programmer", self.mia)


def draft(claim: str, ref: str = NOTE, **fields: Any) -> dict[str, Any]:
    """Return an engram as a message carries it."""
    return {"kind": "risk", "claim": claim, "pointers": [{"type": ref.partition(":")[0], "ref": ref}], **fields}


def rejection_of(client: GatewayClient, caller: Credential, summary: str = LONG, **sections: Any) -> BudgetExceeded:
    """Return the refusal of a message that is over its budget."""
    try:
        client.report(caller, summary, **sections)
    except BudgetExceeded as refusal:
        return refusal
    raise AssertionError("the message was accepted")


class MessageConformance:
    """Messages, broadcasts, budgets, inboxes and turns."""

    def test_a_report_reaches_the_parents_inbox_and_its_engrams_are_put(self, harness: Harness) -> None:
        team = Team(harness)
        answer = team.client.report(team.paul, engrams=[draft("The ledger may lose a lease.")])
        assert (answer.to, answer.turn, answer.resends) == ("mia", 2, None)
        (mail,) = team.client.mail(team.mia)
        assert (mail.kind, mail.item, mail.sender) == ("message", answer.message_id, "paul")
        assert "The ledger may lose a lease." in mail.text
        (engram,) = team.client.query("ledger lease", team.pia).engrams
        assert [engram.id] == answer.engrams
        assert engram.provenance.created_by.endswith("/paul")
        assert engram.provenance.source == "agent"
        assert team.client.mail(team.pia) == team.client.mail() == []
        assert team.client.report(team.lead, role="architect").to == "admin"

    def test_a_message_may_not_set_provenance(self, harness: Harness) -> None:
        team = Team(harness)
        journal = harness.journal_bytes()
        forged = {"created_at": "2026-01-01T00:00:00Z", "created_by": "mia", "source": "tool"}
        with expect_refusal("PROVENANCE_STAMPED", "ENGRAMS[0].provenance"):
            team.client.report(team.paul, engrams=[draft("Alpha holds.", provenance=forged)])
        assert same_changes(harness.journal_bytes(), journal)

    def test_one_bad_engram_refuses_the_message_and_is_named(self, harness: Harness) -> None:
        team = Team(harness)
        good = draft("The ledger may lose a lease.")
        stored = team.client.put("Alpha is here already.", team.paul, scope="run")
        free_id = "01KDVP9R000000000000000009"
        journal = harness.journal_bytes()
        for bad, code, field in (
            (draft("x" * 501), "CLAIM_TOO_LONG", "ENGRAMS[1].claim"),
            (draft("Alpha.", pointers=[]), "NO_POINTER", "ENGRAMS[1].pointers"),
            (draft("Alpha.", "repo:a.py"), "POINTER_NOT_PINNED", "ENGRAMS[1].pointers[0].ref"),
            (draft("Alpha.", ttl="P1M"), "TTL_INVALID", "ENGRAMS[1].ttl"),
            (draft("Alpha.", scope="org"), "SCOPE_FORBIDDEN", "ENGRAMS[1].scope"),
            (draft("Alpha.", scope="run", id=stored.id), "ID_TAKEN", "ENGRAMS[1].id"),
        ):
            with expect_refusal(code, field):
                team.client.report(team.paul, engrams=[good, bad])
        read = {"type": "sam", "ref": stored.pointers[0].ref, "digest": stored.pointers[0].digest}
        with expect_refusal("PHANTOM_READ", "ENGRAMS[1].pointers[0].digest"):
            team.client.report(team.paul, engrams=[good, draft("Alpha.", pointers=[read])])
        with expect_refusal("ID_TAKEN", "ENGRAMS[1].id"):
            team.client.report(
                team.paul, engrams=[draft("Alpha.", id=free_id), draft("Beta is another matter.", id=free_id)]
            )
        assert same_changes(harness.journal_bytes(), journal)
        assert team.client.mail(team.mia) == []

    def test_a_text_that_is_not_a_message_is_refused_and_not_stored(self, harness: Harness) -> None:
        team = Team(harness)
        journal = harness.journal_bytes()
        for text, expected in (
            ("", "MESSAGE_EMPTY"),
            ("- a list", "MESSAGE_SHAPE"),
            ("ROLE: programmer", "MESSAGE_SECTION_MISSING"),
            (format_message(role="manager", task_status="done", output="x"), "MESSAGE_ROLE"),
            (format_message(role="programmer", task_status="perhaps", output="x"), "MESSAGE_STATUS"),
            (format_message(role="programmer", task_status="done", output="x", budgets={"max_engrams": 1}), None),
            ("a: &a [1]\nb: *a", "BAD_YAML"),
        ):
            code, _ = team.client.try_call("send_message", team.paul, text=text)
            assert code == (expected or "MESSAGE_SECTION_UNKNOWN"), text
        with expect_refusal("MESSAGE_SECTION_UNKNOWN"):
            team.client.broadcast(team.mia, "Alpha", output="x")
        assert same_changes(harness.journal_bytes(), journal)

    def test_a_message_over_its_budget_is_rejected_and_its_resend_linked(self, harness: Harness) -> None:
        team = Team(harness)
        engram = draft("The ledger may lose a lease.")
        refusal = rejection_of(team.client, team.paul, engrams=[engram])
        problem = refusal.problem()
        assert (problem["code"], problem["status"]) == ("BUDGET_EXCEEDED", 413)
        assert [excess["what"] for excess in problem["exceeded"]] == ["inline_tokens"]
        assert LONG[:40].encode() not in harness.journal_bytes()
        assert team.client.mail(team.mia) == []
        assert team.client.query("ledger").engrams == []
        harness.reopen()
        harness.delete_index()
        text = str(refusal.resend).replace("...", "The lease is the risk.")
        answer = team.client.call("send_message", team.paul, text=text)
        assert answer.resends is not None
        assert answer.resends.encode() in harness.journal_bytes()
        assert len(answer.engrams) == 1
        assert team.client.report(team.paul).resends is None  # a rejection is answered once

    def test_the_resend_template_is_accepted_once_it_is_filled_in(self, harness: Harness) -> None:  # EB-10
        team = Team(harness)
        many = [draft(f"Matter {name} stands open.", f"sam:note:{name}@v1") for name in "abcdefghijklmnop"]
        for summary, engrams in ((LONG, []), ("Short.", many), (LONG, many), (CODE, many[:3])):
            refusal = rejection_of(team.client, team.paul, summary, engrams=engrams)
            if '"..."' in str(refusal.resend):
                with expect_refusal("MESSAGE_UNFILLED", "OUTPUT.summary"):
                    team.client.call("send_message", team.paul, text=refusal.resend)
            filled = str(refusal.resend).replace('"..."', '"Matters stand open."')
            assert team.client.call("send_message", team.paul, text=filled).resends

    def test_a_message_is_a_resend_if_it_names_the_rejection_or_is_about_the_same_work(
        self, harness: Harness
    ) -> None:  # EB-10
        team = Team(harness)
        engram = draft("The ledger may lose a lease.", "sam:note:lease@v1")
        refusal = rejection_of(team.client, team.paul, engrams=[engram])
        rejection = str(refusal.resend).rpartition('RESENDS: "')[2][:26]
        assert team.client.report(team.paul, "A note on lunch.").resends is None
        other = [draft("The cache is never emptied.", "sam:note:cache@v1")]
        assert team.client.report(team.paul, engrams=other).resends is None
        harness.reopen()
        harness.delete_index()
        same_file = [draft("A lease can be lost.", "sam:note:lease@v2")]
        assert team.client.report(team.paul, engrams=same_file).resends == rejection
        assert team.client.report(team.paul, engrams=same_file).resends is None  # a rejection is answered once
        with expect_refusal("FIELD_VALUE", "RESENDS"):
            team.client.report(team.paul, resends=rejection)

    def test_a_second_rejection_takes_the_place_of_the_first(self, harness: Harness) -> None:  # EB-10
        team = Team(harness)
        first = str(rejection_of(team.client, team.paul).resend).rpartition('RESENDS: "')[2][:26]
        second = str(rejection_of(team.client, team.paul, resends=first).resend).rpartition('RESENDS: "')[2][:26]
        with expect_refusal("FIELD_VALUE", "RESENDS"):
            team.client.report(team.paul, resends=first)
        with expect_refusal("FIELD_VALUE", "RESENDS"):  # another agent's
            team.client.report(team.pia, resends=second)
        assert team.client.report(team.paul, resends=second).resends == second
        assert "RESENDS" not in team.client.mail(team.mia)[-1].text
        figures = next(row for row in team.client.call("stats").agents if row.agent_id == "paul").figures
        assert (figures.rejections, figures.resends) == (2, 1)

    # decision 12: inline code is found by a detector, and by lines of the repository
    def test_every_limit_of_a_message_is_named(self, harness: Harness) -> None:
        team = Team(harness)
        many = [draft(f"Matter {name}.", f"sam:n:{name}@v1") for name in "abcdefghijklm"]
        for summary, engrams, limit_name, limit in (
            (LONG, [], "inline_tokens", 800),
            ("Short.", many, "engrams", 12),
            (CODE, [], "inline_code_chars", 0),
        ):
            exceeded = rejection_of(team.client, team.paul, summary, engrams=engrams).exceeded
            assert [(excess["what"], excess["limit"]) for excess in exceeded] == [(limit_name, limit)]
        refusal = catch_refusal(lambda: team.client.broadcast(team.mia, *["Keep the lease alive."] * 31)).problem()
        assert [(excess["what"], excess["used"]) for excess in refusal["exceeded"]] == [("brief_lines", 31)]
        team.client.broadcast(team.mia, *("Keep the lease alive." for _ in range(30)))

    def test_a_refused_broadcast_is_not_what_a_later_report_resends(self, harness: Harness) -> None:
        team = Team(harness)
        pack = [{"type": "sam", "ref": "sam:note:lease@v1"}]
        with expect_refusal("BUDGET_EXCEEDED"):
            team.client.broadcast(team.mia, *("Keep it." for _ in range(31)), TARGET_POINTER_PACK=pack)
        assert team.client.report(team.mia, role="manager", pointer_pack=pack).resends is None
        assert team.client.broadcast(team.mia, "Goal: keep on.").resends is None
        assert team.client.broadcast(team.mia, "Goal: keep it.", TARGET_POINTER_PACK=pack).resends is not None

    def test_only_an_accepted_message_closes_a_turn(self, harness: Harness) -> None:
        team = Team(harness)
        for line in (1, 2, 3):
            team.client.deref(team.paul, repo_ref("a.py", line, line))
        for act in (
            lambda: rejection_of(team.client, team.paul),
            lambda: team.client.broadcast(team.mia, "Goal: go on."),
            lambda: team.client.call("validate_message", team.paul, text=format_message(role="programmer")),
            lambda: team.client.try_call("send_message", team.paul, text="ROLE: programmer"),
            harness.reopen,
            harness.delete_index,
        ):
            act()
            with expect_refusal("DEREF_DENIED", "turn.repo"):
                team.client.deref(team.paul, repo_ref("a.py"))
        assert team.client.report(team.paul).turn == 2
        harness.reopen()
        harness.delete_index()
        for line in (1, 2, 3):
            team.client.deref(team.paul, repo_ref("a.py", line, line))
        with expect_refusal("DEREF_DENIED", "turn.repo"):
            team.client.deref(team.paul, repo_ref("a.py"))

    def test_a_message_after_an_idle_pause_closes_the_turn_that_followed(self, harness: Harness) -> None:
        team = Team(harness)
        team.client.deref(team.paul, repo_ref("a.py"))
        harness.clock.advance(seconds=601)
        assert team.client.report(team.paul).turn == 3
        team.client.deref(team.paul, repo_ref("a.py"))
        assert b'"turn":3,' in harness.journal_bytes().splitlines()[-1]
        harness.clock.advance(seconds=601)
        harness.delete_index()
        assert team.client.report(team.paul).turn == 5

    def test_a_parent_lowers_its_childrens_message_budgets(self, harness: Harness) -> None:
        team = Team(harness)
        team.client.broadcast(team.mia, budgets={"max_engrams": 1, "max_inline_tokens": 5000}, to=["paul"])
        two = [draft("Alpha holds."), draft("Beta is at risk.", "sam:note:b@v1")]
        harness.reopen()
        harness.delete_index()
        assert rejection_of(team.client, team.paul, "x", engrams=two).limit == 1
        assert rejection_of(team.client, team.paul).limit == 800  # nothing is raised
        team.client.report(team.pia, engrams=two)
        budget = team.client.call("validate_message", team.paul, text=format_message(role="programmer")).budget
        assert (budget.max_engrams, budget.max_inline_tokens) == (1, 800)
        team.client.broadcast(team.mia, "Nothing about budgets.")
        assert rejection_of(team.client, team.paul, "x", engrams=two).limit == 1

    def test_the_lowest_limit_in_a_chain_of_parents_applies(self, harness: Harness) -> None:
        team = Team(harness)
        team.client.broadcast(team.lead, role="architect", budgets={"max_engrams": 2, "max_repo_spans": 1})
        team.client.broadcast(team.mia, budgets={"max_engrams": 5, "max_repo_spans": 2})
        budget = team.client.call("validate_message", team.paul, text=format_message(role="programmer")).budget
        assert budget.max_engrams == 2
        team.client.deref(team.paul, repo_ref("a.py"))
        with expect_refusal("DEREF_DENIED", "turn.repo"):
            team.client.deref(team.paul, repo_ref("a.py"))

    def test_a_parent_lowers_its_childrens_dereference_budgets(self, harness: Harness) -> None:
        team = Team(harness)
        team.client.broadcast(team.mia, budgets={"max_repo_spans": 1, "max_deref_tokens": 5000}, to=["paul"])
        team.client.broadcast(team.mia, budgets={"max_deref_tokens": 250}, to=["pia"])
        team.client.deref(team.paul, repo_ref("a.py"))
        with expect_refusal("DEREF_DENIED", "turn.repo"):
            team.client.deref(team.paul, repo_ref("a.py"))
        answer = team.client.deref(team.pia, repo_ref("a.py", 1, 40), max_tokens=1000)
        assert estimate_tokens(msgspec.json.encode(answer)) <= 250
        with expect_refusal("DEREF_DENIED", "turn.tokens"):
            team.client.deref(team.pia, repo_ref("a.py", 1, 40))
        assert team.client.call("brief", team.paul).lines[-1].startswith("Left this turn: 0 repo")

    def test_a_broadcast_reaches_only_children(self, harness: Harness) -> None:
        team = Team(harness)
        answer = team.client.broadcast(team.mia, "Goal: keep the lease.")
        assert answer.to == ["paul", "pia"]
        assert team.client.broadcast(team.mia, "For one.", to=["pia"]).to == ["pia"]
        with expect_refusal("NOT_YOUR_DESCENDANT", "to"):
            team.client.broadcast(team.mia, "For a stranger.", to=["lead"])
        with expect_refusal("ROLE_FORBIDDEN"):
            team.client.broadcast(team.paul, "Programmers have no children.", role="programmer")
        assert [mail.kind for mail in team.client.mail(team.paul)] == ["broadcast"]
        assert team.client.mail(team.pia)[0].item == answer.broadcast_id
        assert len(team.client.mail(team.pia)) == 2
        assert team.client.mail(team.lead) == []

    def test_validating_a_message_changes_nothing(self, harness: Harness) -> None:
        team = Team(harness)
        journal = harness.journal_bytes()
        good = format_message(role="programmer", task_status="done", output="x", engrams=[draft("Alpha holds.")])
        assert team.client.call("validate_message", team.paul, text=good).ok
        assert team.client.call("validate_message", team.paul, text=good) == team.client.call(
            "validate_message", team.paul, text=good
        )
        too_long = format_message(role="programmer", output=LONG)
        for text, expected in ((too_long, "BUDGET_EXCEEDED"), ("no: message", None)):
            verdict = team.client.call("validate_message", team.paul, text=text)
            assert not verdict.ok
            first = verdict.problems[0]["code"]
            code, _ = team.client.try_call("send_message", team.paul, text=text)
            assert first == code == (expected or first)
            if expected is None:
                assert same_changes(harness.journal_bytes(), journal)
            journal = harness.journal_bytes()
        parent = format_message(role="manager", instructions=["Go on."])
        assert team.client.call("validate_message", team.mia, text=parent, kind="parent").ok
        assert same_changes(harness.journal_bytes(), journal)

    def test_a_repeated_claim_in_a_message_confirms_the_engram(self, harness: Harness) -> None:
        team = Team(harness)
        first = team.client.put("The ledger may lose a lease after a timeout.", team.pia, kind="risk", refs=[NOTE])
        answer = team.client.report(team.paul, engrams=[draft("The ledger may lose leases after a timeout.")])
        assert answer.engrams == [first.id]
        twice = [draft("Alpha waits for beta to finish.", "sam:note:a@v1")] * 2
        answer = team.client.report(team.paul, engrams=twice)
        assert len(set(answer.engrams)) == 1
        assert team.client.counts()["engrams"] == 2

    def test_the_rate_limit_counts_engrams_of_messages(self, harness: Harness) -> None:
        team = Team(harness)
        team.client.call("apply_policy", policy={"engrams_per_minute": 2})
        three = [draft(f"Matter {name} stands.", f"sam:note:{name}@v1") for name in "abc"]
        journal = harness.journal_bytes()
        with expect_refusal("RATE_LIMITED", "engrams_per_minute"):
            team.client.report(team.paul, engrams=three)
        assert same_changes(harness.journal_bytes(), journal)
        team.client.report(team.paul, engrams=three[:2])

    # decision 5: the envelope of an answer counts too
    def test_an_inbox_is_read_in_pages_that_never_exceed_their_tokens(self, harness: Harness) -> None:
        team = Team(harness)
        for number in range(7):
            team.client.report(team.paul, f"Step {number} is done.")
        inbox = team.client.mail(team.mia, k=100)
        for page in ({"k": 3}, {"max_tokens": 150}):
            seen, cursor = [], 0
            while True:
                answer = team.client.call("inbox", team.mia, cursor=cursor, **page)
                if not answer.mail:
                    break
                assert answer.cursor > cursor
                cursor = answer.cursor
                if "max_tokens" in page:
                    assert estimate_tokens(msgspec.json.encode(answer)) <= 150
                seen += answer.mail
            assert seen == inbox
        harness.reopen()
        harness.delete_index()
        assert team.client.mail(team.mia, k=100) == inbox
        for tokens in (3, 30):  # too few for any answer, and for the first message
            with expect_refusal("BUDGET_TOO_SMALL", "max_tokens"):
                team.client.call("inbox", team.mia, max_tokens=tokens)

    def test_a_parent_speaks_only_for_its_descendants(self, harness: Harness) -> None:
        team = Team(harness)
        spoken = Credential(token=team.lead.token, speak_as="paul")
        assert team.client.report(spoken, engrams=[draft("Said for another.")]).to == "mia"
        (engram,) = team.client.query("said another").engrams
        assert engram.provenance.created_by.endswith("/paul")
        assert [mail.sender for mail in team.client.mail(Credential(token=team.lead.token, speak_as="mia"))] == ["paul"]
        stranger = team.client.add_agent("rex", "manager")
        for operation, fields in (
            ("send_message", {"text": format_message(role="programmer", task_status="done", output="x")}),
            ("inbox", {}),
            ("deref_pointer", {"pointer": repo_ref("a.py")}),
            ("issue_grant", {"child_id": "paul", "pointer": repo_ref("a.py")}),
        ):
            with expect_refusal("NOT_YOUR_DESCENDANT"):
                team.client.call(operation, Credential(token=stranger.token, speak_as="mia"), **fields)

    def test_a_run_that_has_ended_accepts_no_messages_and_no_grants(self, harness: Harness) -> None:
        team = Team(harness)
        run = team.client.call("list_agents", team.mia).run_id
        request = team.client.call("request_deref", team.paul, pointer=repo_ref("a.py"), reason="To see.")
        team.client.call("end_run", run_id=run)
        journal = harness.journal_bytes()
        text = format_message(role="manager", instructions=["Go on."])
        for caller, operation, fields in (
            (team.paul, "send_message", {"text": format_message(role="programmer", task_status="done", output="x")}),
            (team.paul, "send_message", {"text": format_message(role="programmer", task_status="done", output=LONG)}),
            (team.mia, "broadcast", {"text": text}),
            (team.paul, "request_deref", {"pointer": repo_ref("a.py"), "reason": "To see."}),
            (team.mia, "issue_grant", {"child_id": "paul", "pointer": repo_ref("a.py")}),
            (team.mia, "approve_request", {"id": request.request_id}),
            (team.mia, "deny_request", {"id": request.request_id}),
        ):
            with expect_refusal("RUN_ENDED"):
                team.client.call(operation, caller, **fields)
        assert same_changes(harness.journal_bytes(), journal)
        with expect_refusal("RUN_ENDED"):
            team.client.mail(team.mia)

    def test_runs_have_separate_inboxes(self, harness: Harness) -> None:
        team = Team(harness)
        team.client.report(team.paul)
        other_run = Credential(local_admin=True, run=team.client.open_run())
        namesake = team.client.add_agent("mia", "manager", other_run)
        assert team.client.mail(namesake) == []
        assert len(team.client.mail(team.mia)) == 1

    def test_a_refusal_survives_a_round_trip_through_json(self, harness: Harness) -> None:
        team = Team(harness)
        problem = json.loads(json.dumps(rejection_of(team.client, team.paul).problem()))
        assert EngramBusError.from_problem(problem).problem() == problem
        assert team.client.mail(LOCAL_ADMIN) == []
