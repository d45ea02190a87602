"""`kill -9` at random points, and at every point that matters. # BX-03

`make torture` runs sixty rounds; the suite five.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

from engrambus.backends.sqlite import SqliteStore
from engrambus.core import SystemClock
from engrambus.gateway.ports import Store
from engrambus.testing.harness import KEY

from .acknowledged import SPACES, AcknowledgedWrites, new_project, start_writer, wait_for

ROUNDS = int(os.environ.get("ENGRAMBUS_CRASH_ROUNDS", "5"))
WRITERS = 4
ROUNDS_PER_PROJECT = 10


@pytest.mark.timeout(60 + ROUNDS * 10)
def test_nothing_acknowledged_is_lost_and_nothing_doubled(tmp_path: Path) -> None:
    dice = random.Random(os.environ.get("ENGRAMBUS_CRASH_SEED", time.time_ns()))
    survived = 0
    logs: list[Path] = []
    for number in range(ROUNDS):
        folder = tmp_path / f"project-{number // ROUNDS_PER_PROJECT}"
        if number % ROUNDS_PER_PROJECT == 0:
            logs = []
            new_project(folder)
        fresh = [tmp_path / f"log-{number}-{writer}" for writer in range(WRITERS)]
        logs += fresh
        _one_round(folder, fresh, dice)
        survived = AcknowledgedWrites(logs).check(folder)
        if ROUNDS > 10:
            print(f"\rround {number + 1} of {ROUNDS}: {survived} engrams, all accounted for", end="", flush=True)
    assert survived > 0


def _one_round(folder: Path, logs: list[Path], dice: random.Random) -> None:
    """Run four writers: some are killed early, sometimes the index is deleted, then all are killed."""
    writers = [start_writer(folder, log, dice.randrange(1 << 30)) for log in logs]
    try:
        for log in logs:
            wait_for(log, "put ")
        early = writers[: dice.randrange(WRITERS)]
        time.sleep(dice.random() * 0.15)
        for writer in early:
            writer.send_signal(signal.SIGKILL)
            time.sleep(dice.random() * 0.03)
        if dice.random() < 0.2:
            (folder / KEY.derived_folder / "index.db").unlink(missing_ok=True)
        time.sleep(dice.random() * 0.15)
        for writer in writers[len(early) :]:
            assert writer.poll() is None, writer.communicate()[1].decode()[-3000:]
    finally:
        for writer in writers:
            writer.send_signal(signal.SIGKILL)
        for writer in writers:
            writer.communicate()


def test_no_writer_starves(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    new_project(folder)
    logs = [tmp_path / f"log-{writer}" for writer in range(WRITERS)]
    writers = [start_writer(folder, log, seed) for seed, log in enumerate(logs)]
    try:
        for log in logs:
            wait_for(log, "put ")
        begun = [_commits(log) for log in logs]
        while any(_commits(log) < start + 20 for log, start in zip(logs, begun, strict=True)):
            time.sleep(0.05)  # who starves never gets there, and the limit on every test ends it
        commits = [_commits(log) - start for log, start in zip(logs, begun, strict=True)]
    finally:
        for writer in writers:
            _kill(writer)
    assert min(commits) * 10 >= sum(commits) / WRITERS, commits


def _commits(log: Path) -> int:
    """Return the number of changes that a writer had acknowledged."""
    return log.read_text().count("put? ") + log.read_text().count("forget ")


POINTS = {
    "before the append": False,
    "in the midst of the append": False,
    "after the append": True,
    "after the sync": True,
    "after the index": True,
}
"""Where a writer dies, and whether what it wrote is there afterwards."""


@pytest.mark.parametrize(("point", "happened"), POINTS.items())
def test_a_kill_at_any_point_of_a_commit_loses_nothing(tmp_path: Path, point: str, happened: bool) -> None:
    folder, log = tmp_path / "project", tmp_path / "log"
    new_project(folder)
    watching = SqliteStore(folder, KEY, SystemClock())
    count = _count(watching)
    dead = start_writer(folder, log, 1, point)
    try:
        wait_for(log, "paused")
        # The writer holds the lock. Reading does not wait for it, and sees nothing that is not safe.
        assert _count(watching) == count + (point == "after the index")
    finally:
        _kill(dead)
    engram_id = log.read_text().split()[1]
    with watching.read() as view:
        assert (view.find(SPACES, engram_id) is not None) == happened
    assert watching.verify() == []
    watching.close()
    next_log = tmp_path / "next"
    after = start_writer(folder, next_log, 2)
    try:
        wait_for(next_log, "put ")
    finally:
        _kill(after)
    assert AcknowledgedWrites([next_log]).notes["put"]
    (tmp_path / "all").write_text(f"put? {engram_id}\n")
    AcknowledgedWrites([tmp_path / "all", next_log]).check(folder)


def test_a_kill_during_a_rebuild_loses_nothing(tmp_path: Path) -> None:
    folder, first, second = tmp_path / "project", tmp_path / "first", tmp_path / "second"
    new_project(folder)
    writer = start_writer(folder, first, 1)
    wait_for(first, "put ")
    time.sleep(0.2)
    _kill(writer)
    dead = start_writer(folder, second, 2, "before a rebuild is in place")
    try:
        wait_for(second, "paused")
    finally:
        _kill(dead)
    assert not (folder / KEY.derived_folder / "index.db").exists()
    (folder / KEY.derived_folder / "index.db.new").write_bytes(b"half an index")
    AcknowledgedWrites([first]).check(folder)
    assert not (folder / KEY.derived_folder / "index.db.new").exists()


def _count(store: Store) -> int:
    with store.read() as view:
        return view.counts().engrams


def _kill(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGKILL)
    process.communicate()
