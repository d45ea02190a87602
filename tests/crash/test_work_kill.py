"""`kill -9` of workers, and workers that sleep past their lease. # YT-06 # YT-10 # YT-11

`make torture` kills a thousand times over twenty thousand tuples; the suite a few times over a few hundred.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from engrambus.backends.facts import decode_work_facts
from engrambus.backends.sqlite.work import WORK_INDEX, create_work
from engrambus.core import SystemClock
from engrambus.space.tuples import ENDED, StepCost, StepDone, TupleDone, TupleSpace, read_pattern
from engrambus.testing.harness import KEY
from tests.crash.work_process import PERSON, RUN, open_space

LONG = int(os.environ.get("ENGRAMBUS_CRASH_ROUNDS", "10")) > 10
KILLS = int(os.environ.get("ENGRAMBUS_WORK_KILLS", "1000" if LONG else "8"))
TUPLES = int(os.environ.get("ENGRAMBUS_WORK_TUPLES", "20000" if LONG else "320"))
WORKERS = 4
PROJECT = "01KDVP9R00STGMERGYTEST0000"


def start_worker(place: Path | str, log: Path, parent: str, tuples: int, clock: int = 0) -> subprocess.Popen[bytes]:
    """Start a worker on the work in a folder or a database; its clock is that many seconds ahead."""
    command = [sys.executable, "-m", "tests.crash.work_process", str(place), str(log), parent, str(tuples)]
    environment = {**os.environ, "WORK_PROCESS_CLOCK": str(clock)}
    return subprocess.Popen(command, stderr=subprocess.PIPE, cwd=Path(__file__).parents[2], env=environment)


def _new(folder: Path) -> str:
    """Create a project with a parent tuple for all the work; return its id."""
    folder.mkdir()
    create_work(folder, KEY, project=PROJECT, now_us=SystemClock().now())
    space = open_space(folder)
    parent = {"lane": "plan", "payload": [], "agent_terms": {"budget_usd": 1_000_000}}
    put = space.out(parent, authority=PERSON, run=RUN)[0].id
    space.close()
    return put


@pytest.mark.timeout(300 + KILLS * 3)
def test_no_tuple_is_lost_and_none_ends_twice(tmp_path: Path) -> None:
    dice = random.Random(os.environ.get("ENGRAMBUS_CRASH_SEED", time.time_ns()))
    folder = tmp_path / "catalog"
    parent = _new(folder)
    logs: list[Path] = []
    share = -(-TUPLES * 11 // (KILLS * 10))  # some are killed before they have put all of theirs

    def start() -> subprocess.Popen[bytes]:
        logs.append(tmp_path / f"log-{len(logs)}")
        return start_worker(folder, logs[-1], parent, share)

    workers = [start() for _ in range(WORKERS)]
    try:
        for kill in range(KILLS):
            victim = dice.randrange(WORKERS)
            wait_for_life(workers[victim], logs)
            time.sleep(dice.random() * 0.1)
            workers[victim].send_signal(signal.SIGKILL)
            _, output = workers[victim].communicate()
            assert workers[victim].returncode in (-signal.SIGKILL, 0), output.decode()[-3000:]
            if dice.random() < 0.05:
                (folder / KEY.derived_folder / WORK_INDEX).unlink(missing_ok=True)
            workers[victim] = start()
            if LONG:
                print(f"\r{kill + 1} of {KILLS} kills", end="", flush=True)
        for worker in workers:
            _, output = worker.communicate()
            assert worker.returncode == 0, output.decode()[-3000:]
    finally:
        for worker in workers:
            if worker.poll() is None:
                worker.kill()
                worker.communicate()
    space = open_space(folder)
    drain(space)
    check_books(space, parent, logs)
    space.close()


def wait_for_life(worker: subprocess.Popen[bytes], logs: list[Path]) -> None:
    """Wait until every started worker has had something acknowledged, or has ended."""
    while worker.poll() is None and not all(item.exists() and item.stat().st_size for item in logs[-WORKERS:]):
        time.sleep(0.01)


def drain(space: TupleSpace) -> None:
    """Do what is left."""
    from tests.crash.work_process import do

    pattern = read_pattern({"lane": "work"})
    while claims := space.claim(pattern, worker="last", limit=64, timeout=2.5):
        space.complete([do(space, claim) for claim in claims])


def check_books(space: TupleSpace, parent: str, logs: list[Path], least: float = TUPLES * 3 / 4) -> None:
    """Compare what was acknowledged with the index and the journal."""
    promised = [line.split() for log in logs if log.exists() for line in log.read_text().splitlines()]
    put = {words[1] for words in promised if words[0] == "out"}
    ended = {words[1]: words[2] for words in promised if words[0] == "end"}
    spent: Counter[str] = Counter()
    ends: Counter[str] = Counter()
    last: dict[str, str] = {}
    final_receipts: Counter[str] = Counter()
    too_late: Counter[str] = Counter()
    """Spent by workers that had lost their claim, and told after the tuple's last receipt: it counts all the same."""
    for line in space.store.lines_after(0, 10_000_000):
        for fact in decode_work_facts(line.facts):
            if isinstance(fact, StepCost | StepDone):
                spent[fact.id] += fact.micros
            if isinstance(fact, StepCost) and fact.id in ends:
                assert fact.late
                too_late[fact.id] += fact.micros
            if isinstance(fact, TupleDone):
                ends[fact.id] += 1
                last[fact.id] = fact.receipt.id
                final_receipts[fact.id] += fact.receipt.cost.usd_micros
    records = {record.id: record for record in space.rd_all({"lane": "work"}, limit=10_000_000)}
    assert put <= records.keys(), "an acknowledged tuple is lost"
    assert len(records) >= least
    assert all(record.state in ENDED for record in records.values())
    assert set(ends) == records.keys()
    assert set(ends.values()) == {1}, "a tuple has more than one last receipt"
    assert all(last[tuple_id] == receipt for tuple_id, receipt in ended.items()), "an acknowledged receipt is lost"
    assert all(record.spent_micros == spent[record.id] for record in records.values())
    assert final_receipts + too_late == spent, "a last receipt tells less than was spent, or more"
    assert all(record.reserved_micros == 0 for record in records.values())
    above = space.get(parent)
    assert (above.spent_micros, above.reserved_micros) == (sum(spent.values()), 0), "a budget is not exact"
    with space.store.read() as view:
        (figures,) = view.run_totals()
    assert figures.micros == sum(spent.values())
    assert figures.states == {"done": len(records), "waiting": 1}
    assert space.store.verify() == [], "the index is not what the journal says"
    print(f"\n{len(records)} tuples, {len(put)} acknowledged, {len(ended)} ends acknowledged, {sum(spent.values())} µ$")


