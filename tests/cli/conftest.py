"""A desk with a project on it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.runner import Desk
from tests.projects import Repository


@pytest.fixture
def bare_desk(repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """A repository without a project."""
    return Desk(repository, tmp_path / "home", monkeypatch)


@pytest.fixture
def desk(bare_desk: Desk) -> Desk:
    """A repository with a fresh project."""
    bare_desk.ok("init")
    return bare_desk
