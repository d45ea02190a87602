"""A process that writes until it is killed, and logs each write before it starts and after it was acknowledged.

    python writer.py FOLDER LOG SEED [PAUSE]

The log is a file of lines: `put? ID`, `put ID`, `promote? ID`, `promote ID`, `forget? ID`, `forget ID`. With a PAUSE
it writes one engram and stops at that point for ever, after writing `paused` into the log.
"""

from __future__ import annotations

import os
import random
import sys
import time
from pathlib import Path
from typing import Any

from engrambus.backends.sqlite import SqliteStore
from engrambus.backends.sqlite.journal_index import JournalIndex
from engrambus.core import SystemClock, new_ulid
from engrambus.core.journal import Journal
from engrambus.errors import EngramBusError
from engrambus.testing import GatewayClient, open_gateway
from engrambus.testing.harness import KEY


class WriterProject:
    """The store in a folder, with the system clock."""

    def __init__(self, folder: Path) -> None:
        self.gateway = open_gateway(SqliteStore(folder, KEY, SystemClock()), folder, os.urandom)


class Writer:
    """Puts, promotes and forgets its own engrams."""

    def __init__(self, folder: Path, log: Path, seed: int) -> None:
        self._log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._dice = random.Random(seed)
        self._hand = GatewayClient(WriterProject(folder))
        self._mine: list[str] = []
        self._promotable: list[str] = []

    def note(self, text: str) -> None:
        """Write one line to the log, unbuffered, so that a kill does not lose it."""
        os.write(self._log, text.encode() + b"\n")

    def go_on(self) -> None:
        """Write until killed."""
        while True:
            chance = self._dice.random()
            if chance < 0.6:
                self.put()
            elif chance < 0.7:
                self.put_many()
            elif chance < 0.85 and self._promotable:
                self.promote()
            elif self._mine:
                self.forget()

    def put(self) -> None:
        engram_id = new_ulid(time.time_ns() // 1000)
        self.note(f"put? {engram_id}")
        refs = [f"sam:note:{engram_id.lower()}@2026-01-01"]
        self._hand.put("One matter more", refs=refs, id=engram_id, scope="run", ttl="P30D")
        self.note(f"put {engram_id}")
        self._mine.append(engram_id)
        self._promotable.append(engram_id)

    def put_many(self) -> None:
        ids = [new_ulid(time.time_ns() // 1000) for _ in range(self._dice.randrange(1, 40))]
        for engram_id in ids:
            self.note(f"put? {engram_id}")
        pointers = [{"type": "sam", "ref": "sam:note:anything@2026-01-01"}]
        engrams = [{"claim": "Many matters", "id": engram_id, "pointers": pointers} for engram_id in ids]
        self._hand.call("put_engrams", engrams=engrams)
        self.note("".join(f"put {engram_id}\n" for engram_id in ids).rstrip("\n"))
        self._mine += ids

    def promote(self) -> None:
        engram_id = self._promotable.pop(self._dice.randrange(len(self._promotable)))
        self.note(f"promote? {engram_id}")
        self._hand.call("promote_engram", id=engram_id)
        self.note(f"promote {engram_id}")

    def forget(self) -> None:
        engram_id = self._mine.pop(self._dice.randrange(len(self._mine)))
        if engram_id in self._promotable:
            self._promotable.remove(engram_id)
        self.note(f"forget? {engram_id}")
        self._hand.call("forget_engram", id=engram_id)
        self.note(f"forget {engram_id}")

    def pause(self) -> None:
        """Sleep until killed."""
        self.note("paused")
        while True:
            time.sleep(60)


def stop_at(point: str, writer: Writer) -> None:
    """Make the process stop at a point of its next commit."""
    append, sync = Journal.append, Journal.sync
    commit, build = SqliteStore._commit_batch, JournalIndex._build

    def patched_append(journal: Journal, lines: list[bytes]) -> None:
        if point == "before the append":
            writer.pause()
        if point == "in the midst of the append":
            data = b"".join(lines)
            os.write(journal._current.descriptor, data[: len(data) // 2])
            writer.pause()
        append(journal, lines)
        if point == "after the append":
            writer.pause()

    def patched_sync(journal: Journal, cut_to: int | None = None) -> None:
        sync(journal, cut_to)
        if point == "after the sync":
            writer.pause()

    def patched_commit(store: SqliteStore, batch: Any) -> None:
        commit(store, batch)
        if point == "after the index":
            writer.pause()

    def patched_build(index: JournalIndex[Any, Any], path: Path) -> None:
        build(index, path.with_name("never in place"))
        writer.pause()

    set_on(Journal, "append", patched_append)
    set_on(Journal, "sync", patched_sync)
    set_on(SqliteStore, "_commit_batch", patched_commit)
    if point == "before a rebuild is in place":
        set_on(JournalIndex, "_build", patched_build)


def set_on(target: Any, name: str, value: Any) -> None:
    """Replace an attribute."""
    setattr(target, name, value)


def main() -> None:
    folder, log, seed, *pause = sys.argv[1:]
    writer = Writer(Path(folder), Path(log), int(seed))
    if pause:
        stop_at(pause[0], writer)
        if pause[0] == "before a rebuild is in place":
            (Path(folder) / KEY.derived_folder / "index.db").unlink()
        writer.put()
        return
    try:
        writer.go_on()
    except EngramBusError as problem:
        writer.note(f"refused {problem.code} {problem}")
        raise


if __name__ == "__main__":
    main()
