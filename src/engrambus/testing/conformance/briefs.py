"""The shared brief: short, from the store alone, in versions."""  # EB-17

from __future__ import annotations

import re

import msgspec

from engrambus.core import estimate_tokens
from engrambus.gateway import LOCAL_ADMIN
from engrambus.knowledge.engrams import KINDS
from engrambus.testing.client import GatewayClient, expect_refusal, ref_to_test
from engrambus.testing.fakes import repo_ref
from engrambus.testing.harness import Harness


class BriefConformance:
    """Briefs for each role."""

    def test_a_brief_is_made_for_its_role(self, harness: Harness) -> None:  # EB-17
        client = GatewayClient(harness)
        client.put("Budgets are enforced by the gateway", kind="constraint")
        client.put("The ledger may lose a lease", kind="risk")
        client.put("Split the parser", kind="todo")
        leads = client.call("brief", role="architect").lines
        hands = client.call("brief", role="programmer").lines
        assert any("[risk] The ledger may lose a lease (sam:note:anything@v2)" in line for line in leads)
        assert not any("Split the parser" in line for line in leads)
        assert any("[todo] Split the parser" in line for line in hands)
        assert leads[0] == "Goal: first run"
        assert not any(line.startswith("Left this turn") for line in leads)  # a person has no turn
        ada = client.call("brief", client.add_agent("ada")).lines[-1]
        assert ada.startswith("Left this turn: 3 repo")
        assert ada.endswith("1200 tokens; 2400 tokens to put.")

    def test_a_brief_has_at_most_thirty_lines_and_the_requested_tokens(self, harness: Harness) -> None:  # EB-17
        client = GatewayClient(harness)
        for kind in ("constraint", "risk", "decision", "fact", "policy"):
            client.put_many([f"{kind} number {number} of many" for number in range(20)], kind=kind)
        assert len(client.call("brief", role="architect").lines) <= 30
        for tokens in (60, 120, 200):
            answer = client.call("brief", role="architect", max_tokens=tokens)
            assert estimate_tokens(msgspec.json.encode(answer)) <= tokens
            assert answer.truncated
        with expect_refusal("BUDGET_TOO_SMALL"):
            client.call("brief", max_tokens=3)

    def test_a_new_version_is_made_only_when_the_brief_changes(self, harness: Harness) -> None:  # EB-17
        client = GatewayClient(harness)
        client.put("Alpha holds", kind="constraint")
        first = client.call("brief")
        assert client.call("brief") == first
        harness.reopen()
        harness.delete_index()
        assert client.call("brief") == first
        gone = client.put("Beta is at risk", kind="risk")
        second = client.call("brief")
        assert second.version == first.version + 1
        changed = client.call("brief", since=first.version).lines
        assert changed == ["+ [risk] Beta is at risk (sam:note:anything@v2)"]
        client.call("forget_engram", id=gone.id)
        removed = client.call("brief", since=second.version).lines
        assert removed == ["- [risk] Beta is at risk (sam:note:anything@v2)"]
        with expect_refusal("FIELD_VALUE"):
            client.call("brief", since=99)

    def test_a_brief_shows_only_engrams_its_reader_may_see(self, harness: Harness) -> None:  # EB-17
        client = GatewayClient(harness)
        client.put("Alpha is for this run", kind="risk", scope="run")
        assert any("Alpha" in line for line in client.call("brief").lines)
        client.open_run("another run")
        assert not any("Alpha" in line for line in client.call("brief").lines)

    def test_forty_pins_and_twelve_grants_fill_thirty_lines(self, harness: Harness) -> None:  # EB-17
        client = GatewayClient(harness)
        mia = client.add_agent("mia", "manager")
        for engram_id in client.put_many([f"Constraint {number} holds" for number in range(40)], kind="constraint"):
            client.call("pin_engram", id=engram_id)
        for number in range(12):
            client.call("issue_grant", child_id="mia", pointer=repo_ref(f"src/{number}.py"), cap_tokens=100)
        lines = client.call("brief", mia).lines
        assert len(lines) == 30
        pins = [line for line in lines if line.startswith("[pinned constraint] ")]
        grants = [line for line in lines if line.startswith("Granted: ")]
        assert lines[1 : len(pins) + 1] == pins
        assert f"+{40 - len(pins)} more pinned constraints" in lines
        assert lines[-1] == f"+{12 - len(grants)} more grants"
        assert (len(pins), len(grants)) == (19, 6)  # the others: the goal, mail, the turn, two counts

    def test_a_pin_of_any_kind_comes_first_in_every_roles_brief(self, harness: Harness) -> None:  # EB-17
        client = GatewayClient(harness)
        client.put("Budgets are enforced by the gateway", kind="constraint")
        todo = client.put("Split the parser before anything else", kind="todo")
        client.call("pin_engram", id=todo.id)
        client.call(
            "keep_episode", text="We pay in cents.\nNever in floats.", kind="decision", slug="cents", pinned=True
        )
        for role in ("architect", "manager", "tool"):
            assert client.call("brief", role=role).lines[1:4] == [
                "[pinned todo] Split the parser before anything else (sam:note:anything@v2)",
                "[pinned memory] We pay in cents. Never in floats. (sam:decision:cents@1)",
                "[constraint] Budgets are enforced by the gateway (sam:note:anything@v1)",
            ]
        client.call("pin_episode", id="decision:cents", unpin=True)
        assert not any("pinned memory" in line for line in client.call("brief").lines)

    def test_what_does_not_fit_is_counted_by_kind(self, harness: Harness) -> None:  # EB-17
        client = GatewayClient(harness)
        client.put_many([f"Constraint {number} holds" for number in range(20)], kind="constraint")
        client.put_many([f"Policy {number} holds" for number in range(2)], kind="policy")
        client.put_many([f"Risk {number} exists" for number in range(20)], kind="risk")
        client.put_many([f"Fact {number} is known" for number in range(100)], kind="fact")
        lines = client.call("brief", role="programmer").lines
        assert len(lines) == 30
        counts = {kind: sum(line.startswith(f"[{kind}] ") for line in lines) for kind in KINDS}
        assert all(counts[kind] > 3 for kind in ("constraint", "risk", "fact"))
        counted = " ".join(line for line in lines if line.startswith("+"))
        for count, kind in re.findall(r"(\d+) (?:or )?more (constraint|polic|risk|fact)", counted):
            counts["policy" if kind == "polic" else kind] += int(count)
        # Of facts, 40 are read: there are more, so at least 41.
        assert {kind: count for kind, count in counts.items() if count} == {
            "fact": 41,
            "risk": 20,
            "constraint": 20,
            "policy": 2,
        }
        assert " or more facts" in counted

    def test_an_agent_reads_first_what_is_about_the_files_it_uses(self, harness: Harness) -> None:  # EB-17
        client = GatewayClient(harness)
        ada, ben = client.add_agent("ada"), client.add_agent("ben")
        client.put("Auth trusts its input", refs=[ref_to_test("web/auth.py")], kind="risk")
        client.put("Forms trust their input", refs=[ref_to_test("web/forms.py")], kind="risk")
        client.put_many([f"Risk {number} exists elsewhere" for number in range(100)], kind="risk")
        before = client.call("brief", ada)
        assert before == client.call("brief", ben)
        assert not any("trust" in line for line in before.lines)
        client.deref(ada, ref_to_test("web/auth.py"))
        after = client.call("brief", ada)
        assert after.version == before.version + 1
        assert after.lines[1].startswith("[risk] Auth trusts its input (test:tests/web/auth.py::it_works@")
        assert client.call("brief", ben) == before
        changed = client.call("brief", ada, since=before.version).lines
        assert any(line.startswith("+ [risk] Auth trusts") for line in changed)
        with expect_refusal("FIELD_VALUE", "since"):  # the version was made for another agent
            client.call("brief", ben, since=after.version)
        assert client.call("brief", LOCAL_ADMIN, for_agent="ada") == after
        harness.reopen()
        harness.delete_index()
        assert client.call("brief", ada) == after

    def test_engrams_in_the_folder_of_a_used_file_come_next(self, harness: Harness) -> None:  # EB-17
        client = GatewayClient(harness)
        ada = client.add_agent("ada")
        claims = {"web/auth.py": "Auth is slow", "web/forms.py": "Forms are slow", "db.py": "Db is slow"}
        for path, claim in claims.items():
            client.put(claim, refs=[ref_to_test(path)], kind="risk")
        client.put("Auth is old", ada, refs=[ref_to_test("web/auth.py")])
        risks = [line for line in client.call("brief", ada).lines if line.startswith("[risk]")]
        assert [line.split("] ")[1].split(" (")[0] for line in risks] == [
            "Auth is slow",
            "Forms are slow",
            "Db is slow",
        ]

    def test_a_parent_reads_the_brief_of_a_descendant(self, harness: Harness) -> None:  # EB-17
        client = GatewayClient(harness)
        mia = client.add_agent("mia", "manager")
        paul = client.add_agent("paul", "programmer", mia)
        eve = client.add_agent("eve", "manager")
        client.call("issue_grant", mia, child_id="paul", pointer=repo_ref("src/a.py"), cap_tokens=100)
        client.deref(paul, ref_to_test("b.py"))
        assert client.call("brief", mia, for_agent="paul") == client.call("brief", paul)
        with expect_refusal("NOT_YOUR_DESCENDANT", "for_agent"):
            client.call("brief", eve, for_agent="paul")
        with expect_refusal("FIELD_VALUE", "role"):
            client.call("brief", mia, for_agent="paul", role="tool")

    def test_a_parents_brief_has_a_pointer_bundle_for_each_child_role(self, harness: Harness) -> None:  # EB-17
        client = GatewayClient(harness)
        mia = client.add_agent("mia", "manager")
        client.put("Split the parser", refs=[ref_to_test("parser.py")], kind="todo")
        assert not any(line.startswith("For ") for line in client.call("brief", mia).lines)
        client.add_agent("paul", "programmer", mia)
        client.add_agent("tess", "tool")
        ref = ref_to_test("parser.py")
        assert [line for line in client.call("brief", mia).lines if line.startswith("For ")] == [
            f"For programmers: {ref}"
        ]
        assert [line for line in client.call("brief").lines if line.startswith("For ")] == [
            f"For managers: {ref}",
            f"For tools: {ref}",
        ]

    def test_only_lines_that_a_reader_would_miss_make_a_version(self, harness: Harness) -> None:  # EB-17
        client = GatewayClient(harness)
        ada = client.add_agent("ada")
        client.put("Auth is slow", refs=[ref_to_test("auth.py")], kind="risk")
        client.put("Db is slow", refs=[ref_to_test("db.py")], kind="risk")
        first = client.call("brief", ada)
        client.deref(ada, ref_to_test("auth.py"))
        second = client.call("brief", ada)
        assert [line.split(" is")[0] for line in second.lines[1:3]] == ["[risk] Auth", "[risk] Db"]
        assert second.version == first.version  # only the order changed
        client.call("issue_grant", child_id="ada", pointer=repo_ref("src/c.py"), cap_tokens=100)
        third = client.call("brief", ada)
        assert (third.version, third.own_lines) == (first.version, 3)  # mail, the turn, the grant

    def test_pointers_sent_to_a_role_or_a_name_stand_in_both_briefs(self, harness: Harness) -> None:  # EB-17
        client = GatewayClient(harness)
        mia = client.add_agent("mia", "manager")
        paul = client.add_agent("paul", "programmer", mia)
        refs = [repo_ref(f"src/{number}.py") for number in range(8)]
        pack = [{"type": "repo", "ref": ref, "for": ["role:programmer"]} for ref in refs]
        client.put("Auth is slow", refs=[ref_to_test("auth.py")])
        client.broadcast(mia, "Look at these.", target_pointer_pack=pack)
        client.broadcast(mia, "And this.", to=["paul"], target_pointer_pack=[{"type": "repo", "ref": repo_ref("x.py")}])
        sent = ["x.py:1-2@5555555", *(f"src/{number}.py:1-2@5555555" for number in range(5))]
        bundle = f"{', '.join(sent)}, +3 more"
        brief = client.call("brief", paul)
        assert brief.lines[-brief.own_lines] == f"For you: {bundle}"
        assert f"For programmers: {bundle}" in client.call("brief", mia).lines
        pia = client.add_agent("pia", "programmer", mia)  # what was sent to the role is for those who come later, too
        sent = [f"src/{number}.py:1-2@5555555" for number in range(6)]
        assert f"For you: {', '.join(sent)}, +2 more" in client.call("brief", pia).lines
        assert f"For programmers: {', '.join(sent)}, +2 more" in client.call("brief", role="programmer").lines
        client.add_agent("eve", "manager")
        quinn = client.add_agent("quinn", "programmer", LOCAL_ADMIN, parent="eve")
        assert not any(line.startswith("For ") for line in client.call("brief", quinn).lines)

    def test_pointers_of_what_does_not_fit_are_the_bundle_where_nobody_sent_any(self, harness: Harness) -> None:
        client = GatewayClient(harness)
        for number in range(40):
            harness.clock.advance(seconds=1)
            client.put(f"Fact {number} is known", refs=[ref_to_test(f"file_{number}.py")])
        lines = client.call("brief").lines
        assert len(lines) == 30
        assert lines[-2] == "+13 more facts"
        assert lines[-1] == f"See also: {', '.join(ref_to_test(f'file_{number}.py') for number in (12, 11, 10))}"

    def test_a_brief_says_how_much_mail_waits(self, harness: Harness) -> None:  # EB-17
        client = GatewayClient(harness)
        mia = client.add_agent("mia", "manager")
        paul = client.add_agent("paul", "programmer", mia)
        first = client.call("brief", paul)
        client.broadcast(mia, "Begin.")
        waiting = client.call("brief", paul)
        assert waiting.lines[-2] == "1 message waits: less_inbox."
        assert (waiting.version, waiting.own_lines) == (first.version, 2)
        client.broadcast(mia, "Go on.")
        assert "2 messages wait: less_inbox." in client.call("brief", paul).lines
        client.call("inbox", paul, unseen=True)
        assert client.call("brief", paul) == first

    def test_memories_and_engrams_that_say_the_same_are_shown_once(self, harness: Harness) -> None:  # EB-17
        client = GatewayClient(harness)
        client.put("We pay in cents", kind="decision")
        client.call("keep_episode", text="We pay in cents", kind="decision", slug="cents", pinned=True)
        lines = client.call("brief").lines
        assert [line for line in lines if "cents" in line] == ["[pinned memory] We pay in cents (sam:decision:cents@1)"]

    def test_a_brief_neither_shows_nor_counts_what_its_role_may_not_see(self, harness: Harness) -> None:  # EB-17
        client = GatewayClient(harness)
        mia = client.add_agent("mia", "manager")
        paul = client.add_agent("paul", "programmer", mia)
        for number in range(40):
            client.put(f"Secret {number} is kept", refs=[ref_to_test(f"secret/{number}.py")], kind="constraint")
        client.put("The rest is open", refs=[ref_to_test("open.py")], kind="constraint")
        pack = [{"type": "test", "ref": ref_to_test(f"{folder}/a.py")} for folder in ("secret", "open")]
        client.broadcast(mia, "Look.", target_pointer_pack=pack)
        client.call("apply_policy", policy={"visibility": {"programmer": {"paths": ["!tests/secret/*"]}}})
        assert client.call("brief", paul).lines[1:3] == [
            f"[constraint] The rest is open ({ref_to_test('open.py')})",
            f"For you: {ref_to_test('open/a.py')}",
        ]
        assert any("secret" in line for line in client.call("brief", mia).lines)
        assert f"For programmers: {ref_to_test('open/a.py')}" in client.call("brief", mia).lines
