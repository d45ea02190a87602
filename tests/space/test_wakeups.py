"""Waiting in one process for a tuple that another process puts. # YT-05"""

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
    """Open more files than `select` supports."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2 * MANY:
        pytest.skip(f"no process may open {2 * MANY} files here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2 * MANY), hard))
    first = os.open(os.devnull, os.O_RDONLY)
    descriptors = [first, *(os.dup(first) for _ in range(MANY))]
    yield
    for descriptor in descriptors:
        os.close(descriptor)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_process_with_many_open_files_can_wait(many_files: None, tmp_path: Path) -> None:
    harness = SqliteWorkHarness(tmp_path / "catalog")
    assert harness.space.rd({"lane": "late"}, timeout=0.05) is None
    received: list[Any] = []
    waiter = threading.Thread(
        target=lambda: received.append(harness.space.in_({"lane": "late"}, by="me", timeout=30.0))
    )
    waiter.start()
    (tuple_id,) = put(harness, draft("late"))
    waiter.join(20)
    assert [record.id for record in received] == [tuple_id]
    harness.close()


CHILD = """
import sys
from pathlib import Path
from engrambus.backends.sqlite.work import SqliteWork
from engrambus.backends.sqlite.work.wakeups import FifoWaiter
from engrambus.core import SystemClock
from engrambus.space.tuples import TupleSpace, space
from engrambus.testing.harness import KEY

space.POLL_SECONDS = 60.0  # without a wake-up it would look again only then
wait = FifoWaiter.wait

def printing_wait(waiter, seconds):
    print("sleeps", flush=True)
    wait(waiter, seconds)

FifoWaiter.wait = printing_wait
record = TupleSpace(SqliteWork(Path(sys.argv[1]), KEY, SystemClock())).in_({"lane": "late"}, by="me", timeout=60.0)
print(record.id if record else "nothing", flush=True)
"""


@contextmanager
def waiting_process(harness: SqliteWorkHarness) -> Iterator[subprocess.Popen[str]]:
    """Start another process that sleeps until a tuple arrives."""
    command = [sys.executable, "-c", CHILD, str(harness.folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == "sleeps\n"
            yield child
        finally:
            child.kill()


def test_a_put_wakes_up_a_waiting_process(tmp_path: Path) -> None:
    """It looks once before it sleeps, and then only when it is woken up."""
    with closing(SqliteWorkHarness(tmp_path / "catalog")) as harness, waiting_process(harness) as child:
        put(harness, draft("other"))
        (tuple_id,) = put(harness, draft("late"))
        printed = child.communicate(timeout=20)[0].splitlines()
        assert printed[-1] == tuple_id
        assert printed.count("sleeps") <= 1, "woken up by the other tuple, it slept once more"
        assert [path.name for path in (harness.folder / "wakeups").iterdir()] == ["waiting"]


def test_the_fifo_of_a_killed_waiter_is_removed(tmp_path: Path) -> None:
    with closing(SqliteWorkHarness(tmp_path / "catalog")) as harness, waiting_process(harness) as child:
        folder = harness.folder / "wakeups"
        child.kill()
        child.wait()
        assert [path.name.split(".")[:2] for path in folder.glob("work.*")] == [["work", str(child.pid)]]
        put(harness, draft("late"))
        assert list(folder.glob("work.*")) == []
