"""A project whose knowledge is in a database, by the command line and by several processes. # YT-19"""

from __future__ import annotations

import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest

from engrambus.app import init_project, open_project
from engrambus.backends.postgres import open_database
from engrambus.backends.postgres.store import PostgresStore
from engrambus.core.journal import JournalKey
from engrambus.errors import JournalForeign, ProjectElsewhere, ProjectNotFound
from engrambus.settings import Settings
from engrambus.testing.client import GatewayClient, expect_refusal
from engrambus.testing.harness import KEY, PROJECT
from tests.cli.runner import Shell
from tests.harness.postgres_server import PostgresServer
from tests.harness.postgres_stores import PostgresHarness
from tests.projects import Repository

SECRET = "s3cret-word"
WRITER = """
import os, sys
from contextlib import closing
from pathlib import Path
from engrambus.app import open_project
from engrambus.core import SystemClock, new_ulid
from engrambus.policy import RunOpened
from engrambus.settings import Settings

with closing(open_project(Path.cwd(), Settings.from_environment())) as gateway:
    for number in range(int(sys.argv[1])):
        run = new_ulid(SystemClock().now(), os.urandom)
        gateway.store.commit(lambda view: ([RunOpened(run=run, goal=f"run {number}", by="a")], None))
"""


@pytest.fixture
def store_url(postgres_server: PostgresServer) -> str:
    """The URL of a database of one's own, with a password in it that no output may show."""
    return postgres_server.url(postgres_server.new_database()).replace("@", f":{SECRET}@")


@pytest.fixture
def stored(repository: Repository, settings: Settings, store_url: str) -> tuple[Path, Settings]:
    """A repository whose project is in a database, and the settings to open it."""
    environment = {**settings.environment, "ENGRAMBUS_STORE": store_url}
    settings = Settings.from_environment(environment)
    init_project(repository.path, settings)
    return repository.path, settings


@pytest.fixture
def shell(repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store_url: str) -> Shell:
    """A repository without a project yet, and commands with ENGRAMBUS_STORE set."""
    shell = Shell(repository, tmp_path / "home", monkeypatch)
    monkeypatch.setenv("ENGRAMBUS_STORE", store_url)
    return shell


def test_the_command_line_works_as_with_files(shell: Shell) -> None:
    shell.ok("init")
    shell.ok("put", "The parser trusts its input.", "--at", "src/parser.py:1-5")
    shell.ok("put", "The lexer is small.", "--at", "docs/design.md:9-11", "--kind", "decision")
    assert "The parser trusts its input." in shell.ok("query", "parser").out
    assert "The lexer is small." in shell.ok("brief").out
    assert shell.ok("stats", "--json").json["counts"]["engrams"] == 2
    assert "sound: 4 commits" in shell.ok("verify").out
    assert "agree" in shell.ok("recover", "--clock").out
    assert "nothing to recover" in shell.ok("recover").out
    assert shell.ok("migrate", "--json").json["applied"] == []


def test_doctor_names_the_store_without_its_password(shell: Shell) -> None:
    shell.ok("init")
    checks = shell.run("doctor").out
    assert "PostgreSQL" in checks
    assert "agrees with the journal" in checks
    assert SECRET not in checks


def test_no_output_shows_the_password(shell: Shell, store_url: str) -> None:
    shell.ok("init")
    gone = store_url.partition("?")[0] + "?host=/nowhere"
    for words in (["query", "parser"], ["doctor"], ["stats"], ["verify"], ["migrate"]):
        for url in (store_url, gone):
            result = shell.run(*words, env={"ENGRAMBUS_STORE": url})
            assert SECRET not in result.out + result.err
    assert shell.run("query", "x", "--json", env={"ENGRAMBUS_STORE": gone}).problem["code"] == "STORE_UNREACHABLE"


def test_migrate_needs_a_database(shell: Shell) -> None:
    problem = shell.run("migrate", "--json", env={"ENGRAMBUS_STORE": ""}).problem
    assert (problem["code"], problem["field"]) == ("FIELD_MISSING", "ENGRAMBUS_STORE")


