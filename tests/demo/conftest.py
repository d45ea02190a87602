"""A desk on a repository with something to review."""

from __future__ import annotations

from pathlib import Path

import pytest
from demo.post_office import make_repository

from tests.cli.runner import Desk
from tests.projects import Repository


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """A small post office, without a project; what `--fresh` makes goes into the test's folder."""
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "scratch"))
    make_repository(tmp_path / "repository")
    return Desk(Repository(tmp_path / "repository", ""), tmp_path / "home", monkeypatch)
