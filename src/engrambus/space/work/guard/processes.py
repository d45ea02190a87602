"""Processes of this machine, read from /proc, or from `ps` where there is none.

psutil is not used: it reads every process to list one's children, and the limit enforcer looks up to a hundred times a
second.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Protocol

PROC = Path("/proc")
_RUSAGE_UNIT_BYTES = 1 if sys.platform == "darwin" else 1024


class ProcessInfo(NamedTuple):
    """One process at one moment."""

    pid: int
    parent: int
    group: int
    session: int
    start_ticks: int
    """When it started; tells it from a later process with the same id."""
    cpu_seconds: float
    """CPU time it has used itself."""
    reaped_cpu_seconds: float
    """CPU time of its children that have ended and were waited for."""
    private_bytes: int
    """RAM that is its own."""
    shared_bytes: int
    """RAM it shares with others: programs and libraries."""
    written_bytes: int
    """Bytes that it and its reaped children have written to disk, as far as the kernel reports them."""


class ProcessTable(Protocol):
    """Source of information about processes."""

    def refresh(self, *, force: bool = False) -> None:
        """Update the list of processes; without `force` it may be a moment old."""
        ...

    def find(self, pid: int) -> ProcessInfo | None: ...

    def children(self, pid: int) -> Iterable[int]: ...

    def pids(self) -> Iterator[int]:
        """Return the ids of all processes, as of the last refresh."""
        ...

    def has_mark(self, pid: int, mark: bytes) -> bool:
        """True if a process was started with this variable in its environment."""
        ...


def process_table() -> ProcessTable:
    """Return the table that works on this machine."""
    return ProcTable() if (PROC / "self" / "stat").exists() else PsTable()


class ProcTable:
    """Processes as /proc shows them."""

    def __init__(self) -> None:
        self._tick_seconds = 1.0 / os.sysconf("SC_CLK_TCK")
        self._page_bytes = os.sysconf("SC_PAGE_SIZE")
        self._newest = (b"", b"")
        self._pids: list[int] = []

    def refresh(self, *, force: bool = False) -> None:
        """List the processes, unless the last process id the kernel assigned shows that none was started."""
        newest = _read("/proc/loadavg").strip().rpartition(b" ")[2]
        # An id is assigned a moment before its process is listed: the list is read twice after each new id.
        if force or newest in (b"", b"0") or self._newest != (newest, newest):
            self._pids = [int(name) for name in os.listdir(PROC) if name.isdigit()]
        self._newest = (self._newest[1], newest)

    def find(self, pid: int) -> ProcessInfo | None:
        text = _read(f"/proc/{pid}/stat")
        pages = _read(f"/proc/{pid}/statm").split()
        if not text or len(pages) < 3:
            return None
        fields = _stat_fields(text)
        shared_bytes = int(pages[2]) * self._page_bytes
        return ProcessInfo(
            pid=pid,
            parent=int(fields[1]),
            group=int(fields[2]),
            session=int(fields[3]),
            start_ticks=int(fields[19]),
            cpu_seconds=(int(fields[11]) + int(fields[12])) * self._tick_seconds,
            reaped_cpu_seconds=(int(fields[13]) + int(fields[14])) * self._tick_seconds,
            private_bytes=max(0, int(pages[1]) * self._page_bytes - shared_bytes),
            shared_bytes=shared_bytes,
            written_bytes=_written_bytes(pid),
        )

    def children(self, pid: int) -> Iterator[int]:
        """Yield its children; the kernel lists them by the thread that started them."""
        with suppress(OSError):
            for thread in os.listdir(f"/proc/{pid}/task"):
                for child in _read(f"/proc/{pid}/task/{thread}/children").split():
                    yield int(child)

    def pids(self) -> Iterator[int]:
        return iter(self._pids)

    def has_mark(self, pid: int, mark: bytes) -> bool:
        return mark in _read(f"/proc/{pid}/environ")


class PsTable:
    """Processes as `ps` lists them, for macOS; without reaped children, written bytes and environments."""

    def __init__(self) -> None:
        self._rows: dict[int, ProcessInfo] = {}

    def refresh(self, *, force: bool = False) -> None:
        command = ["ps", "-axo", "pid=,ppid=,pgid=,rss=,time="]
        output = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        rows = (line.split() for line in output.splitlines())
        self._rows = {int(row[0]): _from_ps(row) for row in rows if len(row) == 5}

    def find(self, pid: int) -> ProcessInfo | None:
        return self._rows.get(pid)

    def children(self, pid: int) -> list[int]:
        return [process.pid for process in self._rows.values() if process.parent == pid]

    def pids(self) -> Iterator[int]:
        return iter(self._rows)

    def has_mark(self, pid: int, mark: bytes) -> bool:
        """False: `ps` does not show environments."""
        return False


def _from_ps(row: list[str]) -> ProcessInfo:
    pid, parent, group, rss_kib, cpu_time = row
    days, _, clock = cpu_time.rpartition("-")
    seconds = 0.0
    for part in clock.split(":"):
        seconds = seconds * 60 + float(part)
    return ProcessInfo(
        pid=int(pid),
        parent=int(parent),
        group=int(group),
        session=int(group),
        start_ticks=0,
        cpu_seconds=seconds + int(days or 0) * 86_400,
        reaped_cpu_seconds=0.0,
        private_bytes=int(rss_kib) * 1024,
        shared_bytes=0,
        written_bytes=0,
    )


def _read(path: str) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(descriptor, 1 << 20)
    except OSError:  # the process ended while it was read
        return b""
    finally:
        os.close(descriptor)


def _stat_fields(text: bytes) -> list[bytes]:
    # The second field is the program's name in brackets, and may contain anything: spaces and brackets too.
    return text.rpartition(b")")[2].split()


def _written_bytes(pid: int) -> int:
    counters = dict(line.split(b":") for line in _read(f"/proc/{pid}/io").splitlines())
    # `cancelled_write_bytes` is not subtracted: who truncates a file that another process has just written would seem
    # to have written less than nothing.
    return int(counters.get(b"write_bytes", 0))


def pid_namespace() -> str:
    """Return the name of the PID namespace of this process; empty where there are none."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


