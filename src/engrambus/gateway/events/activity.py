"""Calls of other processes: each follower of events has a FIFO that they write their events into (decision 52).

Queries leave nothing in the journal, so a gateway learns of those that `engrambus query` and `engrambus mcp` answer
only if they tell it. A process that answers such a call writes its event, one line, into every FIFO in
`.catalog/activity/`. A FIFO exists only while a client follows events in the process that made it: usually there is
none, and nothing is written. No writer waits: an event that does not fit into a full FIFO is dropped.
"""

from __future__ import annotations

import errno
import os
import select
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from engrambus.core import files
from engrambus.errors import Trouble
from engrambus.gateway.events.event_types import is_call_event
from engrambus.gateway.events.values import Event

READ_BYTES = 1 << 16
SETTLED_NS = 100_000_000


class ActivityChannel:
    """The FIFOs of one project, as one process writes and reads them."""

    def __init__(self, folder: Path, project: str) -> None:
        self._folder = str(folder)
        self._project = project
        self._own: str | None = None
        """Name of the FIFO of this process, while it listens."""
        self._descriptor: int | None = None
        self._unread = b""
        self._listed: tuple[int, list[str]] = (-1, [])
        """When the folder last changed, and the FIFOs of other processes then."""

    def publish(self, make_event: Callable[[], Event | None]) -> None:
        """Tell other processes of an event, if any of them listens. It never fails: the call has been answered."""
        try:
            names = self._listeners()
        except (OSError, Trouble):  # usually there is no such folder
            return
        if not names or (event := make_event()) is None:
            return
        line = msgspec.json.encode(event) + b"\n"
        if len(line) <= select.PIPE_BUF:  # longer ones could be mixed with those of another writer
            for name in names:
                _write(f"{self._folder}/{name}", line)

    def listen(self) -> None:
        """Create the FIFO of this process."""
        if self._descriptor is not None:
            return
        name = f"{os.getpid()}.{os.urandom(6).hex()}"
        try:
            files.make_folder(self._folder)
            files.make_fifo(f"{self._folder}/{name}")
            # Open for writing too, so that it never reads as ended when a writer has closed its end.
            self._descriptor = files.open_fifo(f"{self._folder}/{name}", os.O_RDWR)
            self._own = name
        except (OSError, Trouble):
            return  # a folder of another account: this process learns only of its own calls

    def read(self) -> list[Event]:
        """Return the events that other processes have written since the last time."""
        if self._descriptor is None:
            return []
        try:
            self._unread += os.read(self._descriptor, READ_BYTES)
        except OSError:
            return []
        *lines, self._unread = self._unread.split(b"\n")
        self._unread = self._unread[: select.PIPE_BUF]
        return [event for line in lines if (event := self._decode(line)) is not None]

    def close(self) -> None:
        """Delete the FIFO of this process."""
        if self._descriptor is None:
            return
        with suppress(OSError):
            files.remove(f"{self._folder}/{self._own}")
        os.close(self._descriptor)
        self._descriptor, self._own, self._unread = None, None, b""
        with suppress(OSError):  # others may listen
            os.rmdir(self._folder)

    def _listeners(self) -> list[str]:
        changed_ns = os.stat(self._folder).st_mtime_ns
        # A second change can have the same time as the first, so a list is trusted only when it is a little older.
        if changed_ns != self._listed[0] or time.time_ns() - changed_ns < SETTLED_NS:
            self._listed = changed_ns, [name for name in files.folder_names(self._folder) if name != self._own]
        return self._listed[1]

    def _decode(self, line: bytes) -> Event | None:
        try:
            event = msgspec.json.decode(line, type=Event)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return None
        return event if event.project == self._project and is_call_event(event) else None


def _write(path: str, line: bytes) -> None:
    try:
        descriptor = files.open_fifo(path, os.O_WRONLY)
    except Trouble:  # something else is in its place
        return
    except OSError as problem:
        if problem.errno == errno.ENXIO:  # nobody reads it
            _delete_if_dead(path)
        return
    try:
        os.write(descriptor, line)
    except OSError:
        pass  # full
    finally:
        os.close(descriptor)


def _delete_if_dead(path: str) -> None:
    owner = os.path.basename(path).partition(".")[0]
    try:
        os.kill(int(owner), 0)
    except (ValueError, ProcessLookupError):
        with suppress(OSError):
            files.remove(path)
    except PermissionError:
        return
