"""The logs of killed writers, compared with what the store has."""

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
from engrambus.testing.harness import KEY, PROJECT

RUN = "01KDVP9R000000000000000000"
SPACES = ("r1", "p")


def new_project(folder: Path) -> None:
    """Create a project with one run."""
    folder.mkdir(parents=True)
    create_store(folder, KEY, project=PROJECT, now_us=SystemClock().now())
    store = SqliteStore(folder, KEY, SystemClock())
    store.commit(lambda view: ([RunOpened(run=RUN, goal="survive", by=f"{RUN}/admin")], None))
    store.close()


def start_writer(folder: Path, log: Path, seed: int, *pause: str) -> subprocess.Popen[bytes]:
    """Start a writing process."""
    script = Path(__file__).with_name("writer.py")
    return subprocess.Popen(
        [sys.executable, str(script), str(folder), str(log), str(seed), *pause], stderr=subprocess.PIPE
    )


def wait_for(log: Path, text: str, seconds: float = 120) -> None:
    """Wait until a log contains a text."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if log.exists() and text in log.read_text():
            return
        time.sleep(0.005)
    raise AssertionError(f"the log never said {text!r}")


class AcknowledgedWrites:
    """Writes that the logs say were acknowledged, and those that may or may not have happened (`put?`)."""

    def __init__(self, logs: list[Path]) -> None:
        self.notes: dict[str, set[str]] = {
            word: set() for word in ("put?", "put", "promote?", "promote", "forget?", "forget")
        }
        for log in logs:
            if not log.exists():
                continue
            # A writer may be killed in the midst of a note: what has no end was never said.
            for line in log.read_text().split("\n")[:-1]:
                word, _, engram_id = line.partition(" ")
                assert word in self.notes, line
                self.notes[word].add(engram_id)

    def check(self, folder: Path) -> int:
        """Check the store against the logs; return the number of engrams it has."""
        notes = self.notes
        store = SqliteStore(folder, KEY, SystemClock())
        try:
            assert store.verify() == []
            put, forgotten = self._journal(folder)
            with store.read() as view:
                lookups = {engram_id: view.find(SPACES, engram_id) for engram_id in notes["put?"]}
            stored_engrams = {engram_id: stored.engram for engram_id, stored in lookups.items() if stored is not None}
        finally:
            store.close()
        assert all(count == 1 for count in (*put.values(), *forgotten.values())), "something is doubled"
        assert set(put) <= notes["put?"], "the journal has an engram that no writer put"
        assert notes["put"] <= set(put), "something acknowledged is lost"
        assert notes["put"] - notes["forget?"] <= set(stored_engrams), "something acknowledged is not found"
        assert not notes["forget"] & set(stored_engrams), "something forgotten is back"
        assert set(stored_engrams) == set(put) - set(forgotten)
        for engram_id in notes["promote"] & set(stored_engrams):
            assert stored_engrams[engram_id].scope == "project"
        return len(stored_engrams)

    def _journal(self, folder: Path) -> tuple[Counter[str], Counter[str]]:
        """Count every id put and every id forgotten; the journal must be valid to its last byte."""
        journal = Journal(folder / "memory.jsonl", KEY, "memory")
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
