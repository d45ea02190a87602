"""`kill -9` among workers, and workers that sleep past their lease. # YT-06 # YT-10 # YT-11

`make crash` kills a thousand times over twenty thousand tuples; the suite a few times over a few hundred.
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
from tests.crash.work_process import PERSON, RUN, open_space

LONG = int(os.environ.get("ENGRAMBUS_CRASH_ROUNDS", "10")) > 10
KILLS = int(os.environ.get("ENGRAMBUS_WORK_KILLS", "1000" if LONG else "12"))
TUPLES = int(os.environ.get("ENGRAMBUS_WORK_TUPLES", "20000" if LONG else "480"))
WORKERS = 4
PROJECT = "01KDVP9R00STGMERGYTEST0000"


def _start(folder: Path, diary: Path, parent: str, tuples: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.crash.work_process", str(folder), str(diary), parent, str(tuples)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, cwd=Path(__file__).parents[2])


def _new(folder: Path) -> str:
    """A new project with a parent for all the work; its id."""
    folder.mkdir()
    create_work(folder, project=PROJECT, now_us=SystemClock().now())
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
    diaries: list[Path] = []
    share = -(-TUPLES * 11 // (KILLS * 10))  # some are killed before they have put all of theirs

    def start() -> subprocess.Popen[bytes]:
        diaries.append(tmp_path / f"diary-{len(diaries)}")
        return _start(folder, diaries[-1], parent, share)

    workers = [start() for _ in range(WORKERS)]
    try:
        for kill in range(KILLS):
            at = dice.randrange(WORKERS)
            _wait_for_life(workers[at], diaries)
            time.sleep(dice.random() * 0.1)
            workers[at].send_signal(signal.SIGKILL)
            _, said = workers[at].communicate()
            assert workers[at].returncode in (-signal.SIGKILL, 0), said.decode()[-3000:]
            if dice.random() < 0.05:
                (folder / WORK_INDEX).unlink(missing_ok=True)
            workers[at] = start()
            if LONG:
                print(f"\r{kill + 1} of {KILLS} kills", end="", flush=True)
        for worker in workers:
            _, said = worker.communicate()
            assert worker.returncode == 0, said.decode()[-3000:]
    finally:
        for worker in workers:
            if worker.poll() is None:
                worker.kill()
                worker.communicate()
    space = open_space(folder)
    _drain(space)
    _check(space, parent, diaries)
    space.close()


def _wait_for_life(worker: subprocess.Popen[bytes], diaries: list[Path]) -> None:
    """Until every worker that was started has had something acknowledged, or has ended: all of them are at work."""
    while worker.poll() is None and not all(each.exists() and each.stat().st_size for each in diaries[-WORKERS:]):
        time.sleep(0.01)


def _drain(space: TupleSpace) -> None:
    from tests.crash.work_process import do

    pattern = read_pattern({"lane": "work"})
    while claims := space.claim(pattern, worker="last", limit=64, timeout=2.5):
        space.complete([do(space, claim) for claim in claims])


def _check(space: TupleSpace, parent: str, diaries: list[Path]) -> None:
    """Hold what was promised, what the index says and what the journal says against each other."""
    promised = [line.split() for diary in diaries if diary.exists() for line in diary.read_text().splitlines()]
    put = {words[1] for words in promised if words[0] == "out"}
    ended = {words[1]: words[2] for words in promised if words[0] == "end"}
    spent: Counter[str] = Counter()
    ends: Counter[str] = Counter()
    last: dict[str, str] = {}
    told: Counter[str] = Counter()
    for line in space.store.lines_after(0, 10_000_000):
        for fact in decode_work_facts(line.facts):
            if isinstance(fact, StepCost | StepDone):
                spent[fact.id] += fact.micros
            if isinstance(fact, TupleDone):
                ends[fact.id] += 1
                last[fact.id] = fact.receipt.id
                told[fact.id] += fact.receipt.cost.usd_micros
    kept = {one.id: one for one in space.rd_all({"lane": "work"}, limit=10_000_000)}
    assert put <= kept.keys(), "an acknowledged tuple is lost"
    assert len(kept) >= TUPLES * 3 / 4
    assert all(one.state in ENDED for one in kept.values())
    assert set(ends) == kept.keys()
    assert set(ends.values()) == {1}, "a tuple has more than one last receipt"
    assert all(last[one] == receipt for one, receipt in ended.items()), "an acknowledged receipt is lost"
    assert all(one.spent_micros == spent[one.id] for one in kept.values())
    assert told == spent, "a last receipt tells less than was spent, or more"
    assert all(one.reserved_micros == 0 for one in kept.values())
    above = space.get(parent)
    assert (above.spent_micros, above.reserved_micros) == (sum(spent.values()), 0), "a budget is not exact"
    with space.store.read() as view:
        (figures,) = view.run_totals()
    assert figures.micros == sum(spent.values())
    assert figures.states == {"done": len(kept), "waiting": 1}
    assert space.store.verify() == [], "the index is not what the journal says"
    print(f"\n{len(kept)} tuples, {len(put)} acknowledged, {len(ended)} ends acknowledged, {sum(spent.values())} µ$")


def test_a_worker_that_slept_past_its_lease_may_write_nothing(tmp_path: Path) -> None:
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
    one = space.out({"lane": "work", "payload": [step]}, authority=PERSON, run=RUN)[0].id
    sleeper = subprocess.Popen(
        [sys.executable, "-c", code, str(folder)], stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]
    )
    try:
        assert sleeper.stdout is not None
        assert sleeper.stdout.readline().strip() == one
        os.waitpid(sleeper.pid, os.WUNTRACED)
        (claim,) = space.claim({"lane": "work"}, worker="other", timeout=20)
        assert (claim.id, claim.attempt) == (one, 2)
        sleeper.send_signal(signal.SIGCONT)
        assert sleeper.stdout.readline().strip() == "STALE_FENCE"
        assert space.get(one).worker == "other"
        assert space.public_tuple(one)["receipts"] == []
    finally:
        sleeper.kill()
        sleeper.communicate()
        space.close()
