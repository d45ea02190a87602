"""`engrambus resume` continues unfinished work and says what becomes of each tuple. # YT-05 # YT-10"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from engrambus.app import open_project
from engrambus.core import SECOND_US, SystemClock, print_time, short_id
from engrambus.core.process_names import process_name
from engrambus.settings import Settings
from engrambus.space.tuples import TupleSpace
from engrambus.testing.work import PERSON
from tests.projects import Repository
from tests.space.terminal import WORK, Terminal, open_terminal
from tests.space.worker_harness import open_worker_harness, step, wait_until

DEAD_WORKER = f"{process_name().partition('/')[0]}/{2**22 + 1}.1"
"""Name of a worker whose process id does not exist."""


@pytest.fixture
def terminal(repository: Repository, settings: Settings, tmp_path: Path) -> Terminal:
    """Open a project whose catalog declares the yools of two modules."""
    return open_terminal(repository, settings, tmp_path, "tests.space.yools", "examples.work.yools")


def put(
    terminal: Terminal, *steps: dict[str, Any], claimed_by: str | None = None, late: bool = False, **fields: Any
) -> str:
    """Put a tuple into the project's run, claimed or past its deadline if requested; return its id."""
    run = terminal.json("run", "list")["runs"][0]["run_id"]
    with closing(open_project(terminal.path, Settings.from_environment(terminal.environment))) as gateway:
        space = gateway.tuple_space.space
        if late:
            fields["agent_terms"] = {"deadline_iso": soon()}
        (result,) = space.out({"lane": "build", "payload": list(steps), **fields}, authority=PERSON, run=run)
        wait_until(lambda: not late or is_late(space, result.id))
        if claimed_by is not None:
            assert space.claim({"id": result.id}, worker=claimed_by)
        return result.id


def soon() -> str:
    """Return a time one second from now."""
    return print_time(SystemClock().now() + SECOND_US)


def is_late(space: TupleSpace, tuple_id: str) -> bool:
    """True if a tuple's deadline has passed."""
    return (space.get(tuple_id).deadline_us or 0) <= SystemClock().now()


READING = "[resume] reading .catalog/tuples.jsonl\n"


def resume(terminal: Terminal, module: str = "tests.space.yools", *words: str, code: int = 0) -> tuple[str, str]:
    """Run `engrambus resume`; return its output and its standard error after the first line."""
    process = terminal.start("resume", "--import", module, *words)
    out, err = process.communicate(timeout=120)
    assert process.returncode == code, (out, err)
    assert err.startswith(READING)
    return out, err.removeprefix(READING)


def test_a_tuple_without_steps_is_left_for_its_reader(terminal: Terminal) -> None:
    fact = put(terminal, lane="facts", map_pos={"about": "lunch"})
    work = put(terminal, step("agent.sum.numbers", a=1, b=2))
    resume(terminal)
    assert terminal.json("observe", work)["state"] == "done"
    assert terminal.json("observe", fact)["state"] == "waiting"
    assert terminal.json("in", "--lane", "facts")["tuple"]["id"] == fact


def test_a_tuple_without_code_for_its_steps_is_named_and_left_as_it_was(terminal: Terminal) -> None:
    ours = put(terminal, step("agent.sum.numbers", a=1, b=2))
    theirs = put(terminal, step("agent.count.words", text="one two"), lane="other")
    mixed = put(
        terminal, step("agent.sum.numbers", a=1, b=2), step("agent.count.words", text="one"), claimed_by=DEAD_WORKER
    )
    out, err = resume(terminal)
    assert terminal.json("observe", ours)["state"] == "done"
    assert f"{short_id(theirs)} is left alone: no code here carries out agent.count.words" in err
    assert f"re-emitting {short_id(mixed)} from step 1 (agent.sum.numbers)" in err
    assert f"{short_id(mixed)} waits for a worker with code for agent.count.words" in out
    assert "1 tuple needs agent.count.words.v1, which no code here carries out: --import MODULE" in out
    assert "dead letter" not in out
    statuses = [terminal.json("observe", tuple_id) for tuple_id in (theirs, mixed)]
    # The attempt of the dead worker counts, that of the one which handed the tuple on does not.
    assert [(status["state"], status["attempts"]) for status in statuses] == [("waiting", 0), ("waiting", 1)]
    _, err = resume(terminal, "examples.work.yools")
    assert f"{short_id(mixed)} has receipts for [agent.sum.numbers]" in err
    for tuple_id in (theirs, mixed):
        assert terminal.json("observe", tuple_id)["state"] == "done"


def test_a_tuple_without_attempts_left_is_reported_as_a_dead_letter(terminal: Terminal) -> None:
    terms = {"max_retries": 0}
    tuple_id = put(terminal, step("agent.sum.numbers", a=1, b=2), agent_terms=terms, claimed_by=DEAD_WORKER)
    out, err = resume(terminal, code=1)
    assert terminal.json("observe", tuple_id)["state"] == "dead"
    assert f"{short_id(tuple_id)} is a dead letter (the worker was lost)" in out
    assert "re-emitting" not in err


def test_a_late_tuple_is_reported_as_a_dead_letter(terminal: Terminal) -> None:
    tuple_id = put(terminal, step("agent.sum.numbers", a=1, b=2), late=True)
    out, err = resume(terminal, code=1)
    assert terminal.json("observe", tuple_id)["state"] == "dead"
    assert f"{short_id(tuple_id)} is a dead letter (DEADLINE_PAST)" in out
    assert "re-emitting" not in err


