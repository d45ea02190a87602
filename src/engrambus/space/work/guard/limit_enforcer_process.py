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

from engrambus.policy.guardrails import StepLimits, niceness
from engrambus.space.work.guard.cgroups import Cgroup, Cgroups, CgroupsRefused
from engrambus.space.work.guard.process_tree import ProcessTree, ProcessUsage
from engrambus.space.work.guard.processes import ProcessTable, process_table

FULL_SCAN_SECONDS = 0.5
"""Interval at which all processes of the machine are examined, not only new ones."""
MAX_KILL_ROUNDS = 8
"""Rounds of killing what a step left, in case it starts new processes each time."""
BURST_SECONDS = 0.1
"""Unused CPU time that is saved up, in seconds of the quota: a step that slept cannot burn more than this later."""
RESUME_SECONDS = 0.05
"""Credit, in seconds of the quota, that stopped processes need before they run again."""
MIN_CHECK_SECONDS, MAX_CHECK_SECONDS = 0.01, 0.1
"""Bounds of the time between two checks of a step."""

ExceededQuota = tuple[str, int, int]
"""Error code of a quota, what was used, and the limit."""


class DutyCycle:
    """Decides when a step's processes may run, by the CPU time they have used. Pure: the time is passed in."""

    def __init__(self, cores: float, now_seconds: float, machine_cores: int) -> None:
        self._cores = cores
        self._machine_cores = machine_cores
        self._credit = cores * BURST_SECONDS
        self._cpu_seconds = 0.0
        self._accounted_seconds = now_seconds
        self.runs = True

    def account(self, cpu_seconds: float, now_seconds: float) -> bool:
        """Charge the CPU time used so far; return True if the processes may run."""
        self._credit += (now_seconds - self._accounted_seconds) * self._cores
        self._credit -= max(0.0, cpu_seconds - self._cpu_seconds)
        self._credit = min(self._credit, self._cores * BURST_SECONDS)
        self._cpu_seconds = max(self._cpu_seconds, cpu_seconds)
        self._accounted_seconds = now_seconds
        # Two thresholds, so that processes are not stopped and continued at every check.
        self.runs = self._credit > 0 if self.runs else self._credit >= self._cores * RESUME_SECONDS
        return self.runs

    def check_after(self) -> float:
        """Return the seconds until the credit can be used up, or be enough to run again."""
        wait = self._credit / self._machine_cores if self.runs else RESUME_SECONDS - self._credit / self._cores
        return min(max(wait, MIN_CHECK_SECONDS), MAX_CHECK_SECONDS)


class EnforcedStep:
    """One step and the limits it is kept within."""

    def __init__(self, tree: ProcessTree, limits: StepLimits, processes: ProcessTable, cgroup: Cgroup | None) -> None:
        self._limits = limits
        self._processes = processes
        self._tree = tree
        self._tree.send(signal.SIGCONT)  # an enforcer that died may have left it stopped
        self._cgroup = cgroup
        self.is_clean = True
        """False if the step started processes faster than they could be killed."""
        now = time.monotonic()
        self._duty_cycle = DutyCycle(limits.cores, now, os.cpu_count() or 1) if cgroup is None else None
        self._full_scan_due = now + FULL_SCAN_SECONDS
        self.check_due = now + (MAX_CHECK_SECONDS if self._duty_cycle is None else self._duty_cycle.check_after())
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, tree.first, niceness(limits.cores))
        if cgroup is not None:
            cgroup.add(self._tree.pids)

    def check(self, now_seconds: float) -> ExceededQuota | None:
        """Stop or continue the processes as the CPU quota demands; return another quota they exceed."""
        full_scan = now_seconds >= self._full_scan_due
        if full_scan:
            self._full_scan_due = now_seconds + FULL_SCAN_SECONDS
        usage = self._tree.measure(full_scan=full_scan)
        if self._cgroup is not None:
            self._cgroup.add(self._tree.pids)
            self.check_due = now_seconds + MAX_CHECK_SECONDS
        elif self._duty_cycle is not None:
            ran = self._duty_cycle.runs
            runs = self._duty_cycle.account(usage.cpu_seconds, now_seconds)
            if not runs:
                self._tree.send(signal.SIGSTOP)  # at every check: processes that were just starting are found late
            elif not ran:
                self._tree.send(signal.SIGCONT)
            self.check_due = now_seconds + self._duty_cycle.check_after()
        return self._exceeded(usage)

    def end(self, *, keep_process: bool) -> ExceededQuota | None:
        """Kill what the step started, and its first process unless that is kept; return a quota it exceeded."""
        exceeded = self._exceeded(self._tree.measure(full_scan=False))
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
        ram_limit, disk_limit = self._limits.ram_bytes, self._limits.disk_bytes
        if ram_limit is not None and (
            usage.ram_bytes > ram_limit or (self._cgroup is not None and self._cgroup.out_of_memory())
        ):
            return "MEMORY_QUOTA", usage.ram_bytes, ram_limit
        if disk_limit is not None and usage.written_bytes > disk_limit:
            return "DISK_QUOTA", usage.written_bytes, disk_limit
        return None


