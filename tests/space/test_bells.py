"""Waiting in one process for what another does. # YT-05"""

from __future__ import annotations

import os
import resource
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stigmergy.testing.work import SqliteWorkHarness, draft, put

MANY = 1100
"""More files than `select` can wait for."""


@pytest.fixture
def many_files() -> Iterator[None]:
    """A process that has many files open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2 * MANY:
        pytest.skip(f"no process may open {2 * MANY} files here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2 * MANY), hard))
    first = os.open(os.devnull, os.O_RDONLY)
    held = [first, *(os.dup(first) for _ in range(MANY))]
    yield
    for descriptor in held:
        os.close(descriptor)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_whoever_has_many_files_open_waits_like_anyone(many_files: None, tmp_path: Path) -> None:
    harness = SqliteWorkHarness(tmp_path / "catalog")
    assert harness.space.rd({"lane": "late"}, timeout=0.05) is None
    got: list[Any] = []
    waiter = threading.Thread(target=lambda: got.append(harness.space.in_({"lane": "late"}, by="me", timeout=30.0)))
    waiter.start()
    (one,) = put(harness, draft("late"))
    waiter.join(20)
    assert [each.id for each in got] == [one]
    harness.close()
