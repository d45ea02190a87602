"""The limit enforcer: a process that keeps the steps of one worker within their limits.

Started as `python -m engrambus.space.work.guard.limit_enforcer_process`; it reads and writes one JSON object per line.
It is separate from the worker (decision 27) so that a busy worker cannot delay its checks, and so that processes of a
killed worker are ended instead of running on, or staying stopped for ever.
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

from engrambus.policy.guardrails import Ceiling, StepLimits, niceness
from engrambus.space.work.guard.cgroups import Cgroup, Cgroups, CgroupsRefused
from engrambus.space.work.guard.duty_cycle import MAX_CHECK_SECONDS, DutyCycle
from engrambus.space.work.guard.process_tree import ProcessTree, ProcessUsage
from engrambus.space.work.guard.processes import ProcessTable, process_table
from engrambus.space.work.guard.shared_ceiling import ExceededQuota, QuotaScope, SharedCeiling

FULL_SCAN_SECONDS = 0.5
"""Interval at which all processes of the machine are examined, not only new ones."""
MAX_KILL_ROUNDS = 8
"""Rounds of killing what a step left, in case it starts new processes each time."""


class StepEnd(msgspec.Struct, frozen=True, kw_only=True):
    """Report on a step that has ended."""

    exceeded: ExceededQuota | None = None
    is_clean: bool = True
    written_bytes: int = 0
    """Bytes it wrote to disks, wherever."""


class EnforcedStep:
    """One step and the limits it is kept within."""

    def __init__(
        self,
        tree: ProcessTree,
        limits: StepLimits,
        processes: ProcessTable,
        cgroup: Cgroup | None,
        ceilings: tuple[SharedCeiling, ...] = (),
    ) -> None:
        self._limits = limits
        self._processes = processes
        self._tree = tree
        self._tree.send(signal.SIGCONT)  # an enforcer that died may have left it stopped
        self._cgroup = cgroup
        self.ceilings = ceilings
        self.first = tree.first
        """Id of the step's first process."""
        self.usage = ProcessUsage(0.0, 0, 0)
        self.exceeded: ExceededQuota | None = None
        self.is_clean = True
        """False if the step started processes faster than they could be killed."""
        self._is_stopped = False
        now = time.monotonic()
        self._duty_cycle = DutyCycle(limits.cores, now, os.cpu_count() or 1) if cgroup is None else None
        self._full_scan_due = now + FULL_SCAN_SECONDS
        self.check_due = now + (MAX_CHECK_SECONDS if self._duty_cycle is None else self._duty_cycle.check_after())
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, tree.first, niceness(limits.cores))
        if cgroup is not None:
            cgroup.add(self._tree.pids)

    def measure(self, now_seconds: float) -> None:
        """Find its processes and what they have used, and charge its CPU time."""
        full_scan = now_seconds >= self._full_scan_due
        if full_scan:
            self._full_scan_due = now_seconds + FULL_SCAN_SECONDS
        self.usage = self._tree.measure(full_scan=full_scan)
        self.check_due = now_seconds + MAX_CHECK_SECONDS
        if self._cgroup is not None:
            self._cgroup.add(self._tree.pids)
        elif self._duty_cycle is not None:
            self._duty_cycle.account(self.usage.cpu_seconds, now_seconds)
            self.check_due = now_seconds + self._duty_cycle.check_after()

    def apply(self) -> None:
        """Stop or continue the processes as the CPU quotas of the step and its ceilings demand."""
        was_stopped = self._is_stopped
        runs = self._duty_cycle is None or self._duty_cycle.runs
        self._is_stopped = not (runs and all(ceiling.runs for ceiling in self.ceilings))
        if self._is_stopped:
            self._tree.send(signal.SIGSTOP)  # at every check: processes that were just starting are found late
        elif was_stopped:
            self._tree.send(signal.SIGCONT)

    def check(self) -> ExceededQuota | None:
        """Return a quota that the step exceeds by itself, as last measured."""
        return self._exceeded(self.usage)

    def refuse(self, exceeded: ExceededQuota) -> None:
        """Note that the step is over a quota; its worker ends it. One with too many processes is killed at once."""
        # While the worker waits for it to end by itself, a fork bomb would fill the process table.
        if exceeded.code == "PROCESS_QUOTA":
            self._tree.kill()
        self.exceeded = self.exceeded or exceeded

    def end(self, *, keep_process: bool) -> ExceededQuota | None:
        """Kill what the step started, and its first process unless that is kept; return a quota it exceeded."""
        self.usage = self._tree.measure(full_scan=False)
        exceeded = self.exceeded or self._exceeded(self.usage)
        killed: set[int] = set()
        for _ in range(MAX_KILL_ROUNDS):
            self._tree.send(signal.SIGKILL, first=not keep_process)
            if killed.issuperset(self._tree.pids):
                break
            killed.update(self._tree.pids)
            self._processes.refresh(force=True)  # to find what was started while the others were killed
            self._tree.measure(full_scan=False)
        else:
            self.is_clean = False
        self._tree.send(signal.SIGCONT)
        if self._cgroup is not None:
            if keep_process:
                self._cgroup.release(self._tree.first)
            self._cgroup.end()
        if not keep_process:
            self._tree.end_supervisors()
        return exceeded

    def _exceeded(self, usage: ProcessUsage) -> ExceededQuota | None:
        limits = self._limits
        if limits.processes is not None and usage.processes > limits.processes:
            return ExceededQuota("PROCESS_QUOTA", usage.processes, limits.processes)
        if limits.ram_bytes is not None and usage.ram_bytes > limits.ram_bytes:
            return ExceededQuota("MEMORY_QUOTA", usage.ram_bytes, limits.ram_bytes)
        if limits.disk_bytes is not None and usage.written_bytes > limits.disk_bytes:
            return ExceededQuota("DISK_QUOTA", usage.written_bytes, limits.disk_bytes)
        return self._killed_by_kernel(usage)

    def _killed_by_kernel(self, usage: ProcessUsage) -> ExceededQuota | None:
        """Return the quota of RAM for which the kernel killed processes of its control group."""
        if self._cgroup is None or not self._cgroup.out_of_memory():
            return None
        # Of the step and its ceilings, the lowest limit: the kernel does not say which of them it was.
        limits: list[tuple[int, QuotaScope]] = [
            (ceiling.limits.ram_bytes, ceiling.limits.scope) for ceiling in self.ceilings if ceiling.limits.ram_bytes
        ]
        if self._limits.ram_bytes is not None:
            limits.insert(0, (self._limits.ram_bytes, "step"))
        if not limits:
            return None  # the machine was out of memory
        limit, scope = min(limits, key=lambda pair: pair[0])
        return ExceededQuota("MEMORY_QUOTA", max(usage.ram_bytes, limit), limit, scope)


