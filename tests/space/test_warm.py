"""Warm processes: each step finds its own as the first one did, and pays for none that is gone. # YT-06 # YT-09"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from engrambus.space.work.warm_pool import MIN_PROCESSES
from tests.space.shop import Shop, open_shop, step, until, with_environment


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


def alive(pid: int) -> bool:
    """Whether a process has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_process_that_died_while_it_waited_costs_no_attempt(shop: Shop) -> None:
    first = run(shop, "agent.tell.place")[0]
    os.kill(first, signal.SIGKILL)
    until(lambda: not alive(first))
    second = run(shop, "agent.tell.place")[0]
    assert second != first
    assert run(shop, "agent.tell.place")[0] == second


def test_a_process_that_dies_as_it_is_asked_costs_no_attempt(shop: Shop) -> None:
    """It lives, but hears nothing any more."""
    first = run(shop, "agent.tell.place")[0]
    run(shop, "agent.go.deaf")
    second = run(shop, "agent.tell.place")[0]
    assert second != first


def test_no_more_processes_wait_than_a_few(shop: Shop) -> None:
    """Each environment has processes of its own; those of environments nobody asks for any more go."""
    pids = [run(with_environment(shop, COLOUR=str(each)), "agent.tell.place")[0] for each in range(MIN_PROCESSES + 3)]
    assert [alive(each) for each in pids] == [False] * 3 + [True] * MIN_PROCESSES
    assert run(with_environment(shop, COLOUR=str(MIN_PROCESSES)), "agent.tell.place")[0] == pids[MIN_PROCESSES]


def test_no_step_finds_the_environment_or_the_folder_of_another(shop: Shop, tmp_path: Path) -> None:
    """Whatever processes wait, each step sees what it was given, and runs where it was told."""
    (tmp_path / "other").mkdir()
    elsewhere = Shop(msgspec.structs.replace(shop.shop, root=tmp_path / "other"), shop.told)
    shops = {"plain": shop, "coloured": with_environment(shop, COLOUR="red"), "elsewhere": elsewhere}
    for _ in range(2):
        seen = {name: run(each, "agent.tell.place") for name, each in shops.items()}
        assert {each: told[1] for each, told in seen.items()} == {
            "plain": str(tmp_path / "project"),
            "coloured": str(tmp_path / "project"),
            "elsewhere": str(tmp_path / "other"),
        }
        assert [each for each, told in seen.items() if "COLOUR" in told[2]] == ["coloured"]
        assert len({told[0] for told in seen.values()}) == 3
