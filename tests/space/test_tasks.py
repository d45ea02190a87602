"""Tasks that agents and people do themselves, from adding one to its receipt. # YT-05 # YT-06 # EB-29"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engrambus import Bus
from engrambus.core import digest, estimate_tokens
from engrambus.core.process_names import process_name
from engrambus.errors import (
    DependencyCycle,
    EngramBusError,
    FieldValue,
    IdAmbiguous,
    LaneFull,
    NoTaskReady,
    StaleFence,
    TaskBlocked,
    TaskEvidence,
    TaskHeld,
    TaskLost,
    TupleEnded,
    TupleNotFound,
)
from engrambus.gateway import Credential, Gateway
from engrambus.operations.tasks import MAX_NOTE_CHARS
from engrambus.settings import Settings
from engrambus.space.catalog import CAPABILITIES, Catalog, CatalogEntry, write_catalog
from engrambus.testing import ManualClock
from tests.projects import Repository, commit_files, make_gateway

LINES = "src/parser.py:1-5"
LEASE_SECONDS = 1800


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def project(repository: Repository, settings: Settings, clock: ManualClock) -> Iterator[Gateway]:
    """A project with a clock to turn."""
    with_clock = make_gateway(repository.path, settings, clock)
    yield with_clock
    with_clock.close()


@pytest.fixture
def person(project: Gateway) -> Bus:
    return Bus(project, Credential(local_admin=True), owns_transport=False)


@pytest.fixture
def amber(person: Bus) -> Bus:
    """An agent of the first run."""
    return speaker(person, "amber")


@pytest.fixture
def boris(person: Bus) -> Bus:
    """Another agent of that run."""
    return speaker(person, "boris")


def speaker(person: Bus, name: str) -> Bus:
    """Add an agent and return a bus that calls with its token."""
    token = person.add_agent(name, role="programmer").token
    return Bus(person._transport, Credential(token=token), owns_transport=False)


def titles(bus: Bus) -> list[str]:
    return [row.title for row in bus.ready_tasks().tasks]


def journal(repository: Repository) -> bytes:
    return (repository.path / ".catalog" / "tuples.jsonl").read_bytes()


def test_the_first_ready_one_has_the_highest_priority_then_is_due_first_then_is_the_oldest(
    person: Bus, amber: Bus
) -> None:
    person.add_task("old")
    person.add_task("due late", due="P9D")
    person.add_task("due soon", due="PT1H")
    person.add_task("urgent", priority=5)
    person.add_task("new")
    assert titles(amber) == ["urgent", "due soon", "due late", "old", "new"]
    assert amber.claim_task().title == "urgent"
    assert amber.claim_task().title == "due soon"


def test_a_task_is_a_tuple_with_the_published_id(person: Bus, amber: Bus, project: Gateway) -> None:
    added = amber.add_task("Rename the parser", at=[LINES], priority=3)
    space = project.tuple_space.space
    public = space.public_tuple(added.id)
    assert (public["lane"], public["payload"][0]["yool"]) == ("agent.task", "agent.task.do")
    assert public["authority"]["agent"].endswith("/amber")
    assert public["src_ptr"] == added.at
    assert added.at[0].startswith("repo:src/parser.py#L1-L5@")
    assert person.show_task(added.id[7:19]).title == "Rename the parser"
    assert person.tuple_observe(added.id).state == "waiting"


def test_what_comes_after_is_ready_when_the_first_is_done(person: Bus, amber: Bus) -> None:
    first = amber.add_task("first")
    second = amber.add_task("second", after=[first.id[7:19]])
    assert (second.state, second.blocked_on) == ("blocked", [first.id])
    with pytest.raises(TaskBlocked, match="waits for"):
        amber.claim_task(second.id)
    amber.claim_task(first.id)
    done = amber.finish_task(first.id, evidence=[LINES], note="all callers, too")
    assert [row.title for row in done.ready] == ["second"]
    assert amber.claim_task().id == second.id


def test_done_needs_evidence_that_leads_somewhere(
    person: Bus, amber: Bus, repository: Repository, project: Gateway
) -> None:
    task = amber.add_task("prove it")
    amber.claim_task()
    before = journal(repository)
    for evidence in ([], ["src/absent.py:1"], ["src/parser.py:900"], ["it works"], ["sha256:" + "0" * 64]):
        with pytest.raises(TaskEvidence) as refused:
            amber.finish_task(task.id, evidence=evidence)
        assert str(refused.value.field).startswith("evidence")
        assert "src/a.py:10-20" in str(refused.value.hint) or "receipt" in refused.value.detail
    assert journal(repository) == before
    commit_files(repository.path, {})
    commit_files(repository.path, {"src/parser.py": "better\n", "src/new.py": "new\n"})
    done = amber.finish_task(task.id, evidence=["HEAD", LINES.replace("1-5", "1")])
    assert [item.ref.partition("@")[0] for item in done.evidence] == [
        "diff:src/new.py",
        "diff:src/parser.py",
        "repo:src/parser.py#L1-L1",
    ]
    assert done.evidence[2].digest == digest(b"better\n")
    final = project.tuple_space.space.receipt(done.receipt_id)
    assert (final.yool, final.exit, list(final.evidence)) == ("tuple.run", 0, done.evidence)
    assert str(final.worker).endswith("/amber")
    with pytest.raises(TupleEnded):
        amber.finish_task(task.id, evidence=["HEAD"])


def test_the_first_commit_is_no_evidence_by_itself(person: Bus, repository: Repository) -> None:
    subprocess.run(["git", "checkout", "-q", "--orphan", "fresh"], cwd=repository.path, check=True)
    commit_files(repository.path, {"src/parser.py": "first\n"})
    task = person.add_task("prove it")
    with pytest.raises(TaskEvidence, match="It is the first commit"):
        person.finish_task(task.id, evidence=["HEAD"])
    assert person.finish_task(task.id, evidence=["src/parser.py:1"]).evidence


def test_a_receipt_is_evidence_only_if_its_step_succeeded(person: Bus, amber: Bus, repository: Repository) -> None:
    passed = '<testsuite name="t" tests="1"><testcase classname="t" name="a"/></testsuite>'
    failed = passed.replace("/></testsuite>", '><failure message="no"/></testcase></testsuite>')
    good = person.record_tests(report=passed).receipt_id
    bad = person.record_tests(report=failed).receipt_id
    task = person.add_task("make it green")
    with pytest.raises(TaskEvidence, match="ended with 1"):
        person.finish_task(task.id, evidence=[bad])
    assert person.finish_task(task.id, evidence=[good[7:19]]).evidence[0].ref == good


def test_a_crashed_agents_task_comes_back_with_what_it_noted(
    person: Bus, amber: Bus, boris: Bus, clock: ManualClock
) -> None:
    task = person.add_task("long work")
    first = amber.claim_task()
    assert (first.attempts, titles(boris)) == (1, [])
    with pytest.raises(NoTaskReady):
        boris.claim_task()
    with pytest.raises(TaskHeld, match="amber has the task until"):
        boris.claim_task(task.id)
    clock.advance(seconds=LEASE_SECONDS + 1)
    assert person.show_task(task.id).begun_by == first.claimed_by
    assert titles(boris) == ["long work"]
    second = boris.claim_task()
    assert (second.id, second.attempts) == (task.id, 2)
    assert [(note.what, note.by.rpartition("/")[2]) for note in second.history] == [
        ("claimed", "amber"),
        ("claimed", "boris"),
    ]
    with pytest.raises(TaskLost, match="boris claimed the task after your lease had ended"):
        amber.finish_task(task.id, evidence=[LINES])
    with pytest.raises(TaskLost):
        amber.finish_task(task.id, evidence=[LINES], fence=first.fence)
    boris.finish_task(task.id, evidence=[LINES], fence=second.fence)


def test_any_call_renews_the_lease_and_few_lines_are_written(
    person: Bus, amber: Bus, boris: Bus, clock: ManualClock, repository: Repository
) -> None:
    task = person.add_task("long work")
    amber.claim_task()
    for _ in range(24):  # two hours
        clock.advance(seconds=300)
        amber.query_engrams(q="anything")
    assert person.show_task(task.id).state == "claimed"
    lines = journal(repository).count(b"lease.renewed")
    for _ in range(50):
        amber.query_engrams(q="anything")
    assert journal(repository).count(b"lease.renewed") == lines <= 24
    boris.query_engrams(q="anything")  # another's call renews nothing
    clock.advance(seconds=LEASE_SECONDS + 1)
    boris.query_engrams(q="anything")
    assert person.show_task(task.id).state == "ready"
    amber.query_engrams(q="anything")  # nobody has taken it meanwhile
    assert person.show_task(task.id).claimed_by == amber.show_task(task.id).claimed_by is not None


def test_a_claim_ends_with_its_process(person: Bus, amber: Bus, boris: Bus) -> None:
    ended = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    name = process_name(ended.pid)
    task = person.add_task("in a client")
    amber.claim_task(process=name)
    assert person.show_task(task.id).state == "claimed"
    ended.communicate()
    assert person.show_task(task.id).state == "ready"
    assert boris.claim_task().attempts == 2
    assert os.getpid() != ended.pid


def test_a_persons_claim_lasts(person: Bus, amber: Bus, clock: ManualClock) -> None:
    task = person.add_task("mine")
    person.claim_task(task.id)
    clock.advance(seconds=3 * 86_400)
    assert person.show_task(task.id).mine
    with pytest.raises(TaskHeld):
        amber.claim_task(task.id)
    clock.advance(seconds=5 * 86_400)
    assert amber.claim_task(task.id).claimed_by != "admin"


def test_a_task_for_an_agent_is_its_own_until_it_is_gone(person: Bus, amber: Bus, boris: Bus) -> None:
    task = person.add_task("for amber", for_agent="amber")
    assert (titles(amber), titles(boris)) == (["for amber"], [])
    with pytest.raises(TaskHeld, match="is for"):
        boris.claim_task(task.id)
    person.remove_agent("amber")
    assert boris.claim_task().id == task.id
    boris.release_tasks(note="half of it is done")
    given = person.give_task(task.id, "boris")
    assert given.owner.endswith("/boris")
    assert person.give_task(task.id, "nobody").owner == ""
    assert [note.what for note in person.show_task(task.id).history] == ["claimed", "released", "given", "given"]
    assert person.show_task(task.id).history[1].text == "half of it is done"


def test_others_do_not_change_a_task_that_somebody_has(person: Bus, amber: Bus, boris: Bus) -> None:
    task = amber.add_task("amber's", for_agent="amber")
    for change in (
        lambda: boris.block_task(task.id, note="no"),
        lambda: boris.give_task(task.id, "boris"),
        lambda: boris.cancel_task(task.id),
    ):
        with pytest.raises(TaskHeld):
            change()
    amber.block_task(task.id, note="the licence is not decided")
    assert amber.show_task(task.id).blocked == ["blocked: the licence is not decided (amber)"]
    person.unblock_task(task.id)
    assert person.cancel_task(task.id).id == task.id
    assert person.list_tasks().tasks == []
    assert [row.state for row in person.list_tasks(all=True).tasks] == ["cancelled"]


def test_circles_are_refused_and_why_says_what_to_do_about_a_cancelled_one(person: Bus, repository: Repository) -> None:
    first = person.add_task("first")
    second = person.add_task("second", after=[first.id])
    third = person.add_task("third", after=[second.id])
    before = journal(repository)
    with pytest.raises(DependencyCycle, match=f"{first.id[7:19]} waits for {third.id[7:19]} waits for"):
        person.block_task(first.id, after=[third.id])
    with pytest.raises(DependencyCycle):
        person.block_task(first.id, after=[first.id])
    assert journal(repository) == before
    person.cancel_task(second.id)
    answer = person.why(third.id)
    assert answer.waits_for == [f"It waits for {second.id[7:19]}, which was cancelled."]
    assert f"engrambus task unblock {third.id[7:19]} --on {second.id[7:19]}" in answer.next[0]
    assert person.unblock_task(third.id, after=[second.id]).state == "ready"


def test_tasks_are_the_projects_and_other_tuples_are_their_runs(person: Bus, amber: Bus) -> None:
    task = person.add_task("outlives the run")
    person.end_run(person.list_runs().runs[0].run_id)
    person.open_run("another goal")
    clara = speaker(person, "clara")
    assert clara.show_task(task.id).title == "outlives the run"
    assert clara.claim_task().id == task.id
    assert person.list_work().runs == []


def test_a_role_sees_no_task_about_files_it_may_not_see(person: Bus, amber: Bus) -> None:
    hidden = person.add_task("secret", at=["docs/design.md:1-3"])
    person.add_task("open", at=[LINES])
    person.apply_policy({"visibility": {"programmer": {"paths": ["!docs/*"]}}})
    assert titles(amber) == ["open"]
    assert [row.title for row in amber.list_tasks(all=True).tasks] == ["open"]
    with pytest.raises(TupleNotFound):
        amber.show_task(hidden.id)
    with pytest.raises(TupleNotFound):
        amber.claim_task(hidden.id)


def test_the_brief_says_what_is_to_be_done_in_a_few_lines(person: Bus, amber: Bus) -> None:
    tasks = [person.add_task(f"task {number}") for number in range(5)]
    amber.claim_task(tasks[0].id)
    lines = [line for line in amber.brief().lines if "task" in line]
    assert lines == [
        f"Your task {tasks[0].id[7:19]}: task 0",
        f"Ready task {tasks[1].id[7:19]}: task 1, +3 more: task claim",
    ]
    assert estimate_tokens("\n".join(lines)) < 60
    assert not any("task" in line for line in person.brief(role="programmer").lines)


def test_secrets_and_code_are_refused_in_titles_and_notes(person: Bus, amber: Bus, repository: Repository) -> None:
    task = amber.add_task("plain")
    before = journal(repository)
    secret = "ghp_" + "a1B2c3D4e5" * 3 + "f6G7h8"
    code = "def f(x):\n    return [y for y in x if y]\n\nfor i in range(9):\n    print(f(i))\n" * 4
    calls: list[Any] = [
        lambda text: amber.add_task(text[:200]),
        lambda text: amber.finish_task(task.id, evidence=[LINES], note=text[:MAX_NOTE_CHARS]),
        lambda text: amber.block_task(task.id, note=text[:MAX_NOTE_CHARS]),
    ]
    for call in calls:
        for text, code_of in ((f"use {secret}", "SECRET_FOUND"), (code, "BUDGET_EXCEEDED")):
            with pytest.raises(EngramBusError) as refused:
                call(text)
            assert refused.value.code == code_of
    assert journal(repository) == before


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"title": "   "}, "title"),
        ({"title": "x", "due": "soon"}, "due"),
        ({"title": "x", "due": "P-1D"}, "due"),
        ({"title": "x", "due": "2027-01-31T12:00:00"}, "due"),
        ({"title": "x", "priority": 1001}, "priority"),
        ({"title": "x", "after": ["abcdef12"]}, "after[0]"),
        ({"title": "x", "at": ["src/absent.py:1"]}, "at[0]"),
        ({"title": "x", "for_agent": "nobody-knows"}, "for_agent"),
        ({"title": "x" * 201}, "title"),
    ],
)
def test_bad_input_names_its_field(person: Bus, amber: Bus, fields: dict[str, Any], field: str) -> None:
    for bus in (person, amber):
        with pytest.raises(EngramBusError) as refused:
            bus.add_task(**fields)
        assert str(refused.value.field).startswith(field)
    assert person.list_tasks(all=True).tasks == []


def test_done_without_a_claim_claims_it_and_a_stale_fence_is_refused(person: Bus, amber: Bus, boris: Bus) -> None:
    task = person.add_task("quick")
    first = amber.claim_task()
    amber.release_tasks()
    with pytest.raises(StaleFence):
        amber.finish_task(task.id, evidence=[LINES], fence=first.fence)
    done = boris.finish_task(task.id[7:19], evidence=[LINES])
    assert [(note.what) for note in person.show_task(done.id).history] == ["claimed", "released", "claimed", "done"]


def test_other_tuples_wait_for_tasks_and_do_not_get_into_their_lane(
    person: Bus, amber: Bus, repository: Repository
) -> None:
    entry = CatalogEntry(name="agent.lint.ruff", version=1, authority=("user", "agent"), lane="build")
    write_catalog(repository.path / ".catalog" / CAPABILITIES, Catalog([entry]))
    task = amber.add_task("decide")
    steps = [{"yool": "agent.lint.ruff", "args": {}}]
    waiting = person.tuple_out("build", payload=steps, after=[task.id[7:19]])
    assert person.tuple_observe(waiting.id).state == "blocked"
    with pytest.raises(FieldValue, match="is for tasks"):
        person.tuple_out("agent.task", payload=steps)
    assert [row.id for row in person.work_board().blocked] == [waiting.id]
    done = amber.finish_task(task.id, evidence=[LINES])
    assert (done.unblocked, done.ready) == ([waiting.id], [])
    board = person.work_board()
    assert (board.blocked, board.unclaimed[0].tuples) == ([], 1)
    assert [item.lane for item in board.lanes] == ["build"]


def test_no_worker_is_missed_for_a_task(person: Bus, amber: Bus, project: Gateway) -> None:
    person.add_task("think")
    assert person.work_board().unclaimed == []
    assert person.list_work().unclaimed == []
    (row,) = person.work_board().tasks
    assert (row.state, row.title) == ("ready", "think")
    assert project.tuple_space.space.claim({}, worker="w") == []


def test_everything_is_the_same_after_a_rebuild(
    person: Bus, amber: Bus, project: Gateway, clock: ManualClock, repository: Repository
) -> None:
    first = person.add_task("first", for_agent="amber", due="P1D")
    person.add_task("second", after=[first.id])
    amber.claim_task()
    amber.block_task(first.id, note="why not")
    before = person.list_tasks(all=True), person.show_task(first.id), person.work_board()
    store = project.tuple_space.space.store
    store.rebuild()
    assert (person.list_tasks(all=True), person.show_task(first.id), person.work_board()) == before
    assert store.verify() == []
    assert Path(repository.path).exists()


def test_ambiguous_beginnings_and_a_full_lane_are_refused(person: Bus, project: Gateway) -> None:
    import msgspec

    space = project.tuple_space.space
    space.settings = msgspec.structs.replace(space.settings, queue_maxsize=40)
    added = [person.add_task(f"task {number}").id for number in range(40)]
    with pytest.raises(LaneFull):
        person.add_task("one too many")
    with pytest.raises((IdAmbiguous, TupleNotFound)):
        person.show_task("sha256:")
    assert len(set(added)) == 40
    assert len(person.list_tasks(limit=5).tasks) == 5
    assert person.list_tasks(limit=5).more == 35


def test_an_agent_may_change_the_tasks_of_agents_below_it(person: Bus, boris: Bus) -> None:
    """Others may not; a grandparent may as well."""
    architect = Bus(person._transport, Credential(token=person.add_agent("ada", role="architect").token))
    director = Bus(person._transport, Credential(token=architect.add_agent("dora", role="director").token))
    child = Bus(person._transport, Credential(token=director.add_agent("carl", role="manager").token))
    task = person.add_task("write the parser").id
    child.claim_task(task)
    with pytest.raises(TaskHeld):
        boris.block_task(task, note="no")
    with pytest.raises(TaskHeld):
        boris.cancel_task(task)
    assert director.block_task(task, note="wait").state == "blocked"
    assert director.unblock_task(task).state == "ready"
    assert architect.give_task(task, "carl").owner is not None
    with pytest.raises(TaskHeld):
        boris.give_task(task, "nobody")
    architect.cancel_task(task)
    assert person.show_task(task).state == "cancelled"