class LimitEnforcerProcess:
    """Carries out its worker's orders and checks the watched steps."""

    def __init__(self, orders: int, answers: int) -> None:
        """Both are file descriptors of pipes."""
        self._orders, self._answers = orders, answers
        self._processes = process_table()
        self._steps: dict[int, EnforcedStep] = {}
        self._idle: set[int] = set()
        """First processes of ended steps that wait for another; they still hold RAM."""
        self._ceilings: dict[str, SharedCeiling] = {}
        self._expected: dict[bytes, list[int]] = {}
        self._incomplete_line = b""
        self._cgroups: Cgroups | None = None
        try:
            self._cgroups = Cgroups.find()
            self._answer(description="cgroup v2")
        except CgroupsRefused as reason:
            self._answer(description=f"duty cycle; {reason}")

    def run(self) -> None:
        """Work until the worker is gone, then end what it left."""
        orders = select.poll()
        orders.register(self._orders, select.POLLIN)
        while True:
            wait = None
            if self._steps:
                due = [step.check_due for step in self._steps.values()]
                due += [ceiling.check_due for ceiling in self._ceilings.values() if not ceiling.is_empty]
                wait = max(0.0, min(due) - time.monotonic())
            if orders.poll(None if wait is None else wait * 1000) and not self._read_orders():
                break
            self._check_due_steps()
        self._processes.refresh(force=True)
        for step in self._steps.values():
            step.end(keep_process=False)
        if self._cgroups is not None:
            self._cgroups.end()
        if self._expected:
            self._kill_expected()

    def _kill_expected(self) -> None:
        """Kill what the worker had just started, and not yet had watched, when it died."""
        for pid in self._processes.pids():
            if any(self._processes.has_mark(pid, mark) for mark in self._expected):
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)

    def _read_orders(self) -> bool:
        """Carry out the orders that have come; return False at the end of the pipe."""
        data = os.read(self._orders, 1 << 16)
        *lines, self._incomplete_line = (self._incomplete_line + data).split(b"\n")
        for line in lines:
            self._carry_out(json.loads(line))
        return bool(data)

    def _carry_out(self, order: dict[str, Any]) -> None:
        mark, done = order["mark"].encode(), StepEnd()
        self._processes.refresh(force=True)
        match order["do"]:
            case "expect":
                self._expected[mark] = list(self._processes.pids())
            case "watch":
                self._watch(order, mark)
            case "end":
                self._expected.pop(mark, None)
                done = self._end(order["pid"], keep_process=order["keep_process"])
        self._answer(done=order["number"], **msgspec.structs.asdict(done))

    def _watch(self, order: dict[str, Any], mark: bytes) -> None:
        pid, limits = order["pid"], msgspec.convert(order["limits"], StepLimits)
        strangers = self._expected.pop(mark, None)
        if strangers is None:
            # A warm process waiting for its step has started nothing. After a restart it may have, so all are examined.
            strangers = [] if order["restarted"] else list(self._processes.pids())
        ceilings = tuple(
            self._shared_ceiling(ceiling) for ceiling in msgspec.convert(order["ceilings"], tuple[Ceiling, ...])
        )
        counts = [limits.processes, *(ceiling.limits.processes for ceiling in ceilings)]
        most = min((count for count in counts if count is not None), default=None)
        tree = ProcessTree(pid, mark, self._processes, strangers, order["supervisors"], most)
        tree.begin(warm=order["warm"])
        cgroup = self._new_cgroup(limits, ceilings)
        step = self._steps[pid] = EnforcedStep(tree, limits, self._processes, cgroup, ceilings)
        self._idle.discard(tree.first)
        for ceiling in ceilings:
            ceiling.add(pid, step)

    def _end(self, pid: int, *, keep_process: bool) -> StepEnd:
        step = self._steps.pop(pid, None)
        if step is None:
            return StepEnd()
        exceeded = step.end(keep_process=keep_process)
        for ceiling in step.ceilings:
            ceiling.remove(pid)
            if ceiling.is_empty and ceiling.limits.scope == "tuple":
                self._ceilings.pop(ceiling.limits.key, None)
                if self._cgroups is not None:
                    self._cgroups.remove_group(ceiling.limits.key)
        if keep_process:
            self._idle.add(step.first)
        return StepEnd(exceeded=exceeded, is_clean=step.is_clean, written_bytes=step.usage.written_bytes)

    def _shared_ceiling(self, ceiling: Ceiling) -> SharedCeiling:
        """Return the ceiling with that key; the first step below it creates it."""
        shared = self._ceilings.get(ceiling.key)
        if shared is None:
            by_kernel = self._cgroups is not None
            shared = SharedCeiling(ceiling, time.monotonic(), os.cpu_count() or 1, by_kernel=by_kernel)
            self._ceilings[ceiling.key] = shared
        return shared

    def _new_cgroup(self, limits: StepLimits, ceilings: tuple[SharedCeiling, ...]) -> Cgroup | None:
        if self._cgroups is None:
            return None
        try:
            return self._cgroups.create(limits, [ceiling.limits for ceiling in reversed(ceilings)])
        except OSError as problem:
            self._cgroups = None
            for ceiling in self._ceilings.values():
                ceiling.enforce_cpu(time.monotonic())
            self._answer(description=f"duty cycle; the cgroup cannot be used any more: {problem.strerror}")
            return None

    def _check_due_steps(self) -> None:
        now = time.monotonic()
        ceilings = [shared for shared in self._ceilings.values() if shared.check_due <= now and not shared.is_empty]
        steps = {
            pid: step
            for pid, step in self._steps.items()
            if step.check_due <= now or any(ceiling in ceilings for ceiling in step.ceilings)
        }
        if steps:
            self._processes.refresh()
        for pid, step in steps.items():
            step.measure(now)
            self._refuse(pid, step.check())
        for ceiling in ceilings:
            ceiling.account(now)
            self._check_ceiling(ceiling)
        for step in steps.values():
            step.apply()

    def _check_ceiling(self, ceiling: SharedCeiling) -> None:
        if (exceeding := ceiling.find_exceeding()) is not None:
            self._refuse(*exceeding)
        elif ceiling.limits.scope == "worker" and self._idle and not ceiling.has_room_for(self._idle_ram_bytes()):
            self._answer(end_idle=True)

    def _idle_ram_bytes(self) -> int:
        processes = [process for pid in self._idle if (process := self._processes.find(pid)) is not None]
        self._idle = {process.pid for process in processes}
        return sum(process.private_bytes for process in processes)

    def _refuse(self, pid: int, exceeded: ExceededQuota | None) -> None:
        if exceeded is not None:
            self._answer(pid=pid, exceeded=exceeded)
            self._steps[pid].refuse(exceeded)

    def _answer(self, **fields: Any) -> None:
        with suppress(BrokenPipeError):
            os.write(self._answers, json.dumps(fields).encode() + b"\n")


def main() -> None:
    # Ctrl-C at the worker's terminal is for the worker.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    LimitEnforcerProcess(0, 1).run()


if __name__ == "__main__":
    main()
