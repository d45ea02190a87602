"""The team's episodic store as a file the memory controller reads, and the log of the shared cortex.

Both are copies: what is remembered stands in the journal, and the store is brought up to it after each change and
before each read. What was appended to it and not noted is cut; a store that was changed by hand, or belongs to another
journal, is written anew.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from engrambus.core import canonical
from engrambus.core.lock import locked

if TYPE_CHECKING:
    from logging import Logger

    from engrambus.knowledge.cortex import CortexReads

STORE = "episodes.jsonl"
NOTED = ".written"
LOCK = ".lock"
AT_ONCE = 1000


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """What the store held when it was last brought up."""

    count: int = 0
    size: int = 0
    changed: int = 0
    """The file's time of change, in nanoseconds: while it and the size are the same, nobody has touched it."""
    chain: str = ""
    """sha256 of the chain of the lines before and the last line."""
    last: str = ""
    """sha256 of the last line."""


class CortexFolder:
    """A project's `.catalog/sam` and its log."""

    def __init__(self, folder: Path, log_file: Path) -> None:
        self._folder = folder
        self._store = folder / STORE
        self._log_file = log_file

    def note(self, line: str) -> None:
        """Add a line to the log, in one piece."""
        _log().info(line)
        try:
            place = os.open(self._log_file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.write(place, f"{line}\n".encode())
            finally:
                os.close(place)
        except OSError as problem:  # what it tells of has happened all the same
            _log().warning("%s could not be written: %s", self._log_file, problem)

    def bring_up(self, read: Callable[[], AbstractContextManager[CortexReads]]) -> None:
        """Write what is remembered and not yet in the store; what cannot be written now is written the next time."""
        try:
            # Read under the lock: a view from before it could know less than whoever wrote last.
            with self._locked(), read() as reads:
                written = self._written()
                if written is None or not self._is_of(reads, written):
                    self._write_anew(reads)
                elif reads.episodes_after(written.count, limit=1):
                    self._append(reads, self._store, written)
        except OSError as problem:
            _log().warning("%s could not be written: %s", self._store, problem)

    def _written(self) -> Written | None:
        """What stands in the store; None when it is not what was written there."""
        try:
            written = msgspec.json.decode((self._folder / NOTED).read_bytes(), type=Written)
            found = self._store.stat()
        except (OSError, msgspec.MsgspecError):
            return None
        if (found.st_size, found.st_mtime_ns) == (written.size, written.changed):
            return written
        if found.st_size < written.size or self._chain(written.size) != written.chain:
            return None
        if found.st_size > written.size:
            os.truncate(self._store, written.size)
        return written

    def _is_of(self, reads: CortexReads, written: Written) -> bool:
        """Whether the last thing in the store is what was remembered then."""
        if not written.count:
            return True
        last = reads.episodes_after(written.count - 1, limit=1)
        return bool(last) and _digest(canonical(last[0].record()) + b"\n") == written.last

    def _write_anew(self, reads: CortexReads) -> None:
        fresh = self._store.with_name(f"{STORE}.{os.getpid()}")
        fresh.write_bytes(b"")
        self._append(reads, fresh, Written())

    def _append(self, reads: CortexReads, place: Path, written: Written) -> None:
        """Add what is missing to a file, which becomes the store if it is not yet."""
        count, chain, last = written.count, written.chain, b""
        with place.open("ab", buffering=0) as file:
            while more := reads.episodes_after(count, limit=AT_ONCE):
                lines = [canonical(each.record()) + b"\n" for each in more]
                file.write(b"".join(lines))
                for last in lines:
                    chain = _linked(chain, last)
                count += len(more)
        if place != self._store:
            place.replace(self._store)
        found = self._store.stat()
        now = Written(
            count=count,
            size=found.st_size,
            changed=found.st_mtime_ns,
            chain=chain,
            last=_digest(last) if last else "",
        )
        fresh = self._folder / f"{NOTED}.{os.getpid()}"
        fresh.write_bytes(msgspec.json.encode(now))
        fresh.replace(self._folder / NOTED)

    def _chain(self, size: int) -> str:
        """The chain of the lines in the first bytes of the store."""
        chain = ""
        with self._store.open("rb") as file:
            while size > 0 and (line := file.readline(size)):
                chain = _linked(chain, line)
                size -= len(line)
        return chain

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self._folder.mkdir(exist_ok=True)
        with locked(self._folder / LOCK):
            yield


def _log() -> Logger:
    from logging import getLogger  # most commands write nothing into it, and it takes long to load

    return getLogger("engrambus.cortex")


def _linked(chain: str, line: bytes) -> str:
    return _digest(chain.encode() + line)


def _digest(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()