def test_a_worker_that_slept_past_its_lease_cannot_complete(tmp_path: Path) -> None:
    folder = tmp_path / "catalog"
    _new(folder)
    code = (
        "import sys, os, signal; from pathlib import Path\n"
        "from tests.crash.work_process import do, open_space, WORK\n"
        "space = open_space(Path(sys.argv[1]))\n"
        "(claim,) = space.claim(WORK, worker='sleeper', timeout=10)\n"
        "completion = do(space, claim)\n"
        "print(claim.id, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGSTOP)\n"
        "print(space.complete([completion])[0][0], flush=True)\n"
    )
    space = open_space(folder)
    step = {"yool": "agent.lint.ruff", "args": {"n": 1}}
    tuple_id = space.out({"lane": "work", "payload": [step]}, authority=PERSON, run=RUN)[0].id
    sleeper = subprocess.Popen(
        [sys.executable, "-c", code, str(folder)], stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]
    )
    try:
        assert sleeper.stdout is not None
        assert sleeper.stdout.readline().strip() == tuple_id
        os.waitpid(sleeper.pid, os.WUNTRACED)
        (claim,) = space.claim({"lane": "work"}, worker="other", timeout=20)
        assert (claim.id, claim.attempt) == (tuple_id, 2)
        sleeper.send_signal(signal.SIGCONT)
        assert sleeper.stdout.readline().strip() == "STALE_FENCE"
        assert space.get(tuple_id).worker == "other"
        assert space.public_tuple(tuple_id)["receipts"] == []
    finally:
        sleeper.kill()
        sleeper.communicate()
        space.close()
