"""Of equal steps one runs; when it fails, the next one does, and nobody waits for ever. # YT-07 # YT-09"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.space.shop import Shop, open_shop, step, until


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    """A shop of the test's own."""
    with open_shop(tmp_path / "project") as shop:
        yield shop


def finish(shop: Shop, seconds: float) -> bool:
    """Work until nothing is left; whether that was ever so."""
    pool = shop.pool(concurrency=4)
    working = threading.Thread(target=pool.run, kwargs={"until_empty": True})
    working.start()
    working.join(seconds)
    ended = not working.is_alive()
    pool.stop(at_once=True)
    working.join()
    return ended


def failing(tmp_path: Path, name: str, go: str) -> dict[str, object]:
    """A step that says it was called, waits for a file and fails; equal to others of that name."""
    args = {"calls": str(tmp_path / name), "go": str(tmp_path / go), "fails": True}
    return {**step("agent.think.once", **args), "after": []}


def test_equal_steps_of_one_tuple_that_fail_end_it(shop: Shop, tmp_path: Path) -> None:
    (tmp_path / "go").touch()
    one = shop.put(failing(tmp_path, "calls", "go"), failing(tmp_path, "calls", "go"))
    assert finish(shop, 20)
    assert shop.space.get(one).state == "dead"
    assert (tmp_path / "calls").read_text() == "called\n" * 2


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
