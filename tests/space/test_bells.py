"""Waiting in one process for what another does. # YT-05"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from engrambus.testing.work import draft, put
from tests.harness.stores import SqliteWorkHarness

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


CHILD = """
import sys
from pathlib import Path
from engrambus.backends.sqlite.work import SqliteWork
from engrambus.backends.sqlite.work.wakeups import FifoWaiter
from engrambus.core import SystemClock
from engrambus.space.tuples import TupleSpace, space

space.POLL_SECONDS = 60.0  # nobody looks again by itself
wait = FifoWaiter.wait

def said_wait(bell, seconds):
    print("sleeps", flush=True)
    wait(bell, seconds)

FifoWaiter.wait = said_wait
taken = TupleSpace(SqliteWork(Path(sys.argv[1]), SystemClock())).in_({"lane": "late"}, by="me", timeout=60.0)
print(taken.id if taken else "nothing", flush=True)
"""


@contextmanager
def child_that_waits(harness: SqliteWorkHarness) -> Iterator[subprocess.Popen[str]]:
    """Another process that sleeps until a tuple comes."""
    words = [sys.executable, "-c", CHILD, str(harness.folder)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == "sleeps\n"
            yield child
        finally:
            child.kill()


def test_whoever_waits_in_another_process_is_woken(tmp_path: Path) -> None:
    """And sleeps until then: it looks when it lies down, and when it is rung for."""
    with closing(SqliteWorkHarness(tmp_path / "catalog")) as harness, child_that_waits(harness) as child:
        put(harness, draft("other"))
        (one,) = put(harness, draft("late"))
        said = child.communicate(timeout=20)[0].splitlines()
        assert said[-1] == one
        assert said.count("sleeps") <= 1, "rung for the other tuple, it lay down once more"
        assert [each.name for each in (harness.folder / "bells").iterdir()] == ["waiting"]


def test_what_a_waiter_that_was_killed_leaves_is_taken_away(tmp_path: Path) -> None:
    with closing(SqliteWorkHarness(tmp_path / "catalog")) as harness, child_that_waits(harness) as child:
        bells = harness.folder / "bells"
        child.kill()
        child.wait()
        assert [each.name.split(".")[:2] for each in bells.glob("work.*")] == [["work", str(child.pid)]]
        put(harness, draft("late"))
        assert list(bells.glob("work.*")) == []
