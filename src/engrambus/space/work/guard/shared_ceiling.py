"""Ceilings over several steps: those of one tuple that run at once, and all steps of a worker (decision 96)."""

from __future__ import annotations

from typing import Literal, NamedTuple, Protocol

from engrambus.policy.guardrails import Ceiling
from engrambus.space.work.guard.duty_cycle import MAX_CHECK_SECONDS, DutyCycle
from engrambus.space.work.guard.process_tree import ProcessUsage

QuotaScope = Literal["step", "tuple", "worker"]


class ExceededQuota(NamedTuple):
    """A limit that was exceeded, as the enforcer reports it to its worker."""

    code: str
    used: int
    limit: int
    scope: QuotaScope = "step"


class MeasuredStep(Protocol):
    """A step that counts towards a ceiling."""

    usage: ProcessUsage
    """What it has used, as of the last check."""
    exceeded: ExceededQuota | None
    """Why it is being stopped, if it is."""


class SharedCeiling:
    """The steps under one ceiling, and what they use together."""

    def __init__(self, ceiling: Ceiling, now_seconds: float, machine_cores: int, *, by_kernel: bool) -> None:
        """`by_kernel` says that a control group enforces the CPU quota."""
        self.limits = ceiling
        self._machine_cores = machine_cores
        self._steps: dict[int, MeasuredStep] = {}
        self._left_cpu_seconds = 0.0
        self._duty_cycle: DutyCycle | None = None
        self.check_due = now_seconds + MAX_CHECK_SECONDS
        if not by_kernel:
            self.enforce_cpu(now_seconds)

    @property
    def runs(self) -> bool:
        """False while its steps have used up their CPU time."""
        return self._duty_cycle is None or self._duty_cycle.runs

    @property
    def is_empty(self) -> bool:
        return not self._steps

    def enforce_cpu(self, now_seconds: float) -> None:
        """Enforce the CPU quota by a duty cycle, from now on."""
        if self.limits.cores is not None:
            self._duty_cycle = DutyCycle(self.limits.cores, now_seconds, self._machine_cores)
            self._duty_cycle.account(self._cpu_seconds(), now_seconds)

    def add(self, pid: int, step: MeasuredStep) -> None:
        """Count a step from now on; `pid` identifies it."""
        self._steps[pid] = step

    def remove(self, pid: int) -> None:
        """Stop counting a step that has ended; the CPU time it used stays counted."""
        step = self._steps.pop(pid, None)
        if step is not None:
            self._left_cpu_seconds += step.usage.cpu_seconds

    def account(self, now_seconds: float) -> None:
        """Charge the CPU time that the steps have used, as last measured."""
        self.check_due = now_seconds + MAX_CHECK_SECONDS
        if self._duty_cycle is not None:
            self._duty_cycle.account(self._cpu_seconds(), now_seconds)
            self.check_due = now_seconds + self._duty_cycle.check_after()

    def has_room_for(self, idle_ram_bytes: int) -> bool:
        """True if processes that wait for a step may hold that much RAM besides the steps."""
        limit = self.limits.ram_bytes
        return limit is None or sum(step.usage.ram_bytes for step in self._steps.values()) + idle_ram_bytes <= limit

    def find_exceeding(self) -> tuple[int, ExceededQuota] | None:
        """Return the step to stop, and why, if the steps together use more than they may.

        It is the one that uses most of what there is too little of; of equals, the one that began last. Steps that are
        being stopped already do not count.
        """
        running = {pid: step.usage for pid, step in self._steps.items() if step.exceeded is None}
        for code, limit, used in (
            ("PROCESS_QUOTA", self.limits.processes, {pid: usage.processes for pid, usage in running.items()}),
            ("MEMORY_QUOTA", self.limits.ram_bytes, {pid: usage.ram_bytes for pid, usage in running.items()}),
        ):
            total = sum(used.values())
            if limit is not None and total > limit:
                largest = max(reversed(used), key=used.__getitem__)
                return largest, ExceededQuota(code, total, limit, self.limits.scope)
        return None

    def _cpu_seconds(self) -> float:
        return self._left_cpu_seconds + sum(step.usage.cpu_seconds for step in self._steps.values())
