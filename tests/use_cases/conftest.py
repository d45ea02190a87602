"""Histories to work on: the small one that the examples make, and that of this repository."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from use_cases.commits import History, clone, git
from use_cases.post_office import make_repository

from engrambus import Bus, Settings, init_project
from tests.cli.runner import Shell
from tests.projects import Repository

ROOT = Path(__file__).resolve().parents[2]
MIN_COMMITS = 200
"""A checkout with fewer commits, a shallow one, has no history to choose from."""


@pytest.fixture(scope="session")
def post_office(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small repository, with four commits."""
    folder = tmp_path_factory.mktemp("post") / "office"
    make_repository(folder)
    return folder


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """A small post office, without a project; what `--fresh` makes goes into the test's folder."""
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "scratch"))
    make_repository(tmp_path / "repository")
    return Shell(Repository(tmp_path / "repository", ""), tmp_path / "home", monkeypatch)


@pytest.fixture(params=["small", "real"])
def history(request: pytest.FixtureRequest, post_office: Path) -> History:
    """A history: the small one, and this repository's; where that was not cloned whole, the small one again."""
    try:
        commits = int(git(ROOT, "rev-list", "--count", "HEAD"))
    except subprocess.CalledProcessError:  # no checkout: a source distribution
        commits = 0
    return History(ROOT if request.param == "real" and commits >= MIN_COMMITS else post_office)


@contextmanager
def bus_at(history: History, commit: str, folder: Path) -> Iterator[tuple[Bus, Path]]:
    """Check a commit out in a clone and open a new project there, in a run."""
    checkout = clone(history.folder, commit, folder)
    settings = Settings.from_environment({"HOME": str(folder)})
    init_project(checkout, settings)
    with Bus.open(checkout, settings=settings, on_warning=lambda _: None) as bus:
        bus.open_run("A use case")
        yield bus, checkout
