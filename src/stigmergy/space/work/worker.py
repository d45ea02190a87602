"""Workers: they hold tuples of a lane, look in the cache, run what is not there, and write down what was done."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any

from stigmergy.core import SECOND
from stigmergy.errors import DiskPressure, StigmergyError
from stigmergy.space.tuples import Claim, Pattern, read_pattern
from stigmergy.space.work.identity import worker_name
from stigmergy.space.work.ports import Progress
from stigmergy.space.work.tuple_run import TupleRun, Workshop

IDLE_SECONDS = 1.0
"""How long a worker waits for work before it looks whether it should stop."""
PRESSED_SECONDS = 5.0
"""How long a worker waits for room on the disk before it looks again."""


def eval_(
    shop: Workshop,
    draft: Mapping[str, Any],
    *,
    authority: Mapping[str, Any],
    run: str,
    told: Callable[[Progress], None] = lambda progress: None,
) -> threading.Thread:
    """Linda's `eval`: an active tuple that computes itself, here and now, and is a passive one when it has ended.

    The thread's name is the tuple's id. Should this process die, the tuple is any worker's once its lease has ended.
    """
    (put,) = shop.space.out(draft, authority=authority, run=run)
    pool = LaneWorkerPool(shop, read_pattern({"id": put.id}), told=told)
    thread = threading.Thread(target=pool.run, kwargs={"until_empty": True}, name=put.id, daemon=True)
    thread.start()
    return thread


class LaneWorkerPool:
    """Works on the tuples of some lanes, several at once, until it is told to stop."""

    def __init__(
        self,
        shop: Workshop,
        pattern: Pattern,
        *,
        concurrency: int | None = None,
        told: Callable[[Progress], None] = lambda progress: None,
        under_pressure: bool = False,
    ) -> None:
        """`under_pressure` works on when the disk is short of room: on what makes room."""
        settings = shop.space.settings
        wanted = settings.lane_concurrency if concurrency is None else concurrency
        self.concurrency = max(1, min(wanted, settings.max_lane_concurrency))
        self.worker = worker_name()
        self._shop = shop
        self._pattern = pattern
        self._told = told
        self._under_pressure = under_pressure
        self._slots = threading.Semaphore(self.concurrency)
        self._held: dict[str, TupleRun] = {}
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._beat = threading.Thread(target=self._heartbeat, name="heartbeat", daemon=True)

    def run(self, *, until_empty: bool = False) -> None:
        """Work until told to stop, or, if asked, until nothing is left that could be done now."""
        # Twice as many tuples as slots are held, so that what is in the cache never waits for a slot.
        most = self.concurrency * 2
        self._beat.start()
        with ThreadPoolExecutor(most, "tuple") as threads:
            under_way: set[Future[None]] = set()
            try:
                while not self._stopping.is_set():
                    under_way = {each for each in under_way if not each.done()}
                    room = most - len(under_way)
                    patience = 0.0 if until_empty or room < most else IDLE_SECONDS
                    claims = self._claim(min(room, self.concurrency), patience, until_empty) if room else []
                    under_way |= {threads.submit(self._work, self._hold(claim)) for claim in claims}
                    if not claims and not under_way and until_empty and not self._something_comes():
                        break
                    if not claims and under_way:
                        wait(under_way, timeout=IDLE_SECONDS if room == 0 else 0.2, return_when=FIRST_COMPLETED)
            finally:
                self._stopping.set()
                wait(under_way)
        self._shop.space.write_receipts(self._shop.receipts)
        for each in under_way:
            each.result()

    def stop(self, *, at_once: bool = False) -> None:
        """Claim no more; what is under way is finished, or, at once, given back."""
        self._stopping.set()
        if not at_once:
            return
        with self._lock:
            held = [(run.claim.id, run.claim.fence) for run in self._held.values()]
            for run in self._held.values():
                run.stop.set()
        if held:
            self._shop.space.release(held)

    def _claim(self, limit: int, patience: float, until_empty: bool) -> list[Claim]:
        if not self._under_pressure:
            try:
                self._shop.space.check_room()
            except DiskPressure as refusal:
                if until_empty:
                    raise
                self._told(Progress(what="pressure", tuple_id="", error=refusal.detail))
                self._stopping.wait(PRESSED_SECONDS)
                return []
        return self._shop.space.claim(self._pattern, worker=self.worker, limit=limit, timeout=patience)

    def _something_comes(self) -> bool:
        """Whether a tuple waits for its next attempt: then it is waited for."""
        with self._shop.space.store.read() as view:
            due = view.next_due(self._pattern)
            as_of = view.as_of
        if due is None:
            return False
        self._stopping.wait(min(IDLE_SECONDS, (due - as_of) / SECOND))
        return True

    def _hold(self, claim: Claim) -> TupleRun:
        run = TupleRun(self._shop, claim, self._slots, self._told)
        with self._lock:
            self._held[claim.id] = run
        return run

    def _work(self, run: TupleRun) -> None:
        try:
            run.run()
        finally:
            with self._lock:
                if self._held.get(run.claim.id) is run:
                    del self._held[run.claim.id]

    def _heartbeat(self) -> None:
        """Go on holding what is worked on; what is not held any more is stopped."""
        every = self._shop.space.settings.lease / SECOND / 3
        while True:
            time.sleep(min(every, 1.0) if every > 1 else every)
            with self._lock:
                held = [(run.claim.id, run.claim.fence) for run in self._held.values() if not run.stop.is_set()]
            if self._stopping.is_set() and not held:
                return
            if not self._beat_due(every):
                continue
            self._shop.space.write_receipts(self._shop.receipts)
            if not held:
                continue
            try:
                lost = self._shop.space.renew(held)
            except StigmergyError:
                continue  # whoever settles is told what is wrong
            with self._lock:
                for each in lost:
                    if each in self._held:
                        self._held[each].stop.set()

    _last_beat = 0.0

    def _beat_due(self, every: float) -> bool:
        now = time.monotonic()
        if now - self._last_beat < every:
            return False
        self._last_beat = now
        return True
