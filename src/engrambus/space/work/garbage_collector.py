"""Garbage collection: delete bodies that are too old or take too much space, and rotate the journal of work."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path

import msgspec

from engrambus.core import Clock
from engrambus.core.files import remove
from engrambus.core.lock import file_lock
from engrambus.evidence.receipts import DAY_US, BodyStore, Purge, PurgePlanner, with_step_receipts
from engrambus.policy.guardrails import MB, Retention, free_bytes
from engrambus.space.tuples import BodyPurged, TupleSpace
from engrambus.space.work.step_folder import abandoned, sweep

LOCK_FILE, SCRATCH_FOLDER = "gc.lock", "scratch"
GRACE_SECONDS = 3600
"""Time for which a body that was written or read is never deleted: a receipt or an engram may be about to name it."""
MIN_SEGMENT_BYTES = 1 << 20
"""Size from which a segment of the journal is rotated into a file of its own."""
BATCH = 500

GcProgress = Callable[[int, int], None]
"""Called with bytes deleted and bytes to delete; with 0 and 0 while that is being found out."""


class FreedBodies(msgspec.Struct, frozen=True, kw_only=True):
    """Bodies deleted for one reason."""

    why: str
    """A `PurgeReason`, or `left`: remains of killed workers, which no receipt names."""
    bodies: int
    bytes: int


class GcReport(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a collection, or of a dry run."""

    dry_run: bool
    receipts: int
    """Receipts of the project; none is ever deleted."""
    freed: list[FreedBodies]
    pinned: int
    """Bodies kept because engrams point at them."""
    total_bytes: int
    """Size of the catalog before."""
    after_bytes: int
    """Size of the catalog afterwards."""
    free_bytes: int
    """Free space on the disk afterwards."""
    rotated: bool
    """True if the journal continues in a new file."""
    enough: bool
    """True if the catalog is then within its size limit and the disk above its floor of free space."""


class GarbageCollector:
    """Collects the garbage of one project; a lock file admits one collection at a time."""

    def __init__(
        self,
        space: TupleSpace,
        bodies: BodyStore,
        catalog: Path,
        clock: Clock,
        *,
        retention: Callable[[], Retention],
        pinned: Callable[[], Collection[str]],
        free: Callable[[Path], int] = free_bytes,
        grace_seconds: float = GRACE_SECONDS,
    ) -> None:
        """`pinned` returns the digests of bodies, and the ids of receipts, that engrams point at."""
        self._space = space
        self._bodies = bodies
        self._catalog = catalog
        self._clock = clock
        self._retention = retention
        self._pinned = pinned
        self._free = free
        self._grace_seconds = grace_seconds

    def collect(
        self, *, dry_run: bool = False, on_progress: GcProgress = lambda done_bytes, total_bytes: None
    ) -> GcReport:
        """Delete what may go; with `dry_run` only report it."""
        with file_lock(self._catalog / LOCK_FILE) if not dry_run else nullcontext():
            retention, total = self._retention(), _folder_size(self._catalog)
            # decision 28: remains of killed workers go first, so that no result is deleted for their space.
            leftovers = self._sweep(dry_run)
            free = self._free(self._catalog) + (leftovers.bytes if dry_run else 0)
            planner = self._survey(on_progress)
            excess_bytes = max(
                total - leftovers.bytes - retention.max_total_mb * MB, retention.free_mb_floor * MB - free, 0
            )
            now_us = self._clock.now()
            purges = planner.plan(
                now_us=now_us,
                hot_days=retention.hot_days,
                warm_days=retention.warm_days,
                excess_bytes=excess_bytes,
            )
            freed = sum(purge.body.size for purge in purges) if dry_run else self._purge(purges, on_progress)
            midnight_us = now_us - now_us % DAY_US
            rotated = self._space.store.rotate(least_bytes=MIN_SEGMENT_BYTES, before_us=midnight_us, dry_run=dry_run)
            after = total - leftovers.bytes - freed if dry_run else _folder_size(self._catalog)
            return GcReport(
                dry_run=dry_run,
                receipts=planner.receipts,
                freed=[*_by_reason(purges), leftovers],
                pinned=planner.pinned,
                total_bytes=total,
                after_bytes=after,
                free_bytes=free + freed,
                rotated=rotated,
                enough=after <= retention.max_total_mb * MB and free + freed >= retention.free_mb_floor * MB,
            )

    def _sweep(self, dry_run: bool) -> FreedBodies:
        """Delete what killed workers left: folders of steps, and bodies half written or half deleted."""
        scratch = self._catalog / SCRATCH_FOLDER
        folders = [(path, _folder_size(path)) for path in abandoned(scratch)]
        partial_bodies = list(self._bodies.leftovers(untouched_since=time.time() - self._grace_seconds))
        if not dry_run:
            sweep(scratch, partial(self._space.record_cost, synced=True))
            for path, _ in partial_bodies:
                remove(path)
        leftovers = [*folders, *partial_bodies]
        return FreedBodies(why="left", bodies=len(leftovers), bytes=sum(size for _, size in leftovers))

    def _survey(self, on_progress: GcProgress) -> PurgePlanner:
        """Show every receipt to a planner."""
        sizes = self._bodies.sizes(untouched_since=time.time() - self._grace_seconds)
        with self._space.store.read() as view:
            planner = PurgePlanner(sizes, with_step_receipts(self._pinned(), view.receipt))
        after = 0
        on_progress(0, 0)
        while True:
            with self._space.store.read() as view:
                page = view.list_receipts(None, limit=BATCH, after=after)
            for number, receipt in page:
                planner.add(receipt)
                after = number
            if len(page) < BATCH:
                return planner

    def _purge(self, purges: list[Purge], on_progress: GcProgress) -> int:
        freed, total = 0, sum(purge.body.size for purge in purges)
        for start in range(0, len(purges), BATCH):
            batch = purges[start : start + BATCH]
            # decision 28: journalled before the files are removed; what a crash leaves is removed the next time.
            facts = [BodyPurged(sha=purge.body.sha, size_bytes=purge.body.size, reason=purge.why) for purge in batch]
            self._space.store.commit(lambda view, facts=facts: (facts, None))  # type: ignore[misc]
            since = time.time() - self._grace_seconds
            freed += sum(self._bodies.remove(purge.body.sha, untouched_since=since) for purge in batch)
            on_progress(min(freed, total - 1), total)
        on_progress(1, 1)
        return freed


def _by_reason(purges: list[Purge]) -> list[FreedBodies]:
    rows = []
    for why in ("artifact", "printed", "room"):
        sizes = [purge.body.size for purge in purges if purge.why == why]
        rows.append(FreedBodies(why=why, bodies=len(sizes), bytes=sum(sizes)))
    return rows


def _folder_size(root: Path) -> int:
    total = 0
    for folder, _, names in os.walk(root):
        for name in names:
            with suppress(OSError):
                total += os.lstat(os.path.join(folder, name)).st_size
    return total
