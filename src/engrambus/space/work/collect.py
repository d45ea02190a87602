"""Collecting: bodies that are past their days or in the way go, and the journal goes on in a new file."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path

import msgspec

from engrambus.core import Clock
from engrambus.core.lock import locked
from engrambus.evidence.receipts import DAY, BodyStore, Purge, Survey, led_to
from engrambus.policy.guardrails import MB, Retention, free_bytes
from engrambus.space.tuples import BodyPurged, TupleSpace
from engrambus.space.work.folder import abandoned, sweep

LOCK, SCRATCH = "gc.lock", "scratch"
GRACE_SECONDS = 3600
"""So long after it was put a body is left alone, whatever receipts say: one may be about to name it."""
ROTATE_BYTES = 1 << 20
"""A segment of the journal that is shorter is not worth a file of its own."""
BATCH = 500

Told = Callable[[int, int], None]
"""Told how many bytes of how many are gone; 0 of 0 while it is being found out."""


class Freed(msgspec.Struct, frozen=True, kw_only=True):
    """What goes for one reason."""

    why: str
    """As for a purge; `left`: what killed workers left behind, which no receipt names."""
    bodies: int
    bytes: int


class Collected(msgspec.Struct, frozen=True, kw_only=True):
    """What was freed, or would be."""

    dry_run: bool
    receipts: int
    """Receipts there are; all of them stay."""
    freed: list[Freed]
    pinned: int
    """Bodies that stay because engrams point at them."""
    total_bytes: int
    """What the catalog took before."""
    after_bytes: int
    """What it takes now, or would."""
    free_bytes: int
    """What is free on the disk."""
    rotated: bool
    """Whether the journal goes on in a new file."""
    enough: bool
    """Whether the catalog is within its cap and the disk above its floor now, or would be."""


class Collector:
    """Collects in one project's catalog; one at a time, whoever asks."""

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
        grace: float = GRACE_SECONDS,
    ) -> None:
        self._space = space
        self._bodies = bodies
        self._catalog = catalog
        self._clock = clock
        self._retention = retention
        self._pinned = pinned
        self._free = free
        self._grace = grace

    def collect(self, *, dry_run: bool = False, told: Told = lambda done, total: None) -> Collected:
        """Free what may go; dry, only tell what would."""
        with locked(self._catalog / LOCK, 0o644) if not dry_run else nullcontext():
            keep, total = self._retention(), _size(self._catalog)
            # First what nobody needs: no result is given up for it.
            left = self._sweep(dry_run)
            free = self._free(self._catalog) + (left.bytes if dry_run else 0)
            survey = self._survey(told)
            room = max(total - left.bytes - keep.max_total_mb * MB, keep.free_mb_floor * MB - free, 0)
            now = self._clock.now()
            purges = survey.plan(now=now, hot_days=keep.hot_days, warm_days=keep.warm_days, room=room)
            freed = sum(purge.body.size for purge in purges) if dry_run else self._purge(purges, told)
            rotated = self._space.store.rotate(least_bytes=ROTATE_BYTES, before_us=now - now % DAY, dry_run=dry_run)
            after = total - left.bytes - freed if dry_run else _size(self._catalog)
            return Collected(
                dry_run=dry_run,
                receipts=survey.receipts,
                freed=[*_by_reason(purges), left],
                pinned=survey.pinned,
                total_bytes=total,
                after_bytes=after,
                free_bytes=free + freed,
                rotated=rotated,
                enough=after <= keep.max_total_mb * MB and free + freed >= keep.free_mb_floor * MB,
            )

    def _sweep(self, dry_run: bool) -> Freed:
        """Take away what killed workers left: folders of steps, and bodies half put or half taken away."""
        scratch = self._catalog / SCRATCH
        left = [(each, _size(each)) for each in abandoned(scratch)]
        halves = list(self._bodies.leftovers(untouched_since=time.time() - self._grace))
        if not dry_run:
            sweep(scratch, partial(self._space.record_cost, synced=True))
            for path, _ in halves:
                path.unlink(missing_ok=True)
        found = [*left, *halves]
        return Freed(why="left", bodies=len(found), bytes=sum(size for _, size in found))

    def _survey(self, told: Told) -> Survey:
        old = self._bodies.sizes(untouched_since=time.time() - self._grace)
        with self._space.store.read() as view:
            survey = Survey(old, led_to(self._pinned(), view.receipt))
        after = 0
        told(0, 0)
        while True:
            with self._space.store.read() as view:
                page = view.list_receipts(None, limit=BATCH, after=after)
            for number, receipt in page:
                survey.take(receipt)
                after = number
            if len(page) < BATCH:
                return survey

    def _purge(self, purges: list[Purge], told: Told) -> int:
        """Write down what goes, then let it go: what is still there after a crash goes the next time."""
        freed, total = 0, sum(each.body.size for each in purges)
        for at in range(0, len(purges), BATCH):
            some = purges[at : at + BATCH]
            facts = [BodyPurged(sha=each.body.sha, size_bytes=each.body.size, reason=each.why) for each in some]
            self._space.store.commit(lambda view, facts=facts: (facts, None))  # type: ignore[misc]
            since = time.time() - self._grace
            freed += sum(self._bodies.remove(each.body.sha, untouched_since=since) for each in some)
            told(min(freed, total - 1), total)
        told(1, 1)
        return freed


def _by_reason(purges: list[Purge]) -> list[Freed]:
    found = []
    for why in ("artifact", "printed", "room"):
        sizes = [purge.body.size for purge in purges if purge.why == why]
        found.append(Freed(why=why, bodies=len(sizes), bytes=sum(sizes)))
    return found


def _size(folder: Path) -> int:
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                total += os.lstat(os.path.join(place, name)).st_size
    return total
