"""What the diaries of killed writers promise, held against what the store has."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import msgspec

from engrambus.backends.sqlite import SqliteStore, create_store
from engrambus.core import SystemClock
from engrambus.core.journal import Journal
from engrambus.policy import RunOpened
from engrambus.testing.harness import PROJECT

RUN = "01KDVP9R000000000000000000"
SPACES = ("r1", "p")


def new_project(folder: Path) -> None:
    """An empty project with one run."""
    folder.mkdir(parents=True)
    create_store(folder, project=PROJECT, now_us=SystemClock().now())
    store = SqliteStore(folder, SystemClock())
    store.commit(lambda view: ([RunOpened(run=RUN, goal="survive", by=f"{RUN}/admin")], None))
    store.close()


def start_writer(folder: Path, diary: Path, seed: int, *pause: str) -> subprocess.Popen[bytes]:
    """A writing process."""
    script = Path(__file__).with_name("writer.py")
    return subprocess.Popen(
        [sys.executable, str(script), str(folder), str(diary), str(seed), *pause], stderr=subprocess.PIPE
    )


def wait_for(diary: Path, text: str, seconds: float = 120) -> None:
    """Wait until a diary says something."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if diary.exists() and text in diary.read_text():
            return
        time.sleep(0.005)
    raise AssertionError(f"the diary never said {text!r}")


class Promises:
    """What the diaries say was acknowledged, and what may or may not have happened."""

    def __init__(self, diaries: list[Path]) -> None:
        self.said: dict[str, set[str]] = {
            word: set() for word in ("put?", "put", "promote?", "promote", "forget?", "forget")
        }
        for diary in diaries:
            if not diary.exists():
                continue
            # A writer may be killed in the midst of a note: what has no end was never said.
            for line in diary.read_text().split("\n")[:-1]:
                word, _, engram_id = line.partition(" ")
                assert word in self.said, line
                self.said[word].add(engram_id)

    def check(self, folder: Path) -> int:
        """Hold the store against the promises; gives how many engrams it has."""
        said = self.said
        store = SqliteStore(folder, SystemClock())
        try:
            assert store.verify() == []
            put, forgotten = self._journal(folder)
            with store.read() as view:
                found = {engram_id: view.find(SPACES, engram_id) for engram_id in said["put?"]}
            there = {engram_id: stored.engram for engram_id, stored in found.items() if stored is not None}
        finally:
            store.close()
        assert all(count == 1 for count in (*put.values(), *forgotten.values())), "something is doubled"
        assert set(put) <= said["put?"], "something is there that nobody wrote"
        assert said["put"] <= set(put), "something acknowledged is lost"
        assert said["put"] - said["forget?"] <= set(there), "something acknowledged is not found"
        assert not said["forget"] & set(there), "something forgotten is back"
        assert set(there) == set(put) - set(forgotten)
        for engram_id in said["promote"] & set(there):
            assert there[engram_id].scope == "project"
        return len(there)

    def _journal(self, folder: Path) -> tuple[Counter[str], Counter[str]]:
        """Every id put and every id forgotten, with how often; the chain must be whole to the last byte."""
        journal = Journal(folder / "memory.jsonl")
        put: Counter[str] = Counter()
        forgotten: Counter[str] = Counter()
        for line, _ in journal.read(journal.start):
            for fact in msgspec.json.decode(line.facts):
                if fact["fact"] == "engram.put":
                    put[fact["engram"]["id"]] += 1
                if fact["fact"] == "engram.forgotten":
                    forgotten[fact["id"]] += 1
        assert journal.last_valid(journal.start).offset == journal.size()
        journal.close()
        return put, forgotten
