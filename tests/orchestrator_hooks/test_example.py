"""The example orchestrator runs from a shell, and what it promises to show is there."""  # EB-18

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "orchestrator.py"


@pytest.fixture(scope="module")
def transcript(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the example prints."""
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLE)],
        cwd=tmp_path_factory.mktemp("somewhere"),
        env={"PATH": os.environ["PATH"], "HOME": "/nonexistent", "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "line",
    [
        r"lead -> ada, ben, cleo: \d+ tokens",
        r"ada -> lead: rejected\. .*characters of code \d+ of 0\.",
        r"ada -> lead: accepted, turn 2 begins, makes good the rejection [0-9A-Z]{26}",
        r"[0-9A-Z]{26} confirmed, first said by ada",
        r"ben may not read repo:ledger\.py#L56-L69: DEREF_DENIED",
        r"lead grants ben repo:ledger\.py#L56-L69",
        r"ben reads repo:ledger\.py#L56-L69: \d+ tokens",
        r"risk: Promise and code disagree: .*\n +repo:docs/refunds\.md#L9-L12, repo:refunds\.py#L12-L13",
        r"rejected +1\n",
        r"sent again and accepted +1\n",
    ],
)
def test_the_transcript_shows_every_part(transcript: str, line: str) -> None:
    assert re.search(line, transcript)


def test_less_is_moved_than_copying_would_have(transcript: str) -> None:
    moved, copied = (
        int(matches) for matches in re.findall(r"tokens (?:moved|that copying[\w ]+moved) +(\d+)", transcript)
    )
    assert moved < 0.6 * copied


def test_the_example_is_short() -> None:
    assert len(EXAMPLE.read_text("utf-8").splitlines()) < 250
