"""All the processes of a step: its first one, and whatever that one and its children started."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

from engrambus.space.work.guard.processes import Seen, Table


class Usage(NamedTuple):
    """What a step's processes have taken since they are watched."""

    cpu: float
    """Seconds."""
    memory: int
    """Bytes held now."""
    written: int
    """Bytes written to disk."""


class Tree:
    """Follows a process and everything it starts, also what leaves its group or loses its parent.

    At every look the children of known processes are found, and, among all that were started since the last one, those
    that got away: by their group, their session, or the mark that every process of the step bears in its environment.
    """

    def __init__(self, root: int, mark: bytes, table: Table, strangers: Iterable[int] = ()) -> None:
        """Strangers were there before the step was; without them everyone is looked at."""
        self.root = root
        self._mark = mark
        self._table = table
        self._members: dict[int, Seen] = {}
        self._strangers: dict[int, int | None] = dict.fromkeys(strangers)
        self._lost_cpu = 0.0
        self._lost_written = 0
        self._before = Usage(0.0, 0, 0)

    @property
    def pids(self) -> list[int]:
        """Its processes, as they were at the last look."""
        return list(self._members)

    def begin(self, *, warm: bool) -> None:
        """Count from now on: what a warm process did before does not count. All a command has written does."""
        self._look(wide=False)
        self._before = self._sum() if warm else self._sum()._replace(written=0)

    def measure(self, *, wide: bool) -> Usage:
        """Look again; what the processes have taken so far."""
        self._look(wide=wide)
        now = self._sum()
        return Usage(now.cpu - self._before.cpu, now.memory, now.written - self._before.written)

    def send(self, number: signal.Signals, *, root: bool = True) -> None:
        """Send a signal to every process, to the first one only if wanted."""
        for pid in self._members:
            if root or pid != self.root:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, number)

    def _look(self, *, wide: bool) -> None:
        before, found = self._members, dict[int, Seen]()
        asked = [*dict.fromkeys((self.root, *before)), *self._astray(wide=wide)]
        for pid in asked:  # grows while it is walked
            if pid in found:
                continue
            seen = self._table.find(pid)
            known = before.get(pid)
            if seen is None or (known is not None and known.started != seen.started):
                continue
            found[pid] = seen
            asked.extend(child for child in self._table.children(pid) if child not in found)
        self._members = found
        self._count_gone(before)

    def _astray(self, *, wide: bool) -> list[int]:
        """Processes that are the step's though no known one is their parent; at a wide look also those are looked at
        that bear the number of a stranger: it may be another's by now."""
        members = self._members
        groups = {seen.group for seen in members.values() if seen.group in members} | {self.root}
        found = []
        strangers: dict[int, int | None] = {}
        for pid in self._table.everyone():
            if pid in members or pid == self.root:
                continue
            is_known, started = pid in self._strangers, self._strangers.get(pid)
            if is_known and not wide:
                strangers[pid] = started
                continue
            seen = self._table.find(pid)
            if seen is None:
                continue
            if is_known and started in (None, seen.started):
                strangers[pid] = seen.started
            elif seen.group in groups or seen.session in groups or self._table.bears(pid, self._mark):
                found.append(pid)
            else:
                strangers[pid] = seen.started
        self._strangers = strangers
        return found

    def _count_gone(self, before: dict[int, Seen]) -> None:
        """Go on counting what processes took that are gone: their parents tell of it, if those waited for them."""
        now = self._members
        told: dict[int, tuple[float, int]] = {}
        for pid in before.keys() - now.keys():
            gone = before[pid]
            parent = gone.parent
            while parent in before and parent not in now:
                parent = before[parent].parent
            if parent in now and parent in before:
                cpu, written = told.get(parent, (0.0, 0))
                told[parent] = cpu + gone.cpu + gone.reaped, written + gone.written
            else:
                self._lost_cpu += gone.cpu + gone.reaped
                self._lost_written += gone.written
        for pid, (cpu, written) in told.items():
            self._lost_cpu += max(0.0, cpu - (now[pid].reaped - before[pid].reaped))
            self._lost_written += max(0, written - (now[pid].written - before[pid].written))

    def _sum(self) -> Usage:
        seen = self._members.values()
        return Usage(
            cpu=sum(each.cpu + each.reaped for each in seen) + self._lost_cpu,
            # What is shared is shared among them too, most of all: it counts once.
            memory=sum(each.memory for each in seen) + max((each.shared for each in seen), default=0),
            written=sum(each.written for each in seen) + self._lost_written,
        )
