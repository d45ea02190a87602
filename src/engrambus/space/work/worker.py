"""Workers: they claim tuples of a lane, answer steps from the cache or run them, and record the results."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from typing import Any

from engrambus.core import SECOND_US
from engrambus.core.process_names import process_name
from engrambus.errors import BudgetExceeded, CatalogRefusal, DiskPressure, EngramBusError, StoreBusy
from engrambus.evidence.receipts import Receipt
from engrambus.space.tuples import (
    ABSENT,
    CanRun,
    Claim,
    Fence,
    RunningWorker,
    TuplePattern,
    WorkView,
    check_unbroken,
    read_pattern,
    unfinished_yools,
)
from engrambus.space.work.ports import Progress
from engrambus.space.work.tuple_run import PRESSURE_RETRY_SECONDS, TupleRun
from engrambus.space.work.unclaimed_watch import UnclaimedWatch
from engrambus.space.work.worker_dependencies import WorkerDependencies

IDLE_SECONDS = 1.0
"""Time a worker waits for work before it checks whether it should stop."""
MAX_LOOKAHEAD = 1000
"""Tuples of other workers that a worker looks at, before it stops, for later steps of its own."""
CLAIM_CHECK_SECONDS = 1.0
"""Interval at which a worker checks whether its tuples were cancelled or claimed by another worker."""


def eval_(
    deps: WorkerDependencies,
    draft: Mapping[str, Any],
    *,
    authority: Mapping[str, Any],
    run: str,
    on_progress: Callable[[Progress], None] = lambda progress: None,
) -> threading.Thread:
    """Linda's `eval`: put an active tuple, which computes itself in a thread of this process and then is passive.

    The thread's name is the tuple's id. If this process dies, any worker gets the tuple once its lease has ended; if
    the attempt fails, the next attempt goes to the worker that asks first.
    """
    # decision 24: put and claimed in one commit, so that no other worker sees it wait.
    put, claim = deps.space.out_claimed(draft, authority=authority, run=run, worker=process_name())
    pool = LaneWorkerPool(deps, read_pattern({"id": put.id}), on_progress=on_progress)
    arguments = {"until_empty": True, "claims": [claim] if claim is not None else []}
    thread = threading.Thread(target=pool.run, kwargs=arguments, name=put.id, daemon=True)
    thread.start()
    return thread


class LaneWorkerPool:
    """A worker: it runs the tuples that match a pattern, several at a time, until it is stopped."""

    def __init__(
        self,
        deps: WorkerDependencies,
        pattern: TuplePattern,
        *,
        concurrency: int | None = None,
        on_progress: Callable[[Progress], None] = lambda progress: None,
        under_pressure: bool = False,
    ) -> None:
        """With `under_pressure` it also works while the disk is nearly full: for tuples that free space."""
        settings = deps.space.settings
        requested = settings.lane_concurrency if concurrency is None else concurrency
        self.concurrency = max(1, min(requested, settings.max_lane_concurrency))
        self.worker = process_name()
        self._id = os.urandom(8).hex()
        self._deps = deps
        self._pattern = pattern
        self._on_progress = on_progress
        self._callback_error: Exception | None = None
        self._under_pressure = under_pressure
        self._slots = threading.Semaphore(self.concurrency)
        self._runs: dict[str, TupleRun] = {}
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._finished = threading.Event()
        self._claim_ahead = True
        self._release_when_stopped: list[tuple[str, Fence]] = []

    def run(self, *, until_empty: bool = False, claims: Iterable[Claim] = ()) -> None:
        """Work until stopped or, with `until_empty`, until there is nothing to do; `claims` are worked on first."""
        self._finished.clear()
        self._announce()
        heartbeat = threading.Thread(target=self._heartbeat, name="heartbeat", daemon=True)
        heartbeat.start()
        with ThreadPoolExecutor(self.concurrency * 2, "tuple") as threads:
            running = {threads.submit(self._work, self._start(claim)) for claim in claims}
            try:
                while not self._stopping.is_set():
                    running = _unfinished(running)
                    free = self._max_claims() - len(running)
                    timeout = 0.0 if until_empty or running else IDLE_SECONDS
                    new = self._claim(min(free, self.concurrency), timeout, until_empty) if free > 0 else []
                    if self._stopping.is_set():  # stopped while it claimed
                        self._deps.space.release([(claim.id, claim.fence) for claim in new])
                        break
                    running |= {threads.submit(self._work, self._start(claim)) for claim in new}
                    if not new and not running and until_empty and not self._expects_more(self._deps.runnable()):
                        break
                    if not new and running:
                        wait(running, timeout=IDLE_SECONDS if free <= 0 else 0.2, return_when=FIRST_COMPLETED)
            finally:
                wait(running)
                self._finished.set()
                heartbeat.join()
                self._withdraw()
        self._deps.space.write_receipts(self._deps.receipts)
        _unfinished(running)
        if self._callback_error is not None:
            raise self._callback_error

    def stop(self, *, at_once: bool = False) -> None:
        """Claim no more and release tuples without a begun step; the others finish.

        With `at_once` their running steps are stopped, and they are released too.
        """
        self._stopping.set()
        with self._lock:
            unbegun = [run for run in self._runs.values() if run.stop_if_unbegun()]
            for run in self._runs.values() if at_once else ():
                if not run.stop.is_set():
                    self._release_when_stopped.append((run.claim.id, run.claim.fence))
                    run.stop.set()
        if unbegun:
            self._deps.space.release([(run.claim.id, run.claim.fence) for run in unbegun])

    def _report(self, progress: Progress) -> None:
        # An exception of the callback must not harm a step: begun tuples finish, no more are claimed, and `run` raises.
        if self._callback_error is not None:
            return
        try:
            self._on_progress(progress)
        except Exception as problem:
            self._callback_error = problem
            with suppress(EngramBusError, OSError):  # then unbegun tuples are free once their leases have ended
                self.stop()

    def _max_claims(self) -> int:
        # decision 33: twice the slots, so that tuples answered from the cache never wait for a slot. After one had to
        # be released because it did wait, only as many as there are slots, until another tuple ends.
        return self.concurrency * 2 if self._claim_ahead else self.concurrency

    def _claim(self, limit: int, timeout: float, until_empty: bool) -> list[Claim]:
        try:
            if not self._under_pressure:
                self._deps.space.check_disk_space()
            return self._deps.space.claim(
                self._pattern,
                worker=self.worker,
                limit=limit,
                timeout=timeout,
                can_run=self._deps.runnable(),
                before_claim=self._deps.sweep,  # counts first what the step of a killed worker spent
                on_ended=self._report_ended,
            )
        except (DiskPressure, CatalogRefusal, StoreBusy) as refusal:
            if until_empty:
                raise
            self._report(Progress(kind="pressure", tuple_id="", error=refusal.detail))
            self._stopping.wait(PRESSURE_RETRY_SECONDS)
            return []

    def _report_ended(self, last: Receipt) -> None:
        """Report a tuple that ended instead of being claimed: it had no attempt left, or was late."""
        self._report(Progress(kind="dead", tuple_id=last.tuple_id, receipt=last.id, error=last.error))

    def _expects_more(self, can_run: CanRun) -> bool:
        """True if a tuple that this worker can run is due, or will be; then wait for that a little."""
        other_workers = [worker for worker in self._deps.space.running_workers() if worker.id != self._id]
        with self._deps.space.store.read() as view:
            due_us = view.next_due_us(self._pattern, can_run=can_run)
            settings = self._deps.space.settings
            # A retry or a lease ends soon; a task that is delayed by hours or days is left to a later worker.
            if due_us is not None and due_us - view.as_of <= max(settings.max_backoff_us, settings.lease_us):
                seconds = min(IDLE_SECONDS, (due_us - view.as_of) / SECOND_US)
            elif self._deps.space.may_claim(self._pattern, 1, can_run):
                return True
            elif other_workers and self._comes_back(view, other_workers, can_run):
                seconds = IDLE_SECONDS
            else:
                return False
        self._stopping.wait(seconds)
        return True

    def _comes_back(self, view: WorkView, other_workers: list[RunningWorker], can_run: CanRun) -> bool:
        """True if another running worker can run the next step of a tuple that has a later step for this one."""
        catalog = self._deps.catalog()

        def others_can_run(name: str) -> bool:
            entry = catalog.get(name)
            return entry is not None and any(entry.full_name in worker.yools for worker in other_workers)

        epoch = view.current_epoch().number
        records = view.claimable(self._pattern, epoch=epoch, limit=MAX_LOOKAHEAD, can_run=others_can_run)
        return any(
            any(worker.works_in(record.lane, record.run) for worker in other_workers)
            and any(map(can_run, unfinished_yools(record.body, view.finished_steps(record.id))))
            for record in records
        )

    def _announce(self) -> None:
        """Announce this worker and what it can run; one that works on a single tuple is nobody's concern."""
        lane, run, tuple_id = (self._pattern.equal_to(field) for field in ("lane", "run", "id"))
        if tuple_id is not ABSENT:
            return
        worker = RunningWorker(
            id=self._id,
            process=self.worker,
            lane=None if lane is ABSENT else lane,
            run=None if run is ABSENT else run,
            yools=self._deps.code_names(),
            until_us=0,
        )
        with suppress(EngramBusError, OSError):  # a full disk: tuples are claimed all the same
            self._deps.space.announce(worker)

    def _withdraw(self) -> None:
        with suppress(EngramBusError, OSError):
            self._deps.space.store.withdraw(self._id)

    def _start(self, claim: Claim) -> TupleRun:
        run = TupleRun(self._deps, claim, self._slots, self._report)
        with self._lock:
            self._runs[claim.id] = run
        return run

    def _work(self, run: TupleRun) -> None:
        claim = run.claim.id, run.claim.fence
        try:
            run.run()
            if claim in self._release_when_stopped:
                self._deps.space.release([claim])
        except StoreBusy as refusal:  # the tuple is claimed again, by this worker or another, once its lease has ended
            self._report(Progress(kind="pressure", tuple_id=run.claim.id, error=refusal.detail))
        finally:
            with self._lock:
                if self._runs.get(run.claim.id) is run:
                    del self._runs[run.claim.id]
                self._claim_ahead = not run.released_unbegun

    def _heartbeat(self) -> None:
        """Renew the leases of running tuples; stop those whose claim is lost."""
        renew_seconds = self._deps.space.settings.lease_us / SECOND_US / 3
        due = 0.0
        watch = (
            None
            if self._under_pressure or self._pattern.equal_to("id") is not ABSENT
            else UnclaimedWatch(self._deps.space, self._deps.catalog)
        )
        while not self._finished.wait(min(renew_seconds, CLAIM_CHECK_SECONDS)):
            with self._lock:
                runs = [run for run in self._runs.values() if not run.stop.is_set()]
            # A broken store is reported by the commit of a result; a heartbeat that ends would lose every claim.
            with suppress(Exception):
                lost = self._lost_claims(runs)
                if time.monotonic() >= due:
                    due = time.monotonic() + renew_seconds
                    if runs:
                        lost |= set(self._deps.space.renew([(run.claim.id, run.claim.fence) for run in runs]))
                    self._deps.space.write_receipts(self._deps.receipts)
                    self._announce()
                for run in runs:
                    if run.claim.id in lost:
                        run.lose()
                self._stop_over_budget(runs)
                if watch is not None:
                    watch.look()

    def _stop_over_budget(self, runs: list[TupleRun]) -> None:
        """Stop the steps of tuples whose budget, or a parent's, was broken by another step."""
        if not runs:
            return
        with self._deps.space.store.read() as view:
            for run in runs:
                record = view.find(run.claim.id)
                try:
                    if record is not None:
                        check_unbroken(view, record)
                except BudgetExceeded as refusal:
                    run.stop_steps(refusal)

    def _lost_claims(self, runs: list[TupleRun]) -> set[str]:
        """Return the ids of tuples that were cancelled, or claimed by another worker."""
        if not runs:
            return set()
        with self._deps.space.store.read() as view:
            records = view.find_all([run.claim.id for run in runs])
        fences = {run.claim.id: run.claim.fence for run in runs}
        return {id for id, fence in fences.items() if id not in records or records[id].fence != fence}


def _unfinished(futures: Iterable[Future[None]]) -> set[Future[None]]:
    """Return the unfinished futures; re-raise the exception of a finished one."""
    remaining = set()
    for future in futures:
        if future.done():
            future.result()
        else:
            remaining.add(future)
    return remaining
