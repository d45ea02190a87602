"""Workers: they hold tuples of a lane, look in the cache, run what is not there, and write down what was done."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from typing import Any

from engrambus.core import SECOND
from engrambus.errors import DiskPressure, EngramBusError
from engrambus.evidence.receipts import Receipt
from engrambus.space.tuples import Claim, Fence, Pattern, read_pattern
from engrambus.space.work.identity import worker_name
from engrambus.space.work.ports import Progress
from engrambus.space.work.tuple_run import PRESSED_SECONDS, TupleRun
from engrambus.space.work.workshop import Workshop

IDLE_SECONDS = 1.0
"""How long a worker waits for work before it looks whether it should stop."""
LOOK_SECONDS = 1.0
"""How often a worker looks whether what it works on was cancelled or taken from it."""


def eval_(
    shop: Workshop,
    draft: Mapping[str, Any],
    *,
    authority: Mapping[str, Any],
    run: str,
    told: Callable[[Progress], None] = lambda progress: None,
) -> threading.Thread:
    """Linda's `eval`: an active tuple that computes itself, here and now, and is a passive one when it has ended.

    The thread's name is the tuple's id. Should this process die, the tuple is any worker's once its lease has ended;
    should it fail, the next attempt goes to whoever comes first.
    """
    put, claim = shop.space.out_claimed(draft, authority=authority, run=run, worker=worker_name())
    pool = LaneWorkerPool(shop, read_pattern({"id": put.id}), told=told)
    begin = {"until_empty": True, "held": [claim] if claim is not None else []}
    thread = threading.Thread(target=pool.run, kwargs=begin, name=put.id, daemon=True)
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
        self._hear = told
        self._unheard: Exception | None = None
        self._under_pressure = under_pressure
        self._slots = threading.Semaphore(self.concurrency)
        self._held: dict[str, TupleRun] = {}
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._over = threading.Event()
        self._hold_more = True
        self._leaving: list[tuple[str, Fence]] = []
        """What is to be given back when its step has ended."""

    def run(self, *, until_empty: bool = False, held: Iterable[Claim] = ()) -> None:
        """Work until told to stop, or, if asked, until nothing is left that could be done now.

        It begins with what it is told that it holds already.
        """
        self._over.clear()
        beat = threading.Thread(target=self._heartbeat, name="heartbeat", daemon=True)
        beat.start()
        with ThreadPoolExecutor(self.concurrency * 2, "tuple") as threads:
            under_way = {threads.submit(self._work, self._hold(claim)) for claim in held}
            try:
                while not self._stopping.is_set():
                    under_way = _going_on(under_way)
                    room = self._most() - len(under_way)
                    patience = 0.0 if until_empty or under_way else IDLE_SECONDS
                    claims = self._claim(min(room, self.concurrency), patience, until_empty) if room > 0 else []
                    if self._stopping.is_set():  # it was told so while it claimed
                        self._shop.space.release([(claim.id, claim.fence) for claim in claims])
                        break
                    under_way |= {threads.submit(self._work, self._hold(claim)) for claim in claims}
                    if not claims and not under_way and until_empty and not self._something_comes():
                        break
                    if not claims and under_way:
                        wait(under_way, timeout=IDLE_SECONDS if room <= 0 else 0.2, return_when=FIRST_COMPLETED)
            finally:
                wait(under_way)
                self._over.set()
                beat.join()
        self._shop.space.write_receipts(self._shop.receipts)
        _going_on(under_way)
        if self._unheard is not None:
            raise self._unheard

    def stop(self, *, at_once: bool = False) -> None:
        """Claim no more; what is begun is finished, or, at once, given back as soon as its step has been ended. What is
        not begun is given back anyway."""
        self._stopping.set()
        with self._lock:
            back = [run for run in self._held.values() if run.yield_unbegun()]
            for run in self._held.values() if at_once else ():
                if not run.stop.is_set():
                    self._leaving.append((run.claim.id, run.claim.fence))
                    run.stop.set()
        if back:
            self._shop.space.release([(run.claim.id, run.claim.fence) for run in back])

    def _told(self, progress: Progress) -> None:
        """Tell whoever listens. When that goes wrong no step is the worse for it: what is begun is finished, nothing
        more is begun, and `run` raises what went wrong."""
        if self._unheard is not None:
            return
        try:
            self._hear(progress)
        except Exception as problem:
            self._unheard = problem
            with suppress(EngramBusError, OSError):  # then what is not begun is another's when its lease has ended
                self.stop()

    def _most(self) -> int:
        """How many tuples are held at once.

        Twice as many as there are slots, so that what is in the cache never waits for a slot; but when one had to be
        given back, because it did wait, no more than can be worked on until something has ended.
        """
        return self.concurrency * 2 if self._hold_more else self.concurrency

    def _claim(self, limit: int, patience: float, until_empty: bool) -> list[Claim]:
        try:
            if not self._under_pressure:
                self._shop.space.check_disk_space()
            return self._shop.space.claim(
                self._pattern,
                worker=self.worker,
                limit=limit,
                timeout=patience,
                before_claim=self._shop.sweep,  # what the worker before spent is spent when the next one begins
                on_ended=self._tell_ended,
            )
        except DiskPressure as refusal:
            if until_empty:
                raise
            self._told(Progress(what="pressure", tuple_id="", error=refusal.detail))
            self._stopping.wait(PRESSED_SECONDS)
            return []

    def _tell_ended(self, last: Receipt) -> None:
        """A tuple was not given out any more: this is all that is ever heard of it."""
        self._told(Progress(what="dead", tuple_id=last.tuple_id, receipt=last.id, error=last.error))

    def _something_comes(self) -> bool:
        """Whether a tuple waits for its next attempt, then it is waited for; or has come due just now."""
        with self._shop.space.store.read() as view:
            due = view.next_due_us(self._pattern)
            as_of = view.as_of
            if due is None:
                return bool(view.claimable(self._pattern, epoch=view.current_epoch().number, limit=1))
        self._stopping.wait(min(IDLE_SECONDS, (due - as_of) / SECOND))
        return True

    def _hold(self, claim: Claim) -> TupleRun:
        run = TupleRun(self._shop, claim, self._slots, self._told)
        with self._lock:
            self._held[claim.id] = run
        return run

    def _work(self, run: TupleRun) -> None:
        own = run.claim.id, run.claim.fence
        try:
            run.run()
            if own in self._leaving:
                self._shop.space.release([own])
        finally:
            with self._lock:
                if self._held.get(run.claim.id) is run:
                    del self._held[run.claim.id]
                self._hold_more = not run.given_back

    def _heartbeat(self) -> None:
        """Go on holding what is worked on; what is not held any more is stopped."""
        every = self._shop.space.settings.lease_us / SECOND / 3
        due = 0.0
        while not self._over.wait(min(every, LOOK_SECONDS)):
            with self._lock:
                held = [run for run in self._held.values() if not run.stop.is_set()]
            # Whoever settles is told what is wrong with the store; a heart that stopped would give everything away.
            with suppress(Exception):
                lost = self._taken_away(held)
                if time.monotonic() >= due:
                    due = time.monotonic() + every
                    if held:
                        lost |= set(self._shop.space.renew([(run.claim.id, run.claim.fence) for run in held]))
                    self._shop.space.write_receipts(self._shop.receipts)
                for run in held:
                    if run.claim.id in lost:
                        run.lose()

    def _taken_away(self, held: list[TupleRun]) -> set[str]:
        """What was cancelled meanwhile, or is another worker's."""
        if not held:
            return set()
        with self._shop.space.store.read() as view:
            kept = view.find_all([run.claim.id for run in held])
        ours = {run.claim.id: run.claim.fence for run in held}
        return {each for each, fence in ours.items() if each not in kept or kept[each].fence != fence}


def _going_on(under_way: Iterable[Future[None]]) -> set[Future[None]]:
    """Those that have not ended; what went wrong with one that has goes wrong here."""
    left = set()
    for each in under_way:
        if each.done():
            each.result()
        else:
            left.add(each)
    return left