class LimitEnforcerProcess:
    """Carries out its worker's orders and checks the watched steps."""

    def __init__(self, orders: int, answers: int) -> None:
        """Both are file descriptors of pipes."""
        self._orders, self._answers = orders, answers
        self._processes = process_table()
        self._steps: dict[int, EnforcedStep] = {}
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
                wait = max(0.0, min(step.check_due for step in self._steps.values()) - time.monotonic())
            if orders.poll(None if wait is None else wait * 1000) and not self._read_orders():
                break
            self._check_due_steps()
        self._processes.refresh(force=True)
        for step in self._steps.values():
            step.end(keep_process=False)
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
        mark, exceeded, is_clean = order["mark"].encode(), None, True
        self._processes.refresh(force=True)
        match order["do"]:
            case "expect":
                self._expected[mark] = list(self._processes.pids())
            case "watch":
                self._watch(order, mark)
            case "end":
                self._expected.pop(mark, None)
                step = self._steps.pop(order["pid"], None)
                if step is not None:
                    exceeded, is_clean = step.end(keep_process=order["keep_process"]), step.is_clean
        self._answer(done=order["number"], exceeded=exceeded, is_clean=is_clean)

    def _watch(self, order: dict[str, Any], mark: bytes) -> None:
        pid, limits = order["pid"], msgspec.convert(order["limits"], StepLimits)
        strangers = self._expected.pop(mark, None)
        if strangers is None:
            # A warm process waiting for its step has started nothing. After a restart it may have, so all are examined.
            strangers = [] if order["restarted"] else list(self._processes.pids())
        tree = ProcessTree(pid, mark, self._processes, strangers, order["supervisors"])
        tree.begin(warm=order["warm"])
        self._steps[pid] = EnforcedStep(tree, limits, self._processes, self._new_cgroup(limits))

    def _new_cgroup(self, limits: StepLimits) -> Cgroup | None:
        if self._cgroups is None:
            return None
        try:
            return self._cgroups.create(limits)
        except OSError as problem:
            self._cgroups = None
            self._answer(description=f"duty cycle; the cgroup cannot be used any more: {problem.strerror}")
            return None

    def _check_due_steps(self) -> None:
        now = time.monotonic()
        due = [(pid, step) for pid, step in self._steps.items() if step.check_due <= now]
        if due:
            self._processes.refresh()
        for pid, step in due:
            exceeded = step.check(now)
            if exceeded is not None:
                self._answer(pid=pid, exceeded=exceeded)

    def _answer(self, **fields: Any) -> None:
        with suppress(BrokenPipeError):
            os.write(self._answers, json.dumps(fields).encode() + b"\n")


def main() -> None:
    # Ctrl-C at the worker's terminal is for the worker.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    LimitEnforcerProcess(0, 1).run()


if __name__ == "__main__":
    main()
