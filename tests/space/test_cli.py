"""Work on the command line, as the specification prints it. # YT-05 # YT-09 # YT-10 # YT-18"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest

from stigmergy.app import open_project
from stigmergy.settings import Settings
from stigmergy.space.tuples import OWN_AUTHORITY, gc_draft
from tests.projects import Repository, make_gateway

ROOT = Path(__file__).parents[2]
AGENTS = "# Agents\n\n## Agents\n"
STIG = "from stigmergy.edges.cli import main; main()"


class Terminal:
    """`stig` in processes of its own."""

    def __init__(self, repository: Repository, home: Path) -> None:
        self.path = repository.path
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        self.environment = {**kept, "HOME": str(home), "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start a command."""
        return subprocess.Popen(
            [sys.executable, "-c", STIG, *words],
            cwd=self.path,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *words: str, code: int = 0) -> str:
        """What a command prints."""
        process = self.start(*words)
        out, err = process.communicate(timeout=120)
        assert process.returncode == code, (words, out, err)
        return out if code == 0 else err

    def json(self, *words: str) -> Any:
        """What a command answers."""
        return json.loads(self.run(*words, "--json"))


@pytest.fixture
def terminal(repository: Repository, settings: Settings, tmp_path: Path) -> Terminal:
    """A project with a catalog of the tests' yools."""
    make_gateway(repository.path, settings).close()
    (repository.path / "AGENTS.md").write_text(AGENTS)
    terminal = Terminal(repository, tmp_path / "home")
    terminal.run("catalog", "build", "--import", "tests.space.yools")
    return terminal


# BX-03
def test_an_index_that_is_not_sound_is_named(terminal: Terminal) -> None:
    """`stig verify` names the file to remove, and with it removed all is well."""
    terminal.run("out", "--lane", "notes")
    index = next(terminal.path.rglob("work.db"))
    with closing(apsw.Connection(str(index))) as connection:
        connection.execute("UPDATE tuples SET rank = 7")
    told, _ = terminal.start("verify").communicate(timeout=120)
    assert "work.db" in told
    assert "index.db" not in told
    index.unlink()
    assert terminal.run("verify").startswith("sound")


WORK = ("worker", "--lane", "build", "--until-empty", "--import", "tests.space.yools")


def test_the_first_run_computes_and_the_next_one_does_not(terminal: Terminal) -> None:
    (terminal.path / "t.yaml").write_text(
        "lane: build\npayload:\n"
        "  - {yool: agent.sum.numbers, args: {a: 1, b: 2}}\n"
        "  - {yool: agent.spend.money, args: {usd: 0.12, times: 1}}\n"
    )
    one = terminal.json("dispatch", "t.yaml")["id"]
    first = terminal.run(*WORK)
    assert re.search(r"\[t=\d+s\] agent\.sum\.numbers\.v1 +MISS exec cost=\$0$", first, re.M)
    assert re.search(r"\[t=\d+s\] agent\.spend\.money\.v1 +MISS exec cost=\$0\.12$", first, re.M)
    assert first.endswith("TOTAL: $0.12\n")
    terminal.run("out", "--lane", "build", "--yool", "agent.sum.numbers", "--arg", "a=1", "--arg", "b=2")
    second = terminal.run(*WORK)
    assert re.search(r"agent\.sum\.numbers\.v1 +HIT skip cost=\$0$", second, re.M)
    assert second.endswith("TOTAL: $0\n")
    seen = terminal.json("observe", one)
    assert (seen["state"], seen["usd"]) == ("done", 0.12)
    assert terminal.json("receipt", "verify", seen["steps"][0]["receipt"])["sound"]
    (run,) = terminal.json("runs")["runs"]
    assert (run["states"], run["executed"], run["hits"]) == ({"done": 2}, 2, 1)
    assert terminal.json("verify")["sound"]


