"""Garbage collection: delete bodies that are too old or take too much space, and rotate the journal of work."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path

import msgspec

from engrambus.core import SECOND_US, Clock
from engrambus.core.lock import file_lock
from engrambus.errors import EngramBusError
from engrambus.evidence.pointers import BodyAddress, parse_ref
from engrambus.evidence.receipts import DAY_US, BodyStore, Purge, PurgePlanner, ReceiptFolder, with_step_receipts
from engrambus.policy.guardrails import MB, Retention, free_bytes
from engrambus.space.tuples import BodyPurged, TupleRecord, TupleSpace
from engrambus.space.work.step_folder import abandoned, sweep

LOCK_FILE, SCRATCH_FOLDER = "gc.lock", "scratch"
GRACE_SECONDS = 3600
"""Time for which a body that a caller stored, or that was read, is never deleted: somebody may be about to name it."""
OWN_BYTES = 16 * 1024
"""What a collection itself may add to the journal and its index: freed as well, so that the limit holds afterwards."""
MIN_SEGMENT_BYTES = 1 << 20
"""Size from which a segment of the journal is rotated into a file of its own."""
BATCH = 500

GcProgress = Callable[[int, int], None]
"""Called with bytes deleted and bytes to delete; with 0 and 0 while that is being found out."""


class BodyCount(msgspec.Struct, frozen=True, kw_only=True):
    """Bodies deleted or kept for one reason."""

    why: str
    """A `PurgeReason` or `KeepReason`; `left` for remains of killed workers, `scratch` for folders of running steps."""
    bodies: int
    bytes: int


class GcReport(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a collection, or of a dry run."""

    dry_run: bool
    receipts: int
    """Receipts of the project; none is ever deleted."""
    rewritten: int
    """Files of receipts that were missing or differed from the journal, and were written again."""
    freed: list[BodyCount]
    kept: list[BodyCount]
    """What stays, by what protects it."""
    pinned: int
    """Bodies kept because engrams point at them."""
    total_bytes: int
    """Size of the catalog before."""
    after_bytes: int
    """Size of the catalog afterwards."""
    other_bytes: int
    """Size of everything that is no body: journals, indexes, receipts."""
    free_bytes: int
    """Free space on the disk afterwards."""
    rotated: bool
    """True if the journal continues in a new file."""
    max_total_mb: int
    free_mb_floor: int
    enough: bool
    """True if the catalog is then within its size limit and the disk above its floor of free space."""


