"""A project with the published memory stores, used at the command line."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.cli.runner import Shell
from tests.projects import make_repository

VECTORS = Path(__file__).parent / "vectors"


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """A project whose folder contains the published memory stores."""
    shell = Shell(make_repository(tmp_path / "repository"), tmp_path / "home", monkeypatch)
    shell.ok("init")
    for path in VECTORS.iterdir():
        shutil.copy(path, shell.path / path.name)
    return shell
