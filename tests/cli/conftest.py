"""Shells in a repository, with a project and without one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.runner import Shell
from tests.projects import Repository


@pytest.fixture
def bare_shell(repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """A repository without a project."""
    return Shell(repository, tmp_path / "home", monkeypatch)


@pytest.fixture
def shell(bare_shell: Shell) -> Shell:
    """A repository with a fresh project."""
    bare_shell.ok("init")
    return bare_shell
