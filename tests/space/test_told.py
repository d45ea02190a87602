"""Whoever listens to a worker cannot harm its work, and reads it line by line. # YT-06 # YT-08"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from engrambus import Worker
from engrambus.errors import FieldValue
from engrambus.settings import Settings
from engrambus.space.catalog import Catalog
from engrambus.space.tuples import read_pattern
from engrambus.space.work import LaneWorkerPool, Progress
from engrambus.space.work.worker import CLAIM_CHECK_SECONDS
from tests.projects import Repository
from tests.space.shop import DECLARED, Shop, open_shop, step
from tests.space.terminal import WORK, Terminal, open_terminal


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    """A shop of the test's own."""
    with open_shop(tmp_path / "project") as shop:
        yield shop


@pytest.fixture
def terminal(repository: Repository, settings: Settings, tmp_path: Path) -> Terminal:
    """A project with a catalog of the tests' yools."""
    return open_terminal(repository, settings, tmp_path, "tests.space.yools")


@pytest.mark.parametrize("what", ["miss", "done"])
def test_a_listener_that_fails_undoes_no_step(shop: Shop, tmp_path: Path, what: str) -> None:
    calls = tmp_path / "calls"
    ids = [shop.put(step("agent.count.calls", path=str(calls))) for _ in range(8)]

    def listen(progress: Progress) -> None:
        if progress.kind == what:
            raise BrokenPipeError("nobody reads this")

    pool = LaneWorkerPool(shop.shop, read_pattern({"lane": "build"}), concurrency=1, on_progress=listen)
    with pytest.raises(BrokenPipeError):
        pool.run()
    states = [shop.space.get(each).state for each in ids]
    assert states.count("done") == len(calls.read_text().splitlines()) > 0
    assert set(states) == {"done", "waiting"}


def test_what_was_written_down_is_not_told_to_be_lost(shop: Shop) -> None:
    """Though the heart looks after the end was written, and before the worker let go of it."""
    shop.put(step("agent.sum.numbers", a=1, b=2))
    told: list[str] = []

    def listen(progress: Progress) -> None:
        told.append(progress.kind)
        if progress.kind == "done":
            time.sleep(2.5 * CLAIM_CHECK_SECONDS)

    LaneWorkerPool(shop.shop, read_pattern({"lane": "build"}), on_progress=listen).run(until_empty=True)
    assert told == ["miss", "done"]


def test_a_mistake_of_ours_costs_one_tuple_and_not_the_worker(shop: Shop) -> None:
    """Whatever it is: those put beside it are worked on."""
    broken, sound = (shop.put(step("agent.sum.numbers", a=number, b=2)) for number in (1, 2))

    def catalog() -> Catalog:
        if not told:
            told.append("asked")
            raise ZeroDivisionError("a mistake")
        return DECLARED

    told: list[str] = []
    shop = shop._replace(shop=msgspec.structs.replace(shop.shop, catalog=catalog))
    assert sorted(shop.work()) == ["dead", "done", "miss", "refused"]
    states = {shop.space.get(each).state for each in (broken, sound)}
    assert states == {"dead", "done"}


def test_a_closed_pipe_ends_a_worker_that_leaves_nothing_in_its_hands(terminal: Terminal, tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    for _ in range(4):
        terminal.run("out", "--lane", "build", "--yool", "agent.count.calls", "--arg", f"path={calls}")
    worker = terminal.start(*WORK, "--concurrency", "1")
    assert worker.stdout is not None
    assert worker.stderr is not None
    assert "MISS exec" in worker.stdout.readline()
    worker.stdout.close()
    assert worker.wait(60) in (0, 141), worker.stderr.read()
    worker.stderr.close()
    (run,) = terminal.json("runs")["runs"]
    assert run["states"].get("claimed", 0) == 0
    assert run["states"]["done"] == run["executed"] == len(calls.read_text().splitlines())


def test_on_a_terminal_every_line_stands_alone(terminal: Terminal) -> None:
    for each in range(3):
        terminal.run("out", "--lane", "build", "--yool", "agent.sum.numbers", "--arg", "a=1", "--arg", f"b={each}")
    shown = terminal.shown(*WORK)
    lines = re.findall(rb"[^\r\n]*MISS exec[^\r\n]*", shown)
    assert len(lines) == 3
    assert all(re.sub(rb"\x1b\[[0-9;?]*[A-Za-z]", b"", each).startswith(b"[t=") for each in lines), lines


def test_a_lane_no_tuple_can_be_in_is_refused(terminal: Terminal) -> None:
    assert '"field":"lane"' in terminal.run("worker", "--lane", "", "--until-empty", "--json", code=1)
    with pytest.raises(FieldValue, match="lane"):
        Worker.open(terminal.path, lane="")
