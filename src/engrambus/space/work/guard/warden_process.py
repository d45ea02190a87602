"""The warden: a process of its own that holds the steps of one worker to what they may take.

Started as `python -m engrambus.space.work.guard.warden_process`; one JSON object to a line, both ways. It stands apart
from the worker so that a busy worker cannot keep it from looking, and so that, when the worker is gone, whatever the
worker had started goes too: nothing is left running, and nothing standing still for ever.
"""

from __future__ import annotations

import json
import os
import select
import signal
import time
from contextlib import suppress
from typing import Any

import msgspec

from engrambus.policy.guardrails import StepLimits, niceness
from engrambus.space.work.guard.cgroups import Cgroup, Cgroups, CgroupsRefused
from engrambus.space.work.guard.governor import LONGEST, Governor
from engrambus.space.work.guard.processes import Table, table
from engrambus.space.work.guard.tree import Tree, Usage

WIDE_SECONDS = 0.5
"""How often every process of the machine is looked at, not only those that are new."""
MAX_ROUNDS = 8
"""How often what a step has left is ended, should there be more of it each time."""

Past = tuple[str, int, int]
"""A quota that was passed: its code, what was taken, and what may be."""


class Watched:
    """One step under guard."""

    def __init__(self, tree: Tree, limits: StepLimits, processes: Table, group: Cgroup | None) -> None:
        self._limits = limits
        self._processes = processes
        self._tree = tree
        self._tree.send(signal.SIGCONT)  # a warden before this one may have had it standing still
        self._group = group
        now = time.monotonic()
        self._governor = Governor(limits.cores, now, os.cpu_count() or 1) if group is None else None
        self._wide_at = now + WIDE_SECONDS
        self.due = now + LONGEST
        if self._governor is not None:
            self.due = now + self._governor.look_again()
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, tree.root, niceness(limits.cores))
        if group is not None:
            group.take(self._tree.pids)

    def look(self, now: float) -> Past | None:
        """Let the processes run or stand still; tells the quota they are past, what they took and may take."""
        wide = now >= self._wide_at
        if wide:
            self._wide_at = now + WIDE_SECONDS
        used = self._tree.measure(wide=wide)
        if self._group is not None:
            self._group.take(self._tree.pids)
            self.due = now + LONGEST
        elif self._governor is not None:
            before = self._governor.runs
            runs = self._governor.account(used.cpu, now)
            if not runs:
                self._tree.send(signal.SIGSTOP)  # again and again: what was just being started is found late
            elif not before:
                self._tree.send(signal.SIGCONT)
            self.due = now + self._governor.look_again()
        return self._past(used)

    def end(self, *, keep: bool) -> Past | None:
        """End what the step has started, and its first process too unless it is kept for the next step; tells the quota
        it was past at the very last."""
        past = self._past(self._tree.measure(wide=False))
        ended: set[int] = set()
        for _ in range(MAX_ROUNDS):
            self._tree.send(signal.SIGKILL, root=not keep)
            if ended.issuperset(self._tree.pids):
                break
            ended.update(self._tree.pids)
            self._processes.refresh(anew=True)  # what was being started while the others ended
            self._tree.measure(wide=False)
        self._tree.send(signal.SIGCONT)
        if self._group is not None:
            if keep:
                self._group.give_back(self._tree.root)
            self._group.end()
        return past

    def _past(self, used: Usage) -> Past | None:
        memory, disk = self._limits.memory, self._limits.disk
        if memory is not None and (used.memory > memory or (self._group is not None and self._group.out_of_memory())):
            return "MEMORY_QUOTA", used.memory, memory
        if disk is not None and used.written > disk:
            return "DISK_QUOTA", used.written, disk
        return None


class WardenProcess:
    """Takes orders from its worker, and looks after what it was told to."""

    def __init__(self, orders: int, answers: int) -> None:
        self._orders, self._answers = orders, answers
        self._processes = table()
        self._watched: dict[int, Watched] = {}
        self._expected: dict[bytes, list[int]] = {}
        self._rest = b""
        self._cgroups: Cgroups | None = None
        try:
            self._cgroups = Cgroups.find()
            self._say(note="cgroup v2")
        except CgroupsRefused as reason:
            self._say(note=f"duty cycle; {reason}")

    def run(self) -> None:
        """Work until the worker is gone; then end what it left."""
        orders = select.poll()
        orders.register(self._orders, select.POLLIN)
        while True:
            wait = None
            if self._watched:
                wait = max(0.0, min(each.due for each in self._watched.values()) - time.monotonic())
            if orders.poll(None if wait is None else wait * 1000) and not self._read():
                break
            self._look()
        self._processes.refresh(anew=True)
        for each in self._watched.values():
            each.end(keep=False)
        if self._expected:
            self._end_expected()

    def _end_expected(self) -> None:
        """End what the worker had just started when it went."""
        for pid in self._processes.everyone():
            if any(self._processes.bears(pid, mark) for mark in self._expected):
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)

    def _read(self) -> bool:
        told = os.read(self._orders, 1 << 16)
        *lines, self._rest = (self._rest + told).split(b"\n")
        for line in lines:
            self._order(json.loads(line))
        return bool(told)

    def _order(self, order: dict[str, Any]) -> None:
        """Do as told, then say that it is done."""
        mark, past = order["mark"].encode(), None
        self._processes.refresh(anew=True)
        match order["do"]:
            case "expect":
                self._expected[mark] = list(self._processes.everyone())
            case "watch":
                self._watch(order, mark)
            case "forget":
                self._expected.pop(mark, None)
                watched = self._watched.pop(order["pid"], None)
                past = None if watched is None else watched.end(keep=order["keep"])
        self._say(done=order["number"], past=past)

    def _watch(self, order: dict[str, Any], mark: bytes) -> None:
        pid, limits = order["pid"], msgspec.convert(order["limits"], StepLimits)
        strangers = self._expected.pop(mark, None)
        if strangers is None:
            # A warm process that waits for its step has nothing astray; one that another warden had watched may.
            strangers = [] if order["again"] else list(self._processes.everyone())
        tree = Tree(pid, mark, self._processes, strangers)
        tree.begin(warm=order["warm"])
        self._watched[pid] = Watched(tree, limits, self._processes, self._group(limits))

    def _group(self, limits: StepLimits) -> Cgroup | None:
        if self._cgroups is None:
            return None
        try:
            return self._cgroups.group(limits)
        except OSError as problem:
            self._cgroups = None
            self._say(note=f"duty cycle; the cgroup cannot be used any more: {problem.strerror}")
            return None

    def _look(self) -> None:
        now = time.monotonic()
        due = [(pid, each) for pid, each in self._watched.items() if each.due <= now]
        if due:
            self._processes.refresh()
        for pid, each in due:
            past = each.look(now)
            if past is not None:
                self._say(pid=pid, past=past)

    def _say(self, **what: Any) -> None:
        with suppress(BrokenPipeError):
            os.write(self._answers, json.dumps(what).encode() + b"\n")


def main() -> None:
    """Look after steps until the worker is gone."""
    # Keys pressed at the worker's terminal are the worker's to answer.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    WardenProcess(0, 1).run()


if __name__ == "__main__":
    main()
