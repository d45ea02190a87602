"""The team's episodic store as a file the memory controller reads, and the log of the shared cortex.

Both are copies: what is remembered stands in the journal, and the store is brought up to it after each change. One
that is behind, torn or was changed by hand is written anew.
"""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stigmergy.core import canonical
from stigmergy.knowledge.cortex import CortexReads

STORE = "episodes.jsonl"
LOCK = ".lock"
AT_ONCE = 1000

log = logging.getLogger("stigmergy.cortex")


class CortexFolder:
    """A project's `.catalog/sam` and its log."""

    def __init__(self, folder: Path, log_file: Path) -> None:
        self._folder = folder
        self._log_file = log_file

    @property
    def store(self) -> Path:
        """The episodic store."""
        return self._folder / STORE

    def note(self, line: str) -> None:
        """Add a line to the log, in one piece."""
        log.info(line)
        place = os.open(self._log_file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.write(place, f"{line}\n".encode())
        finally:
            os.close(place)

    def bring_up(self, reads: CortexReads) -> None:
        """Write what is remembered and not yet in the store."""
        with self._locked():
            written = self._written(reads)
            if written is None:
                self.store.unlink(missing_ok=True)
                written = 0
            with self.store.open("ab") as file:
                while more := reads.episodes_after(written, limit=AT_ONCE):
                    file.write(b"".join(canonical(each.record()) + b"\n" for each in more))
                    written += len(more)

    def _written(self, reads: CortexReads) -> int | None:
        """How many episodes stand in the store; None when what stands there is not what it should be."""
        try:
            held = self.store.read_bytes()
        except FileNotFoundError:
            return 0
        if not held:
            return 0
        count = held.count(b"\n")
        last = reads.episodes_after(count - 1, limit=1) if held.endswith(b"\n") else ()
        if not last or held[held.rfind(b"\n", 0, -1) + 1 : -1] != canonical(last[0].record()):
            return None
        return count

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self._folder.mkdir(exist_ok=True)
        lock = os.open(self._folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)
