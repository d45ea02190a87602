"""A team for every test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import bare_shell, shell
from tests.limits.team import Team

__all__ = ["bare_shell", "shell"]


@pytest.fixture
def team(tmp_path: Path) -> Iterator[Team]:
    """A project with its repository, a manager and a programmer."""
    team = Team(tmp_path)
    yield team
    team.gateway.close()
