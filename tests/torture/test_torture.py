"""A short version of `make torture`: some cases of each part, drawn by a fixed seed. # BX-03 # YT-08"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
UNSUPPORTED = 2


def _torture(*options: str) -> str:
    """Run a part in a process of its own, because it forks; return its table."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.torture", *options], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode == UNSUPPORTED and not os.environ.get("CI"):
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    return done.stdout


@pytest.mark.parametrize("part", ["kills", "power", "errors"])
def test_nothing_acknowledged_is_lost_and_no_answer_is_wrong(part: str) -> None:
    assert f"| {part} |" in _torture("--only", part, "--rounds", "10")


def test_no_damaged_file_changes_an_answer() -> None:  # YT-10
    assert "| flips |" in _torture("--only", "flips", "--rounds", "2")


def test_nothing_is_lost_under_mixed_load_with_kills() -> None:
    assert "| load |" in _torture("--only", "load", "--minutes", "0.1")
