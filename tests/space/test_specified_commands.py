"""The command lines of the specification work as it prints them. # YT-10 # YT-13 # YT-18"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from engrambus.core import short_id
from engrambus.settings import Settings
from tests.projects import Repository
from tests.space.terminal import COMMAND, WORK, Terminal, open_terminal


@pytest.fixture
def terminal(repository: Repository, settings: Settings, tmp_path: Path) -> Terminal:
    """Open a project with a catalog of the tests' yools, and a command `sprint` for its shell."""
    terminal = open_terminal(repository, settings, tmp_path, "tests.space.yools")
    script = tmp_path / "bin" / "sprint"
    script.parent.mkdir()
    script.write_text(f"#!/bin/sh\nexec {sys.executable} -c '{COMMAND}' \"$@\"\n")
    script.chmod(0o755)
    terminal.environment["PATH"] = f"{script.parent}:{terminal.environment['PATH']}"
    return terminal


def shell(terminal: Terminal, line: str) -> subprocess.CompletedProcess[str]:
    """Run a line in a shell; it must succeed."""
    process = subprocess.run(
        line, shell=True, cwd=terminal.path, env=terminal.environment, capture_output=True, text=True, timeout=120
    )
    assert process.returncode == 0, process.stderr
    return process


# YT-10, section 5.5: `sprint resume --run-id $(sprint runs list | head -1)`
def test_a_killed_run_is_resumed_by_the_first_line_of_its_list(terminal: Terminal, tmp_path: Path) -> None:
    calls, started = tmp_path / "calls", tmp_path / "started"
    steps = [
        {"yool": "agent.count.calls", "args": {"path": str(calls)}},
        {"yool": "agent.wait.long", "args": {"started": str(started)}},
    ]
    (terminal.path / "t.json").write_text(json.dumps({"lane": "build", "payload": steps}))
    tuple_id = terminal.json("dispatch", "t.json")["id"]
    worker = terminal.start(*WORK)
    deadline = time.monotonic() + 60
    while not started.exists():
        assert time.monotonic() < deadline
        assert worker.poll() is None, worker.communicate()
        time.sleep(0.02)
    worker.kill()
    worker.communicate()
    started.unlink()
    resumed = subprocess.Popen(
        "sprint resume --run-id $(sprint runs list | head -1) --import tests.space.yools",
        shell=True,
        cwd=terminal.path,
        env=terminal.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not started.exists():
        assert time.monotonic() < deadline
        assert resumed.poll() is None, resumed.communicate()
        time.sleep(0.02)
    terminal.run("cancel", tuple_id)
    _, printed = resumed.communicate(timeout=60)
    short = short_id(tuple_id)
    assert printed.splitlines()[:3] == [
        "[resume] reading .catalog/tuples.jsonl",
        f"[resume] {short} has receipts for [agent.count.calls]",
        f"[resume] re-emitting {short} from step 2 (agent.wait.long)",
    ]
    assert calls.read_text() == "called\n", "the step that has a receipt did not run again"


def test_runs_and_runs_list_are_one_command(terminal: Terminal) -> None:
    assert shell(terminal, "sprint runs list").stdout == "No run has any work yet.\n"
    terminal.run("out", "--lane", "notes")
    run = short_id(terminal.json("runs")["runs"][0]["run_id"])
    printed = terminal.run("runs")
    assert printed.splitlines()[:2] == [run, "  1 waiting"]
    assert terminal.run("runs", "list") == printed
    assert terminal.json("runs", "--run-id", run) == terminal.json("--run-id", run, "runs", "list")
    assert "There is no command" in terminal.run("runs", "lst", code=2)
    assert "list" in terminal.run("runs", "--help")


BURST = """
import os
from engrambus import yool
from engrambus.space.work import step_context

@yool("agent.leave.noise", lane="build", authority=("user",))
def leave(number: int, size: int) -> None:
    (step_context.artifacts() / "noise").write_text(os.urandom(size // 2).hex())
"""


def leave_reports(terminal: Terminal, count: int, size: int) -> None:
    """Run tasks that each leave a file."""
    (terminal.path / "burst.py").write_text(BURST)
    terminal.run("catalog", "build", "--import", "burst")
    for number in range(count):
        args = ("--arg", f"number={number}", "--arg", f"size={size}")
        terminal.run("out", "--lane", "build", "--yool", "agent.leave.noise", *args)
    terminal.run("worker", "--lane", "build", "--until-empty", "--import", "burst")


# YT-13, section 11.2: `gc --hot-days 30 --warm-days 365 --max-mb 5000`
def test_a_collection_with_the_options_of_the_specification(terminal: Terminal) -> None:
    leave_reports(terminal, 3, 100_000)
    assert (
        "There is nothing to delete." in shell(terminal, "sprint gc --hot-days 30 --warm-days 365 --max-mb 5000").stdout
    )
    answer = terminal.json("gc", "--dry-run", "--hot-days", "0")
    assert [(row["why"], row["bodies"]) for row in answer["freed"] if row["bodies"]] == [("artifact", 3)]
    assert "FIELD_VALUE" in terminal.run("gc", "--hot-days", "-1", code=1)


# YT-13: a burst, within its first hour
def test_the_size_cap_holds_right_after_a_burst(terminal: Terminal) -> None:
    leave_reports(terminal, 5, 800_000)
    runs = terminal.json("runs")
    before = terminal.json("gc", "--dry-run", "--max-mb", "1")
    assert before["total_bytes"] > 4_000_000
    assert before["enough"]
    done = terminal.json("gc", "--max-mb", "1")
    assert done["enough"]
    assert done["after_bytes"] <= 1_000_000
    assert [row["why"] for row in done["freed"] if row["bodies"]] == ["room"]
    assert terminal.json("runs") == runs
    assert terminal.json("verify")["sound"]


# YT-13: what protects what, and what to change
def test_a_collection_says_what_protects_what(terminal: Terminal) -> None:
    leave_reports(terminal, 2, 60_000)
    (first, second) = terminal.json("receipt", "list")["receipts"]
    shas = [terminal.json("receipt", "get", row["id"])["receipt"]["artifacts"][0]["sha"] for row in (first, second)]
    terminal.run("put", "The first report is the one to read.", "--pointer", f"artifact:{shas[0]}")
    terminal.run("deref", f"artifact:{shas[1]}")
    printed = terminal.run("gc", "--max-mb", "0", "--dry-run")
    assert "0.1 MB what engrams point at" in printed
    assert "0.1 MB what was stored by a caller or read in the last hour" in printed
    assert "Not enough: the catalog is above its limit of 0 MB." in printed
    assert "engrambus forget ID" in printed
    assert "an hour after its last use" in printed
    assert "guardrails.gc.max_total_mb" in printed
