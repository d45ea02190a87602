"""Inboxes: what is unseen, who gets a broadcast and its pointers, and messages between peers."""  # EB-16, EB-32, EB-34

from __future__ import annotations

import json
from functools import partial
from typing import Any

from engrambus.core import estimate_tokens
from engrambus.gateway import LOCAL_ADMIN, Credential
from engrambus.testing.client import GatewayClient, catch_refusal, expect_refusal, format_message, same_changes
from engrambus.testing.conformance.messages import LONG, Team, draft
from engrambus.testing.fakes import CODE, repo_ref
from engrambus.testing.harness import Harness

A, B, C = repo_ref("src/a.py"), repo_ref("src/b.py"), repo_ref("src/c.py")


class Peers:
    """Two leads in runs of their own, one of them with a child, and a client to act for them."""

    def __init__(self, harness: Harness) -> None:
        self.client = GatewayClient(harness)
        self.runs = [self.client.open_run(f"session {number}") for number in (1, 2)]
        first, second = (Credential(local_admin=True, run=run) for run in self.runs)
        self.ada = self.client.add_agent("ada", "architect", first)
        self.kid = self.client.add_agent("kid", "programmer", self.ada)
        self.ben = self.client.add_agent("ben", "manager", second)
        self.bob = self.client.add_agent("bob", "programmer", self.ben)

    def write(self, caller: Credential, to: str, text: str) -> Any:
        """Send a message to an agent."""
        return self.client.call("send_message", caller, text=text, to=to)


def pointers(*refs: str, **fields: Any) -> list[dict[str, Any]]:
    """Return a pointer pack."""
    return [{"type": "repo", "ref": ref, **fields} for ref in refs]


def unseen(client: GatewayClient, caller: Credential, **fields: Any) -> list[str]:
    """Return the lines of the mail that a caller was not shown yet, which shows it."""
    lines: list[str] = client.call("inbox", caller, unseen=True, short=True, **fields).lines
    return lines


def waiting(client: GatewayClient, caller: Credential) -> int:
    """Return how much mail a caller was not shown yet, without showing it."""
    count: int = client.call("inbox", caller).waiting
    return count


