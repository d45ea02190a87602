"""A desk for every test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.law.desk import Desk


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    """A project with its repository, a manager and a programmer."""
    desk = Desk(tmp_path)
    yield desk
    desk.gateway.close()