def test_a_tuple_of_a_living_worker_is_not_resumed(terminal: Terminal) -> None:
    tuple_id = put(terminal, step("agent.sum.numbers", a=1, b=2))
    with closing(open_project(terminal.path, Settings.from_environment(terminal.environment))) as gateway:
        (claim,) = gateway.tuple_space.space.claim({"id": tuple_id}, worker=f"elsewhere/{2**22 + 1}.1")
        process = terminal.start("resume", "--import", "tests.space.yools")
        assert process.stderr is not None
        assert process.stderr.readline() == READING
        assert process.stderr.readline() == f"[resume] {short_id(tuple_id)} is being worked on by {claim.worker}\n"
        gateway.tuple_space.space.release([(claim.id, claim.fence)])
        process.communicate(timeout=120)
    assert terminal.json("observe", tuple_id)["state"] == "done"


def new_run(terminal: Terminal, goal: str) -> str:
    """Begin a run, which becomes the current one; return its id."""
    return str(terminal.json("run", "new", goal)["run_id"])


def test_the_chosen_run_is_resumed(terminal: Terminal) -> None:
    runs = [new_run(terminal, goal) for goal in ("first", "second", "third", "fourth")]
    ids = []
    for number, run in enumerate(runs):
        numbers = ("--arg", f"a={number}", "--arg", "b=1")
        ids.append(terminal.json("out", "--run", run, "--lane", "build", "--yool", "agent.sum.numbers", *numbers)["id"])
    resume(terminal, "tests.space.yools", "--run", runs[1])
    assert [terminal.json("observe", tuple_id)["state"] for tuple_id in ids] == [
        "waiting",
        "done",
        "waiting",
        "waiting",
    ]
    terminal.environment["ENGRAMBUS_RUN"] = runs[0]
    resume(terminal)
    assert [terminal.json("observe", tuple_id)["state"] for tuple_id in ids] == ["done", "done", "waiting", "waiting"]
    out, err = resume(terminal)
    assert "agent.sum.numbers" not in out
    assert err == (
        f"[resume] nothing is left to do in run {runs[0]}\n"
        f"[resume] work is unfinished in {runs[3]}, {runs[2]} (--run RUN)\n"
    )
    assert "RUN_NOT_FOUND" in terminal.run("resume", "--run", "XYZ", code=1)


def test_a_worker_with_a_run_works_on_no_other(terminal: Terminal) -> None:
    runs = [new_run(terminal, goal) for goal in ("first", "second")]
    command = ("out", "--lane", "build", "--yool", "agent.sum.numbers", "--arg", "a=1", "--arg", "b=1")
    ids = [terminal.json(*command, "--run", run)["id"] for run in runs]
    terminal.run(*WORK, "--run", runs[0])
    assert [terminal.json("observe", tuple_id)["state"] for tuple_id in ids] == ["done", "waiting"]
    assert "RUN_NOT_FOUND" in terminal.run(*WORK, "--run", "XYZ", code=1)
    terminal.run(*WORK)
    assert [terminal.json("observe", tuple_id)["state"] for tuple_id in ids] == ["done", "done"]


def test_a_worker_with_the_token_of_a_run_works_on_no_other(terminal: Terminal) -> None:
    """A token of one run cannot see another."""
    runs = [new_run(terminal, goal) for goal in ("first", "second")]
    command = ("out", "--lane", "build", "--yool", "agent.sum.numbers", "--arg", "a=1", "--arg", "b=1")
    ids = [terminal.json(*command, "--run", run)["id"] for run in runs]
    terminal.environment["ENGRAMBUS_TOKEN"] = terminal.json("agent", "add", "ada", "--role", "architect")["token"]
    terminal.run(*WORK)
    del terminal.environment["ENGRAMBUS_TOKEN"]
    assert [terminal.json("observe", tuple_id)["state"] for tuple_id in ids] == ["waiting", "done"]


def test_without_a_choice_the_newest_run_with_unfinished_work_is_resumed(terminal: Terminal) -> None:
    assert resume(terminal) == ("", "[resume] nothing is left to do\n")
    first, tuple_id = new_run(terminal, "first"), put(terminal, step("agent.sum.numbers", a=1, b=2))
    second, two = new_run(terminal, "second"), put(terminal, step("agent.sum.numbers", a=3, b=4))
    new_run(terminal, "all done, but for what only says something")
    put(terminal, step("agent.sum.numbers", a=5, b=6), lane="other")
    put(terminal, lane="facts", map_pos={"about": "lunch"})
    terminal.run("worker", "--lane", "other", "--until-empty", "--import", "tests.space.yools")
    _, err = resume(terminal)
    assert [terminal.json("observe", each)["state"] for each in (tuple_id, two)] == ["waiting", "done"]
    assert err.splitlines()[:2] == [
        f"[resume] run {second} goes on",
        f"[resume] work is unfinished in {first} (--run RUN)",
    ]
    _, err = resume(terminal)
    assert terminal.json("observe", tuple_id)["state"] == "done"
    assert "(--run RUN)" not in err
    assert resume(terminal) == ("", "[resume] nothing is left to do\n")


def test_a_worker_reports_a_tuple_that_ended_instead_of_being_claimed(tmp_path: Path) -> None:
    with open_worker_harness(tmp_path / "project") as harness:
        late = harness.put(step("agent.sum.numbers", a=1, b=2), agent_terms={"deadline_iso": soon()})
        wait_until(lambda: is_late(harness.space, late))
        assert harness.work() == ["dead"]
        (progress,) = harness.progress
        assert (progress.tuple_id, progress.error) == (late, "DEADLINE_PAST")
        assert progress.receipt == harness.receipts(late)[-1].id
