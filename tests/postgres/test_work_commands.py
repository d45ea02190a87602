"""Workers, tasks, batches and schedules on the command line, with the work in a database. # YT-05 # YT-09 # YT-19"""

from __future__ import annotations

from pathlib import Path

import pytest

from engrambus.settings import Settings
from tests.harness.postgres_server import PostgresServer
from tests.projects import Repository
from tests.space.terminal import AGENTS, WORK, Terminal


@pytest.fixture
def terminal(repository: Repository, settings: Settings, tmp_path: Path, postgres_server: PostgresServer) -> Terminal:
    """Create a project in a database of its own, with a catalog of the tests' yools."""
    (repository.path / "AGENTS.md").write_text(AGENTS)
    terminal = Terminal(repository, tmp_path / "home")
    terminal.environment["ENGRAMBUS_STORE"] = postgres_server.url(postgres_server.new_database())
    terminal.run("init")
    terminal.run("catalog", "build", "--import", "tests.space.yools")
    return terminal


def test_workers_do_what_is_put_and_everything_about_it_is_found(terminal: Terminal) -> None:
    """Receipts and bodies are files of this host."""
    for number in range(3):
        arguments = ("--yool", "agent.sum.numbers", "--arg", f"a={number}", "--arg", "b=2")
        terminal.run("out", "--lane", "build", *arguments)
    workers = [terminal.start(*WORK) for _ in range(2)]
    for worker in workers:
        _, errors = worker.communicate(timeout=120)
        assert worker.returncode == 0, errors
    assert terminal.json("rd", "--lane", "build", "--state", "done")["state"] == "done"
    receipts = terminal.json("receipt", "list")["receipts"]
    assert [receipt["exit"] for receipt in receipts if receipt["step"] is not None] == [0] * 3
    assert terminal.run("verify").startswith("sound")
    assert not (terminal.path / ".catalog" / "tuples.jsonl").exists()


def test_tasks_and_schedules_are_those_of_the_team(terminal: Terminal) -> None:
    """A second host sees them at once."""
    task = terminal.run("task", "add", "Look at the parser").split()[0]
    assert "Look at the parser" in terminal.run("task", "list")
    terminal.run("task", "claim", task)
    terminal.run("task", "done", task, "--evidence", "src/parser.py:1-5")
    terminal.run("schedule", "add", "nightly", "--every", "P1D", "--lane", "notes")
    assert "nightly" in terminal.run("schedule", "list")
    assert "agree" in terminal.run("recover", "--clock")
