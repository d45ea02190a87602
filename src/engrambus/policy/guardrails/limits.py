"""What one step may take: the least that the project, the tuple and the yool say. Nobody raises it."""

from __future__ import annotations

import msgspec

from engrambus.policy.guardrails.values import Quotas

MB = 1_000_000
"""Bytes in a megabyte, here and on receipts."""


class StepLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What one step may take, in the units it is measured in."""

    cores: float = 1.0
    """How many cores' time it may use, for all its processes together."""
    memory: int | None = None
    """Bytes of memory."""
    disk: int | None = None
    """Bytes it may write."""
    tokens: int | None = None
    micros: int | None = None


NO_LIMITS = StepLimits()
"""Nothing said: one core, and nothing else is limited."""


def step_limits(*levels: Quotas) -> StepLimits:
    """The least that any level says; the order they come in does not matter, so none can raise what another said."""

    def least(name: str) -> int | None:
        return min((said for level in levels if (said := getattr(level, name)) is not None), default=None)

    percent = least("cpu_quota_pct")
    memory, disk = least("memory_mb"), least("disk_quota_mb")
    return StepLimits(
        cores=1.0 if percent is None else min(max(percent, 1), 100) / 100,
        memory=None if memory is None else memory * MB,
        disk=None if disk is None else disk * MB,
        tokens=least("budget_tokens"),
        micros=least("budget_micros"),
    )


def niceness(cores: float) -> int:
    """How far a step stands back for others, as the specification maps it: 60 % to 7, 10 % to 15."""
    return min(19, max(0, round((100 - cores * 100) / 6)))
