"""The limits of dereferencing in one turn and in a run."""  # EB-08, EB-09

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from engrambus.app import init_project, open_project
from engrambus.core import estimate_tokens
from engrambus.errors import BudgetTooSmall, DerefDenied, EngramBusError
from engrambus.evidence.pointers import compact_ref
from engrambus.gateway import LOCAL_ADMIN, Credential, Gateway, to_request
from engrambus.operations import OPERATIONS
from engrambus.settings import Settings
from engrambus.testing import ManualClock, expect_refusal
from tests.projects import FILES, Repository, make_repository, make_settings


class Workspace:
    """A project with a repository and one agent."""

    def __init__(self, folder: Path) -> None:
        self.clock = ManualClock()
        self.settings: Settings = make_settings(folder / "home")
        self.repository: Repository = make_repository(folder / "repo")
        init_project(self.repository.path, self.settings, clock=self.clock)
        self.gateway: Gateway = open_project(self.repository.path, self.settings, clock=self.clock)
        self.agent = Credential(token=self.call("add_agent", LOCAL_ADMIN, name="ada", role="architect").token)

    def call(self, operation: str, caller: Credential, /, **fields: Any) -> Any:
        declared = OPERATIONS[operation]
        return self.gateway.call(declared, to_request(fields, declared.request), caller)

    def deref(self, first: int = 1, last: int = 2, max_tokens: int = 200, caller: Credential | None = None) -> Any:
        """Dereference some lines of a file."""
        ref = f"repo:src/parser.py#L{first}-L{last}@{self.repository.sha}"
        return self.call("deref_pointer", caller or self.agent, pointer=ref, max_tokens=max_tokens)

    def reopen(self) -> None:
        """Open the project as another process does."""
        self.gateway.close()
        self.gateway = open_project(self.repository.path, self.settings, clock=self.clock)


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    workspace = Workspace(tmp_path)
    yield workspace
    workspace.gateway.close()


def test_the_fourth_repo_dereference_of_a_turn_is_denied_with_a_hint(workspace: Workspace) -> None:
    for line in (1, 2, 3):
        workspace.deref(line, line)
    with pytest.raises(DerefDenied) as denied:
        workspace.deref(4, 4)
    problem = denied.value.problem()
    assert (problem["code"], problem["status"], problem["field"]) == ("DEREF_DENIED", 403, "turn.repo")
    assert (problem["limit"], problem["used"]) == (3, 3)
    assert "less.request_deref" in problem["hint"]


def test_ten_idle_minutes_open_the_next_turn(workspace: Workspace) -> None:
    for _ in range(3):
        workspace.deref()
    workspace.clock.advance(seconds=600)
    with expect_refusal("DEREF_DENIED"):
        workspace.deref()
    workspace.clock.advance(seconds=1)
    workspace.deref()


def test_counters_survive_a_restart_and_a_deleted_index(workspace: Workspace) -> None:
    for _ in range(3):
        workspace.deref()
    workspace.reopen()
    with expect_refusal("DEREF_DENIED"):
        workspace.deref()
    next(workspace.repository.path.glob(".catalog/derived-*/index.db")).unlink()
    with expect_refusal("DEREF_DENIED"):
        workspace.deref()


def test_tokens_are_counted_on_the_whole_answer_and_never_overspent(workspace: Workspace) -> None:
    workspace.call("apply_policy", LOCAL_ADMIN, policy={"deref": {"repo": 100, "tokens": 500}})
    spent = 0
    with expect_refusal("DEREF_DENIED"):
        for _ in range(100):
            answer = workspace.deref(1, 30, max_tokens=180)
            cost = estimate_tokens(msgspec.json.encode(answer))
            assert cost <= 180
            spent += cost
    assert 300 < spent <= 500


def test_the_ceiling_of_a_run_holds_for_any_number_of_turns(workspace: Workspace) -> None:
    workspace.call("apply_policy", LOCAL_ADMIN, policy={"deref": {"tokens": 300, "run_turns": 2}})
    refusals = []
    for _ in range(50):
        try:
            workspace.deref(1, 2)
        except DerefDenied as denied:
            refusals.append((denied.field, denied.limit))
        workspace.clock.advance(seconds=601)
    assert 40 < len(refusals) < 50
    assert set(refusals) == {("run.tokens", 600)}


