"""Progress of a worker: a failing listener does no harm, and every event is a line of its own. # YT-06 # YT-08"""

from __future__ import annotations

import re
import time
from pathlib import Path

import msgspec
import pytest

from engrambus import Worker
from engrambus.errors import FieldValue
from engrambus.policy.guardrails import Quotas
from engrambus.settings import Settings
from engrambus.space.tuples import read_pattern
from engrambus.space.work import LaneWorkerPool, Progress
from engrambus.space.work.worker import CLAIM_CHECK_SECONDS
from tests.projects import Repository
from tests.space.terminal import WORK, Terminal, open_terminal
from tests.space.worker_harness import WorkerHarness, step


@pytest.fixture
def terminal(repository: Repository, settings: Settings, tmp_path: Path) -> Terminal:
    """Open a project whose catalog declares the tests' yools."""
    return open_terminal(repository, settings, tmp_path, "tests.space.yools")


@pytest.mark.parametrize("kind", ["miss", "done"])
def test_a_failing_listener_undoes_no_step(harness: WorkerHarness, tmp_path: Path, kind: str) -> None:
    calls = tmp_path / "calls"
    ids = [harness.put(step("agent.count.calls", path=str(calls))) for _ in range(8)]

    def listen(progress: Progress) -> None:
        if progress.kind == kind:
            raise BrokenPipeError("nobody reads this")

    pool = LaneWorkerPool(harness.deps, read_pattern({"lane": "build"}), concurrency=1, on_progress=listen)
    with pytest.raises(BrokenPipeError):
        pool.run()
    states = [harness.space.get(tuple_id).state for tuple_id in ids]
    assert states.count("done") == len(calls.read_text().splitlines()) > 0
    assert set(states) == {"done", "waiting"}


def test_a_recorded_tuple_is_not_reported_as_lost(harness: WorkerHarness) -> None:
    """The heartbeat checks claims after the end is recorded, and before the worker drops the tuple."""
    harness.put(step("agent.sum.numbers", a=1, b=2))
    kinds: list[str] = []

    def listen(progress: Progress) -> None:
        kinds.append(progress.kind)
        if progress.kind == "done":
            time.sleep(2.5 * CLAIM_CHECK_SECONDS)

    LaneWorkerPool(harness.deps, read_pattern({"lane": "build"}), on_progress=listen).run(until_empty=True)
    assert kinds == ["miss", "done"]


def test_an_unexpected_error_costs_one_tuple_and_not_the_worker(harness: WorkerHarness) -> None:
    """Other tuples are still run."""
    broken, sound = (harness.put(step("agent.sum.numbers", a=number, b=2)) for number in (1, 2))

    def quotas() -> tuple[Quotas, ...]:
        if not calls:
            calls.append("asked")
            raise ZeroDivisionError("a mistake")
        return ()

    calls: list[str] = []
    harness = harness._replace(deps=msgspec.structs.replace(harness.deps, quotas=quotas))
    assert sorted(harness.work()) == ["dead", "done", "miss", "refused"]
    states = {harness.space.get(tuple_id).state for tuple_id in (broken, sound)}
    assert states == {"dead", "done"}


def test_a_worker_whose_output_is_closed_ends_without_claimed_tuples(terminal: Terminal, tmp_path: Path) -> None:
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


def test_on_a_terminal_every_event_has_its_own_line(terminal: Terminal) -> None:
    for number in range(3):
        terminal.run("out", "--lane", "build", "--yool", "agent.sum.numbers", "--arg", "a=1", "--arg", f"b={number}")
    output = terminal.run_on_terminal(*WORK)
    lines = re.findall(rb"[^\r\n]*MISS exec[^\r\n]*", output)
    assert len(lines) == 3
    assert all(re.sub(rb"\x1b\[[0-9;?]*[A-Za-z]", b"", line).startswith(b"[t=") for line in lines), lines


def test_an_invalid_lane_is_refused(terminal: Terminal) -> None:
    assert '"field":"lane"' in terminal.run("worker", "--lane", "", "--until-empty", "--json", code=1)
    with pytest.raises(FieldValue, match="lane"):
        Worker.open(terminal.path, lane="")
