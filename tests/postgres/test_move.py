"""A project is moved from its files into a database. # YT-19"""

from __future__ import annotations

import json
import shutil
import signal
import time
from contextlib import closing
from pathlib import Path

import pytest

from engrambus import Bus
from engrambus.app import open_project
from engrambus.backends.postgres import open_database
from engrambus.backends.postgres.connections import Database
from engrambus.backends.postgres.moving import ArrivingJournal
from engrambus.backends.postgres.projects import add_project, find_project
from engrambus.core import Stamp, read_yaml
from engrambus.core.journal import Line
from engrambus.core.project_clock import ClockAccepted
from engrambus.errors import ProjectMoved
from engrambus.gateway import LOCAL_ADMIN
from engrambus.policy import load_journal_key
from engrambus.settings import Settings
from tests.harness.postgres_server import PostgresServer
from tests.projects import Repository
from tests.space.terminal import WORK, Terminal, open_terminal

PUT = ("out", "--lane", "build", "--yool", "agent.sum.numbers", "--arg", "a=1")


@pytest.fixture
def url(postgres_server: PostgresServer) -> str:
    """A database of its own: the ids of projects are those of the tests' repositories."""
    return postgres_server.url(postgres_server.new_database())


@pytest.fixture
def terminal(repository: Repository, settings: Settings, tmp_path: Path) -> Terminal:
    """A project in files with some knowledge and some work."""
    terminal = open_terminal(repository, settings, tmp_path, "tests.space.yools")
    for number in range(3):
        terminal.run("put", f"Claim number {number} about the parser.", "--at", "src/parser.py:1-2")
        terminal.run(*PUT, "--arg", f"b={number}")
    terminal.run(*WORK)
    return terminal


def answers(terminal: Terminal) -> list[str]:
    """Return what the project says of itself."""
    board = terminal.json("board")
    found = terminal.json("query", "parser")
    work = [json.dumps(board["totals"]), json.dumps(terminal.json("receipt", "list")["receipts"])]
    return [json.dumps(found["engrams"]), terminal.run("brief"), *work]


def test_a_moved_project_answers_as_before(terminal: Terminal, url: str) -> None:
    before = answers(terminal)
    printed = terminal.run("move", "--to", url)
    assert "all compared" in printed
    assert "ENGRAMBUS_STORE" in printed
    terminal.environment["ENGRAMBUS_STORE"] = url
    assert answers(terminal) == before
    assert terminal.run("verify").startswith("sound")
    terminal.run("put", "Written in the database.", "--at", "src/parser.py:1-2")
    terminal.run(*PUT, "--arg", "b=1")
    assert "HIT" in terminal.run(*WORK)
    assert "Written in the database" in terminal.run("query", "written database")


def test_the_files_take_no_more_writes(terminal: Terminal, url: str, repository: Repository) -> None:
    """Neither those of new processes nor of one that was running."""
    running = open_project(repository.path, Settings.from_environment(terminal.environment))
    with Bus(running, LOCAL_ADMIN) as bus:
        terminal.run("move", "--to", url)
        journals = [repository.path / ".catalog" / name for name in ("memory.jsonl", "tuples.jsonl")]
        moved = [journal.read_bytes() for journal in journals]
        problem = json.loads(terminal.run("put", "Late.", "--at", "src/parser.py:1-2", "--json", code=1))
        assert problem["code"] == "PROJECT_MOVED"
        assert "ENGRAMBUS_STORE" in problem["hint"]
        for write in (lambda: bus.put_engram("Late.", at=["src/parser.py:1-2"]), lambda: bus.tuple_out(lane="notes")):
            with pytest.raises(ProjectMoved):
                write()
        assert [journal.read_bytes() for journal in journals] == moved


def test_an_interrupted_move_goes_on_where_it_was(terminal: Terminal, url: str, repository: Repository) -> None:
    """Killed at any moment; nothing is sent twice, and nobody takes half a project for a whole one."""
    with closing(open_project(repository.path, Settings.from_environment(terminal.environment))) as gateway:
        for number in range(5_000):
            gateway.store.commit(lambda view, number=number: ([ClockAccepted(was_us=number)], None))  # type: ignore[misc]
        lines = gateway.store.last_line()
    terminal.run("verify")  # makes the index, so that the move begins to copy at once
    process = terminal.start("move", "--to", url)
    with closing(open_database(url, lock_seconds=5)) as database:
        while process.poll() is None and not copied_lines(database, terminal):
            time.sleep(0.001)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        first = copied_lines(database, terminal)
        assert 0 < first < lines
        terminal.environment["ENGRAMBUS_STORE"] = url
        assert json.loads(terminal.run("query", "parser", "--json", code=1))["code"] == "PROJECT_NOT_FOUND"
        del terminal.environment["ENGRAMBUS_STORE"]
    terminal.run("put", "Written between.", "--at", "src/parser.py:1-2")
    moved = json.loads(terminal.run("move", "--to", url, "--json"))
    assert moved["lines"] == lines + 1
    terminal.environment["ENGRAMBUS_STORE"] = url
    assert terminal.run("verify").startswith("sound")
    assert "Written between" in terminal.run("query", "written between")


