"""Steps that name what they wait for begin after all of it; after a failure none begins. # YT-07"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.space.worker_harness import WorkerHarness, running_pools, step, wait_until


def after(waiting_step: dict[str, Any], *waits_for: int) -> dict[str, Any]:
    """Return a step that waits for others."""
    return waiting_step | {"after": list(waits_for)}


def think(folder: Path, name: str) -> dict[str, Any]:
    """Return a step that notes its start and ends when a file appears."""
    return step("agent.think.once", calls=str(folder / name), go=str(folder / f"go-{name}"))


@pytest.mark.parametrize("first", ["a", "b"])
def test_a_step_begins_after_all_steps_it_waits_for(harness: WorkerHarness, tmp_path: Path, first: str) -> None:
    """A diamond; either of its sides may end first."""
    counted = after(step("agent.count.calls", path=str(tmp_path / "c")), 0, 1)
    last = after(step("agent.sum.numbers", a=1, b=2), 2)
    tuple_id = harness.put(after(think(tmp_path, "a")), after(think(tmp_path, "b")), counted, last)
    with running_pools(harness.pool(concurrency=4)):
        wait_until(lambda: all((tmp_path / name).exists() for name in "ab"))
        (tmp_path / f"go-{first}").touch()
        wait_until(lambda: len(harness.space.public_tuple(tuple_id)["receipts"]) == 1)
        (tmp_path / ("go-b" if first == "a" else "go-a")).touch()
        wait_until(lambda: harness.space.get(tuple_id).state == "done")
    *executed, _ = harness.receipts(tuple_id)
    a, b, c, d = sorted(executed, key=lambda receipt: receipt.step or 0)
    assert max(a.ended_at, b.ended_at) <= c.started_at <= c.ended_at <= d.started_at
    assert (tmp_path / "c").read_text() == "called\n"


def test_after_a_failure_no_step_is_begun(harness: WorkerHarness, tmp_path: Path) -> None:
    """Neither steps that wait for it nor others; running steps end, and their results are recorded."""
    after_both = after(step("agent.count.calls", path=str(tmp_path / "c")), 0, 1)
    after_other = after(step("agent.count.calls", path=str(tmp_path / "d")), 1)
    tuple_id = harness.put(
        after(step("agent.fail.always")),
        after(think(tmp_path, "b")),
        after_both,
        after_other,
        after(think(tmp_path, "e")),
    )
    with running_pools(harness.pool(concurrency=4)):
        begun = [tmp_path / "b", tmp_path / "e"]
        wait_until(
            lambda: all(path.exists() for path in begun) and "failed" in [event.kind for event in harness.progress]
        )
        (tmp_path / "go-b").touch()
        wait_until(lambda: 1 in [receipt.step for receipt in harness.receipts(tuple_id)])
        (tmp_path / "go-e").touch()
        wait_until(lambda: harness.space.get(tuple_id).state == "dead")
    assert [each.name for each in tmp_path.iterdir() if each.name in ("c", "d")] == []
    *executed, last = harness.receipts(tuple_id)
    assert {(receipt.step, receipt.exit) for receipt in executed} == {(0, 1), (1, 0), (4, 0)}
    assert (last.yool, last.exit) == ("tuple.run", 1)
