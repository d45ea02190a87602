"""Fixtures that the tests of evidence share."""

from __future__ import annotations

from pathlib import Path

import pytest

from .repos import Repo


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    """An empty repository."""
    return Repo(tmp_path / "repo")
