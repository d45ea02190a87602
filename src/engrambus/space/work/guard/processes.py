"""The processes of this machine, as the kernel tells about them in /proc, or else as `ps` does."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Protocol

PROC = Path("/proc")


class Seen(NamedTuple):
    """One process at one moment."""

    pid: int
    parent: int
    group: int
    session: int
    started: int
    """When it started: another process of the same number started at another time."""
    cpu: float
    """Seconds of CPU it has used itself."""
    reaped: float
    """Seconds of CPU of its children that have ended."""
    memory: int
    """Bytes of memory that are its own."""
    shared: int
    """Bytes of memory it shares with others: programs and libraries."""
    written: int
    """Bytes it and its ended children have written to disk, as far as the kernel tells."""


class Table(Protocol):
    """Where processes are looked up."""

    def refresh(self, *, anew: bool = False) -> None:
        """A new look begins; who is there is told as of now, or, unless it must be, as of a moment ago."""
        ...

    def find(self, pid: int) -> Seen | None:
        """The process of that number."""
        ...

    def children(self, pid: int) -> Iterable[int]:
        """Its children."""
        ...

    def everyone(self) -> Iterator[int]:
        """Every process there is."""
        ...

    def bears(self, pid: int, mark: bytes) -> bool:
        """Whether a process was started with a mark in its environment."""
        ...


def table() -> Table:
    """The table of this machine."""
    return ProcTable() if (PROC / "self" / "stat").exists() else PsTable()


class ProcTable:
    """Reads /proc."""

    def __init__(self) -> None:
        self._tick = 1.0 / os.sysconf("SC_CLK_TCK")
        self._page = os.sysconf("SC_PAGE_SIZE")
        self._newest = (b"", b"")
        self._everyone: list[int] = []

    def refresh(self, *, anew: bool = False) -> None:
        """List who is there, unless nobody has been started since: the kernel tells the number it gave out last."""
        newest = _read("/proc/loadavg").strip().rpartition(b" ")[2]
        # It is given out a moment before its process is listed: what was listed once is listed once more.
        if anew or newest in (b"", b"0") or self._newest != (newest, newest):
            self._everyone = [int(name) for name in os.listdir(PROC) if name.isdigit()]
        self._newest = (self._newest[1], newest)

    def find(self, pid: int) -> Seen | None:
        """The process of that number."""
        text = _read(f"/proc/{pid}/stat")
        memory = _read(f"/proc/{pid}/statm").split()
        if not text or len(memory) < 3:
            return None
        # The name, in brackets, may hold anything.
        fields = text.rpartition(b")")[2].split()
        shared = int(memory[2]) * self._page
        return Seen(
            pid=pid,
            parent=int(fields[1]),
            group=int(fields[2]),
            session=int(fields[3]),
            started=int(fields[19]),
            cpu=(int(fields[11]) + int(fields[12])) * self._tick,
            reaped=(int(fields[13]) + int(fields[14])) * self._tick,
            memory=max(0, int(memory[1]) * self._page - shared),
            shared=shared,
            written=_written(pid),
        )

    def children(self, pid: int) -> Iterator[int]:
        """Its children; each of its threads may have some."""
        with suppress(OSError):
            for thread in os.listdir(f"/proc/{pid}/task"):
                for child in _read(f"/proc/{pid}/task/{thread}/children").split():
                    yield int(child)

    def everyone(self) -> Iterator[int]:
        """Every process there is."""
        return iter(self._everyone)

    def bears(self, pid: int, mark: bytes) -> bool:
        """Whether a process was started with a mark in its environment."""
        return mark in _read(f"/proc/{pid}/environ")


class PsTable:
    """Asks `ps`, where there is no /proc: macOS. It tells nothing of ended children, of what was written, of marks."""

    def __init__(self) -> None:
        self._rows: dict[int, Seen] = {}

    def refresh(self, *, anew: bool = False) -> None:
        """Ask."""
        asked = ["ps", "-axo", "pid=,ppid=,pgid=,rss=,time="]
        told = subprocess.run(asked, capture_output=True, text=True, check=False).stdout
        rows = (line.split() for line in told.splitlines())
        self._rows = {int(row[0]): _from_ps(row) for row in rows if len(row) == 5}

    def find(self, pid: int) -> Seen | None:
        """The process of that number."""
        return self._rows.get(pid)

    def children(self, pid: int) -> list[int]:
        """Its children."""
        return [each.pid for each in self._rows.values() if each.parent == pid]

    def everyone(self) -> Iterator[int]:
        """Every process there is."""
        return iter(self._rows)

    def bears(self, pid: int, mark: bytes) -> bool:
        """Not told."""
        return False


def _from_ps(row: list[str]) -> Seen:
    pid, parent, group, rss, spent = row
    days, _, clock = spent.rpartition("-")
    seconds = 0.0
    for part in clock.split(":"):
        seconds = seconds * 60 + float(part)
    return Seen(
        pid=int(pid),
        parent=int(parent),
        group=int(group),
        session=int(group),
        started=0,
        cpu=seconds + int(days or 0) * 86_400,
        reaped=0.0,
        memory=int(rss) * 1024,
        shared=0,
        written=0,
    )


def _read(path: str) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(descriptor, 1 << 20)
    except OSError:  # it ended while it was being read
        return b""
    finally:
        os.close(descriptor)


def _written(pid: int) -> int:
    told = dict(line.split(b":") for line in _read(f"/proc/{pid}/io").splitlines())
    # What was written and taken back before it reached the disk does not count.
    return max(0, int(told.get(b"write_bytes", 0)) - int(told.get(b"cancelled_write_bytes", 0)))
