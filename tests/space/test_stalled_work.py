"""What waits and that nobody may claim is named when a worker ends, with its reason and a command. # YT-05 # YT-16"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from engrambus.core import short_id
from engrambus.settings import Settings
from engrambus.space.tuples import BatchSpace, pause, read_match, read_pattern, set_limit, stalled_work
from engrambus.testing.work import PERSON, RUN, WorkHarness, draft, put
from engrambus.testing.work.harness import take
from tests.harness.stores import MemoryWorkHarness, SqliteWorkHarness
from tests.projects import Repository
from tests.space.terminal import WORK, Terminal, open_terminal
from tests.space.test_resume import put as put_in
from tests.space.test_resume import resume
from tests.space.worker_harness import step

LATER = "2126-01-01T00:00:00Z"


@pytest.fixture
def terminal(repository: Repository, settings: Settings, tmp_path: Path) -> Terminal:
    """Open a project whose catalog declares the yools of a module."""
    return open_terminal(repository, settings, tmp_path, "tests.space.yools")


@pytest.fixture(params=["memory", "sqlite"])
def harness(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[WorkHarness]:
    """Open the work of a project on each back end."""
    harness = MemoryWorkHarness() if request.param == "memory" else SqliteWorkHarness(tmp_path / "catalog")
    yield harness
    harness.close()


def lines(harness: WorkHarness, **conditions: str) -> list[str]:
    """Return what is held back among the tuples of a pattern."""
    with harness.space.store.read() as view:
        return [work.summary for work in stalled_work(view, read_pattern(conditions or {"lane": "build"}))]


def set_rule(harness: WorkHarness, running: int | None, **match: str) -> None:
    """Limit how many run, or pause."""
    found = read_match(**match)
    harness.space.store.commit(
        lambda view: (
            pause(view, found, why="a release", by="me")[0]
            if running is None
            else set_limit(view, found, running=running, rate=None, by="me")[0],
            None,
        )
    )


def test_what_is_paused_is_counted_for_each_pause_with_the_command_that_ends_it(harness: WorkHarness) -> None:
    put(harness, draft(), draft(), draft("test"))
    assert lines(harness) == []
    set_rule(harness, None, lane="build")
    (line,) = lines(harness)
    assert line.startswith("2 tuples are left: lane build is paused by me since ")
    assert line.endswith(": a release: engrambus unpause --lane build")
    assert lines(harness, lane="test") == []


def test_folded_leaves_of_a_paused_batch_are_counted(harness: WorkHarness) -> None:
    BatchSpace(harness.space).spawn(draft(), depth=2, branching=100, threshold=1, authority=PERSON, run=RUN)
    set_rule(harness, None, lane="build")
    (line,) = lines(harness)
    assert line.startswith("10,000 tuples are left: lane build is paused")


def test_what_waits_for_a_limit_says_which(harness: WorkHarness) -> None:
    put(harness, *[draft(agent_terms={"concurrency_key": "customer-1"}) for _ in range(3)])
    set_rule(harness, 1, key="customer-*")
    take(harness)
    (line,) = lines(harness)
    assert line == (
        "2 tuples are left: waits for key customer-1: 1 of 1 running: engrambus limit list  "
        "(what is used of each limit)"
    )


def test_what_is_blocked_is_named_with_the_way_out(harness: WorkHarness) -> None:
    (first,) = put(harness, draft("other"))
    blocked = put(harness, *[draft(after=[first]) for _ in range(7)])
    (by_words,) = put(harness, draft("test"))
    harness.space.block(by_words, reason="the licence", by="me")
    found = lines(harness)
    assert found[0] == (
        f"1 tuple is left: {short_id(blocked[0])}: It waits for {short_id(first)}, which is waiting: "
        f"engrambus why {short_id(blocked[0])}"
    )
    assert len(found) == 6
    assert found[-1].startswith("2 tuples are left: blocked as well: engrambus why ")
    (line,) = lines(harness, lane="test")
    assert line.endswith(f"blocked: the licence (me): engrambus task unblock {short_id(by_words)}")


def test_what_is_delayed_says_until_when_and_only_of_its_run(harness: WorkHarness) -> None:
    terms = {"not_before_iso": LATER}
    (first,) = put(harness, draft(agent_terms=terms))
    put(harness, draft(agent_terms=terms), run="another")
    assert lines(harness) == [
        f"2 tuples are left: not before 2126-01-01T00:00:00.000000Z: engrambus why {short_id(first)}"
    ]
    (line,) = lines(harness, run=RUN)
    assert line.startswith("1 tuple is left: not before 2126")


def test_a_worker_that_ends_says_what_it_leaves(terminal: Terminal) -> None:
    put_in(terminal, step("agent.sum.numbers", a=1, b=2))
    later = put_in(terminal, step("agent.sum.numbers", a=3, b=4), agent_terms={"not_before_iso": LATER})
    blocked = put_in(terminal, step("agent.sum.numbers", a=5, b=6), after=[later])
    terminal.run("pause", "--lane", "build", "--why", "a release")
    said = terminal.run(*WORK)
    assert "1 tuple is left: lane build is paused by admin" in said
    assert "engrambus unpause --lane build" in said
    terminal.run("unpause", "--lane", "build")
    said = terminal.run(*WORK)
    assert "is paused" not in said
    assert f"1 tuple is left: {short_id(blocked)}: It waits for {short_id(later)}, which is waiting" in said
    assert "1 tuple is left: not before 2126-01-01T00:00:00.000000Z" in said
    rows = [json.loads(line) for line in terminal.run(*WORK, "--json").splitlines()]
    assert [(row["reason"], row["tuples"]) for row in rows if row.get("what") == "stalled"] == [
        ("blocked", 1),
        ("delayed", 1),
    ]


def test_resume_lists_a_run_of_which_all_is_blocked_or_delayed(terminal: Terminal) -> None:
    later = put_in(terminal, step("agent.sum.numbers", a=3, b=4), agent_terms={"not_before_iso": LATER})
    out, err = resume(terminal)
    assert err == f"[resume] {short_id(later)} waits\n"
    assert "1 tuple is left: not before 2126" in out
    blocked = put_in(terminal, step("agent.sum.numbers", a=5, b=6), after=[later])
    terminal.run("cancel", later)
    out, err = resume(terminal)
    assert err == f"[resume] {short_id(blocked)} waits\n"
    assert f"engrambus task unblock {short_id(blocked)} --on {short_id(later)}" in out
