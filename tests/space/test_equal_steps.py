"""Of equal steps one runs; if it fails the next one runs, and none waits for ever. # YT-07 # YT-09"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from engrambus.space.tuples import read_pattern
from engrambus.space.work import LaneWorkerPool, Progress
from tests.space.worker_harness import WorkerHarness, step, wait_until

Listener = Callable[[Progress], None]


def finish(
    harness: WorkerHarness, seconds: float, on_progress: Callable[[Progress], None] = lambda progress: None
) -> bool:
    """Work until nothing is left; return False if that takes too long."""
    pool = LaneWorkerPool(harness.deps, read_pattern({"lane": "build"}), concurrency=4, on_progress=on_progress)
    thread = threading.Thread(target=pool.run, kwargs={"until_empty": True})
    thread.start()
    thread.join(seconds)
    ended = not thread.is_alive()
    pool.stop(at_once=True)
    thread.join()
    return ended


def failing_step(tmp_path: Path, name: str, go: str, fails: bool = True) -> dict[str, object]:
    """Return a step that notes its call, waits for a file and fails; equal to others of that name."""
    args = {"calls": str(tmp_path / name), "go": str(tmp_path / go), "fails": fails}
    return {**step("agent.think.once", **args), "after": []}


def test_a_tuple_whose_equal_steps_fail_is_dead(harness: WorkerHarness, tmp_path: Path) -> None:
    (tmp_path / "go").touch()
    tuple_id = harness.put(failing_step(tmp_path, "calls", "go"), failing_step(tmp_path, "calls", "go"))
    assert finish(harness, 20)
    assert harness.space.get(tuple_id).state == "dead"
    assert (tmp_path / "calls").read_text() == "called\n" * 2


def test_an_equal_step_continues_when_a_third_step_fails_at_the_same_time(
    harness: WorkerHarness, tmp_path: Path
) -> None:
    """The first has its result in the journal and still reports progress when the third fails."""
    (tmp_path / "go").touch()
    failed = threading.Event()

    def on_progress(progress: Progress) -> None:
        if progress.kind == "failed":
            failed.set()
        elif progress.kind == "miss":
            (tmp_path / "later").touch()
            assert failed.wait(20)

    equal = failing_step(tmp_path, "calls", "go", fails=False)
    tuple_id = harness.put(failing_step(tmp_path, "others", "later"), equal, equal)
    assert finish(harness, 30, on_progress)
    assert harness.space.get(tuple_id).state == "dead"
    assert (tmp_path / "calls").read_text() == "called\n"


def test_no_step_waits_for_the_other_steps_of_a_tuple_whose_equal_step_failed(
    harness: WorkerHarness, tmp_path: Path
) -> None:
    """Otherwise two tuples could wait for each other's steps for ever."""
    (tmp_path / "go").touch()
    longer = harness.put(failing_step(tmp_path, "calls", "go"), failing_step(tmp_path, "others", "later"))
    shorter = harness.put(failing_step(tmp_path, "calls", "go"))
    pool = harness.pool(concurrency=4)
    thread = threading.Thread(target=pool.run, kwargs={"until_empty": True})
    thread.start()
    try:
        wait_until(lambda: harness.space.get(shorter).state == "dead", 20)
        assert harness.space.get(longer).state == "claimed"
    finally:
        (tmp_path / "later").touch()
        thread.join(60)
        pool.stop(at_once=True)
    assert harness.space.get(longer).state == "dead"
    assert (tmp_path / "calls").read_text() == "called\n" * 2
