"""The duty cycle: processes run while they have credit, stand still while they have none."""

from __future__ import annotations

BURST_SECONDS = 0.1
"""For so long unused time is kept: a step that slept does not burn later what it did not use."""
RESUME_SECONDS = 0.05
"""For so long at least it may run again before it has to stand still again."""
SHORTEST, LONGEST = 0.01, 0.1
"""Seconds between two looks."""


class Governor:
    """Says when a step's processes may run, from how much CPU they have used. Pure: it is told the time."""

    def __init__(self, cores: float, now: float, machine: int) -> None:
        self._cores = cores
        self._machine = machine
        self._credit = cores * BURST_SECONDS
        self._used = 0.0
        self._at = now
        self.runs = True

    def account(self, used: float, now: float) -> bool:
        """Whether they may run on, having used so many seconds in all."""
        self._credit += (now - self._at) * self._cores - max(0.0, used - self._used)
        self._credit = min(self._credit, self._cores * BURST_SECONDS)
        self._used = max(self._used, used)
        self._at = now
        self.runs = self._credit > 0 if self.runs else self._credit >= self._cores * RESUME_SECONDS
        return self.runs

    def look_again(self) -> float:
        """Seconds until they could have used up what they have, or have enough again."""
        wait = self._credit / self._machine if self.runs else RESUME_SECONDS - self._credit / self._cores
        return min(max(wait, SHORTEST), LONGEST)
