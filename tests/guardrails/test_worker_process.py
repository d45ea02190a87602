"""`engrambus worker` as a process: it drains, enforces the project's quotas and shows its progress on a terminal."""

from __future__ import annotations

import json
import signal
import sys
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
    """Open a project whose catalog declares the tests' yools."""
    return open_terminal(repository, settings, tmp_path, "tests.space.yools")


# YT-06: graceful drain.
def test_a_worker_that_gets_sigterm_finishes_begun_tuples(terminal: Terminal) -> None:
    step = {"yool": "agent.spend.money", "args": {"usd": 0.001, "times": 8}}
    (terminal.path / "t.json").write_text(json.dumps({"lane": "build", "payload": [step]}))
    tuple_id = terminal.json("dispatch", "t.json")["id"]
    worker = terminal.start("worker", "--lane", "build", "--import", "tests.space.yools")
    ends = time.monotonic() + 60
    while terminal.json("observe", tuple_id)["usd"] == 0:
        assert time.monotonic() < ends
        assert worker.poll() is None, worker.communicate()
    worker.send_signal(signal.SIGTERM)
    _, stderr = worker.communicate(timeout=60)
    assert worker.returncode == 0
    assert "Finishing what is under way" in stderr
    assert "Quotas are held by" in stderr
    observed = terminal.json("observe", tuple_id)
    assert (observed["state"], observed["usd"]) == ("done", 0.008)


# YT-12, YT-14
def test_a_tuple_cannot_raise_the_quota_of_its_project(terminal: Terminal) -> None:
    (terminal.path / ".catalog/policy.yaml").write_text("guardrails: {disk_quota_mb: 1}\n")
    terminal.run("policy", "apply")
    (terminal.path / "large.txt").write_text("x" * 20_000_000)
    step = {"yool": "agent.show.file", "args": {"path": "large.txt"}}
    (terminal.path / "t.json").write_text(
        json.dumps({"lane": "build", "payload": [step], "agent_terms": {"disk_quota_mb": 1000}})
    )
    tuple_id = terminal.json("dispatch", "t.json")["id"]
    terminal.run(*WORK, code=1)
    observed = terminal.json("observe", tuple_id)
    assert observed["state"] == "dead"
    (dead,) = terminal.json("dead")["dead"]
    assert dead["error"] == "DISK_QUOTA"


# YT-06, YT-14: the requested concurrency, up to the configured maximum.
@pytest.mark.parametrize(("requested", "ceiling", "at_once"), [("3", None, 3), ("5", "2", 2)])
def test_a_worker_runs_as_many_steps_at_once_as_requested(
    terminal: Terminal, tmp_path: Path, requested: str, ceiling: str | None, at_once: int
) -> None:
    if ceiling is not None:
        terminal.environment["YOOL_TUPLE_MAX_LANE_CONCURRENCY"] = ceiling
    calls, go = tmp_path / "calls", tmp_path / "go"
    with Bus.open(terminal.path, settings=Settings.from_environment(terminal.environment)) as bus:
        for number in range(6):
            args = {"calls": str(calls), "go": str(go), "n": number}
            bus.tuple_out("build", payload=[{"yool": "agent.think.once", "args": args}])
        worker = terminal.start(*WORK, "--concurrency", requested)
        ends = time.monotonic() + 60
        try:
            while not calls.exists() or calls.read_text().count("called") < at_once:
                assert time.monotonic() < ends
                assert worker.poll() is None, worker.communicate()
                time.sleep(0.01)
        finally:
            released_us = SystemClock().now()
            go.touch()  # lets the worker end, even if the test fails
            _, stderr = worker.communicate(timeout=60)
        assert worker.returncode == 0, stderr
        steps = [bus.receipt_get(row.steps[0].receipt or "").receipt or {} for row in bus.work_board().ended]
    assert len(steps) == 6
    assert sum(parse_time(receipt["started_at"]) <= released_us for receipt in steps) == at_once
    assert ("at once is the most (YOOL_TUPLE_MAX_LANE_CONCURRENCY)" in stderr) == (ceiling is not None)
    assert ceiling is None or f"{ceiling} at once" in stderr


# YT-20
@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
@pytest.mark.parametrize("by_option", [True, False])
def test_a_worker_has_a_limit_for_all_its_steps(terminal: Terminal, tmp_path: Path, by_option: bool) -> None:
    terminal.environment["YOOL_TUPLE_BACKOFF_SECONDS"] = "4"
    terminal.environment["YOOL_TUPLE_WORKER_MEMORY_MB"] = "5000" if by_option else "160"
    for megabytes in (20, 110):
        arguments = ("--arg", f"megabytes={megabytes}", "--arg", f"folder={json.dumps(str(tmp_path))}")
        terminal.run("out", "--lane", "build", "--yool", "agent.hold.memory", *arguments)
    output = terminal.run(*WORK, *(["--memory-mb", "160"] if by_option else []))
    assert output.count("FAIL exec cost=$0 (WORKER_QUOTA)") == 1
    assert output.count("will be tried again (WORKER_QUOTA)") == 1
    assert output.count("MISS exec") == 2


def test_a_worker_shows_its_progress_on_a_terminal(terminal: Terminal) -> None:
    terminal.run("out", "--lane", "build", "--yool", "agent.sum.numbers", "--arg", "a=1", "--arg", "b=2")
    output = terminal.run_on_terminal(*WORK)
    assert b"MISS exec" in output
    assert b"1 done, 0 steps from the cache, 0 given up, 0 waiting" in output
    assert b"TOTAL: $0" in output
