"""A shell on a repository with something to review."""

from __future__ import annotations

from pathlib import Path

import pytest
from demo.post_office import make_repository

from tests.cli.runner import Shell
from tests.projects import Repository


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """A small post office, without a project; what `--fresh` makes goes into the test's folder."""
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "scratch"))
    make_repository(tmp_path / "repository")
    return Shell(Repository(tmp_path / "repository", ""), tmp_path / "home", monkeypatch)
