"""Fixtures of the tests about work."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.space.worker_harness import WorkerHarness, open_worker_harness


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[WorkerHarness]:
    """A project in `tmp_path / "project"` on which workers can run."""
    with open_worker_harness(tmp_path / "project") as harness:
        yield harness
