"""Guardrails: limits on a step, how long what it left is kept, and how much disk space must stay free."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from engrambus.errors import DiskPressure, PolicyInvalid

MB = 1_000_000
"""Bytes in a megabyte, in quotas and on receipts."""
DISK_CHECK_SECONDS = 1.0
"""Time for which a reading of the free disk space is used again."""
_MAX_VALUES = {"cpu_quota_pct": 100, "hot_days": 36_500, "warm_days": 36_500, "nightly_hour": 23}
_MIN_VALUES = {"cpu_quota_pct": 1, "disk_quota_mb": 1, "memory_mb": 1, "max_processes": 1}
_DEFAULT_MAX = 1_000_000_000


class Quotas(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Limits on a step from one source: environment, project, tuple or yool. None sets no limit."""

    cpu_quota_pct: int | None = None
    """Share of one core for all its processes together; 100 is one core."""
    memory_mb: int | None = None
    """Megabytes of RAM of all its processes together."""
    disk_quota_mb: int | None = None
    """Megabytes it may write."""
    max_processes: int | None = None
    """Processes it may have at once."""
    budget_tokens: int | None = None
    """Tokens it may spend."""
    budget_usd_micros: int | None = None
    """Money it may spend, in micro-dollars."""


class Retention(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Rules for keeping output and artifacts of steps. Receipts are kept for ever."""

    # decision 28: three tiers; output is small and what people read of an old run, so it outlives artifacts.
    hot_days: Annotated[int, Meta(description="Days for which artifacts, output and receipts are kept")] = 30
    warm_days: Annotated[
        int, Meta(description="Days for which output is kept, counted from the start; then only receipts are")
    ] = 365
    max_total_mb: Annotated[
        int, Meta(description="Megabytes the catalog may take; above it the oldest bodies are deleted")
    ] = 5_000
    free_mb_floor: Annotated[
        int, Meta(description="Megabytes that stay free on the disk; below it no work is begun")
    ] = 1_000
    nightly_hour: Annotated[int, Meta(description="Hour, in local time, at which a worker collects garbage")] = 3


class Guardrails(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Section `guardrails` of `.catalog/policy.yaml`: the most a step may use, and how long things are kept."""

    cpu_quota_pct: Annotated[int | None, Meta(description="Share of one core that a step may use; 100 is one core")] = (
        None
    )
    memory_mb: Annotated[int | None, Meta(description="Megabytes of RAM that a step may use")] = None
    disk_quota_mb: Annotated[int | None, Meta(description="Megabytes that a step may write")] = None
    max_processes: Annotated[int | None, Meta(description="Processes that a step may have at once")] = None
    gc: Retention = Retention()

    @property
    def quotas(self) -> Quotas:
        """The most any step of the project may use."""
        return Quotas(
            cpu_quota_pct=self.cpu_quota_pct,
            memory_mb=self.memory_mb,
            disk_quota_mb=self.disk_quota_mb,
            max_processes=self.max_processes,
        )


def check_guardrails(guardrails: Guardrails) -> None:
    """Raise if a value is out of range."""
    for section, values in (("guardrails", guardrails), ("guardrails.gc", guardrails.gc)):
        for name in values.__struct_fields__:
            number = getattr(values, name)
            least, most = _MIN_VALUES.get(name, 0), _MAX_VALUES.get(name, _DEFAULT_MAX)
            if isinstance(number, int) and not least <= number <= most:
                raise PolicyInvalid(f"'{name}' is out of range.", field=f"{section}.{name}", limit=f"{least}..{most}")
    if guardrails.gc.warm_days < guardrails.gc.hot_days:
        raise PolicyInvalid(
            "Output is kept at least as long as artifacts: warm_days must not be below hot_days.",
            field="guardrails.gc.warm_days",
            limit=guardrails.gc.hot_days,
            used=guardrails.gc.warm_days,
        )


class StepLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits on one step, in the units they are measured in."""

    cores: float = 1.0
    """Cores whose time all its processes together may use."""
    ram_bytes: int | None = None
    disk_bytes: int | None = None
    """Bytes it may write."""
    processes: int | None = None
    """Processes it may have at once."""
    tokens: int | None = None
    usd_micros: int | None = None


NO_LIMITS = StepLimits()
"""Limits of a step if no source sets any: one core, and nothing else."""


def lowest_quotas(*sources: Quotas) -> Quotas:
    """Return the lowest limit that any source sets."""
    # The minimum, in any order: a tuple or a yool can lower what the project allows and never raise it.
    names = Quotas.__struct_fields__
    limits = {name: [value for quotas in sources if (value := getattr(quotas, name)) is not None] for name in names}
    return Quotas(**{name: min(values, default=None) for name, values in limits.items()})


def step_limits(*sources: Quotas) -> StepLimits:
    """Return the limits of a step: the lowest that any source sets."""
    lowest = lowest_quotas(*sources)
    cpu_pct, memory_mb, disk_mb = lowest.cpu_quota_pct, lowest.memory_mb, lowest.disk_quota_mb
    return StepLimits(
        cores=1.0 if cpu_pct is None else min(max(cpu_pct, 1), 100) / 100,
        ram_bytes=None if memory_mb is None else memory_mb * MB,
        disk_bytes=None if disk_mb is None else disk_mb * MB,
        processes=lowest.max_processes,
        tokens=lowest.budget_tokens,
        usd_micros=lowest.budget_usd_micros,
    )


class Ceiling(msgspec.Struct, frozen=True, kw_only=True):
    """Limits on steps that run at once, taken together; None sets no limit."""

    # decision 96: besides each step's own limits, which already include these.
    scope: Literal["tuple", "worker"]
    key: str
    """Tells one ceiling of a worker from another."""
    cores: float | None = None
    ram_bytes: int | None = None
    processes: int | None = None


def ceiling(scope: Literal["tuple", "worker"], key: str, quotas: Quotas) -> Ceiling | None:
    """Return what the steps of a tuple or a worker may use together; None if nothing is limited."""
    limits = Ceiling(
        scope=scope,
        key=key,
        cores=None if quotas.cpu_quota_pct is None else max(quotas.cpu_quota_pct, 1) / 100,
        ram_bytes=None if quotas.memory_mb is None else quotas.memory_mb * MB,
        processes=quotas.max_processes,
    )
    return None if limits == Ceiling(scope=scope, key=key) else limits


def niceness(cores: float) -> int:
    """Return the niceness of a step with this share of a core; the specification maps 60 % to 7 and 10 % to 15."""
    # Only in addition to the quota (decision 27): on an idle machine a nice process still gets the whole core.
    return min(19, max(0, round((100 - cores * 100) / 6)))


def free_bytes(folder: Path) -> int:
    """Return the bytes free for this user on the disk that holds `folder`."""
    status = os.statvfs(folder)
    return status.f_bavail * status.f_frsize


class DiskBreaker:
    """Circuit breaker for a full disk: below a floor of free space no work is begun."""

    def __init__(
        self,
        folder: Path,
        floor_mb: Callable[[], int],
        free: Callable[[Path], int] = free_bytes,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folder = folder
        self._floor_mb = floor_mb
        self._free = free
        self._now = now
        self._checked_seconds: float | None = None
        self._shortage: tuple[int, int] | None = None

    def check(self) -> None:
        """Raise DiskPressure if less is free than the project demands."""
        now = self._now()
        # Cached for a second: every put and every claim asks.
        if self._checked_seconds is None or now - self._checked_seconds >= DISK_CHECK_SECONDS:
            self._checked_seconds = now
            floor, free = self._floor_mb() * MB, self._free(self._folder)
            self._shortage = (floor, free) if free < floor else None
        if self._shortage is not None:
            floor, free = self._shortage
            raise DiskPressure(
                f"Only {free // MB} MB are free on the disk; no work is begun below {floor // MB} MB.",
                field="guardrails.gc.free_mb_floor",
                limit=floor // MB,
                used=free // MB,
                hint="Free some space, or see what `engrambus gc --dry-run` would free.",
            )
