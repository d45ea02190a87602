"""`engrambus resume` goes on with work and nothing else; what it says of a tuple becomes of it. # YT-05 # YT-10"""

from __future__ import annotations

import socket
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from engrambus.app import open_project
from engrambus.core import SECOND_US, SystemClock, print_time
from engrambus.settings import Settings
from engrambus.space.tuples import TupleSpace, read_pattern
from engrambus.space.work import LaneWorkerPool
from engrambus.testing.work import PERSON
from tests.projects import Repository
from tests.space.shop import open_shop, step, until
from tests.space.terminal import WORK, Terminal, open_terminal

GONE = f"{socket.gethostname()}/{2**22 + 1}.1"
"""A worker of a process no machine has."""


@pytest.fixture
def terminal(repository: Repository, settings: Settings, tmp_path: Path) -> Terminal:
    """A project with a catalog of yools from two modules."""
    return open_terminal(repository, settings, tmp_path, "tests.space.yools", "examples.work.yools")


def put(
    terminal: Terminal, *steps: dict[str, Any], claimed_by: str | None = None, late: bool = False, **more: Any
) -> str:
    """Put a tuple into the project's run, in somebody's hands perhaps, or past its deadline; its id."""
    run = terminal.json("run", "list")["runs"][0]["run_id"]
    with closing(open_project(terminal.path, Settings.from_environment(terminal.environment))) as gateway:
        space = gateway.tuple_space.space
        if late:
            more["agent_terms"] = {"deadline_iso": soon()}
        (one,) = space.out({"lane": "build", "payload": list(steps), **more}, authority=PERSON, run=run)
        until(lambda: not late or is_late(space, one.id))
        if claimed_by is not None:
            assert space.claim({"id": one.id}, worker=claimed_by)
        return one.id


def soon() -> str:
    """A moment that has not come yet."""
    return print_time(SystemClock().now() + SECOND_US)


def is_late(space: TupleSpace, tuple_id: str) -> bool:
    """Whether a tuple's deadline has passed."""
    return (space.get(tuple_id).deadline_us or 0) <= SystemClock().now()


def resume(terminal: Terminal, module: str = "tests.space.yools", *words: str) -> tuple[str, str]:
    """What it prints, and what it says besides."""
    process = terminal.start("resume", "--import", module, *words)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, (out, err)
    return out, err


def test_what_only_says_something_waits_for_its_reader(terminal: Terminal) -> None:
    fact = put(terminal, lane="facts", map_pos={"about": "lunch"})
    work = put(terminal, step("agent.sum.numbers", a=1, b=2))
    resume(terminal)
    assert terminal.json("observe", work)["state"] == "done"
    assert terminal.json("observe", fact)["state"] == "waiting"
    assert terminal.json("in", "--lane", "facts")["tuple"]["id"] == fact


def test_what_no_code_here_carries_out_is_named_and_left_as_it_was(terminal: Terminal) -> None:
    ours = put(terminal, step("agent.sum.numbers", a=1, b=2))
    theirs = put(terminal, step("agent.count.words", text="one two"), lane="other")
    mixed = put(terminal, step("agent.sum.numbers", a=1, b=2), step("agent.count.words", text="one"), claimed_by=GONE)
    out, err = resume(terminal)
    assert terminal.json("observe", ours)["state"] == "done"
    for each in (theirs, mixed):
        assert f"{each[:19]}… is left alone: no code here carries out agent.count.words" in err
        assert terminal.json("observe", each)["state"] == "waiting"
    assert "dead letter" not in out
    assert terminal.json("observe", theirs)["attempts"] == 0
    resume(terminal, "examples.work.yools")
    assert terminal.json("observe", theirs)["state"] == "done"


def test_what_had_its_last_attempt_is_said_to_be_a_dead_letter(terminal: Terminal) -> None:
    terms = {"max_retries": 0}
    one = put(terminal, step("agent.sum.numbers", a=1, b=2), agent_terms=terms, claimed_by=GONE)
    out, err = resume(terminal)
    assert terminal.json("observe", one)["state"] == "dead"
    assert f"{one[:19]}… is a dead letter (the worker was lost)" in out
    assert "goes on" not in err


def test_what_is_late_is_said_to_be_a_dead_letter(terminal: Terminal) -> None:
    one = put(terminal, step("agent.sum.numbers", a=1, b=2), late=True)
    out, err = resume(terminal)
    assert terminal.json("observe", one)["state"] == "dead"
    assert f"{one[:19]}… is a dead letter (DEADLINE_PAST)" in out
    assert "goes on" not in err


def test_what_a_live_worker_holds_does_not_go_on_here(terminal: Terminal) -> None:
    one = put(terminal, step("agent.sum.numbers", a=1, b=2))
    with closing(open_project(terminal.path, Settings.from_environment(terminal.environment))) as gateway:
        (claim,) = gateway.tuple_space.space.claim({"id": one}, worker=f"elsewhere/{2**22 + 1}.1")
        process = terminal.start("resume", "--import", "tests.space.yools")
        assert process.stderr is not None
        assert process.stderr.readline() == f"[resume] {one[:19]}… is being worked on by {claim.worker}\n"
        gateway.tuple_space.space.release([(claim.id, claim.fence)])
        process.communicate(timeout=120)
    assert terminal.json("observe", one)["state"] == "done"


