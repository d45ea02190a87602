"""The command lines of the specification work as it prints them. # YT-10 # YT-13 # YT-18"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

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
    short = f"{tuple_id[:19]}…"
    assert printed.splitlines()[:3] == [
        "[resume] reading .catalog/tuples.jsonl",
        f"[resume] {short} has receipts for [agent.count.calls]",
        f"[resume] re-emitting {short} from step 2 (agent.wait.long)",
    ]
    assert calls.read_text() == "called\n", "the step that has a receipt did not run again"


def test_runs_and_runs_list_are_one_command(terminal: Terminal) -> None:
    assert shell(terminal, "sprint runs list").stdout == "No run has any work yet.\n"
    terminal.run("out", "--lane", "notes")
    run = terminal.json("runs")["runs"][0]["run_id"]
    printed = terminal.run("runs")
    assert printed.splitlines()[:2] == [run, "  1 waiting"]
    assert terminal.run("runs", "list") == printed
    assert terminal.json("runs", "--run-id", run) == terminal.json("--run-id", run, "runs", "list")
    assert "There is no command" in terminal.run("runs", "lst", code=2)
    assert "list" in terminal.run("runs", "--help")