def test_a_missing_driver_is_named(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engrambus.backends.postgres.opening.find_spec", lambda name: None)
    problem = shell.run("init", "--json").problem
    assert problem["code"] == "STORE_DRIVER_MISSING"
    assert "engrambus[postgres]" in problem["hint"]


def test_no_journal_of_knowledge_is_written_next_to_the_code(stored: tuple[Path, Settings]) -> None:
    folder, settings = stored
    with closing(open_project(folder, settings)) as gateway:
        assert gateway.store.last_line() == 1
    assert not (folder / ".catalog" / "memory.jsonl").exists()
    assert (folder / ".catalog" / "project.yaml").exists()


def test_a_project_in_files_is_not_mixed_with_a_database(
    repository: Repository, settings: Settings, store_url: str
) -> None:
    init_project(repository.path, settings)
    with_store = Settings.from_environment({**settings.environment, "ENGRAMBUS_STORE": store_url})
    with pytest.raises(ProjectNotFound, match="has no project"):
        open_project(repository.path, with_store)
    with pytest.raises(ProjectElsewhere) as refusal:
        init_project(repository.path, with_store)
    assert refusal.value.field == "ENGRAMBUS_STORE"


def test_another_machine_needs_the_keys(stored: tuple[Path, Settings], tmp_path: Path) -> None:
    folder, settings = stored
    elsewhere = Settings.from_environment({**settings.environment, "HOME": str(tmp_path / "other")})
    with pytest.raises(JournalForeign) as refusal:
        open_project(folder, elsewhere)
    assert "keys import" in str(refusal.value.hint)
    with pytest.raises(JournalForeign):
        init_project(folder, elsewhere)


def test_a_journal_of_another_key_is_refused(harness: PostgresHarness) -> None:
    with pytest.raises(JournalForeign):
        PostgresStore(harness.database.share(), JournalKey(b"another key"), PROJECT, harness.clock)
    harness.database.close()


def test_writers_in_several_processes_lose_nothing(stored: tuple[Path, Settings]) -> None:
    folder, settings = stored
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, "20"], cwd=folder, env=settings.environment) for _ in range(3)
    ]
    assert [writer.wait(60) for writer in writers] == [0, 0, 0]
    with closing(open_project(folder, settings)) as gateway:
        assert gateway.store.last_line() == 61
        with gateway.store.read() as view:
            assert [run.number for run in view.runs(limit=100)] == [*range(61, 0, -1)]
        assert gateway.store.verify() == []
        assert [line.seq for line in gateway.store.lines_after(0, 100)] == [*range(1, 62)]


def test_two_stores_of_one_project_see_each_others_commits(harness: PostgresHarness, postgres_url: str) -> None:
    with closing(open_database(postgres_url, lock_seconds=5)) as database:
        other = PostgresStore(database.share(), KEY, PROJECT, harness.clock)
        with closing(other):
            claims = [f"Matter {number}" for number in range(10)]
            client = GatewayClient(harness)
            threads = [threading.Thread(target=client.put, args=(claim,)) for claim in claims]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            with other.read() as view:
                assert view.counts().engrams == 10
            assert other.last_line() == harness.gateway.store.last_line() == 11


def change(harness: PostgresHarness, statement: str) -> None:
    """Change rows of the project as a person with a client of the database may."""
    with harness.database.writing(harness.number, {}) as session:
        session.execute(statement)
        assert session.changes() > 0


@pytest.mark.parametrize(
    ("statement", "table"),
    [
        ("UPDATE engrams SET confidence = 0.1 WHERE ordinal = 2", "engrams"),
        ("DELETE FROM used_ids", "used_ids"),
        ("UPDATE live SET engrams = engrams + 1", "live"),
        ("UPDATE pending SET tokens = tokens || ' p:nowhere' WHERE ordinal = 1", "postings"),
        ("UPDATE agents SET role = 'architect'", "agents"),
    ],
)
def test_verify_finds_a_changed_row_and_a_rebuild_repairs_it(
    harness: PostgresHarness, statement: str, table: str
) -> None:
    client = GatewayClient(harness)
    client.add_agent("mia", "manager")
    client.put_many([f"The common matter {number}" for number in range(3)])
    change(harness, statement)
    findings = harness.gateway.store.verify()
    assert [(finding.where, finding.is_copy) for finding in findings] == [(f"table {table}", True)] or (
        table == "postings" and [finding.where for finding in findings] == ["postings"]
    )
    harness.gateway.store.rebuild()
    assert harness.gateway.store.verify() == []
    assert len(client.query_claims("common")) == 3


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM journal WHERE seq = 2",
        "UPDATE journal SET line = overlay(line PLACING 'Z' FROM 200) WHERE seq = 3",
    ],
)
def test_verify_names_the_damaged_line_and_a_rebuild_is_refused(harness: PostgresHarness, statement: str) -> None:
    client = GatewayClient(harness)
    for claim in ("Alpha", "Beta", "Gamma"):
        client.put(claim)
    change(harness, statement)
    (finding,) = harness.gateway.store.verify()
    assert "damaged at line" in finding.what
    assert not finding.is_copy
    assert "copy" in finding.hint
    with expect_refusal("JOURNAL_DAMAGED"):
        harness.gateway.store.rebuild()
    assert client.query_claims() == ["Gamma", "Beta", "Alpha"]


def test_a_text_with_a_nul_is_found_nowhere(harness: PostgresHarness) -> None:
    client = GatewayClient(harness)
    client.put("Alpha")
    with harness.gateway.store.read() as view:
        assert view.find(("p",), "\0") is None
        assert view.agent("\0", "a\0") is None