def test_a_killed_run_goes_on_where_it_stopped(terminal: Terminal, tmp_path: Path) -> None:
    calls, started = tmp_path / "calls", tmp_path / "started"
    steps = [
        {"yool": "agent.count.calls", "args": {"path": str(calls)}},
        {"yool": "agent.wait.long", "args": {"started": str(started)}},
    ]
    (terminal.path / "t.json").write_text(json.dumps({"lane": "build", "payload": steps}))
    one = terminal.json("dispatch", "t.json")["id"]
    worker = terminal.start(*WORK)
    ends = time.monotonic() + 60
    while not started.exists():
        assert time.monotonic() < ends
        assert worker.poll() is None, worker.communicate()
        time.sleep(0.02)
    worker.send_signal(signal.SIGKILL)
    worker.communicate()
    started.unlink()
    resumed = terminal.start("resume", "--import", "tests.space.yools")
    while not started.exists():
        assert time.monotonic() < ends
        assert resumed.poll() is None, resumed.communicate()
        time.sleep(0.02)
    resumed.send_signal(signal.SIGTERM)
    time.sleep(0.2)
    resumed.send_signal(signal.SIGTERM)
    _, said = resumed.communicate(timeout=60)
    assert "has receipts for [agent.count.calls]" in said
    assert "goes on from step 2 (agent.wait.long)" in said
    assert calls.read_text() == "called\n"
    assert terminal.json("observe", one)["state"] == "waiting"


def test_resuming_leaves_alarms_alone_and_makes_room_where_that_was_asked_for(terminal: Terminal) -> None:  # YT-10
    with closing(open_project(terminal.path, Settings.from_environment(terminal.environment))) as gateway:
        space = gateway.workbench.space
        run = terminal.json("run", "list")["runs"][0]["run_id"]
        alarm = {"lane": "alarm", "payload": [{"yool": "op.budget.alarm", "args": {}}]}
        puts = [space.out(each, authority=OWN_AUTHORITY, run=run, trusted=True)[0].id for each in (gc_draft(), alarm)]
    assert "The run 'XYZ' has no work" in terminal.run("resume", "--run-id", "XYZ", code=1)
    terminal.run("resume", "--import", "tests.space.yools")
    assert [terminal.json("observe", each)["state"] for each in puts] == ["done", "waiting"]


def test_words_that_look_like_numbers_to_python_are_words(terminal: Terminal) -> None:
    terminal.run("out", "--lane", "notes", "--yool", "agent.sum.numbers", "--arg", "a=NaN", "--arg", "b=-Infinity")
    (given,) = terminal.json("rd", "--lane", "notes")["tuple"]["payload"]
    assert given["args"] == {"a": "NaN", "b": "-Infinity"}


def test_patterns_on_the_command_line(terminal: Terminal) -> None:
    for stack, priority in (("python", 1), ("dotnet", 5)):
        (terminal.path / "t.json").write_text(
            json.dumps({"lane": "notes", "map_pos": {"stack": stack}, "priority": priority})
        )
        terminal.run("out", "t.json")
    for condition, stack in (
        ("map_pos.stack=dotnet", "dotnet"),
        ("map_pos.stack^=py", "python"),
        ("priority>=5", "dotnet"),
        ("priority<5", "python"),
        ("flags!", "python"),
        ("map_pos.stack!=python", "dotnet"),
    ):
        found = terminal.json("rd", "--where", condition)
        assert found["tuple"]["map_pos"]["stack"] == stack, condition
    assert "PATTERN_VALUE" in terminal.run("rd", "--where", "lane^=3", code=1)
    assert "is not a condition" in terminal.run("rd", "--where", "flags?no", code=2)
    assert "Say what to take" in terminal.run("in", "--timeout", "0.1", code=2)
    twice = ("--where", "priority=1", "--where", "priority=5")
    assert "compared like that already" in terminal.run("rd", *twice, code=2)
    taken = terminal.json("in", "--lane", "notes")
    assert taken["tuple"]["map_pos"]["stack"] == "dotnet"
    assert terminal.json("cancel", terminal.json("rd", "--lane", "notes")["tuple"]["id"])["receipt_id"]
    assert "TUPLE_NOT_FOUND" in terminal.run("in", "--lane", "notes", "--timeout", "0.1", code=1)


def test_dead_letters_are_listed_and_put_again(terminal: Terminal) -> None:
    (terminal.path / "t.json").write_text(
        json.dumps({"lane": "build", "payload": [{"yool": "agent.fail.always"}], "agent_terms": {"max_retries": 0}})
    )
    one = terminal.json("out", "t.json")["id"]
    assert "is a dead letter (exit 1)" in terminal.run(*WORK)
    (dead,) = terminal.json("dead")["dead"]
    assert (dead["id"], dead["error"]) == (one, "exit 1")
    again = terminal.json("again", one)["id"]
    assert terminal.json("dead")["dead"][0]["again"] == again
    assert terminal.json("observe", again)["state"] == "waiting"
