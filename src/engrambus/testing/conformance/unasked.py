"""What agents are shown unasked: what fits, once, within its limits, and nothing that they may not see."""  # BX-10

from __future__ import annotations

import msgspec

from engrambus.core import estimate_tokens
from engrambus.gateway import LOCAL_ADMIN, Credential
from engrambus.testing.client import GatewayClient, same_changes
from engrambus.testing.fakes import repo_ref
from engrambus.testing.harness import Harness

PROMPT = "Why does the ledger lose its lease on retry?"
CLAIM = "The ledger loses its lease on every second retry."


def put_at(client: GatewayClient, claim: str, path: str, caller: Credential = LOCAL_ADMIN, /, **fields: str) -> str:
    """Put an engram about lines of a file and return its id."""
    return client.put(claim, caller, refs=[repo_ref(path)], **fields).id


class UnaskedConformance:
    """The operation `less.recall`, as hooks call it."""

    def test_what_fits_is_shown_once_in_a_session(self, harness: Harness) -> None:  # BX-10
        client = GatewayClient(harness)
        ada, bob = client.add_agent("ada", "architect"), client.add_agent("bob", "architect")
        engram = put_at(client, CLAIM, "src/ledger.py")
        journal = harness.journal_bytes()
        assert client.call("recall", ada, text=PROMPT).engrams == [engram]
        assert client.call("recall", text=PROMPT, record=True).engrams == [engram], "a person has no session"
        assert same_changes(harness.journal_bytes(), journal), "a dry run records nothing"
        answer = client.call("recall", ada, text=PROMPT, record=True)
        assert answer.engrams == [engram]
        assert engram[:13] in answer.lines[1]
        assert CLAIM in answer.lines[1]
        journal = harness.journal_bytes()
        assert client.call("recall", ada, text=PROMPT, record=True).lines == []
        assert same_changes(harness.journal_bytes(), journal), "nothing to show, nothing to write"
        harness.delete_index()
        harness.reopen()
        assert client.call("recall", ada, text=PROMPT, record=True).lines == []
        assert client.call("recall", bob, text=PROMPT, record=True).engrams == [engram]

    def test_after_its_context_was_compacted_an_agent_is_shown_it_again(self, harness: Harness) -> None:  # BX-10
        client = GatewayClient(harness)
        ada = client.add_agent("ada", "architect")
        engram = put_at(client, CLAIM, "src/ledger.py")
        journal = harness.journal_bytes()
        assert client.call("recall", ada, forget=True, record=True).lines == []
        assert same_changes(harness.journal_bytes(), journal)
        assert client.call("recall", ada, text=PROMPT, record=True).engrams == [engram]
        client.call("recall", ada, forget=True, record=True)
        harness.delete_index()
        harness.reopen()
        assert client.call("recall", ada, text=PROMPT, record=True).engrams == [engram]

    def test_nothing_is_shown_that_does_not_fit(self, harness: Harness) -> None:  # BX-10
        client = GatewayClient(harness)
        put_at(client, CLAIM, "src/ledger.py")
        for prompt in ("", "continue", "Make the buttons of the page larger.", "Is it the ledger?", "\0\ud800 <b>"):
            assert client.call("recall", text=prompt.encode("utf-8", "replace").decode()).lines == []

    def test_a_prompt_that_names_a_file_gets_what_points_at_it(self, harness: Harness) -> None:  # BX-10
        client = GatewayClient(harness)
        engram = put_at(client, "Leases end early.", "src/ledger.py")
        put_at(client, "Orders are sorted.", "src/orders.py")
        put_at(client, "Leases are logged.", "old/ledger.py")
        for prompt in ("Look at src/ledger.py, please.", "`src/ledger.py:3-9` is wrong", "fix src/ledger.py:3"):
            assert client.call("recall", text=prompt).engrams == [engram]
        assert len(client.call("recall", text="What is in ledger.py?").engrams) == 2
        assert client.call("recall", text="What is in other/src/ledger.py?").engrams == []

    def test_before_an_edit_the_edited_lines_come_first(self, harness: Harness) -> None:  # BX-10
        client = GatewayClient(harness)
        first = client.put("Leases end early.", refs=[repo_ref("src/ledger.py", 3, 5)])
        second = client.put("Orders are sorted.", refs=[repo_ref("src/ledger.py", 20, 22)])
        edit = {"occasion": "edit", "text": "orders are sorted"}
        assert client.call("recall", paths=["src/ledger.py:4-4"], **edit).engrams == [first.id, second.id]
        assert client.call("recall", paths=["src/ledger.py:21"], **edit).engrams == [second.id, first.id]
        assert client.call("recall", paths=["src/other.py:21"], **edit).engrams == []

    def test_at_most_five_engrams_and_300_tokens_are_shown(self, harness: Harness) -> None:  # BX-10
        client = GatewayClient(harness)
        for number in range(9):
            put_at(client, f"Lease {number} of the ledger ends early.", f"src/{number}/ledger.py")
        for number in range(9):
            put_at(client, f"Order {number} " + "is sorted by its date and then by its name " * 9, "src/orders.py")
        for paths in (["src/orders.py"], [f"src/{n}/ledger.py" for n in range(9)], ["ledger.py", "orders.py"]):
            for max_tokens in (1, 60, 150, 300):
                answer = client.call("recall", paths=paths, occasion="edit", max_tokens=max_tokens)
                assert len(answer.engrams) <= 5
                assert len(answer.lines) == (len(answer.engrams) + 1 if answer.engrams else 0)
                assert estimate_tokens("\n".join(answer.lines)) <= max_tokens
        assert len(client.call("recall", paths=["ledger.py"], occasion="edit").engrams) == 5

    def test_a_sub_agent_gets_what_fits_the_task_it_was_started_with(self, harness: Harness) -> None:  # BX-10
        client = GatewayClient(harness)
        ada = client.add_agent("ada", "architect")
        first = client.add_agent("first", "programmer", ada)
        second = client.add_agent("second", "programmer", ada)
        lease, order = put_at(client, CLAIM, "src/ledger.py"), put_at(client, "Orders are sorted.", "src/orders.py")
        found = client.call("recall", ada, text=PROMPT, occasion="task", task="explore", record=True)
        assert found.lines == [], "its parent is shown nothing"
        client.call("recall", ada, text="See src/orders.py.", occasion="task", task="explore", record=True)
        harness.delete_index()
        harness.reopen()
        assert client.call("recall", first, occasion="subagent", task="plan", record=True).engrams == []
        assert client.call("recall", first, occasion="subagent", task="explore", record=True).engrams == [lease]
        assert client.call("recall", second, occasion="subagent", task="explore", record=True).engrams == [order]
        assert client.call("recall", second, occasion="subagent", task="explore", record=True).engrams == []

    def test_what_an_agent_may_not_see_is_never_shown(self, harness: Harness) -> None:  # BX-10
        client = GatewayClient(harness)
        ada = client.add_agent("ada", "architect")
        paul = client.add_agent("paul", "programmer", ada)
        other = Credential(local_admin=True, run=client.open_run())
        put_at(client, CLAIM, "src/ledger.py", other, scope="run")
        assert client.call("recall", paul, text=f"{PROMPT} src/ledger.py").engrams == []
        hidden = put_at(client, CLAIM, "src/ledger.py")
        assert client.call("recall", paul, text=PROMPT).engrams == [hidden]
        client.call("apply_policy", policy={"visibility": {"programmer": {"kinds": ["risk"]}}})
        assert client.call("recall", paul, text=f"{PROMPT} src/ledger.py").engrams == []
        assert client.call("recall", ada, text=PROMPT).engrams == [hidden]
        client.call("forget_engram", id=hidden)
        assert client.call("recall", ada, text=f"{PROMPT} src/ledger.py").engrams == []

    def test_one_key_of_the_policy_turns_it_off(self, harness: Harness) -> None:  # BX-10
        client = GatewayClient(harness)
        ada = client.add_agent("ada", "architect")
        put_at(client, CLAIM, "src/ledger.py")
        client.call("apply_policy", policy={"recall": False})
        answer = client.call("recall", ada, text=PROMPT, record=True)
        assert msgspec.to_builtins(answer) == {"off": True}
