"""What an agent may dereference in one turn, and over a run."""  # EB-08, EB-09

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from engrambus.app import init_project, open_project
from engrambus.core import estimate_tokens
from engrambus.errors import BudgetTooSmall, DerefDenied
from engrambus.gateway import LOCAL_ADMIN, Credential, Gateway, to_request
from engrambus.operations import OPERATIONS
from engrambus.settings import Settings
from engrambus.testing import ManualClock, expect_refusal
from tests.projects import Repository, make_repository, make_settings


class Desk:
    """An agent at work in a project with a repository."""

    def __init__(self, folder: Path) -> None:
        self.clock = ManualClock()
        self.settings: Settings = make_settings(folder / "home")
        self.repository: Repository = make_repository(folder / "repo")
        init_project(self.repository.path, self.settings, clock=self.clock)
        self.gateway: Gateway = open_project(self.repository.path, self.settings, clock=self.clock)
        self.agent = Credential(token=self.call("add_agent", LOCAL_ADMIN, name="ada", role="architect").token)

    def call(self, operation: str, who: Credential, /, **fields: Any) -> Any:
        """Call an operation."""
        declared = OPERATIONS[operation]
        return self.gateway.call(declared, to_request(fields, declared.request), who)

    def deref(self, first: int = 1, last: int = 2, max_tokens: int = 200, who: Credential | None = None) -> Any:
        """Pull some lines."""
        ref = f"repo:src/parser.py#L{first}-L{last}@{self.repository.sha}"
        return self.call("deref_pointer", who or self.agent, pointer=ref, max_tokens=max_tokens)

    def reopen(self) -> None:
        """As another process would find it."""
        self.gateway.close()
        self.gateway = open_project(self.repository.path, self.settings, clock=self.clock)


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    desk = Desk(tmp_path)
    yield desk
    desk.gateway.close()


def test_the_fourth_repo_dereference_of_a_turn_is_denied_and_says_how_to_ask(desk: Desk) -> None:
    for line in (1, 2, 3):
        desk.deref(line, line)
    with pytest.raises(DerefDenied) as denied:
        desk.deref(4, 4)
    problem = denied.value.problem()
    assert (problem["code"], problem["status"], problem["field"]) == ("DEREF_DENIED", 403, "turn.repo")
    assert (problem["limit"], problem["used"]) == (3, 3)
    assert "less.request_deref" in problem["hint"]


def test_ten_idle_minutes_open_the_next_turn(desk: Desk) -> None:
    for _ in range(3):
        desk.deref()
    desk.clock.advance(seconds=600)
    with expect_refusal("DEREF_DENIED"):
        desk.deref()
    desk.clock.advance(seconds=1)
    desk.deref()


def test_counters_survive_a_restart_and_a_deleted_index(desk: Desk) -> None:
    for _ in range(3):
        desk.deref()
    desk.reopen()
    with expect_refusal("DEREF_DENIED"):
        desk.deref()
    (desk.repository.path / ".catalog" / "index.db").unlink()
    with expect_refusal("DEREF_DENIED"):
        desk.deref()


def test_tokens_are_counted_on_the_whole_answer_and_never_overspent(desk: Desk) -> None:
    desk.call("apply_policy", LOCAL_ADMIN, policy={"deref": {"repo": 100, "tokens": 500}})
    spent = 0
    with expect_refusal("DEREF_DENIED"):
        for _ in range(100):
            answer = desk.deref(1, 30, max_tokens=180)
            cost = estimate_tokens(msgspec.json.encode(answer))
            assert cost <= 180
            spent += cost
    assert 300 < spent <= 500


def test_a_ceiling_over_the_run_holds_whatever_turns_are_opened(desk: Desk) -> None:
    desk.call("apply_policy", LOCAL_ADMIN, policy={"deref": {"tokens": 300, "run_turns": 2}})
    refusals = []
    for _ in range(50):
        try:
            desk.deref(1, 2)
        except DerefDenied as denied:
            refusals.append((denied.field, denied.limit))
        desk.clock.advance(seconds=601)
    assert 40 < len(refusals) < 50
    assert set(refusals) == {("run.tokens", 600)}