class MailConformance:
    """Mail: what is unseen, broadcasts to roles, pointer packs, and messages between peers."""

    def test_mail_is_unseen_until_it_was_shown_once(self, harness: Harness) -> None:
        team = Team(harness)
        client = team.client
        assert client.call("inbox", team.mia, unseen=True) == client.call("inbox", team.mia)
        first = client.report(team.paul, "The ledger is checked.", engrams=[draft("The ledger may lose a lease.")])
        harness.clock.advance(seconds=120)
        client.call("request_deref", team.pia, pointer=A, reason="To see the limit.")
        assert [waiting(client, caller) for caller in (team.mia, team.lead, team.paul)] == [2, 0, 0]
        assert len(client.mail(team.mia)) == 2
        assert waiting(client, team.mia) == 2, "a page by cursor shows nothing as seen"
        report, request = unseen(client, team.mia)
        summary = "message from paul, 2 min ago, done: The ledger is checked. (1 engram)"
        assert report == f"{first.message_id[:13]} {summary}"
        assert request.endswith(" request from pia, just now: src/a.py:1-2@5555555: To see the limit.")
        journal = harness.journal_bytes()
        assert unseen(client, team.mia) == []
        assert harness.journal_bytes() == journal, "nothing new is not recorded"
        client.report(team.paul, "One more.")
        harness.reopen()
        harness.delete_index()
        (line,) = unseen(client, team.mia)
        assert "One more." in line
        harness.delete_index()
        assert unseen(client, team.mia) == []
        assert harness.gateway.store.verify() == []

    def test_a_list_within_a_budget_leaves_the_rest_unseen(self, harness: Harness) -> None:
        team = Team(harness)
        for number in range(9):
            team.client.report(team.paul, f"Step {number} is done, and it took a while to get it right.")
        shown: list[str] = []
        while waiting(team.client, team.mia):
            answer = team.client.call("inbox", team.mia, unseen=True, short=True, max_tokens=160)
            assert estimate_tokens(json.dumps({"lines": answer.lines})) <= 160
            assert answer.waiting == 9 - len(shown) - len(answer.lines)
            shown += answer.lines
        assert [line.partition("Step ")[2][0] for line in shown] == [str(number) for number in range(9)]
        recent = team.client.call("inbox", team.mia, unseen=True, short=True, recent=2)
        assert [line.partition("Step ")[2][0] for line in recent.seen] == ["8", "7"]
        assert recent.lines == []

    def test_one_piece_of_mail_is_read_whole_by_its_id_or_its_beginning(self, harness: Harness) -> None:
        team = Team(harness)
        sent = team.client.report(team.paul, "Done.", engrams=[draft("The ledger may lose a lease.")])
        for identifier in (sent.message_id, sent.message_id[:13]):
            mail = team.client.call("read_mail", team.mia, id=identifier)
            assert (mail.kind, mail.item, mail.engrams) == ("message", sent.message_id, sent.engrams)
            assert "The ledger may lose a lease." in mail.text
        cut = team.client.call("read_mail", team.mia, id=sent.message_id, max_tokens=110)
        assert cut.truncated
        assert mail.text.startswith(cut.text)
        for caller, identifier in ((team.pia, sent.message_id), (team.mia, sent.message_id[:3]), (team.mia, "01K")):
            with expect_refusal("MAIL_NOT_FOUND", "id"):
                team.client.call("read_mail", caller, id=identifier)

    def test_a_denied_request_is_told_and_answered_by_the_beginning_of_its_id(self, harness: Harness) -> None:
        team = Team(harness)
        request = team.client.call("request_deref", team.paul, pointer=A, reason="To see.").request_id
        team.client.call("deny_request", team.mia, id=request[:13])
        (mail,) = team.client.mail(team.paul)
        assert (mail.kind, mail.item, mail.sender) == ("denial", request, "mia")
        assert A in mail.text
        with expect_refusal("REQUEST_NOT_FOUND", "id"):
            team.client.call("approve_request", team.mia, id=request[:13])
        again = team.client.call("request_deref", team.paul, pointer=A, reason="To see.").request_id
        team.client.call("approve_request", team.mia, id=again[:16])
        assert [mail.kind for mail in team.client.mail(team.paul)] == ["denial", "grant"]

    # EB-16, EB-32
    def test_a_broadcast_goes_to_names_and_roles(self, harness: Harness) -> None:
        team = Team(harness)
        client = team.client
        tom = client.add_agent("tom", "tool", LOCAL_ADMIN, parent="mia")
        boss = client.add_agent("dora", "director", team.lead)
        for to, receivers in (
            (["programmer"], ["paul", "pia"]),
            (["role:tool"], ["tom"]),
            (["tool", "pia"], ["pia", "tom"]),
            ([], ["paul", "pia", "tom"]),
        ):
            assert client.broadcast(team.mia, "Goal: go on.", to=to).to == receivers
        assert len(client.mail(tom)) == 3
        journal = harness.journal_bytes()
        for target, code in (
            ("role:director", "FIELD_VALUE"),
            ("manager", "FIELD_VALUE"),
            ("role:nobody", "AGENT_NOT_FOUND"),
            ("lead", "NOT_YOUR_DESCENDANT"),
        ):
            with expect_refusal(code, "to"):
                client.broadcast(team.mia, "Goal: go on.", to=[target])
        assert same_changes(harness.journal_bytes(), journal)
        # An agent that is called like a role is meant by its name; `role:` always means the role.
        client.add_agent("programmer", "manager", boss)
        client.add_agent("dev", "programmer", boss)
        assert client.broadcast(boss, "Goal: go on.", role="director", to=["programmer"]).to == ["programmer"]
        assert client.broadcast(boss, "Goal: go on.", role="director", to=["role:programmer"]).to == ["dev"]

    # LESS 5.3, 7.2: targeted pointer packs per role
    def test_each_child_gets_the_pointers_that_are_for_it(self, harness: Harness) -> None:
        team = Team(harness)
        client = team.client
        tom = client.add_agent("tom", "tool", LOCAL_ADMIN, parent="mia")
        pack = [*pointers(A), *pointers(B, **{"for": "programmer"}), *pointers(C, **{"for": ["pia", "role:tool"]})]
        client.broadcast(team.mia, "Goal: read.", target_pointer_pack=pack, instructions=["Begin."])
        texts = {
            name: client.mail(agent)[-1].text for name, agent in (("paul", team.paul), ("pia", team.pia), ("tom", tom))
        }
        got = {name: [ref for ref in (A, B, C) if ref in text] for name, text in texts.items()}
        assert got == {"paul": [A, B], "pia": [A, B, C], "tom": [A, C]}
        assert "for:" not in "".join(texts.values())
        for text in texts.values():
            assert client.call("validate_message", team.mia, text=text, kind="parent").ok, "the published form"
        harness.delete_index()
        run_id = client.call("list_agents", team.mia).run_id
        with harness.gateway.store.read() as view:
            packs = view.pointer_packs(run_id, limit=10)
            assert [
                view.pointer_packs("01K7Z3V5QX0000000000000000", limit=1),
                len(view.pointer_packs(run_id, limit=1)),
            ] == [[], 1]
        assert [(sent.sender, sent.pack.to, [pointer.ref for pointer in sent.pack.pointers]) for sent in packs] == [
            ("mia", ("pia", "tom"), [C]),
            ("mia", ("paul", "pia"), [B]),
            ("mia", ("paul", "pia", "tom"), [A]),
        ]
        journal = harness.journal_bytes()
        for target in ("director", "lead", "nobody"):
            with expect_refusal("FIELD_VALUE", "TARGET_POINTER_PACK[1].for"):
                client.broadcast(team.mia, target_pointer_pack=[*pointers(A), *pointers(B, **{"for": target})])
        with expect_refusal("FIELD_VALUE", "TARGET_POINTER_PACK[0].for"):  # a child that does not get the broadcast
            client.broadcast(team.mia, target_pointer_pack=pointers(B, **{"for": "pia"}), to=["paul"])
        assert same_changes(harness.journal_bytes(), journal)

    def test_leads_of_two_runs_write_to_each_other(self, harness: Harness) -> None:
        peers = Peers(harness)
        turn = peers.client.call("team_budget", peers.ada).turn.number
        sent = peers.write(peers.ada, "ben", "The parser moves to src/parse.py today.\nPlease wait with it.")
        assert (sent.to, sent.turn) == (f"{peers.runs[1]}/ben", turn), "it ends no turn"
        (line,) = unseen(peers.client, peers.ben)
        assert line.endswith("note from ada, just now: The parser moves to src/parse.py today. Please wait with it.")
        (mail,) = peers.client.mail(peers.ben)
        assert mail.sender == f"{peers.runs[0]}/ada"
        assert mail.text == "The parser moves to src/parse.py today.\nPlease wait with it."
        peers.write(peers.ben, mail.sender, "I wait.")
        assert "I wait." in unseen(peers.client, peers.ada)[0]
        assert peers.client.mail(peers.kid) == peers.client.mail(peers.bob) == peers.client.mail() == []

    def test_a_message_to_a_peer_carries_engrams_that_the_peer_can_see(self, harness: Harness) -> None:
        peers = Peers(harness)
        message = {"role": "architect", "task_status": "in_progress", "output": "See the risk."}
        seen = format_message(**message, engrams=[draft("The ledger may lose a lease.", scope="project")])
        sent = peers.write(peers.ada, "ben", seen)
        (mail,) = peers.client.mail(peers.ben)
        assert (mail.kind, mail.engrams) == ("message", sent.engrams)
        assert peers.client.call("get_engram", peers.ben, id=sent.engrams[0]).claim == "The ledger may lose a lease."
        journal = harness.journal_bytes()
        hidden = format_message(**message, engrams=[draft("Only our run sees this.", scope="run")])
        with expect_refusal("SCOPE_FORBIDDEN", "ENGRAMS[0].scope"):
            peers.write(peers.ada, "ben", hidden)
        asked = format_message(**message, deref_requests=[{"pointer": A, "reason": "To see."}])
        with expect_refusal("FIELD_VALUE", "DEREF_REQUESTS"):
            peers.write(peers.ada, "ben", asked)
        assert same_changes(harness.journal_bytes(), journal)

    def test_a_message_to_a_peer_has_the_limits_of_every_message(self, harness: Harness) -> None:
        peers = Peers(harness)
        journal = harness.journal_bytes()
        with expect_refusal("BUDGET_EXCEEDED"):
            peers.write(peers.ada, "ben", LONG)
        with expect_refusal("BUDGET_EXCEEDED"):
            peers.write(peers.ada, "ben", CODE)
        with expect_refusal("SECRET_FOUND"):
            peers.write(peers.ada, "ben", "Use AKIAIOSFODNN7EXAMPLX to sign in, it is password=hunter2hunter2hunter2.")
        with expect_refusal("FIELD_VALUE", "text"):
            peers.write(peers.ada, "ben", " \n ")
        assert peers.client.mail(peers.ben) == []
        assert b"AKIAIOSFODNN7EXAMPLX" not in harness.journal_bytes()[len(journal) :]
        peers.client.call("apply_policy", policy={"put_tokens_per_turn": 60})
        text = "This sentence is one of many that one lead writes to the other."
        with expect_refusal("BUDGET_EXCEEDED", "turn.put_tokens"):
            for _ in range(20):
                peers.write(peers.ada, "ben", text)
        assert 1 <= len(peers.client.mail(peers.ben)) < 20
        peers.client.report(peers.ada, role="architect")  # a report opens the next turn
        peers.write(peers.ada, "ben", text)

    def test_only_leads_write_to_other_leads_of_the_project(self, harness: Harness) -> None:
        peers = Peers(harness)
        client = peers.client
        journal = harness.journal_bytes()
        for name in ("ben", f"{peers.runs[1]}/ben", "bob", "nobody", "admin"):
            refusal = catch_refusal(partial(peers.write, peers.kid, name, "Hello."))
            assert (refusal.code, refusal.field) == ("NOT_YOUR_PEER", "to")
            assert "'ada'" in refusal.detail, "its parent is named"
        for name, code in (("bob", "AGENT_NOT_FOUND"), ("nobody", "AGENT_NOT_FOUND"), ("ada", "FIELD_VALUE")):
            refusal = catch_refusal(partial(peers.write, peers.ada, name, "Hello."))
            assert (refusal.code, refusal.field) == (code, "to")
        assert "ben" in str(catch_refusal(lambda: peers.write(peers.ada, "zz", "Hello.")).hint), "whom it can write to"
        assert "Did you mean ben?" in str(catch_refusal(lambda: peers.write(peers.ada, "benn", "Hello.")).hint)
        assert same_changes(harness.journal_bytes(), journal)
        assert client.call("send_message", peers.kid, text="On it.", to="ada").to == "ada"
        assert client.call("send_message", peers.ada, text="Go on.", to="kid").to == "kid"
        assert [mail.text for mail in client.mail(peers.kid)] == ["Go on."]
        other_run = Credential(local_admin=True, run=client.open_run())
        namesake = client.add_agent("ben", "manager", other_run)
        with expect_refusal("AGENT_AMBIGUOUS", "to"):
            peers.write(peers.ada, "ben", "Hello.")
        client.call("end_run", run_id=peers.runs[1])
        peers.write(peers.ada, "ben", "Hello.")  # the only one whose run goes on
        assert [mail.text for mail in client.mail(namesake)] == ["Hello."]
        with expect_refusal("RUN_ENDED", "to"):
            peers.write(peers.ada, f"{peers.runs[1]}/ben", "Hello.")

    def test_a_person_writes_to_any_agent_and_has_one_inbox_for_all_runs(self, harness: Harness) -> None:
        peers = Peers(harness)
        client = peers.client
        client.call("send_message", LOCAL_ADMIN, text="Please stop at noon.", to="bob")
        assert [(mail.kind, mail.sender, mail.text) for mail in client.mail(peers.bob)] == [
            ("note", "admin", "Please stop at noon.")
        ]
        peers.write(peers.ben, "admin", "Which branch?")
        client.report(peers.ada, "All is done.", role="architect")
        assert [mail.kind for mail in client.mail()] == ["note", "message"]
        first, second = unseen(client, LOCAL_ADMIN)
        assert "note from ben" in first
        assert "message from ada" in second
        assert unseen(client, Credential(local_admin=True, run=peers.runs[0])) == []
        client.call("end_run", run_id=peers.runs[1])
        with expect_refusal("RUN_ENDED", "to"):
            client.call("send_message", LOCAL_ADMIN, text="Hello?", to="bob")
        harness.delete_index()
        assert unseen(client, LOCAL_ADMIN) == []
        assert harness.gateway.store.verify() == []