class RetentionOverrides(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of `Retention` that hold for one collection; None leaves the policy's."""

    hot_days: int | None = None
    warm_days: int | None = None
    max_total_mb: int | None = None

    def apply_to(self, retention: Retention) -> Retention:
        """Return the retention with these settings."""
        overrides = {name: value for name, value in msgspec.structs.asdict(self).items() if value is not None}
        return msgspec.structs.replace(retention, **overrides)


class GarbageCollector:
    """Collects the garbage of one project; a lock file admits one collection at a time."""

    def __init__(
        self,
        space: TupleSpace,
        bodies: BodyStore,
        receipts: ReceiptFolder,
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
        self._receipts = receipts
        self._catalog = catalog
        self._clock = clock
        self._retention = retention
        self._pinned = pinned
        self._free = free
        self._grace_seconds = grace_seconds

    def collect(
        self,
        overrides: RetentionOverrides | None = None,
        *,
        dry_run: bool = False,
        on_progress: GcProgress = lambda done_bytes, total_bytes: None,
    ) -> GcReport:
        """Delete what may go; with `dry_run` only report it."""
        with file_lock(self._catalog / LOCK_FILE) if not dry_run else nullcontext():
            retention = (overrides or RetentionOverrides()).apply_to(self._retention())
            other_bytes = self._size_of_others()
            receipts = self._receipts.rewrite_changed(self._space.receipt_lookup, dry_run=dry_run)
            total = other_bytes + receipts.bytes_before
            # decision 28: remains of killed workers go first, so that no result is deleted for their space.
            leftovers = self._sweep(dry_run)
            free = self._free(self._catalog) + (leftovers.bytes if dry_run else 0)
            planner = self._survey(on_progress)
            excess_bytes = max(
                total - leftovers.bytes - retention.max_total_mb * MB, retention.free_mb_floor * MB - free, 0
            )
            if excess_bytes:
                excess_bytes += OWN_BYTES
            now_us = self._clock.now()
            purges = planner.plan(
                now_us=now_us,
                hot_days=retention.hot_days,
                warm_days=retention.warm_days,
                excess_bytes=excess_bytes,
            )
            freed = sum(purge.body.size for purge in purges) if dry_run else self._purge(planner, purges, on_progress)
            midnight_us = now_us - now_us % DAY_US
            rotated = self._space.store.rotate(least_bytes=MIN_SEGMENT_BYTES, before_us=midnight_us, dry_run=dry_run)
            after = total - leftovers.bytes - freed if dry_run else self._size_of_others() + receipts.bytes_after
            kept = [*_by_reason(planner.keeps(purges).items()), self._running_folders()]
            return GcReport(
                dry_run=dry_run,
                receipts=planner.receipts,
                rewritten=receipts.differing,
                freed=[*_by_reason(_purged_sizes(purges).items()), leftovers],
                kept=kept,
                pinned=planner.pinned,
                total_bytes=total,
                after_bytes=after,
                other_bytes=max(0, after - sum(row.bytes for row in kept)),
                free_bytes=free + freed,
                rotated=rotated,
                max_total_mb=retention.max_total_mb,
                free_mb_floor=retention.free_mb_floor,
                enough=after <= retention.max_total_mb * MB and free + freed >= retention.free_mb_floor * MB,
            )

    def _size_of_others(self) -> int:
        """Return the size of everything but the files of receipts: there may be a million, and they are listed once."""
        return _folder_size(self._catalog, without=self._receipts.folder)

    def _running_folders(self) -> BodyCount:
        """Count the folders of steps that are running."""
        scratch = self._catalog / SCRATCH_FOLDER
        abandoned_folders = set(abandoned(scratch))
        with suppress(FileNotFoundError):
            folders = [path for path in scratch.iterdir() if path not in abandoned_folders]
            return BodyCount(why="scratch", bodies=len(folders), bytes=sum(map(_folder_size, folders)))
        return BodyCount(why="scratch", bodies=0, bytes=0)

    def _sweep(self, dry_run: bool) -> BodyCount:
        """Delete what killed workers left: folders of steps, and bodies half written or half deleted."""
        scratch = self._catalog / SCRATCH_FOLDER
        folders = [(path, _folder_size(path)) for path in abandoned(scratch)]
        partial_bodies = list(self._bodies.leftovers(untouched_since=time.time() - self._grace_seconds))
        if not dry_run:
            sweep(scratch, partial(self._space.record_cost, synced=True))
            for name, _ in partial_bodies:
                self._bodies.remove_leftover(name)
        sizes = [size for _, size in (*folders, *partial_bodies)]
        return BodyCount(why="left", bodies=len(sizes), bytes=sum(sizes))

    def _survey(self, on_progress: GcProgress) -> PurgePlanner:
        """Show every receipt to a planner."""
        # Read before the bodies: what a step stores from now on is newer than any receipt that names it.
        needed = self._needed_by_unfinished()
        with self._space.store.read() as view:
            pinned = with_step_receipts(self._pinned(), view.receipt)
        fresh_us = round((time.time() - self._grace_seconds) * SECOND_US)
        planner = PurgePlanner(self._bodies.stored(), pinned, needed, fresh_us=fresh_us)
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

    def _needed_by_unfinished(self) -> set[str]:
        """Return the receipts that unfinished tuples have so far, and the bodies they point at."""
        needed: set[str] = set()
        after = 0
        while True:
            # A page at a time: there may be millions, and a transaction that long would let SQLite's WAL grow.
            with self._space.store.read() as view:
                page = view.list_unfinished(limit=BATCH, after=after)
                for record in page:
                    needed.update(view.receipt_ids(record.id), _bodies_pointed_at(record))
            if len(page) < BATCH:
                return needed
            after = page[-1].ordinal

    def _purge(self, planner: PurgePlanner, purges: list[Purge], on_progress: GcProgress) -> int:
        freed, total = 0, sum(purge.body.size for purge in purges)
        for start in range(0, len(purges), BATCH):
            batch = purges[start : start + BATCH]
            # decision 28: journalled before the files are removed; what a crash leaves is removed the next time.
            facts = [BodyPurged(sha=purge.body.sha, size_bytes=purge.body.size, reason=purge.why) for purge in batch]
            self._space.store.commit(lambda view, facts=facts: (facts, None))  # type: ignore[misc]
            for purge in batch:
                untouched_since = planner.untouched_since_us(purge.body.sha) / SECOND_US
                freed += self._bodies.remove(purge.body.sha, untouched_since=untouched_since)
            on_progress(min(freed, total - 1), total)
        on_progress(1, 1)
        return freed


def _bodies_pointed_at(record: TupleRecord) -> set[str]:
    digests = set()
    for ref in record.tuple.src_ptr:
        with suppress(EngramBusError):  # any text may be a source; only ours have a body here
            address = parse_ref(ref)
            if isinstance(address, BodyAddress):
                digests.add(address.digest)
    return digests


def _purged_sizes(purges: list[Purge]) -> dict[str, list[int]]:
    return {why: [purge.body.size for purge in purges if purge.why == why] for why in ("artifact", "printed", "room")}


def _by_reason(sizes: Iterable[tuple[str, list[int]]]) -> list[BodyCount]:
    return [BodyCount(why=why, bodies=len(row), bytes=sum(row)) for why, row in sizes]


def _folder_size(root: Path, *, without: Path | None = None) -> int:
    """Return the size of all files in a folder, as their lengths; leave one of its folders out."""
    total = 0
    for folder, inner, names in os.walk(root):
        if without is not None and without.name in inner and folder == str(without.parent):
            inner.remove(without.name)
        for name in names:
            with suppress(OSError):
                total += os.lstat(os.path.join(folder, name)).st_size
    return total
