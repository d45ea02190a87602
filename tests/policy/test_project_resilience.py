"""A project survives other branches, an interrupted creation, and files that are deleted while it is open."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from engrambus import Bus
from engrambus.app import init_project
from engrambus.backends.sqlite.lock import WriteLock
from engrambus.errors import FormatUnknown, ProjectExists, StoreReadOnly
from engrambus.policy import find_project
from engrambus.settings import Settings
from tests.projects import Repository, git, make_settings


@pytest.fixture
def bus(repository: Repository, settings: Settings) -> Iterator[Bus]:
    """An open project whose files for git are committed."""
    init_project(repository.path, settings)
    git(repository.path, "add", "-A")
    git(repository.path, "commit", "-q", "-m", "A project")
    with Bus.open(repository.path, settings=settings) as bus:
        yield bus


def claims(bus: Bus) -> list[str]:
    return [engram.claim for engram in bus.query_engrams().engrams]


def test_a_branch_from_before_the_project_still_finds_it(bus: Bus, repository: Repository, settings: Settings) -> None:
    bus.put_engram("Said on main.", at=["src/parser.py:1"])
    token = bus.add_agent("ada", role="architect").token
    project = find_project(repository.path)
    git(repository.path, "checkout", "-q", "-b", "old", repository.sha)
    assert not (repository.path / ".catalog" / "project.yaml").exists()
    assert find_project(repository.path) == project
    with pytest.raises(ProjectExists):
        init_project(repository.path, settings)
    with Bus.open(repository.path, token=token, settings=settings) as ada:
        ada.put_engram("Said on the old branch.", at=["src/parser.py:2"])
    git(repository.path, "checkout", "-q", "main")
    assert claims(bus) == ["Said on the old branch.", "Said on main."]


def test_a_branch_from_before_the_project_does_not_commit_its_journal(bus: Bus, repository: Repository) -> None:
    git(repository.path, "checkout", "-q", "-b", "old", repository.sha)
    git(repository.path, "add", "-A")
    assert git(repository.path, "status", "--short") == ""
    git(repository.path, "checkout", "-q", "main")
    (repository.path / ".catalog" / "policy.yaml").write_text("max_ttl: P1D\n")
    assert git(repository.path, "status", "--short") == "M .catalog/policy.yaml"


def test_other_lines_of_git_exclude_are_kept(repository: Repository, settings: Settings) -> None:
    exclude = repository.path / ".git" / "info" / "exclude"
    exclude.write_text("*.swp")
    init_project(repository.path, settings)
    assert exclude.read_text() == "*.swp\n/.catalog/*\n"


def test_a_repository_with_an_unwritable_exclude_file_works(repository: Repository, settings: Settings) -> None:
    shutil.rmtree(repository.path / ".git" / "info")
    (repository.path / ".git" / "info").write_text("")
    assert init_project(repository.path, settings) == find_project(repository.path)


def test_a_checkout_that_names_another_project_changes_nothing(bus: Bus, repository: Repository) -> None:
    project = find_project(repository.path)
    (project.catalog / "project.yaml").write_text("project: 01KDVP9R000000000000000000\n")
    assert find_project(repository.path) == project


def test_an_interrupted_creation_can_be_repeated(repository: Repository, tmp_path: Path, settings: Settings) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="Not a directory"):  # the keys cannot be written
        init_project(repository.path, make_settings(tmp_path / "file"))
    project = init_project(repository.path, settings)
    with Bus.open(repository.path, settings=settings) as bus:
        assert [run.goal for run in bus.list_runs().runs] == ["first run"]
    assert find_project(repository.path) == project
    with pytest.raises(ProjectExists):
        init_project(repository.path, settings)


def test_writes_are_refused_after_the_journal_was_deleted(bus: Bus, repository: Repository) -> None:
    bus.put_engram("Said before.", at=["src/parser.py:1"])
    git(repository.path, "clean", "-q", "-f", "-d", "-x")
    with pytest.raises(StoreReadOnly):
        bus.put_engram("Said after.", at=["src/parser.py:2"])
    shutil.rmtree(repository.path / ".catalog")
    with pytest.raises(StoreReadOnly):
        bus.put_engram("Said after.", at=["src/parser.py:2"])


def test_a_deleted_lock_file_still_allows_only_one_writer(tmp_path: Path) -> None:
    path, pending = tmp_path / "lock", [1]
    with closing(WriteLock(path)) as first:
        path.unlink()
        with closing(WriteLock(path)) as second:
            for holder, waiter in ((first, second), (second, first)):
                assert holder.run(partial(waiter.run_if_free, pending.clear)) is False
            assert first.run_if_free(pending.clear)
    assert pending == []


def test_a_journal_without_its_first_line_is_refused(bus: Bus, repository: Repository) -> None:
    (repository.path / ".catalog" / "memory.jsonl").write_text("x")
    with pytest.raises(FormatUnknown):
        find_project(repository.path)
