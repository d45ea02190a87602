"""`engrambus worker` as a process: it drains, holds quotas of the project, and says how it stands on a terminal."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import pytest

from engrambus import Bus
from engrambus.core import SystemClock, parse_time
from engrambus.settings import Settings
from tests.projects import Repository
from tests.space.terminal import WORK, Terminal, open_terminal


@pytest.fixture
def terminal(repository: Repository, settings: Settings, tmp_path: Path) -> Terminal:
    """A project with a catalog of the tests' yools."""
    return open_terminal(repository, settings, tmp_path, "tests.space.yools")


# YT-06: graceful drain.
def test_a_worker_that_is_told_to_end_finishes_what_it_has_begun(terminal: Terminal) -> None:
    step = {"yool": "agent.spend.money", "args": {"usd": 0.001, "times": 8}}
    (terminal.path / "t.json").write_text(json.dumps({"lane": "build", "payload": [step]}))
    one = terminal.json("dispatch", "t.json")["id"]
    worker = terminal.start("worker", "--lane", "build", "--import", "tests.space.yools")
    ends = time.monotonic() + 60
    while terminal.json("observe", one)["usd"] == 0:
        assert time.monotonic() < ends
        assert worker.poll() is None, worker.communicate()
    worker.send_signal(signal.SIGTERM)
    _, said = worker.communicate(timeout=60)
    assert worker.returncode == 0
    assert "Finishing what is under way" in said
    assert "Quotas are held by" in said
    seen = terminal.json("observe", one)
    assert (seen["state"], seen["usd"]) == ("done", 0.008)


# YT-12, YT-14: what the project says holds for what a tuple asks.
def test_the_projects_quota_holds_whatever_a_tuple_asks(terminal: Terminal) -> None:
    (terminal.path / ".catalog/policy.yaml").write_text("guardrails: {disk_quota_mb: 1}\n")
    terminal.run("policy", "apply")
    (terminal.path / "large.txt").write_text("x" * 20_000_000)
    step = {"yool": "agent.show.file", "args": {"path": "large.txt"}}
    (terminal.path / "t.json").write_text(
        json.dumps({"lane": "build", "payload": [step], "agent_terms": {"disk_quota_mb": 1000}})
    )
    one = terminal.json("dispatch", "t.json")["id"]
    terminal.run(*WORK)
    seen = terminal.json("observe", one)
    assert seen["state"] == "dead"
    (dead,) = terminal.json("dead")["dead"]
    assert dead["error"] == "DISK_QUOTA"


# YT-06, YT-14: as many steps at once as were asked for, and no more than the machine's owner allows.
@pytest.mark.parametrize(("asked", "ceiling", "at_once"), [("3", None, 3), ("5", "2", 2)])
def test_a_worker_does_as_much_at_once_as_it_is_told(
    terminal: Terminal, tmp_path: Path, asked: str, ceiling: str | None, at_once: int
) -> None:
    if ceiling is not None:
        terminal.environment["YOOL_TUPLE_MAX_LANE_CONCURRENCY"] = ceiling
    calls, go = tmp_path / "calls", tmp_path / "go"
    with Bus.open(terminal.path, settings=Settings.from_environment(terminal.environment)) as bus:
        for number in range(6):
            args = {"calls": str(calls), "go": str(go), "n": number}
            bus.tuple_out("build", payload=[{"yool": "agent.think.once", "args": args}])
        worker = terminal.start(*WORK, "--concurrency", asked)
        ends = time.monotonic() + 60
        try:
            while not calls.exists() or calls.read_text().count("called") < at_once:
                assert time.monotonic() < ends
                assert worker.poll() is None, worker.communicate()
                time.sleep(0.01)
        finally:
            moment = SystemClock().now()
            go.touch()  # so that the worker ends, whatever was found
            _, said = worker.communicate(timeout=60)
        assert worker.returncode == 0, said
        steps = [bus.receipt_get(one.steps[0].receipt or "").receipt or {} for one in bus.work_board().ended]
    assert len(steps) == 6
    assert sum(parse_time(each["started_at"]) <= moment for each in steps) == at_once
    assert ("at once is the most (YOOL_TUPLE_MAX_LANE_CONCURRENCY)" in said) == (ceiling is not None)
    assert ceiling is None or f"{ceiling} at once" in said


def test_on_a_terminal_it_says_how_it_stands(terminal: Terminal) -> None:
    terminal.run("out", "--lane", "build", "--yool", "agent.sum.numbers", "--arg", "a=1", "--arg", "b=2")
    shown = terminal.shown(*WORK)
    assert b"MISS exec" in shown
    assert b"1 done, 0 steps from the cache, 0 given up, 0 waiting" in shown
    assert b"TOTAL: $0" in shown
