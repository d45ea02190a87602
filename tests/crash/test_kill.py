"""`kill -9` at random points, and at every point that matters. # BX-03

`make crash` runs three hundred rounds; the suite ten.
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

from .witness import SPACES, Promises, new_project, start_writer, wait_for

ROUNDS = int(os.environ.get("ENGRAMBUS_CRASH_ROUNDS", "10"))
WRITERS = 4
ROUNDS_PER_PROJECT = 10


@pytest.mark.timeout(60 + ROUNDS * 10)
def test_nothing_acknowledged_is_lost_and_nothing_doubled(tmp_path: Path) -> None:
    dice = random.Random(os.environ.get("ENGRAMBUS_CRASH_SEED", time.time_ns()))
    survived = 0
    diaries: list[Path] = []
    for number in range(ROUNDS):
        folder = tmp_path / f"project-{number // ROUNDS_PER_PROJECT}"
        if number % ROUNDS_PER_PROJECT == 0:
            diaries = []
            new_project(folder)
        fresh = [tmp_path / f"diary-{number}-{writer}" for writer in range(WRITERS)]
        diaries += fresh
        _one_round(folder, fresh, dice)
        survived = Promises(diaries).check(folder)
        if ROUNDS > 10:
            print(f"\rround {number + 1} of {ROUNDS}: {survived} engrams, all accounted for", end="", flush=True)
    assert survived > 0


def _one_round(folder: Path, diaries: list[Path], dice: random.Random) -> None:
    """Four writers; some die early while the others go on, sometimes without an index; then all die."""
    writers = [start_writer(folder, diary, dice.randrange(1 << 30)) for diary in diaries]
    try:
        for diary in diaries:
            wait_for(diary, "put ")
        early = writers[: dice.randrange(WRITERS)]
        time.sleep(dice.random() * 0.15)
        for writer in early:
            writer.send_signal(signal.SIGKILL)
            time.sleep(dice.random() * 0.03)
        if dice.random() < 0.2:
            (folder / "index.db").unlink(missing_ok=True)
        time.sleep(dice.random() * 0.15)
        for writer in writers[len(early) :]:
            assert writer.poll() is None, writer.communicate()[1].decode()[-3000:]
    finally:
        for writer in writers:
            writer.send_signal(signal.SIGKILL)
        for writer in writers:
            writer.communicate()


def test_nobody_starves(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    new_project(folder)
    diaries = [tmp_path / f"diary-{writer}" for writer in range(WRITERS)]
    writers = [start_writer(folder, diary, seed) for seed, diary in enumerate(diaries)]
    try:
        for diary in diaries:
            wait_for(diary, "put ")
        begun = [_commits(diary) for diary in diaries]
        while any(_commits(diary) < start + 20 for diary, start in zip(diaries, begun, strict=True)):
            time.sleep(0.05)  # who starves never gets there, and the limit on every test ends it
        made = [_commits(diary) - start for diary, start in zip(diaries, begun, strict=True)]
    finally:
        for writer in writers:
            _kill(writer)
    assert min(made) * 10 >= sum(made) / WRITERS, made


def _commits(diary: Path) -> int:
    """How many changes a writer had acknowledged; each was announced once, a batch engram by engram."""
    return diary.read_text().count("put? ") + diary.read_text().count("forget ")


POINTS = {
    "before the append": False,
    "in the midst of the append": False,
    "after the append": True,
    "after the sync": True,
    "after the index": True,
}
"""Where a writer dies, and whether what it wrote is there afterwards."""


@pytest.mark.parametrize(("point", "happened"), POINTS.items())
def test_death_at_a_point_of_a_commit(tmp_path: Path, point: str, happened: bool) -> None:
    folder, diary = tmp_path / "project", tmp_path / "diary"
    new_project(folder)
    watching = SqliteStore(folder, SystemClock())
    before = _count(watching)
    dead = start_writer(folder, diary, 1, point)
    try:
        wait_for(diary, "paused")
        # The writer holds the lock. Reading does not wait for it, and sees nothing that is not safe.
        assert _count(watching) == before + (point == "after the index")
    finally:
        _kill(dead)
    engram_id = diary.read_text().split()[1]
    with watching.read() as view:
        assert (view.find(SPACES, engram_id) is not None) == happened
    assert watching.verify() == []
    watching.close()
    next_diary = tmp_path / "next"
    after = start_writer(folder, next_diary, 2)
    try:
        wait_for(next_diary, "put ")
    finally:
        _kill(after)
    assert Promises([next_diary]).said["put"]
    (tmp_path / "all").write_text(f"put? {engram_id}\n")
    Promises([tmp_path / "all", next_diary]).check(folder)


def test_death_while_the_index_is_built(tmp_path: Path) -> None:
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
    assert not (folder / "index.db").exists()
    (folder / "index.db.new").write_bytes(b"half an index")
    Promises([first]).check(folder)
    assert not (folder / "index.db.new").exists()


def _count(store: Store) -> int:
    with store.read() as view:
        return view.counts().engrams


def _kill(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGKILL)
    process.communicate()
