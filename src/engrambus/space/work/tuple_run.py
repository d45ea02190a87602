"""One tuple in a worker's hands: from its first missing step to its end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any

import msgspec

from engrambus.core import MICROS, SECOND, print_time
from engrambus.errors import (
    BudgetExceeded,
    DeadlinePast,
    DiskPressure,
    EngramBusError,
    StaleFence,
    TupleNotFound,
    YoolForbidden,
)
from engrambus.evidence.receipts import Cost, Receipt, seal
from engrambus.policy.guardrails import step_limits
from engrambus.space.catalog import CatalogEntry, Yool
from engrambus.space.tuples import (
    Claim,
    Completion,
    Price,
    authority_kind,
    check_affordable,
    dependencies,
    estimate_price,
    lineage,
    read_limits,
    tuple_receipt,
)
from engrambus.space.work.cache import damaged_body, step_key
from engrambus.space.work.flight import Flight
from engrambus.space.work.ports import Progress, StepOutcome, StepRequest
from engrambus.space.work.refused import told_of
from engrambus.space.work.terms import quotas_of
from engrambus.space.work.workshop import Workshop

PRESSED_SECONDS = 5.0
"""How long a worker waits for room on the disk before it looks again."""
SLOT_SECONDS = 1.0
"""How long a tuple of which nothing was begun is kept for the next free slot."""


class TupleRun:
    """One tuple, held by one worker, from its first missing step to its end."""

    def __init__(
        self,
        shop: Workshop,
        claim: Claim,
        slots: threading.Semaphore,
        told: Callable[[Progress], None],
    ) -> None:
        self.claim = claim
        self.stop = threading.Event()
        self._shop = shop
        self._slots = slots
        self._told = told
        self._tuple = claim.tuple
        self._limits = read_limits(self._tuple.agent_terms, self._tuple.schema)
        self._lock = threading.Lock()
        self._done: dict[int, str] = dict(claim.finished_steps)
        self._own: list[Receipt] = []
        self._unsettled: list[Receipt | tuple[int, str]] = []
        self._flights: list[Flight] = []
        self._begun = self._ending = False
        self.given_back = False
        """Whether it was given back because there was no slot for it."""
        self._total = 0

    def run(self) -> None:
        """Run every step that is not done; write down the end, or that it is to be tried again."""
        try:
            failed = self._run_steps()
            if self.stop.is_set():
                return
            self._ending = True
            self._finish(failed)
        except (StaleFence, TupleNotFound):
            self._lost()
        finally:
            for flight in self._flights:
                flight.end()

    def lose(self) -> None:
        """Stop: the tuple is not held any more. While its end is written down, that tells whether it still was."""
        if not self._ending:
            self._lost()

    def _lost(self) -> None:
        if not self.stop.is_set():
            self.stop.set()
            self._tell("lost")

    def yield_unbegun(self) -> bool:
        """Stop if nothing was begun; whether it was so."""
        with self._lock:
            if not self._begun:
                self.stop.set()
            return not self._begun

    def _run_steps(self) -> str | None:
        """Run the steps in order, or, where the tuple says what each waits for, as soon as they can."""
        steps = self._tuple.payload
        waits = dependencies(len(steps), tuple(step.after for step in steps))
        in_order = all(step.after is msgspec.UNSET for step in steps)
        if in_order:
            for at in range(len(steps)):
                failed = self._step(at)
                if failed is not None or self.stop.is_set():
                    return failed
            return None
        return self._run_graph(waits)

    def _run_graph(self, waits: list[frozenset[int]]) -> str | None:
        left = set(range(len(waits))) - self._done.keys()
        under_way: dict[Future[str | None], int] = {}
        failed: str | None = None
        with ThreadPoolExecutor(max(1, len(left)), "step") as threads:
            while (left and failed is None and not self.stop.is_set()) or under_way:
                ready = {at for at in left if waits[at] <= self._done.keys()} if failed is None else set()
                left -= ready
                under_way |= {threads.submit(self._step, at): at for at in sorted(ready)}
                if not under_way:
                    break
                ended, _ = wait(under_way, return_when=FIRST_COMPLETED)
                for each in ended:
                    del under_way[each]
                    failed = failed or each.result()
        return failed

    def _step(self, at: int) -> str | None:
        """Have one step done; why it failed, if it did."""
        if at in self._done:
            return None
        step = self._tuple.payload[at]
        try:
            yool, entry = self._shop.resolve(step.yool)
            held = authority_kind(self._tuple.authority)
            if not entry.admits(held):
                raise YoolForbidden(
                    f"'{entry.full_name}' does not run on the authority of '{held}': "
                    "its catalog and its code must both admit it.",
                    field=f"payload[{at}].yool",
                    limit=", ".join(entry.authority) or "none",
                    used=held,
                )
            env = self._shop.seen_by(entry)
            key = self._key(at, entry, env)
            if key is None or self._tuple.no_cache:
                return self._execute(at, yool, entry, env, key)
            return None if self._hit(at, entry, key) else self._execute_once(at, yool, entry, env, key)
        except StaleFence:
            raise
        except EngramBusError as refusal:
            return self._refused(at, told_of(refusal))
        except Exception as problem:  # no process could be started, nothing kept, or a mistake of ours
            return self._refused(at, f"{type(problem).__name__}: {problem}")

    def _refused(self, at: int, why: str) -> str:
        """Tell why a step was not begun: there is no receipt of its own that could."""
        self._tell("refused", at, self._tuple.payload[at].yool, error=why)
        return why

    def _hit(self, at: int, entry: CatalogEntry, key: str) -> bool:
        """Whether the step had been executed on the same input, and everything it left is whole."""
        with self._shop.space.store.read() as view:
            found = view.cached_receipt(key)
        if found is None:
            return False
        damaged = damaged_body(found, self._shop.bodies)
        if damaged is not None and self._shop.made_room_of(damaged):
            return False
        if damaged is not None:
            self._shop.space.report_damage(found.id, damaged)
            self._tell("damaged", at, entry.full_name, receipt=found.id, error=damaged)
            return False
        self._note(at, (at, found.id), found.id)
        self._tell("hit", at, entry.full_name, receipt=found.id)
        return True

    def _execute_once(self, at: int, yool: Yool, entry: CatalogEntry, env: Mapping[str, str], key: str) -> str | None:
        """Execute a step, unless an equal one that is under way leaves its result first."""
        flight = self._shop.flights.begin(key, self._is_late, self.stop)
        held = False
        try:
            if flight.waited and not self.stop.is_set() and self._hit(at, entry, key):
                return None
            failed = self._execute(at, yool, entry, env, key)
            with self._lock:
                # The last receipt is found by others once it is in the journal. Every other is there already, and a
                # failure is found by nobody: those who wait go ahead at once, for one of them may be a step this very
                # tuple waits for.
                held = failed is None and len(self._done) == len(self._tuple.payload)
                if held:
                    self._flights.append(flight)
            return failed
        finally:
            if not held:
                flight.end()

    def _key(self, at: int, entry: CatalogEntry, env: Mapping[str, str]) -> str | None:
        args, salt = self._tuple.payload[at].args, self._shop.space.settings.cache_salt
        return step_key(entry, args, root=self._shop.root, env=env, salt=salt)

    def _has_changed(self, at: int, entry: CatalogEntry, env: Mapping[str, str], key: str | None) -> bool:
        """Whether what a step read is not what it was when it began."""
        if key is None or not entry.contract.inputs:
            return False
        try:
            return key != self._key(at, entry, env)
        except (EngramBusError, OSError):  # the step is done all the same
            return True

    def _is_late(self) -> bool:
        return self._limits.deadline_us is not None and self._shop.clock.now() >= self._limits.deadline_us

    def _deadline(self) -> int | None:
        """The moment at which a step is stopped: that of its tuple, or of one it is a part of, if that is earlier."""
        if self._tuple.parent_id is None:
            return self._limits.deadline_us
        with self._shop.space.store.read() as view:
            own = view.find(self.claim.id)
            found = [each.deadline_us for each in (lineage(view, own) if own is not None else ()) if each.deadline_us]
        return min(found, default=None)

    def _execute(self, at: int, yool: Yool, entry: CatalogEntry, env: Mapping[str, str], key: str | None) -> str | None:
        space, clock = self._shop.space, self._shop.clock
        if not self._take_slot():
            return "stopped"
        try:
            with space.store.read() as view:
                past = view.cost_history(entry.full_name)
            said = Price(micros=entry.contract.cost_micros or 0, tokens=entry.contract.cost_tokens or 0)
            space.start_step(self.claim, at, estimate_price(past, said))
            started = clock.now()
            request = StepRequest(
                yool=yool,
                args=self._tuple.payload[at].args,
                tuple_id=self.claim.id,
                step=at,
                fence=self.claim.fence,
                root=self._shop.root,
                env=env,
                limits=step_limits(*self._shop.quotas(), *quotas_of(self._limits.terms, entry.terms)),
                deadline=self._deadline(),
            )
            outcome = self._shop.runner.run(request, lambda said: self._spend(at, said), self.stop)
        finally:
            self._slots.release()
        if self.stop.is_set():
            return "stopped"
        if outcome.exit != 0 or self._has_changed(at, entry, env, key):
            key = None  # a failure is no result, nor is what was made of files that changed meanwhile
        receipt = self._receipt(at, entry, outcome, started, key)
        self._note(at, receipt, receipt.id if receipt.exit == 0 else None)
        self._total += receipt.cost.micros
        self._tell(
            "miss" if receipt.exit == 0 else "failed",
            at,
            entry.full_name,
            receipt=receipt.id,
            micros=receipt.cost.micros,
            error=receipt.error,
        )
        return None if receipt.exit == 0 else receipt.error or f"exit {receipt.exit}"

    def _take_slot(self) -> bool:
        """Wait for a slot. A tuple of which nothing was begun does not wait long: another worker may have one free."""
        while not self._slots.acquire(timeout=SLOT_SECONDS):
            if self.stop.is_set():
                return False
            if self.yield_unbegun():
                self.given_back = True
                self._shop.space.release([(self.claim.id, self.claim.fence)], reason="no slot was free")
                return False
        with self._lock:
            stopped = self.stop.is_set()
            self._begun = self._begun or not stopped
        if stopped:
            self._slots.release()
        return not stopped

    def _spend(self, at: int, said: Price) -> EngramBusError | None:
        """Count what a step says it spends, whoever holds its tuple by now. It must stop when that is another, and when
        it spends what its tuple does not have."""
        space = self._shop.space
        if not space.record_cost(self.claim.id, self.claim.fence, at, said):
            return StaleFence(field="fence", used=str(self.claim.fence))
        with space.store.read() as view:
            one = view.find(self.claim.id)
            if one is not None:
                # What is set aside counts for nothing here: it was set aside for this.
                own = msgspec.structs.replace(one, reserved_micros=0, reserved_tokens=0)
                try:
                    check_affordable(view, own, Price(), view.as_of)
                except (BudgetExceeded, DeadlinePast) as refusal:
                    return refusal
        return None

    def _receipt(self, at: int, entry: CatalogEntry, outcome: StepOutcome, started: int, key: str | None) -> Receipt:
        ended = self._shop.clock.now()
        return seal(
            yool=entry.full_name,
            tuple_id=self.claim.id,
            started_at=print_time(started),
            ended_at=print_time(ended),
            exit=outcome.exit,
            stdout_sha=outcome.stdout_sha,
            stderr_sha=outcome.stderr_sha,
            artifacts=outcome.artifacts,
            cost=Cost(
                usd=outcome.usd_micros / MICROS,
                tokens_in=outcome.tokens_in,
                tokens_out=outcome.tokens_out,
                wall_ms=(ended - started) // 1000,
                disk_mb=round(outcome.kept_bytes / 1_000_000, 6),
            ),
            step=at,
            attempt=self.claim.attempt,
            worker=self.claim.worker,
            key=key,
            error=outcome.error,
        )

    def _note(self, at: int, what: Receipt | tuple[int, str], done: str | None) -> None:
        """Keep what was done; all but the last of it goes into the journal at once."""
        with self._lock:
            self._begun = True
            if isinstance(what, Receipt):
                self._own.append(what)
            self._unsettled.append(what)
            if done is not None:
                self._done[at] = done
            last = len(self._done) == len(self._tuple.payload) or done is None
            settled = None if last else self._settled()
        if settled is not None:
            self._settle(settled)

    def _settled(self, **more: Any) -> Completion:
        noted, self._unsettled = self._unsettled, []
        return Completion(
            id=self.claim.id,
            fence=self.claim.fence,
            receipts=tuple(each for each in noted if isinstance(each, Receipt)),
            hits=tuple(each for each in noted if not isinstance(each, Receipt)),
            **more,
        )

    def _finish(self, failed: str | None) -> None:
        if failed is not None:
            self._settle(self._settled(failure=failed))
            self._tell("again" if self._waits_again() else "dead", error=failed)
            return
        receipts = [self._done[at] for at in range(len(self._tuple.payload))]
        last = tuple_receipt(
            self.claim.id,
            executed=self._every_own(),
            receipts=receipts,
            exit=0,
            now=print_time(self._shop.clock.now()),
            attempt=self.claim.attempt,
            worker=self.claim.worker,
        )
        self._settle(self._settled(final_receipt=last))
        with self._shop.space.store.read() as view:  # it tells all that was counted, which may be more than we knew
            self._tell("done", receipt=view.receipt_ids(self.claim.id)[-1])

    def _every_own(self) -> list[Receipt]:
        """The executions of this tuple, those of earlier attempts among them."""
        if self.claim.attempt == 1 and not self.claim.finished_steps:
            return self._own
        known = {receipt.id for receipt in self._own}
        with self._shop.space.store.read() as view:
            others = [view.receipt(each) for each in view.receipt_ids(self.claim.id) if each not in known]
        ours = (each for each in others if each is not None and each.tuple_id == self.claim.id)
        return [*(each for each in ours if each.step is not None), *self._own]

    def _settle(self, settled: Completion) -> None:
        ends = time.monotonic() + self._shop.space.settings.lease_us / SECOND
        while True:
            try:
                answers, _ = self._shop.space.complete([settled])
                break
            except DiskPressure:  # what was done is kept until there is room to tell it, or it is no longer ours
                if time.monotonic() >= ends or self.stop.wait(PRESSED_SECONDS):
                    raise
        if answers[0] is not None:
            raise StaleFence(field="fence", used=str(self.claim.fence))

    def _waits_again(self) -> bool:
        return self._shop.space.get(self.claim.id).state == "waiting"

    def _tell(self, what: Any, at: int | None = None, yool: str = "", **more: Any) -> None:
        self._told(Progress(what=what, tuple_id=self.claim.id, step=at, yool=yool, total=self._total, **more))