def copied_lines(database: Database, terminal: Terminal) -> int:
    """Return how many lines of knowledge a move has copied that has not ended."""
    project = read_yaml((terminal.path / ".catalog" / "project.yaml").read_text("utf-8"))["project"]
    number = find_project(database, project)
    if number is None:
        return 0
    with database.reading(number, {}) as session:
        row = session.execute("SELECT count(*) FROM journal WHERE kind = 'memory arriving' AND seq > 0", ()).fetchone()
    return int(row[0])


def test_what_an_earlier_move_copied_must_be_of_these_files(
    terminal: Terminal, url: str, repository: Repository
) -> None:
    settings = Settings.from_environment(terminal.environment)
    with (
        closing(open_database(url, lock_seconds=5)) as database,
        closing(open_project(repository.path, settings)) as opened,
    ):
        project = opened.store.project
        key = load_journal_key(settings.key_folder(project))
        assert key is not None
        other = ArrivingJournal(database, add_project(database, project), key, kind="memory", project=project)
        assert other.begin(1)
        other.copy(OneLine(), lambda seq: None)
    problem = json.loads(terminal.run("move", "--to", url, "--json", code=1))
    assert (problem["code"], problem["used"]) == ("MOVE_INTERRUPTED", 1)
    assert "--restart" in problem["hint"]
    assert "all compared" in terminal.run("move", "--to", url, "--restart")


class OneLine:
    """A journal of another history."""

    def lines_after(self, seq: int, limit: int) -> list[Line]:
        """Return its only line."""
        line = Line(at_us=1, stamp=Stamp(1), facts=b"[]", mark=0, seq=1, checksum="")
        return [line] if seq == 0 else []


def test_a_project_that_is_there_already_is_not_overwritten(terminal: Terminal, url: str, tmp_path: Path) -> None:
    """A copy of the files that went on by itself is refused; the same move, repeated, only ends what was left."""
    files = tmp_path / "copy"
    shutil.copytree(terminal.path / ".catalog", files)
    terminal.run("move", "--to", url)
    notes = list((terminal.path / ".catalog").glob("*.moved"))
    assert len(notes) == 2
    for note in notes:  # as if the move had been killed just before
        note.unlink()
    assert "all compared" in terminal.run("move", "--to", url)
    shutil.rmtree(terminal.path / ".catalog")
    shutil.copytree(files, terminal.path / ".catalog")
    terminal.run("put", "Another history.", "--at", "src/parser.py:1-2")
    problem = json.loads(terminal.run("move", "--to", url, "--json", code=1))
    assert problem["code"] == "PROJECT_ELSEWHERE"
    assert "another history" in problem["detail"]
    terminal.run("put", "It goes on.", "--at", "src/parser.py:1-2")


def test_a_damaged_journal_is_not_moved(terminal: Terminal, url: str) -> None:
    journal = terminal.path / ".catalog" / "memory.jsonl"
    content = journal.read_bytes()
    journal.write_bytes(content.replace(b"Claim number 1", b"Claim number 9"))
    problem = json.loads(terminal.run("move", "--to", url, "--json", code=1))
    assert problem["code"] == "JOURNAL_DAMAGED"
    journal.write_bytes(content)
    assert "all compared" in terminal.run("move", "--to", url)


def test_bodies_are_copied_to_where_hosts_share_them(terminal: Terminal, url: str, tmp_path: Path) -> None:
    terminal.environment["ENGRAMBUS_BODIES"] = str(tmp_path / "shared")
    assert "3 bodies" in terminal.run("move", "--to", url)
    terminal.environment["ENGRAMBUS_STORE"] = url
    shutil.rmtree(terminal.path / ".catalog" / "cas")
    terminal.run(*PUT, "--arg", "b=1")
    assert "HIT" in terminal.run(*WORK)
    assert terminal.run("verify").startswith("sound")


@pytest.mark.parametrize(
    ("to", "code"), [("mysql://x/y", "STORE_URL_INVALID"), ("postgresql://127.0.0.1:1/none", "STORE_UNREACHABLE")]
)
def test_a_wrong_or_dead_url_changes_nothing(terminal: Terminal, to: str, code: str) -> None:
    problem = json.loads(terminal.run("move", "--to", to, "--json", code=1))
    assert problem["code"] == code
    terminal.run("put", "It goes on.", "--at", "src/parser.py:1-2")
