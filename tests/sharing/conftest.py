"""Teams of two who share one repository."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from tests.sharing.team import Colleague, make_team


class Pair(NamedTuple):
    """Two colleagues and the folder that everything of theirs is in."""

    ada: Colleague
    bob: Colleague
    folder: Path


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pair:
    """Two colleagues with a project each."""
    ada, bob = make_team(tmp_path, monkeypatch, "ada", "bob")
    return Pair(ada, bob, tmp_path)
