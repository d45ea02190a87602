"""The duty cycle: CPU quotas without control groups, by stopping and continuing processes in turns."""

from __future__ import annotations

BURST_SECONDS = 0.1
"""Unused CPU time that is saved up, in seconds of the quota: a step that slept cannot burn more than this later."""
RESUME_SECONDS = 0.05
"""Credit, in seconds of the quota, that stopped processes need before they run again."""
MIN_CHECK_SECONDS, MAX_CHECK_SECONDS = 0.01, 0.1
"""Bounds of the time between two checks."""


class DutyCycle:
    """Decides when processes may run, by the CPU time they have used. Pure: the time is passed in."""

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
