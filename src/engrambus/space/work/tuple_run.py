"""One claimed tuple in a worker: from its first step without a receipt to its end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any

import msgspec

from engrambus.core import MICROS_PER_DOLLAR, SECOND_US, print_time
from engrambus.errors import (
    BudgetExceeded,
    BudgetReserved,
    CatalogRefusal,
    DeadlinePast,
    DiskPressure,
    EngramBusError,
    HookRefusal,
    StaleFence,
    StoreBusy,
    TupleNotFound,
    YoolForbidden,
    YoolNotFound,
    error_line,
)
from engrambus.evidence.receipts import Cost, Receipt, new_receipt
from engrambus.policy.guardrails import MB, Quotas, ceiling, step_limits
from engrambus.space.catalog import CatalogEntry, Terms, Yool
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
from engrambus.space.work.cache import StepInputs, damaged_body, step_inputs
from engrambus.space.work.ports import Progress, ProgressKind, StepOutcome, StepRequest
from engrambus.space.work.single_flight import StepLock
from engrambus.space.work.worker_dependencies import WorkerDependencies

PRESSURE_RETRY_SECONDS = 5.0
"""Time a worker waits for free disk space before it tries again."""
BUDGET_POLL_SECONDS = 0.05
"""Interval at which a step that waits for its budget looks whether it may start."""
SLOT_SECONDS = 1.0
"""Time a tuple without a begun step waits for a free slot before it is released."""
MAX_CHANGED_FILES = 20
"""Changed files that a receipt names."""

StepHit = tuple[int, str]
"""A step, and the receipt in the cache that answers it."""


class TupleRun:
    """One tuple, claimed by one worker, from its first step without a receipt to its end."""

    def __init__(
        self,
        deps: WorkerDependencies,
        claim: Claim,
        slots: threading.Semaphore,
        on_progress: Callable[[Progress], None],
    ) -> None:
        self.claim = claim
        self.stop = threading.Event()
        self.released_unbegun = False
        """True if the tuple was released because no slot became free."""
        self._deps = deps
        self._slots = slots
        self._on_progress = on_progress
        self._tuple = claim.tuple
        self._terms = read_limits(self._tuple.agent_terms, self._tuple.schema)
        self._lock = threading.Lock()
        self._done: dict[int, str] = dict(claim.finished_steps)
        self._receipts: list[Receipt] = []
        """Receipts of the steps executed here."""
        self._unrecorded: list[Receipt | StepHit] = []
        self._step_locks: list[StepLock] = []
        self._missing: set[str] = set()
        """Yools of steps that could run and have no code here."""
        self._steps_begun = 0
        self._is_finishing = False
        self._stop_reason: EngramBusError | None = None
        self._total_usd_micros = 0
        # decision 96: what a tuple's terms allow holds for its steps together; in order, only one runs at a time.
        in_order = all(step.after is msgspec.UNSET for step in self._tuple.payload)
        self._ceiling = None if in_order else ceiling("tuple", claim.id, quotas_of_terms(self._terms.terms))

    def run(self) -> None:
        """Run every step without a receipt that this worker can run.

        Record the end, or that the tuple is to be tried again, or that another worker is to go on with it.
        """
        try:
            failure = self._run_steps()
            if self.stop.is_set():
                return
            self._is_finishing = True
            if failure is None and self._missing:
                self._hand_on()
            else:
                self._finish(failure)
        except (StaleFence, TupleNotFound):
            self._stop_as_lost()
        finally:
            for step_lock in self._step_locks:
                step_lock.release()

    def lose(self) -> None:
        """Stop, because the claim is lost; unless the end is being recorded, where the commit decides that."""
        if not self._is_finishing:
            self._stop_as_lost()

    def stop_steps(self, reason: EngramBusError) -> None:
        """Stop the running steps, because their budget was spent elsewhere; what they have spent is counted."""
        self._stop_reason = reason

    def _stop_as_lost(self) -> None:
        if not self.stop.is_set():
            self.stop.set()
            self._report("lost")

    def stop_if_unbegun(self) -> bool:
        """Stop if no step was begun; return True if so."""
        with self._lock:
            if not self._steps_begun:
                self.stop.set()
            return not self._steps_begun

    def _run_steps(self) -> str | None:
        """Run the steps in order, or, where steps name what they wait for, as soon as they can; return a failure."""
        steps = self._tuple.payload
        waits_for = dependencies(len(steps), tuple(step.after for step in steps))
        in_order = all(step.after is msgspec.UNSET for step in steps)
        if in_order:
            for index in range(len(steps)):
                failure = self._run_step(index)
                if failure is not None or self._missing or self.stop.is_set():
                    return failure
            return None
        return self._run_graph(waits_for)

    def _run_graph(self, waits_for: list[frozenset[int]]) -> str | None:
        remaining = set(range(len(waits_for))) - self._done.keys()
        running: dict[Future[str | None], int] = {}
        failure: str | None = None
        with ThreadPoolExecutor(max(1, len(remaining)), "step") as threads:
            while (remaining and failure is None and not self.stop.is_set()) or running:
                ready = set()
                if failure is None:
                    ready = {index for index in remaining if waits_for[index] <= self._done.keys()}
                remaining -= ready
                running |= {threads.submit(self._run_step, index): index for index in sorted(ready)}
                if not running:
                    break
                ended, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in ended:
                    del running[future]
                    failure = failure or future.result()
        return failure

    def _run_step(self, index: int) -> str | None:
        """Answer one step from the cache or execute it; return why it failed, if it did."""
        if index in self._done:
            return None
        step = self._tuple.payload[index]
        try:
            yool, entry = self._deps.resolve(step.yool)
            # decision 24: checked when the tuple was put, and again by what catalog and code say now.
            authority = authority_kind(self._tuple.authority)
            if not entry.admits(authority):
                raise YoolForbidden(
                    f"'{entry.full_name}' does not run on the authority of '{authority}': "
                    "its catalog and its code must both admit it.",
                    field=f"payload[{index}].yool",
                    limit=", ".join(entry.authority) or "none",
                    used=authority,
                )
            env = self._deps.step_environment(entry)
            inputs = self._read_inputs(index, entry, env)
            if inputs.key is None or self._tuple.no_cache:
                return self._execute(index, yool, entry, env, inputs)
            if self._answer_from_cache(index, entry, inputs.key):
                return None
            return self._execute_once(index, yool, entry, env, inputs)
        except StaleFence:
            raise
        except YoolNotFound:  # another worker may have the code, so this is no failure (decision 100)
            with self._lock:
                self._missing.add(step.yool)
            return None
        except EngramBusError as refusal:
            if isinstance(refusal, CatalogRefusal) and refusal.field == "name":
                refusal.field = f"payload[{index}].yool"  # the catalog does not know which step asked
            return self._refuse(index, error_line(refusal))
        except Exception as problem:  # no process could be started, nothing stored, or a bug of ours
            return self._refuse(index, f"{type(problem).__name__}: {problem}")

    def _refuse(self, index: int, why: str) -> str:
        """Report why a step was not begun: it has no receipt that could say so."""
        self._report("refused", index, self._tuple.payload[index].yool, error=why)
        return why

    def _answer_from_cache(self, index: int, entry: CatalogEntry, key: str) -> bool:
        """Use the receipt of an equal execution; False if there is none, or if a body it names is damaged."""
        with self._deps.space.store.read() as view:
            cached = view.cached_receipt(key)
        if cached is None:
            return False
        damaged = damaged_body(cached, self._deps.bodies)
        if damaged is not None and self._deps.was_collected(damaged):
            return False
        if damaged is not None:
            self._deps.space.report_damage(cached.id, damaged)
            self._report("damaged", index, entry.full_name, receipt=cached.id, error=damaged)
            return False
        self._record(index, (index, cached.id), cached.id)
        self._report("hit", index, entry.full_name, receipt=cached.id)
        return True

    def _execute_once(
        self, index: int, yool: Yool, entry: CatalogEntry, env: Mapping[str, str], inputs: StepInputs
    ) -> str | None:
        """Execute a step, unless an equal one that is running leaves its result first."""
        key = inputs.key or ""
        step_lock = self._deps.single_flight.acquire(key, self._is_late, self.stop)
        keep_lock = False
        try:
            if step_lock.waited and not self.stop.is_set() and self._answer_from_cache(index, entry, key):
                return None
            failure = self._execute(index, yool, entry, env, inputs)
            with self._lock:
                # decision 32: the last receipt is in the journal only when the tuple is finished, so its lock is kept
                # until then. The others are there already, and a failure answers nobody: the waiting steps go on at
                # once, since one of them may be a step this very tuple waits for.
                keep_lock = failure is None and len(self._done) == len(self._tuple.payload)
                if keep_lock:
                    self._step_locks.append(step_lock)
            return failure
        finally:
            if not keep_lock:
                step_lock.release()

    def _read_inputs(self, index: int, entry: CatalogEntry, env: Mapping[str, str]) -> StepInputs:
        args, salt = self._tuple.payload[index].args, self._deps.space.settings.cache_salt
        return step_inputs(entry, args, root=self._deps.root, files=self._deps.input_files, env=env, salt=salt)

    def _read_project(self, entry: CatalogEntry) -> StepInputs:
        """Read every file of the project, if a step must not write them and nothing would refuse it."""
        if entry.contract.effect == "writes" or self._deps.runner.holds_effects():
            return StepInputs(key=None)
        return StepInputs(key=None, digests=self._deps.input_files.digests(self._deps.root, ["."], {}))

    def _changed_files(
        self, index: int, entry: CatalogEntry, env: Mapping[str, str], inputs: StepInputs, project: StepInputs
    ) -> tuple[str, ...]:
        """Return the files that should be as they were before a step ran and are not, whoever changed them."""
        try:
            # decision 105: whose a write was cannot be known afterwards, so it fails no step.
            changed = set(self._read_project(entry).changed_since(project))
            if inputs.key is not None and entry.contract.inputs:
                changed.update(self._read_inputs(index, entry, env).changed_since(inputs))
        except (EngramBusError, OSError) as problem:  # unreadable now; the step itself succeeded
            return (ascii(error_line(problem) if isinstance(problem, EngramBusError) else str(problem)),)
        paths, more = sorted(changed), len(changed) - MAX_CHANGED_FILES
        return (*paths[:MAX_CHANGED_FILES], f"and {more} more") if more > 0 else tuple(paths)

    def _is_late(self) -> bool:
        return self._terms.deadline_us is not None and self._deps.clock.now() >= self._terms.deadline_us

    def _deadline_us(self) -> int | None:
        """Return the earliest deadline of the tuple and its ancestors."""
        if self._tuple.parent_id is None:
            return self._terms.deadline_us
        with self._deps.space.store.read() as view:
            record = view.find(self.claim.id)
            ancestors = lineage(view, record) if record is not None else ()
            return min((ancestor.deadline_us for ancestor in ancestors if ancestor.deadline_us), default=None)

    def _execute(
        self, index: int, yool: Yool, entry: CatalogEntry, env: Mapping[str, str], inputs: StepInputs
    ) -> str | None:
        clock = self._deps.clock
        if not self._start(index, entry):
            return "stopped"
        try:
            project = self._read_project(entry)
            started_us = clock.now()
            request = StepRequest(
                yool=yool,
                args=self._tuple.payload[index].args,
                tuple_id=self.claim.id,
                step=index,
                fence=self.claim.fence,
                root=self._deps.root,
                env=env,
                limits=step_limits(*self._deps.quotas(), *quotas_of(self._terms.terms, entry.terms)),
                ceiling=self._ceiling,
                deadline_us=self._deadline_us(),
                stop_reason=lambda: self._stop_reason,
            )
            outcome = self._deps.runner.run(request, lambda spent: self._count_spending(index, spent), self.stop)
        finally:
            self._slots.release()
        if self.stop.is_set():
            return "stopped"
        changed = () if outcome.exit else self._changed_files(index, entry, env, inputs, project)
        # Neither a failure may answer another step, nor a result of files that are not those of its key.
        key = None if outcome.exit or changed else inputs.key
        receipt = self._step_receipt(index, entry, outcome, started_us, key, changed)
        receipt = self._deps.space.check_result(self.claim, receipt)
        self._record(index, receipt, receipt.id if receipt.exit == 0 else None)
        self._total_usd_micros += receipt.cost.usd_micros
        failed = receipt.exit != 0
        self._report(
            "failed" if failed else "miss",
            index,
            entry.full_name,
            receipt=receipt.id,
            usd_micros=receipt.cost.usd_micros,
            wall_ms=receipt.cost.wall_ms,
            changed_files=changed,
            error=receipt.error,
            # The receipt itself is recorded only now or with the end of the attempt.
            stdout_sha=receipt.stdout_sha if failed else None,
            stderr_sha=receipt.stderr_sha if failed else None,
        )
        return None if receipt.exit == 0 else receipt.error or f"exit {receipt.exit}"

    def _start(self, index: int, entry: CatalogEntry) -> bool:
        """Take a slot and start a step; False if stopped, or if the tuple was released because it had to wait.

        A step that must wait for others under the same budget holds no slot while it waits (decision 75).
        """
        space, waited = self._deps.space, 0.0
        declared = Price(micros=entry.contract.cost_micros or 0, tokens=entry.contract.cost_tokens or 0)
        while self._take_slot():
            try:
                with space.store.read() as view:
                    price = estimate_price(view.cost_history(entry.full_name), declared)
                space.start_step(self.claim, index, price, entry.full_name)
                return True
            except BudgetReserved:
                self._give_slot_back(begun=False)
            except BaseException:
                self._give_slot_back(begun=True)
                raise
            while space.waits_for_budget(self.claim, index, price, entry.full_name):
                if self.stop.wait(BUDGET_POLL_SECONDS):
                    return False
                waited += BUDGET_POLL_SECONDS
                if waited >= SLOT_SECONDS and self.stop_if_unbegun():
                    # decision 33: other tuples, under other budgets, may run in its place.
                    space.release(
                        [(self.claim.id, self.claim.fence)], reason="waits for its budget", delay_us=SECOND_US
                    )
                    return False
        return False

    def _give_slot_back(self, *, begun: bool) -> None:
        if not begun:
            with self._lock:
                self._steps_begun -= 1
        self._slots.release()

    def _take_slot(self) -> bool:
        """Wait for a slot; False if stopped, or if the tuple was released because none became free."""
        while not self._slots.acquire(timeout=SLOT_SECONDS):
            if self.stop.is_set():
                return False
            if self.stop_if_unbegun():
                # decision 33: another worker may have a free slot.
                self.released_unbegun = True
                self._deps.space.release([(self.claim.id, self.claim.fence)], reason="no slot was free")
                return False
        with self._lock:
            is_stopped = self.stop.is_set()
            self._steps_begun += not is_stopped
        if is_stopped:
            self._slots.release()
        return not is_stopped

    def _count_spending(self, index: int, spent: Price) -> EngramBusError | None:
        """Count a step's total spending, even if the claim is lost; return why the step must stop, if it must."""
        # decision 24: money is counted whatever became of the claim, since it is spent. The total is sent, and the
        # journal counts what is beyond it, so sending it twice does no harm.
        space = self._deps.space
        if not space.record_cost(self.claim.id, self.claim.fence, index, spent):
            return StaleFence(field="fence", used=str(self.claim.fence))
        with space.store.read() as view:
            record = view.find(self.claim.id)
            if record is not None:
                # Without the amount reserved for this step: it is what the spending was reserved for.
                unreserved = msgspec.structs.replace(record, reserved_micros=0, reserved_tokens=0)
                try:
                    check_affordable(view, unreserved, Price(), view.as_of)
                except (BudgetExceeded, DeadlinePast) as refusal:
                    return refusal
        return None

    def _step_receipt(
        self,
        index: int,
        entry: CatalogEntry,
        outcome: StepOutcome,
        started_us: int,
        key: str | None,
        changed_files: tuple[str, ...],
    ) -> Receipt:
        ended_us = self._deps.clock.now()
        return new_receipt(
            yool=entry.full_name,
            tuple_id=self.claim.id,
            started_at=print_time(started_us),
            ended_at=print_time(ended_us),
            exit=outcome.exit,
            stdout_sha=outcome.stdout_sha,
            stderr_sha=outcome.stderr_sha,
            artifacts=outcome.artifacts,
            cost=Cost(
                usd=outcome.usd_micros / MICROS_PER_DOLLAR,
                tokens_in=outcome.tokens_in,
                tokens_out=outcome.tokens_out,
                wall_ms=(ended_us - started_us) // 1000,
                # What is stored counts even where the kernel does not report what was written.
                disk_mb=round(max(outcome.stored_bytes, outcome.written_bytes) / MB, 6),
            ),
            step=index,
            attempt=self.claim.attempt,
            worker=self.claim.worker,
            key=key,
            changed_files=changed_files,
            error=outcome.error,
        )

    def _record(self, index: int, result: Receipt | StepHit, done: str | None) -> None:
        """Note a result; `done` is the receipt that completes the step.

        The last result of the tuple is journalled with its end, the others at once.
        """
        with self._lock:
            self._steps_begun += 1
            if isinstance(result, Receipt):
                self._receipts.append(result)
            self._unrecorded.append(result)
            if done is not None:
                self._done[index] = done
            is_last = len(self._done) == len(self._tuple.payload) or done is None
            results = None if is_last else self._take_unrecorded()
        if results is not None:
            self._complete(results)

    def _take_unrecorded(self, **ending: Any) -> Completion:
        results, self._unrecorded = self._unrecorded, []
        return Completion(
            id=self.claim.id,
            fence=self.claim.fence,
            receipts=tuple(result for result in results if isinstance(result, Receipt)),
            hits=tuple(result for result in results if not isinstance(result, Receipt)),
            **ending,
        )

    def _finish(self, failure: str | None) -> None:
        if failure is not None:
            self._complete(self._take_unrecorded(failure=failure))
            self._report("again" if self._waits_for_retry() else "dead", error=failure)
            return
        final_receipt = tuple_receipt(
            self.claim.id,
            executed=self._all_executions(),
            receipts=[self._done[index] for index in range(len(self._tuple.payload))],
            exit=0,
            now=print_time(self._deps.clock.now()),
            attempt=self.claim.attempt,
            worker=self.claim.worker,
        )
        results = self._take_unrecorded(final_receipt=final_receipt)
        try:
            self._complete(results)
        except HookRefusal as refusal:
            # decision 114: the steps were done and stay so; the end that is refused fails the attempt.
            why = error_line(refusal)
            self._complete(msgspec.structs.replace(results, final_receipt=None, failure=why))
            self._report("again" if self._waits_for_retry() else "dead", error=why)
            return
        # Read back: the commit adds spending this worker did not know of, which changes the receipt's id.
        with self._deps.space.store.read() as view:
            self._report("done", receipt=view.receipt_ids(self.claim.id)[-1])

    def _hand_on(self) -> None:
        """Give the tuple back without counting the attempt: what was done here is recorded, the rest is for others."""
        missing = ", ".join(sorted(self._missing))
        fence = self.claim.id, self.claim.fence
        if not self._deps.space.release([fence], reason=f"needs {missing}"):
            raise StaleFence(field="fence", used=str(self.claim.fence))
        self._report("handed on", yool=missing)

    def _all_executions(self) -> list[Receipt]:
        """Return the receipts of this tuple's executions, including those of earlier attempts."""
        if self.claim.attempt == 1 and not self.claim.finished_steps:
            return self._receipts
        executed = {receipt.id for receipt in self._receipts}
        with self._deps.space.store.read() as view:
            stored = [view.receipt(id) for id in view.receipt_ids(self.claim.id) if id not in executed]
        earlier = (receipt for receipt in stored if receipt is not None and receipt.tuple_id == self.claim.id)
        return [*(receipt for receipt in earlier if receipt.step is not None), *self._receipts]

    def _complete(self, results: Completion) -> None:
        ends = time.monotonic() + self._deps.space.settings.lease_us / SECOND_US
        while True:
            try:
                answers, _ = self._deps.space.complete([results])
                break
            except (DiskPressure, StoreBusy):  # the results wait for as long as the claim can last
                if time.monotonic() >= ends or self.stop.wait(PRESSURE_RETRY_SECONDS):
                    raise
        if answers[0] is not None:
            raise StaleFence(field="fence", used=str(self.claim.fence))

    def _waits_for_retry(self) -> bool:
        return self._deps.space.get(self.claim.id).state == "waiting"

    def _report(self, kind: ProgressKind, step: int | None = None, yool: str = "", **details: Any) -> None:
        self._on_progress(
            Progress(
                kind=kind,
                tuple_id=self.claim.id,
                step=step,
                yool=yool,
                called="" if step is None else self._tuple.payload[step].yool,
                total_usd_micros=self._total_usd_micros,
                **details,
            )
        )


def quotas_of(tuple_terms: Terms, yool_terms: Terms) -> tuple[Quotas, Quotas]:
    """Return the quotas of a tuple and of its yool for one step; a budget the tuple names replaces the yool's."""
    tokens = yool_terms.budget_tokens if tuple_terms.budget_tokens is None else tuple_terms.budget_tokens
    micros = yool_terms.budget_micros if tuple_terms.budget_micros is None else tuple_terms.budget_micros
    of_tuple, of_yool = quotas_of_terms(tuple_terms), quotas_of_terms(yool_terms)
    return msgspec.structs.replace(of_tuple, budget_tokens=tokens, budget_usd_micros=micros), of_yool


def quotas_of_terms(terms: Terms) -> Quotas:
    """Return the quotas of the machine that terms set."""
    return Quotas(
        cpu_quota_pct=terms.cpu_quota_pct,
        memory_mb=terms.memory_mb,
        disk_quota_mb=terms.disk_quota_mb,
        max_processes=terms.max_processes,
    )
