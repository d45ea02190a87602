"""A project with the published memory stores, used at the command line."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.cli.runner import Desk
from tests.projects import make_repository

VECTORS = Path(__file__).parent / "vectors"


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """A project whose folder contains the published memory stores."""
    desk = Desk(make_repository(tmp_path / "repository"), tmp_path / "home", monkeypatch)
    desk.ok("init")
    for path in VECTORS.iterdir():
        shutil.copy(path, desk.path / path.name)
    return desk
