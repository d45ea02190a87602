"""All processes of a step: the first one, and everything that it and its children started."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

from engrambus.space.work.guard.processes import ProcessInfo, ProcessTable


class ProcessUsage(NamedTuple):
    """Use of the machine by a step's processes since they are watched."""

    cpu_seconds: float
    ram_bytes: int
    """Bytes held now."""
    written_bytes: int
    processes: int = 0
    """Processes there are now."""


class ProcessTree:
    """A process and its descendants, also those that leave its group or lose their parent.

    Each scan finds the children of known processes. Among processes started since the last scan it also finds those
    that escaped: by their group, their session, or the mark that every process of the step has in its environment.
    """

    # decision 95: supervisors are not the step. They are neither stopped nor limited, or nobody would end the step when
    # worker and enforcer are killed.

    def __init__(
        self,
        root: int,
        mark: bytes,
        table: ProcessTable,
        strangers: Iterable[int] = (),
        supervisors: int = 0,
        max_processes: int | None = None,
    ) -> None:
        """`strangers` ran before the step and are not examined; without them all processes are.

        The step's first process is below that many `supervisors`, of which `root` is the outermost. With more processes
        than `max_processes` they are not all found: they multiply faster than they can be read.
        """
        self._max_members = None if max_processes is None else max_processes + supervisors
        self.root = root
        self._supervisor_count = supervisors
        self._supervisors: tuple[int, ...] = ()
        self.first = root
        """The step's first process."""
        self._mark = mark
        self._table = table
        self._members: dict[int, ProcessInfo] = {}
        self._strangers: dict[int, int | None] = dict.fromkeys(strangers)
        self._ended_cpu_seconds = 0.0
        self._ended_written_bytes = 0
        self._baseline = ProcessUsage(0.0, 0, 0)

    @property
    def pids(self) -> list[int]:
        """Ids of its processes as of the last scan, without supervisors."""
        return [pid for pid in self._members if pid not in self._supervisors]

    def begin(self, *, warm: bool) -> None:
        """Count from now on. A warm process's earlier writes belong to earlier steps; a command's are its own."""
        self._find_supervisors()
        self._scan(full_scan=False)
        self._baseline = self._sum() if warm else self._sum()._replace(written_bytes=0)

    def measure(self, *, full_scan: bool) -> ProcessUsage:
        """Scan, and return what the processes have used so far."""
        self._scan(full_scan=full_scan)
        total = self._sum()
        return ProcessUsage(
            cpu_seconds=total.cpu_seconds - self._baseline.cpu_seconds,
            ram_bytes=total.ram_bytes,
            written_bytes=total.written_bytes - self._baseline.written_bytes,
            processes=total.processes,
        )

    def send(self, number: signal.Signals, *, first: bool = True) -> None:
        """Send a signal to every process, or to all but the first; not to supervisors."""
        for pid in self.pids:
            if first or pid != self.first:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, number)

    def kill(self) -> None:
        """Kill everything at once: by the supervisor, which also finds new ones, or each process."""
        if self._supervisor_count:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(self.root, signal.SIGUSR2)
        else:
            self.send(signal.SIGKILL)

    def end_supervisors(self) -> None:
        """Kill the supervisors, once nothing else is left for them to end."""
        for pid in self._supervisors:
            if pid in self._members:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)

    def _find_supervisors(self) -> None:
        pid: int | None = self.root
        for _ in range(self._supervisor_count):
            if pid is None:
                return
            self._supervisors += (pid,)
            children = filter(None, (self._table.find(child) for child in self._table.children(pid)))
            oldest = min(children, key=lambda process: (process.start_ticks, process.pid), default=None)
            pid = None if oldest is None else oldest.pid
        self.first = 0 if pid is None else pid

    def _scan(self, *, full_scan: bool) -> None:
        previous, members = self._members, dict[int, ProcessInfo]()
        queue = [*dict.fromkeys((self.root, *previous)), *self._escaped(full_scan=full_scan)]
        for pid in queue:  # grows while it is walked
            if pid in members:
                continue
            if self._max_members is not None and len(members) > self._max_members:
                break
            process = self._table.find(pid)
            earlier = previous.get(pid)
            if process is None or (earlier is not None and earlier.start_ticks != process.start_ticks):
                continue
            members[pid] = process
            queue.extend(child for child in self._table.children(pid) if child not in members)
        self._members = members
        self._count_ended(previous)

    def _escaped(self, *, full_scan: bool) -> list[int]:
        """Return processes of the step without a known parent.

        A full scan also looks at strangers again: one of their ids may have been reused.
        """
        if self._supervisor_count > 1:
            return []  # nothing leaves a PID namespace: every process is a descendant of its first one
        members = self._members
        groups = {process.group for process in members.values() if process.group in members} | {self.root}
        escaped: list[int] = []
        strangers: dict[int, int | None] = {}
        for pid in self._table.pids():
            if pid in members or pid == self.root:
                continue
            if self._max_members is not None and len(escaped) > self._max_members:
                break
            is_stranger, start_ticks = pid in self._strangers, self._strangers.get(pid)
            if is_stranger and not full_scan:
                strangers[pid] = start_ticks
                continue
            process = self._table.find(pid)
            if process is None:
                continue
            if is_stranger and start_ticks in (None, process.start_ticks):
                strangers[pid] = process.start_ticks
            elif process.group in groups or process.session in groups or self._table.has_mark(pid, self._mark):
                escaped.append(pid)
            else:
                strangers[pid] = process.start_ticks
        self._strangers = strangers
        return escaped

    def _count_ended(self, previous: dict[int, ProcessInfo]) -> None:
        """Keep counting what ended processes used, unless a parent that waited for them already reports it."""
        current = self._members
        by_parent: dict[int, tuple[float, int]] = {}
        for pid in previous.keys() - current.keys():
            ended = previous[pid]
            parent = ended.parent
            while parent in previous and parent not in current:
                parent = previous[parent].parent
            ended_cpu_seconds = ended.cpu_seconds + ended.reaped_cpu_seconds
            if parent in current and parent in previous:
                cpu_seconds, written_bytes = by_parent.get(parent, (0.0, 0))
                by_parent[parent] = cpu_seconds + ended_cpu_seconds, written_bytes + ended.written_bytes
            else:
                self._ended_cpu_seconds += ended_cpu_seconds
                self._ended_written_bytes += ended.written_bytes
        for pid, (cpu_seconds, written_bytes) in by_parent.items():
            reaped_seconds = current[pid].reaped_cpu_seconds - previous[pid].reaped_cpu_seconds
            self._ended_cpu_seconds += max(0.0, cpu_seconds - reaped_seconds)
            reported_bytes = current[pid].written_bytes - previous[pid].written_bytes
            self._ended_written_bytes += max(0, written_bytes - reported_bytes)

    def _sum(self) -> ProcessUsage:
        members = self._members.values()
        processes = [process for process in members if process.pid not in self._supervisors]
        cpu_seconds = sum(process.cpu_seconds for process in processes)
        cpu_seconds += sum(process.reaped_cpu_seconds for process in members)
        # decision 27: shared memory counts once, since a step's processes share most of it with each other.
        shared_bytes = max((process.shared_bytes for process in processes), default=0)
        return ProcessUsage(
            cpu_seconds=cpu_seconds + self._ended_cpu_seconds,
            ram_bytes=sum(process.private_bytes for process in processes) + shared_bytes,
            written_bytes=sum(process.written_bytes for process in members) + self._ended_written_bytes,
            processes=len(processes),
        )
