"""The files of the shared cortex: the episodic store that the memory controller reads, and the log.

The store is a copy of the journal's episodes, brought up to date after each change and before each read (decision 26).
A state file says how much was written. Bytes after that are cut off. A store that was edited, or that belongs to
another journal, is written again from the start. The state lies in the folder of derived files, whose name a repository
cannot know: a store that came with it is noticed (decision 67).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from engrambus.core import canonical, files
from engrambus.core.lock import file_lock
from engrambus.errors import StoreBusy, Trouble

if TYPE_CHECKING:
    from logging import Logger

    from engrambus.knowledge.cortex import CortexReads

STORE_NAME = "episodes.jsonl"
STATE_NAME = "episodes.written"
LOCK_NAME = "episodes.lock"
BATCH_SIZE = 1000


class StoreState(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of the store when it was last written."""

    count: int = 0
    """Number of lines."""
    size_bytes: int = msgspec.field(name="size", default=0)
    changed_ns: int = msgspec.field(name="changed", default=0)
    """Modification time of the file; while it and the size are the same, the content need not be checked."""
    chain: str = ""
    """Hash chain over all lines: sha256 of the chain so far and the next line."""
    last: str = ""
    """sha256 of the last line."""


class CortexFolder:
    """A project's `.catalog/sam` folder and the log of the shared cortex."""

    def __init__(self, folder: Path, log_file: Path, derived: Path) -> None:
        self._folder = folder
        self._derived = derived
        self._store = folder / STORE_NAME
        self._log_file = log_file

    def note(self, line: str) -> None:
        """Append a line to the log with a single write, so that lines of several processes never mix."""
        _log().info(line)
        try:
            file = files.open_file(self._log_file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            try:
                os.write(file, f"{line}\n".encode())
            finally:
                os.close(file)
        except (OSError, Trouble) as problem:  # the change that the line reports is committed and must not fail now
            _log().warning("%s could not be written: %s", self._log_file, problem)

    def write_episodes(
        self, read: Callable[[], AbstractContextManager[CortexReads]], *, to_be_read: bool = False
    ) -> None:
        """Append the episodes that the store lacks; after an error, the next call tries again.

        A store that is `to_be_read` is checked whole: a disk that changes a byte does not change the file's time.
        """
        ours = False
        try:
            # The view is opened under the lock: an earlier one could lack what another process has just written.
            with self._locked(), read() as reads:
                state = self._load_state(to_be_read)
                ours = state is not None and self._belongs_to(reads, state)
                if state is None or not ours:
                    self._rewrite(reads)
                elif reads.episodes_after(state.count, limit=1):
                    self._append(reads, self._store, state)
        except (OSError, Trouble) as problem:
            _log().warning("%s could not be written: %s", self._store, problem)
            if not ours and not isinstance(problem, StoreBusy):
                with suppress(OSError, Trouble):
                    files.remove(self._store)  # or its reader would take it for the journal's

    def find_difference(self, read: Callable[[], AbstractContextManager[CortexReads]]) -> str | None:
        """Explain how the store differs from the journal's episodes, None if it does not.

        A process that was killed may have left episodes out, or half of one behind what was recorded.
        """
        if not files.is_file(self._store) and self._recorded().count == 0:
            return None
        with self._locked(), read() as reads:
            recorded = self._recorded()
            try:
                with files.open_reader(self._store) as file:
                    return _compare(file, reads, recorded.size_bytes)
            except FileNotFoundError:
                return "the store of episodes is missing" if recorded.count else None

    def rewrite_episodes(self, read: Callable[[], AbstractContextManager[CortexReads]]) -> None:
        """Write the store again from the start."""
        with self._locked(), read() as reads:
            self._rewrite(reads)

    def _recorded(self) -> StoreState:
        """Return the state of the store when it was last written; an empty one if that is not known."""
        try:
            return msgspec.json.decode(files.read_file(self._derived / STATE_NAME), type=StoreState)
        except (OSError, ValueError):  # msgspec raises UnicodeDecodeError for bytes that are no text
            return StoreState()

    def _load_state(self, checked: bool) -> StoreState | None:
        """Return the state of the store after cutting off unrecorded bytes; None if its content was changed."""
        try:
            state = msgspec.json.decode(files.read_file(self._derived / STATE_NAME), type=StoreState)
            status = files.status_of(self._store)
        except (OSError, ValueError):
            return None
        if not checked and (status.st_size, status.st_mtime_ns) == (state.size_bytes, state.changed_ns):
            return state
        if status.st_size < state.size_bytes or self._chain(state.size_bytes) != state.chain:
            return None
        if status.st_size > state.size_bytes:
            with files.open_writer(self._store, "ab") as file:
                file.truncate(state.size_bytes)
        return state

    def _belongs_to(self, reads: CortexReads, state: StoreState) -> bool:
        """True if the last line of the store is the episode that the journal has at this position."""
        if not state.count:
            return state.size_bytes == 0
        last = reads.episodes_after(state.count - 1, limit=1)
        return bool(last) and _digest(canonical(last[0].record()) + b"\n") == state.last

    def _rewrite(self, reads: CortexReads) -> None:
        temporary = self._derived / f"{STORE_NAME}.{os.getpid()}"
        files.remove(temporary)
        self._append(reads, temporary, StoreState())

    def _append(self, reads: CortexReads, path: Path, state: StoreState) -> None:
        """Append the missing episodes to a file, make it the store, and save the state."""
        count, chain, last_line = state.count, state.chain, b""
        with files.open_writer(path, "ab") as file:
            while episodes := reads.episodes_after(count, limit=BATCH_SIZE):
                lines = [canonical(episode.record()) + b"\n" for episode in episodes]
                file.write(b"".join(lines))
                for line in lines:
                    chain = _link(chain, line)
                count += len(episodes)
                last_line = lines[-1]
        if path != self._store:
            files.rename(path, self._store)
        status = files.status_of(self._store)
        new_state = StoreState(
            count=count,
            size_bytes=status.st_size,
            changed_ns=status.st_mtime_ns,
            chain=chain,
            last=_digest(last_line) if last_line else "",
        )
        files.replace_file(self._derived / STATE_NAME, msgspec.json.encode(new_state))

    def _chain(self, size_bytes: int) -> str:
        """Return the hash chain over the lines in the first bytes of the store."""
        chain = ""
        with files.open_reader(self._store) as file:
            while size_bytes > 0 and (line := file.readline(size_bytes)):
                chain = _link(chain, line)
                size_bytes -= len(line)
        return chain

    @contextmanager
    def _locked(self) -> Iterator[None]:
        files.make_folder(self._folder)
        files.make_folder(self._derived)
        with file_lock(self._derived / LOCK_NAME):
            yield


def _compare(file: BufferedReader, reads: CortexReads, recorded_bytes: int) -> str | None:
    """Explain where a store differs from the episodes; None if it has all that was recorded and nothing else."""
    count = offset = 0
    while episodes := reads.episodes_after(count, limit=BATCH_SIZE):
        for episode in episodes:
            expected = canonical(episode.record()) + b"\n"
            line = file.readline(len(expected))
            if line != expected:
                if not expected.startswith(line):
                    return f"line {count + 1} differs from the journal"
                return "lines are missing at the end" if offset + len(line) < recorded_bytes else None
            count += 1
            offset += len(line)
    return "there are lines that the journal does not have" if file.read(1) else None


def _log() -> Logger:
    # decision 39: most commands log nothing, and the logging module takes long to load.
    from logging import getLogger

    return getLogger("engrambus.cortex")


def _link(chain: str, line: bytes) -> str:
    return _digest(chain.encode() + line)


def _digest(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()
