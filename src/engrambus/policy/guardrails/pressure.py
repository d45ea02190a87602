"""The breaker: below a floor of free disk no work is begun."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from engrambus.errors import DiskPressure
from engrambus.policy.guardrails.limits import MB

LOOK_SECONDS = 1.0
"""For so long what was found out about the disk is taken to hold."""


def free_bytes(folder: Path) -> int:
    """Bytes that are free, for us, on the disk a folder lies on."""
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


class DiskBreaker:
    """Looks, once a second at most, whether there is room for more work."""

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
        self._looked: float | None = None
        self._missing: tuple[int, int] | None = None

    def check(self) -> None:
        """Refuse work while less is free than the project wants."""
        now = self._now()
        if self._looked is None or now - self._looked >= LOOK_SECONDS:
            self._looked = now
            floor, free = self._floor_mb() * MB, self._free(self._folder)
            self._missing = (floor, free) if free < floor else None
        if self._missing is not None:
            floor, free = self._missing
            raise DiskPressure(
                f"Only {free // MB} MB are free on the disk; no work is begun below {floor // MB} MB.",
                field="guardrails.gc.free_mb_floor",
                limit=floor // MB,
                used=free // MB,
                hint="Free some space, or see what `engrambus gc --dry-run` would free.",
            )