def test_another_agent_has_a_budget_of_its_own_and_the_admin_has_none(desk: Desk) -> None:
    for _ in range(3):
        desk.deref()
    other = Credential(token=desk.call("add_agent", LOCAL_ADMIN, name="bob", role="architect").token)
    desk.deref(who=other)
    for _ in range(5):
        desk.deref(who=LOCAL_ADMIN)


def test_of_many_threads_racing_for_the_last_dereference_one_gets_it(desk: Desk) -> None:
    desk.deref()
    desk.deref()
    outcomes: list[str] = []
    gate = threading.Barrier(32)

    def race() -> None:
        gate.wait()
        try:
            desk.deref()
            outcomes.append("read")
        except DerefDenied:
            outcomes.append("denied")

    threads = [threading.Thread(target=race) for _ in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["denied"] * 31 + ["read"]


def test_every_dereference_leaves_a_proof(desk: Desk) -> None:
    answer = desk.deref(1, 2)
    last = (desk.repository.path / ".catalog" / "memory.jsonl").read_text().splitlines()[-1]
    for proved in ('"deref.proved"', answer.content_digest, answer.pointer.ref, '"agent":"ada"', '"turn":1'):
        assert proved in last


def test_a_digest_nobody_here_has_read_is_a_phantom(desk: Desk) -> None:  # EB-22
    answer = desk.deref(1, 2, who=LOCAL_ADMIN)
    elsewhere = desk.call("open_run", LOCAL_ADMIN, goal="another run").run_id
    other = Credential(
        token=desk.call("add_agent", Credential(local_admin=True, run=elsewhere), name="eve", role="architect").token
    )
    pointer = {"type": "repo", "ref": answer.pointer.ref, "digest": answer.content_digest}
    with expect_refusal("PHANTOM_READ"):  # read in the first run, claimed in the second
        desk.call("put_engram", other, claim="The parser starts here.", pointers=[pointer])
    assert desk.call("put_engram", desk.agent, claim="The parser starts here.", pointers=[pointer]).pointers[0].digest
    desk.deref(1, 2, who=other)
    desk.call("put_engram", other, claim="The parser starts here.", pointers=[pointer])
    with expect_refusal("DIGEST_MISMATCH"):
        wrong = {**pointer, "digest": "sha256:" + "0" * 64}
        desk.call("put_engram", desk.agent, claim="The parser ends here.", pointers=[wrong])


def test_nobody_is_let_read_what_is_not_there(desk: Desk) -> None:  # EB-09, EB-10
    for path in ("src/missing.py", "src/parser.*", "src"):
        missing = f"repo:{path}@{desk.repository.sha}"
        code = "NOT_A_FILE" if path == "src" else "FILE_NOT_FOUND"
        with expect_refusal(code, "pointer.ref"):
            desk.call("issue_grant", LOCAL_ADMIN, child_id="ada", pointer=missing)
        with expect_refusal(code, "pointer.ref"):
            desk.call("request_deref", desk.agent, pointer=missing, reason="To see.")
    assert desk.call("list_requests", LOCAL_ADMIN).requests == []


def test_a_dereference_can_be_judged_without_being_done(desk: Desk) -> None:  # EB-06
    ref = f"repo:src/parser.py#L1-L2@{desk.repository.sha}"
    journal = desk.repository.path / ".catalog" / "memory.jsonl"
    before = journal.read_bytes()
    answer = desk.call("validate_deref", desk.agent, pointer=ref)
    assert (answer.ok, answer.turn, answer.tokens_left, answer.granted) == (True, 1, 1200, False)
    assert journal.read_bytes() == before
    for _ in range(3):
        desk.deref()
    answer = desk.call("validate_deref", desk.agent, pointer=ref)
    assert not answer.ok
    assert [problem["code"] for problem in answer.problems] == ["DEREF_DENIED"]
    desk.call("issue_grant", LOCAL_ADMIN, child_id="ada", pointer=ref, cap_tokens=300)
    answer = desk.call("validate_deref", desk.agent, pointer=ref)
    assert (answer.ok, answer.tokens_left, answer.granted) == (True, 300, True)
    told = desk.call("brief", desk.agent).lines
    assert f"Granted: {ref}, 300 tokens, 1 use." in told
    desk.deref()
    assert not any(line.startswith("Granted:") for line in desk.call("brief", desk.agent).lines)


def test_what_was_read_does_not_stand_in_the_journal(desk: Desk) -> None:
    answer = desk.deref(1, 2, who=Credential(token=desk.agent.token, idempotency_key="once"))
    journal = (desk.repository.path / ".catalog" / "memory.jsonl").read_text()
    assert answer.excerpt.splitlines()[0] not in journal


def test_the_end_is_read_when_it_is_asked_for(desk: Desk) -> None:  # EB-04
    text = "".join(f"line {number}\n" for number in range(1, 2001)) + "the last has no end"
    ref = f"artifact:{desk.gateway.tuple_space.bodies.put(text.encode())}"
    whole = desk.call("deref_pointer", LOCAL_ADMIN, pointer=ref, max_tokens=10_000, tail=True)
    assert (whole.excerpt, whole.truncated, whole.tail) == (text, False, False)
    for tokens in (80, 200, 1000):
        answers = [
            desk.call("deref_pointer", LOCAL_ADMIN, pointer=ref, max_tokens=tokens, tail=tail) for tail in (False, True)
        ]
        first, last = answers
        assert text.startswith(first.excerpt)
        assert text.endswith(last.excerpt)
        assert last.excerpt.startswith("line ")
        assert [(each.truncated, each.tail, each.content_digest) for each in answers] == [
            (True, False, whole.content_digest),
            (True, True, whole.content_digest),
        ]
        assert all(len(msgspec.json.encode(each)) <= tokens * 4 for each in answers)
    with pytest.raises(BudgetTooSmall):
        desk.call("deref_pointer", LOCAL_ADMIN, pointer=ref, max_tokens=1, tail=True)


@pytest.mark.parametrize("character", ["a", '"', "\x01", "é", "🙂"])
@pytest.mark.parametrize("lines", ["{}", "{}\n", "\n{}\n\n", "{}\r\n{}\r\n"])
def test_a_line_that_does_not_fit_by_itself_is_cut_inside(desk: Desk, character: str, lines: str) -> None:  # EB-05
    text = lines.replace("{}", f"<{character * 5000}>")
    digest = desk.gateway.tuple_space.bodies.put(text.encode())
    for tokens in (90, 200, 1001):
        asked = {"pointer": f"artifact:{digest}", "max_tokens": tokens}
        first, last = (desk.call("deref_pointer", LOCAL_ADMIN, **asked, tail=tail) for tail in (False, True))
        assert first.excerpt.strip().startswith(f"<{character}")
        assert last.excerpt.strip().endswith(f"{character}>")
        assert text.startswith(first.excerpt)
        assert text.endswith(last.excerpt)
        for each, tail in ((first, False), (last, True)):
            assert (each.truncated, each.tail, each.content_digest) == (True, tail, digest)
            room = tokens * 4 - len(msgspec.json.encode(each))
            assert 0 <= room < len(msgspec.json.encode(character)) - 2, "as much as fits, and not a character more"


def test_a_line_is_whole_where_one_fits(desk: Desk) -> None:  # EB-05
    digest = desk.gateway.tuple_space.bodies.put(b"first\n" + b"x" * 5000 + b"\nlast\n")
    for tail, line in ((False, "first\n"), (True, "last\n")):
        answer = desk.call("deref_pointer", LOCAL_ADMIN, pointer=f"artifact:{digest}", max_tokens=400, tail=tail)
        assert (answer.excerpt, answer.truncated) == (line, True)
    middle = desk.call("deref_pointer", LOCAL_ADMIN, pointer=f"artifact:{digest}#L2", max_tokens=400)
    assert set(middle.excerpt) == {"x"}


@pytest.mark.parametrize("tail", [False, True])
def test_of_one_line_larger_than_any_answer_as_much_is_read_as_an_answer_holds(desk: Desk, tail: bool) -> None:  # EB-05
    text = "<" + "é" * 5_000_000 + ">"  # more than is held of a body
    digest = desk.gateway.tuple_space.bodies.put(text.encode())
    ref = f"artifact:{digest}"
    answer = desk.call("deref_pointer", LOCAL_ADMIN, pointer=ref, max_tokens=100_000, tail=tail)
    assert 399_000 < len(msgspec.json.encode(answer)) <= 400_000
    assert text.endswith(answer.excerpt) if tail else text.startswith(answer.excerpt)
    assert (answer.truncated, answer.tail, answer.content_digest) == (True, tail, digest)