def new_run(terminal: Terminal, goal: str) -> str:
    """Begin a run that is the current one from now on; its id."""
    return str(terminal.json("run", "new", goal)["run_id"])


def test_a_chosen_run_is_the_one_that_goes_on(terminal: Terminal) -> None:
    runs = [new_run(terminal, goal) for goal in ("first", "second", "third", "fourth")]
    ones = []
    for number, run in enumerate(runs):
        numbers = ("--arg", f"a={number}", "--arg", "b=1")
        ones.append(
            terminal.json("out", "--run", run, "--lane", "build", "--yool", "agent.sum.numbers", *numbers)["id"]
        )
    resume(terminal, "tests.space.yools", "--run", runs[1])
    assert [terminal.json("observe", one)["state"] for one in ones] == ["waiting", "done", "waiting", "waiting"]
    terminal.environment["ENGRAMBUS_RUN"] = runs[0]
    resume(terminal)
    assert [terminal.json("observe", one)["state"] for one in ones] == ["done", "done", "waiting", "waiting"]
    out, err = resume(terminal)
    assert "agent.sum.numbers" not in out
    assert err == (
        f"[resume] nothing is left to do in run {runs[0]}\n"
        f"[resume] work is unfinished in {runs[3]}, {runs[2]} (--run RUN)\n"
    )
    assert "RUN_NOT_FOUND" in terminal.run("resume", "--run", "XYZ", code=1)
    assert "No such option" in terminal.run("resume", "--run-id", runs[2], code=2)


def test_a_worker_told_of_a_run_works_on_no_other(terminal: Terminal) -> None:
    runs = [new_run(terminal, goal) for goal in ("first", "second")]
    asked = ("out", "--lane", "build", "--yool", "agent.sum.numbers", "--arg", "a=1", "--arg", "b=1")
    ones = [terminal.json(*asked, "--run", run)["id"] for run in runs]
    terminal.run(*WORK, "--run", runs[0])
    assert [terminal.json("observe", one)["state"] for one in ones] == ["done", "waiting"]
    assert "RUN_NOT_FOUND" in terminal.run(*WORK, "--run", "XYZ", code=1)
    terminal.run(*WORK)
    assert [terminal.json("observe", one)["state"] for one in ones] == ["done", "done"]


def test_a_worker_with_the_token_of_a_run_works_on_no_other(terminal: Terminal) -> None:
    """Whoever speaks for one run sees nothing of another, and so carries nothing of it out."""
    runs = [new_run(terminal, goal) for goal in ("first", "second")]
    asked = ("out", "--lane", "build", "--yool", "agent.sum.numbers", "--arg", "a=1", "--arg", "b=1")
    ones = [terminal.json(*asked, "--run", run)["id"] for run in runs]
    terminal.environment["ENGRAMBUS_TOKEN"] = terminal.json("agent", "add", "ada", "--role", "architect")["token"]
    terminal.run(*WORK)
    del terminal.environment["ENGRAMBUS_TOKEN"]
    assert [terminal.json("observe", one)["state"] for one in ones] == ["waiting", "done"]


def test_without_a_choice_the_newest_run_with_unfinished_work_goes_on(terminal: Terminal) -> None:
    assert resume(terminal) == ("", "[resume] nothing is left to do\n")
    first, one = new_run(terminal, "first"), put(terminal, step("agent.sum.numbers", a=1, b=2))
    second, two = new_run(terminal, "second"), put(terminal, step("agent.sum.numbers", a=3, b=4))
    new_run(terminal, "all done, but for what only says something")
    put(terminal, step("agent.sum.numbers", a=5, b=6), lane="other")
    put(terminal, lane="facts", map_pos={"about": "lunch"})
    terminal.run("worker", "--lane", "other", "--until-empty", "--import", "tests.space.yools")
    _, err = resume(terminal)
    assert [terminal.json("observe", each)["state"] for each in (one, two)] == ["waiting", "done"]
    assert err.splitlines()[:2] == [
        f"[resume] run {second} goes on",
        f"[resume] work is unfinished in {first} (--run RUN)",
    ]
    _, err = resume(terminal)
    assert terminal.json("observe", one)["state"] == "done"
    assert "(--run RUN)" not in err
    assert resume(terminal) == ("", "[resume] nothing is left to do\n")


def test_a_worker_tells_the_end_of_what_it_is_not_given(tmp_path: Path) -> None:
    with open_shop(tmp_path / "project") as shop:
        late = shop.put(step("agent.sum.numbers", a=1, b=2), agent_terms={"deadline_iso": soon()})
        until(lambda: is_late(shop.space, late))
        assert shop.work() == ["dead"]
        (told,) = shop.told
        assert (told.tuple_id, told.error) == (late, "DEADLINE_PAST")
        assert told.receipt == shop.receipts(late)[-1].id


def test_a_pattern_may_leave_out_some_of_what_it_means(tmp_path: Path) -> None:
    with open_shop(tmp_path / "project") as shop:
        ids = [shop.put(step("agent.sum.numbers", a=1, b=each)) for each in range(3)]
        wanted = read_pattern({"lane": "build"}).excluding(ids[1:2])
        LaneWorkerPool(shop.shop, wanted, on_progress=shop.told.append).run(until_empty=True)
        assert [shop.space.get(each).state for each in ids] == ["done", "waiting", "done"]
