"""Of equal steps one runs; when it fails, the next one does, and nobody waits for ever. # YT-07 # YT-09"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engrambus.space.tuples import read_pattern
from engrambus.space.work import LaneWorkerPool, Progress
from tests.space.shop import Shop, open_shop, step, until


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    """A shop of the test's own."""
    with open_shop(tmp_path / "project") as shop:
        yield shop


def finish(shop: Shop, seconds: float, told: Callable[[Progress], None] = lambda heard: None) -> bool:
    """Work until nothing is left; whether that was ever so."""
    pool = LaneWorkerPool(shop.shop, read_pattern({"lane": "build"}), concurrency=4, on_progress=told)
    working = threading.Thread(target=pool.run, kwargs={"until_empty": True})
    working.start()
    working.join(seconds)
    ended = not working.is_alive()
    pool.stop(at_once=True)
    working.join()
    return ended


def failing(tmp_path: Path, name: str, go: str, fails: bool = True) -> dict[str, object]:
    """A step that says it was called, waits for a file and fails; equal to others of that name."""
    args = {"calls": str(tmp_path / name), "go": str(tmp_path / go), "fails": fails}
    return {**step("agent.think.once", **args), "after": []}


def test_equal_steps_of_one_tuple_that_fail_end_it(shop: Shop, tmp_path: Path) -> None:
    (tmp_path / "go").touch()
    one = shop.put(failing(tmp_path, "calls", "go"), failing(tmp_path, "calls", "go"))
    assert finish(shop, 20)
    assert shop.space.get(one).state == "dead"
    assert (tmp_path / "calls").read_text() == "called\n" * 2


def test_an_equal_step_goes_ahead_when_a_third_one_fails_meanwhile(shop: Shop, tmp_path: Path) -> None:
    """The first has its result in the journal, and is still telling of it when the third one's failure is noted."""
    (tmp_path / "go").touch()
    failed = threading.Event()

    def told(heard: Progress) -> None:
        if heard.kind == "failed":
            failed.set()
        elif heard.kind == "miss":
            (tmp_path / "later").touch()
            assert failed.wait(20)

    equal = failing(tmp_path, "calls", "go", fails=False)
    one = shop.put(failing(tmp_path, "others", "later"), equal, equal)
    assert finish(shop, 30, told)
    assert shop.space.get(one).state == "dead"
    assert (tmp_path / "calls").read_text() == "called\n"


def test_nobody_waits_for_the_rest_of_a_tuple_whose_equal_step_failed(shop: Shop, tmp_path: Path) -> None:
    """So two tuples that wait for each other's steps do not wait for ever."""
    (tmp_path / "go").touch()
    longer = shop.put(failing(tmp_path, "calls", "go"), failing(tmp_path, "others", "later"))
    shorter = shop.put(failing(tmp_path, "calls", "go"))
    pool = shop.pool(concurrency=4)
    working = threading.Thread(target=pool.run, kwargs={"until_empty": True})
    working.start()
    try:
        until(lambda: shop.space.get(shorter).state == "dead", 20)
        assert shop.space.get(longer).state == "claimed"
    finally:
        (tmp_path / "later").touch()
        working.join(60)
        pool.stop(at_once=True)
    assert shop.space.get(longer).state == "dead"
    assert (tmp_path / "calls").read_text() == "called\n" * 2
