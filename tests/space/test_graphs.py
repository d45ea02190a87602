"""Steps that say what they wait for: each begins after all of it, and nothing begins after a failure. # YT-07"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.space.shop import Shop, at_work, open_shop, step, until


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    """A shop of the test's own."""
    with open_shop(tmp_path / "project") as shop:
        yield shop


def after(one: dict[str, Any], *waits_for: int) -> dict[str, Any]:
    """A step that waits for others."""
    return one | {"after": list(waits_for)}


def think(folder: Path, name: str) -> dict[str, Any]:
    """A step that says it has begun, and ends when it is let."""
    return step("agent.think.once", calls=str(folder / name), go=str(folder / f"go-{name}"))


@pytest.mark.parametrize("first", ["a", "b"])
def test_a_step_begins_when_all_it_waits_for_have_ended(shop: Shop, tmp_path: Path, first: str) -> None:
    """A diamond, whichever of its sides ends first."""
    counted = after(step("agent.count.calls", path=str(tmp_path / "c")), 0, 1)
    last = after(step("agent.sum.numbers", a=1, b=2), 2)
    one = shop.put(after(think(tmp_path, "a")), after(think(tmp_path, "b")), counted, last)
    with at_work(shop.pool(concurrency=4)):
        until(lambda: all((tmp_path / name).exists() for name in "ab"))
        (tmp_path / f"go-{first}").touch()
        until(lambda: len(shop.space.public_tuple(one)["receipts"]) == 1)
        (tmp_path / ("go-b" if first == "a" else "go-a")).touch()
        until(lambda: shop.space.get(one).state == "done")
    *executed, _ = shop.receipts(one)
    a, b, c, d = sorted(executed, key=lambda receipt: receipt.step or 0)
    assert max(a.ended_at, b.ended_at) <= c.started_at <= c.ended_at <= d.started_at
    assert (tmp_path / "c").read_text() == "called\n"


def test_after_a_failure_nothing_more_is_begun(shop: Shop, tmp_path: Path) -> None:
    """Neither what waits for it nor what waits for others; what is under way ends, and is kept."""
    after_both = after(step("agent.count.calls", path=str(tmp_path / "c")), 0, 1)
    after_other = after(step("agent.count.calls", path=str(tmp_path / "d")), 1)
    one = shop.put(
        after(step("agent.fail.always")),
        after(think(tmp_path, "b")),
        after_both,
        after_other,
        after(think(tmp_path, "e")),
    )
    with at_work(shop.pool(concurrency=4)):
        begun = [tmp_path / "b", tmp_path / "e"]
        until(lambda: all(each.exists() for each in begun) and "failed" in [each.kind for each in shop.told])
        (tmp_path / "go-b").touch()
        until(lambda: 1 in [each.step for each in shop.receipts(one)])
        (tmp_path / "go-e").touch()
        until(lambda: shop.space.get(one).state == "dead")
    assert [each.name for each in tmp_path.iterdir() if each.name in ("c", "d")] == []
    *executed, last = shop.receipts(one)
    assert {(each.step, each.exit) for each in executed} == {(0, 1), (1, 0), (4, 0)}
    assert (last.yool, last.exit) == ("tuple.run", 1)