class PeakRam:
    """Most RAM that this process, or an ended child of it, held since this object was created.

    The kernel records it, so a peak between two checks of the limit enforcer is not missed.
    """

    def __init__(self) -> None:
        self._self_bytes = _max_rss(resource.RUSAGE_SELF)
        self._children_bytes = _max_rss(resource.RUSAGE_CHILDREN)
        try:
            with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
                file.write("5")  # resets VmHWM
        except OSError:  # then only a peak above all earlier ones is noticed
            return
        self._self_bytes = 0

    def peak(self) -> int:
        """Return the peak in bytes; 0 if it is not above an earlier one that cannot be reset, or unknown."""
        self_bytes = _status_bytes("VmHWM:") if self._self_bytes == 0 else _max_rss(resource.RUSAGE_SELF)
        children_bytes = _max_rss(resource.RUSAGE_CHILDREN)
        return max(
            self_bytes if self_bytes > self._self_bytes else 0,
            children_bytes if children_bytes > self._children_bytes else 0,
        )

    def current(self) -> int:
        """Return the bytes this process holds now; 0 if unknown."""
        return _status_bytes("VmRSS:")


def reap(process: subprocess.Popen[bytes]) -> int:
    """Reap an ended process; return the most RAM in bytes that it or a child it waited for held, 0 if unknown.

    A peak below our own is unknown: before it executes its program a process is a copy of us, and the kernel counts
    that too.
    """
    if process.returncode is not None:
        return 0
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    peak_bytes = usage.ru_maxrss * _RUSAGE_UNIT_BYTES
    return peak_bytes if peak_bytes > _max_rss(resource.RUSAGE_SELF) else 0


def _max_rss(target: int) -> int:
    return resource.getrusage(target).ru_maxrss * _RUSAGE_UNIT_BYTES


def _status_bytes(name: str) -> int:
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as file:
            return next((int(line.split()[1]) * 1024 for line in file if line.startswith(name)), 0)
    except OSError:
        return 0
