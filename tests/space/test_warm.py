"""Warm processes: each step finds its process as the first one did, and none pays for one that is gone. # YT-06 # YT-09"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.space.shop import Shop, open_shop, step, with_environment


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    """A shop of the test's own."""
    with open_shop(tmp_path / "project") as shop:
        yield shop


def run(shop: Shop, name: str, **args: Any) -> Any:
    """Have a step done anew; what it gave back."""
    one = shop.put(step(name, **args), flags={"no_cache": True})
    assert shop.work() == ["miss", "done"], shop.told
    return json.loads(shop.printed(one).splitlines()[-1])


def test_what_a_step_does_to_its_process_ends_with_it(shop: Shop, tmp_path: Path) -> None:
    before = run(shop, "agent.tell.place")
    assert before[1] == str(tmp_path / "project")
    pid = run(shop, "agent.mess.up", folder=str(tmp_path))
    after = run(shop, "agent.tell.place")
    assert pid == before[0]
    assert after == before