def test_each_agent_has_its_own_budget_and_the_admin_is_not_limited(workspace: Workspace) -> None:
    for _ in range(3):
        workspace.deref()
    bob = Credential(token=workspace.call("add_agent", LOCAL_ADMIN, name="bob", role="architect").token)
    lines = [workspace.deref(line, line, caller=bob).excerpt for line in (1, 2, 3)]
    assert "".join(lines) == "".join(FILES["src/parser.py"].splitlines(keepends=True)[:3])
    for caller in (workspace.agent, bob):
        with expect_refusal("DEREF_DENIED", "turn.repo"):
            workspace.deref(caller=caller)
    assert {workspace.deref(caller=LOCAL_ADMIN).excerpt for _ in range(5)} == {lines[0] + lines[1]}


def test_one_of_many_threads_gets_the_last_dereference(workspace: Workspace) -> None:
    workspace.deref()
    workspace.deref()
    outcomes: list[str] = []
    gate = threading.Barrier(32)

    def race() -> None:
        gate.wait()
        try:
            workspace.deref()
            outcomes.append("read")
        except DerefDenied:
            outcomes.append("denied")

    threads = [threading.Thread(target=race) for _ in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["denied"] * 31 + ["read"]


def test_every_dereference_is_recorded_with_its_digest(workspace: Workspace) -> None:
    answer = workspace.deref(1, 2)
    last = (workspace.repository.path / ".catalog" / "memory.jsonl").read_text().splitlines()[-1]
    for recorded in ('"deref.proved"', answer.content_digest, answer.pointer.ref, '"agent":"ada"', '"turn":1'):
        assert recorded in last


def test_a_digest_that_was_not_read_in_the_run_is_refused(workspace: Workspace) -> None:  # EB-22
    answer = workspace.deref(1, 2, caller=LOCAL_ADMIN)
    second_run = workspace.call("open_run", LOCAL_ADMIN, goal="another run").run_id
    eve = Credential(
        token=workspace.call(
            "add_agent", Credential(local_admin=True, run=second_run), name="eve", role="architect"
        ).token
    )
    pointer = {"type": "repo", "ref": answer.pointer.ref, "digest": answer.content_digest}
    with expect_refusal("PHANTOM_READ"):  # read in the first run, cited in the second
        workspace.call("put_engram", eve, claim="The parser starts here.", pointers=[pointer])
    assert (
        workspace.call("put_engram", workspace.agent, claim="The parser starts here.", pointers=[pointer])
        .pointers[0]
        .digest
    )
    workspace.deref(1, 2, caller=eve)
    workspace.call("put_engram", eve, claim="The parser starts here.", pointers=[pointer])
    with expect_refusal("DIGEST_MISMATCH"):
        wrong = {**pointer, "digest": "sha256:" + "0" * 64}
        workspace.call("put_engram", workspace.agent, claim="The parser ends here.", pointers=[wrong])


def test_missing_files_can_be_neither_granted_nor_requested(workspace: Workspace) -> None:  # EB-09, EB-10
    for path in ("src/missing.py", "src/parser.*", "src"):
        missing = f"repo:{path}@{workspace.repository.sha}"
        code = "NOT_A_FILE" if path == "src" else "FILE_NOT_FOUND"
        with expect_refusal(code, "pointer.ref"):
            workspace.call("issue_grant", LOCAL_ADMIN, child_id="ada", pointer=missing)
        with expect_refusal(code, "pointer.ref"):
            workspace.call("request_deref", workspace.agent, pointer=missing, reason="To see.")
    assert workspace.call("list_requests", LOCAL_ADMIN).requests == []


def test_a_dereference_can_be_validated_without_doing_it(workspace: Workspace) -> None:  # EB-06
    ref = f"repo:src/parser.py#L1-L2@{workspace.repository.sha}"
    journal = workspace.repository.path / ".catalog" / "memory.jsonl"
    journal_before = journal.read_bytes()
    answer = workspace.call("validate_deref", workspace.agent, pointer=ref)
    assert (answer.ok, answer.turn, answer.tokens_left, answer.granted) == (True, 1, 1200, False)
    assert journal.read_bytes() == journal_before
    for _ in range(3):
        workspace.deref()
    answer = workspace.call("validate_deref", workspace.agent, pointer=ref)
    assert not answer.ok
    assert [problem["code"] for problem in answer.problems] == ["DEREF_DENIED"]
    issued = workspace.call("issue_grant", LOCAL_ADMIN, child_id="ada", pointer=ref, cap_tokens=300)
    answer = workspace.call("validate_deref", workspace.agent, pointer=ref)
    assert (answer.ok, answer.tokens_left, answer.granted) == (True, 300, True)
    assert (
        f"Granted: {compact_ref(ref)}, 300 tokens, 1 use ({issued.budget_token})."
        in workspace.call("brief", workspace.agent).lines
    )
    workspace.deref()
    assert not any(line.startswith("Granted:") for line in workspace.call("brief", workspace.agent).lines)


def test_what_is_left_is_told_by_type_of_pointer(workspace: Workspace) -> None:  # EB-06
    def left(caller: Credential, **fields: str) -> tuple[bool, int | None, list[str]]:
        answer = workspace.call("validate_deref", caller, **fields)
        return answer.ok, answer.reads_left, [problem["code"] for problem in answer.problems]

    assert left(workspace.agent, pointer_type="repo") == left(workspace.agent, pointer_type="diff") == (True, 3, [])
    assert left(workspace.agent, pointer_type="artifact") == (True, 2, [])
    workspace.deref()
    assert left(workspace.agent, pointer_type="repo") == (True, 2, [])
    for _ in range(2):
        workspace.deref()
    assert left(workspace.agent, pointer_type="repo") == (False, 0, ["DEREF_DENIED"])
    assert left(workspace.agent, pointer_type="sam") == (True, 2, [])
    assert left(LOCAL_ADMIN, pointer_type="repo") == (True, None, [])
    assert left(LOCAL_ADMIN, pointer_type="repo", agent_id="ada") == (False, 0, ["DEREF_DENIED"])
    assert left(LOCAL_ADMIN, pointer="src/parser.py:1", agent_id="ada") == (False, 0, ["DEREF_DENIED"])


def test_only_ancestors_ask_what_an_agent_has_left(workspace: Workspace) -> None:
    lead = Credential(token=workspace.call("add_agent", LOCAL_ADMIN, name="lead", role="manager").token)
    workspace.call("add_agent", lead, name="kid", role="programmer")
    assert workspace.call("validate_deref", lead, pointer_type="repo", agent_id="kid").reads_left == 3
    for caller, agent_id in ((workspace.agent, "kid"), (lead, "ada")):
        with pytest.raises(EngramBusError) as caught:
            workspace.call("validate_deref", caller, pointer_type="repo", agent_id=agent_id)
        assert (caught.value.code, caught.value.field) == ("NOT_YOUR_DESCENDANT", "agent_id")


@pytest.mark.parametrize("fields", [{}, {"pointer": "src/parser.py:1", "pointer_type": "repo"}])
def test_either_a_pointer_or_a_type_is_checked(workspace: Workspace, fields: dict[str, str]) -> None:
    with pytest.raises(EngramBusError) as caught:
        workspace.call("validate_deref", workspace.agent, **fields)
    assert (caught.value.code, caught.value.field) == ("FIELD_MISSING", "pointer")


def test_dereferenced_content_is_not_written_to_the_journal(workspace: Workspace) -> None:
    answer = workspace.deref(1, 2, caller=Credential(token=workspace.agent.token, idempotency_key="once"))
    journal = (workspace.repository.path / ".catalog" / "memory.jsonl").read_text()
    assert answer.excerpt.splitlines()[0] not in journal


def test_the_tail_of_a_text_can_be_read(workspace: Workspace) -> None:  # EB-04
    text = "".join(f"line {number}\n" for number in range(1, 2001)) + "the last has no end"
    ref = f"artifact:{workspace.gateway.tuple_space.bodies.put(text.encode())}"
    complete = workspace.call("deref_pointer", LOCAL_ADMIN, pointer=ref, max_tokens=20_000, tail=True)
    assert (complete.excerpt, complete.truncated, complete.tail) == (text, False, False)
    for tokens in (170, 400, 2000):
        answers = [
            workspace.call("deref_pointer", LOCAL_ADMIN, pointer=ref, max_tokens=tokens, tail=tail)
            for tail in (False, True)
        ]
        first, last = answers
        assert text.startswith(first.excerpt)
        assert text.endswith(last.excerpt)
        assert last.excerpt.startswith("line ")
        assert [(answer.truncated, answer.tail, answer.content_digest) for answer in answers] == [
            (True, False, complete.content_digest),
            (True, True, complete.content_digest),
        ]
        assert all(estimate_tokens(msgspec.json.encode(answer)) <= tokens for answer in answers)
    with pytest.raises(BudgetTooSmall):
        workspace.call("deref_pointer", LOCAL_ADMIN, pointer=ref, max_tokens=1, tail=True)


@pytest.mark.parametrize("character", ["a", '"', "\x01", "é", "🙂"])
@pytest.mark.parametrize("lines", ["{}", "{}\n", "\n{}\n\n", "{}\r\n{}\r\n"])
def test_a_line_that_is_too_long_is_cut(workspace: Workspace, character: str, lines: str) -> None:  # EB-05
    text = lines.replace("{}", f"<{character * 5000}>")
    digest = workspace.gateway.tuple_space.bodies.put(text.encode())
    for tokens in (180, 400, 1001):
        request = {"pointer": f"artifact:{digest}", "max_tokens": tokens}
        first, last = (workspace.call("deref_pointer", LOCAL_ADMIN, **request, tail=tail) for tail in (False, True))
        assert first.excerpt.strip().startswith(f"<{character}")
        assert last.excerpt.strip().endswith(f"{character}>")
        assert text.startswith(first.excerpt)
        assert text.endswith(last.excerpt)
        for answer, tail in ((first, False), (last, True)):
            assert (answer.truncated, answer.tail, answer.content_digest) == (True, tail, digest)
            used_tokens = estimate_tokens(msgspec.json.encode(answer))
            one_more = estimate_tokens(character) - estimate_tokens("") + 1
            assert tokens - one_more <= used_tokens <= tokens, "the answer is as long as fits"


def test_lines_that_fit_are_not_cut(workspace: Workspace) -> None:  # EB-05
    digest = workspace.gateway.tuple_space.bodies.put(b"first\n" + b"x" * 5000 + b"\nlast\n")
    for tail, line in ((False, "first\n"), (True, "last\n")):
        answer = workspace.call("deref_pointer", LOCAL_ADMIN, pointer=f"artifact:{digest}", max_tokens=400, tail=tail)
        assert (answer.excerpt, answer.truncated) == (line, True)
    middle = workspace.call("deref_pointer", LOCAL_ADMIN, pointer=f"artifact:{digest}#L2", max_tokens=400)
    assert set(middle.excerpt) == {"x"}


@pytest.mark.parametrize("tail", [False, True])
def test_of_a_huge_line_as_much_is_read_as_fits_an_answer(workspace: Workspace, tail: bool) -> None:  # EB-05
    text = "<" + "é" * 5_000_000 + ">"  # more than is read of a stored body
    digest = workspace.gateway.tuple_space.bodies.put(text.encode())
    ref = f"artifact:{digest}"
    answer = workspace.call("deref_pointer", LOCAL_ADMIN, pointer=ref, max_tokens=100_000, tail=tail)
    assert 99_990 < estimate_tokens(msgspec.json.encode(answer)) <= 100_000
    assert text.endswith(answer.excerpt) if tail else text.startswith(answer.excerpt)
    assert (answer.truncated, answer.tail, answer.content_digest) == (True, tail, digest)
