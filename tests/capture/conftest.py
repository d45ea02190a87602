"""A team with a real repository, whose programmer answers in prose."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.capture.team import AnsweringTeam


@pytest.fixture
def team(tmp_path: Path) -> Iterator[AnsweringTeam]:
    """A manager, a programmer and their repository."""
    team = AnsweringTeam(tmp_path)
    yield team
    team.gateway.close()
