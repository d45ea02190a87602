"""A project's own modules stand in nobody's way, whatever they are called. # YT-06"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from engrambus.app import open_project
from engrambus.settings import Settings
from engrambus.space.tuples import INTERNAL_AUTHORITY, gc_draft
from tests.projects import Repository
from tests.space.terminal import Terminal, open_terminal

YOOLS = """
from engrambus.space.catalog import yool

@yool("agent.say.hello", lane="build", authority=("user", "agent", "ci"), inputs=[])
def hello():
    return "hello"

yool("agent.say.more", lane="build", authority=("user", "agent", "ci"), inputs=[])(["echo", "more"])
"""


@pytest.fixture
def terminal(repository: Repository, settings: Settings, tmp_path: Path) -> Terminal:
    """A project whose modules have the names of the standard library's."""
    for name in ("queue", "select", "signal", "json", "tempfile", "msgspec"):
        (repository.path / f"{name}.py").write_text("raise RuntimeError('this is not the one that was meant')")
    (repository.path / "our_yools.py").write_text(YOOLS)
    terminal = open_terminal(repository, settings, tmp_path)
    terminal.environment["PYTHONSAFEPATH"] = "1"  # as the installed command, which does not begin with our folder
    terminal.run("catalog", "build", "--import", "our_yools")
    return terminal


def test_modules_called_as_the_standard_librarys_are_not_taken_for_them(terminal: Terminal) -> None:
    for name in ("agent.say.hello", "agent.say.more"):
        terminal.run("out", "--lane", "build", "--yool", name)
    said = terminal.run("worker", "--lane", "build", "--until-empty", "--import", "our_yools")
    assert said.count("MISS exec") == 2, said
    assert "FAIL" not in said


def test_room_is_made_beside_them(terminal: Terminal) -> None:
    run = terminal.json("run", "list")["runs"][0]["run_id"]
    with closing(open_project(terminal.path, Settings.from_environment(terminal.environment))) as gateway:
        (put,) = gateway.tuple_space.space.out(gc_draft(), authority=INTERNAL_AUTHORITY, run=run, trusted=True)
    terminal.run("worker", "--lane", "gc.urgent", "--until-empty")
    assert terminal.json("observe", put.id)["state"] == "done"
