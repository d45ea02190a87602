"""The tuple space as programs use it: put, read, take, claim, complete. Every change is one commit of the journal."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from engrambus.core import SECOND_US, boot_id
from engrambus.core.disk_errors import naming_the_disk
from engrambus.core.process_names import is_dead
from engrambus.errors import (
    BudgetReserved,
    DiskPressure,
    EngramBusError,
    FieldValue,
    LaneFull,
    ReceiptNotFound,
    TermsInvalid,
    YoolForbidden,
    YoolNotFound,
)
from engrambus.evidence.receipts import (
    EMPTY_DIGEST,
    BodyStore,
    Receipt,
    ReceiptFolder,
    ReceiptLookup,
    bodies_of,
)
from engrambus.space.catalog import Catalog, CatalogEntry, check_arguments
from engrambus.space.tuples import (
    batch_ends,
    batch_folding,
    batches,
    blocks,
    budgets,
    claims,
    completion,
    dead_letters,
    enqueue,
)
from engrambus.space.tuples.access import authority_kind, find_tuple
from engrambus.space.tuples.completion import Completion
from engrambus.space.tuples.enqueue import PutResult
from engrambus.space.tuples.facts import BodyDamaged, TupleDone, TuplePut, TupleReleased
from engrambus.space.tuples.next_steps import CanRun
from engrambus.space.tuples.patterns import TuplePattern, read_pattern
from engrambus.space.tuples.ports import RunningWorker, WaitKind, WorkDecide, WorkStore, WorkView
from engrambus.space.tuples.primitive_hooks import Primitive
from engrambus.space.tuples.rules import CheckedTuple, read_tuple
from engrambus.space.tuples.running_workers import UnclaimedWork, alarm_key, raise_unclaimed_alarm, unclaimed_work
from engrambus.space.tuples.status import public_tuple
from engrambus.space.tuples.values import TASK_LANE, Claim, Fence, Price, SpaceSettings, TupleRecord

T = TypeVar("T")

ALL_IDS = 1 << 40
"""More receipts than there can be."""
POLL_SECONDS = 1.0
"""Longest sleep of a wait, in case a writer died between its commit and the wake-up (decision 23)."""

YoolLookup = Callable[[str], CatalogEntry]
"""Returns the catalog entry of a yool's name, or refuses."""


class TupleSpace:
    """The tuples of one project. Safe to share between threads, and between processes that open the same project."""

    def __init__(
        self,
        store: WorkStore,
        *,
        settings: SpaceSettings | None = None,
        lookup: YoolLookup | None = None,
        boot: str | Callable[[], str] | None = None,
        breaker: Callable[[], None] | None = None,
    ) -> None:
        """`breaker` raises DiskPressure while the disk is too full for more work.

        `boot` names what claims do not outlive, or returns its name now; by default the boot of this machine.
        """
        self.store = store
        self.settings = settings or SpaceSettings()
        self._lookup = lookup
        self._boot = boot_id() if boot is None else boot
        self._breaker = breaker

    @property
    def boot(self) -> str:
        """What claims do not outlive: claims of an earlier boot have ended."""
        return self._boot if isinstance(self._boot, str) else self._boot()

    # Linda's operations: out, rd, in

    def out(
        self,
        *drafts: Mapping[str, Any],
        authority: Mapping[str, Any],
        run: str,
        block: float | None = None,
        accept: bool = False,
        idempotency: tuple[str, str] | None = None,
        trusted: bool = False,
        every_run: bool = False,
    ) -> list[PutResult]:
        """Put tuples, all or none; return once they are synced to disk.

        Args:
            drafts: The tuples, with or without their ids
            authority: Authority stamped on those without an id
            run: Id of the run they belong to
            block: Seconds to wait while a lane is full; None to refuse at once
            accept: Whether each new tuple gets an acceptance receipt
            idempotency: Idempotency key and request digest
            trusted: For the product's own tuples, which need neither a catalog entry nor free disk space
            every_run: Whether the caller may use tuples of other runs as parents
        """
        if not trusted:
            self.check_disk_space()

        def put(view: WorkView) -> tuple[Sequence[Any], list[PutResult]]:
            checked = [read_tuple(draft, authority, view.as_of) for draft in drafts]
            return enqueue.put(
                view,
                checked,
                run=run,
                settings=self.settings,
                admit=(lambda draft: None) if trusted else self.admit,
                accept=accept,
                idempotency=idempotency,
                every_run=every_run,
            )

        if block is None:
            return self.store.commit(put)
        end = time.monotonic() + block
        with self.store.wait_on("room") as waiter:
            while True:
                try:
                    return self.store.commit(put)
                except LaneFull:
                    remaining = end - time.monotonic()
                    if remaining <= 0:
                        raise
                waiter.wait(min(remaining, POLL_SECONDS))

    def rd(self, pattern: Mapping[str, Any] | TuplePattern, timeout: float = 0.0) -> TupleRecord | None:
        """Return the oldest tuple that matches, in any state; wait up to `timeout` seconds for one."""
        parsed = _parse(pattern)

        def look() -> TupleRecord | None:
            with self.store.read() as view:
                return next(iter(view.matching(parsed, limit=1)), None)

        return self._wait(look, parsed, "any", timeout)

    def rd_all(
        self, pattern: Mapping[str, Any] | TuplePattern, *, limit: int = 100, after: int = 0
    ) -> list[TupleRecord]:
        """Return the tuples that match with an ordinal greater than `after`, oldest first."""
        with self.store.read() as view:
            return view.matching(_parse(pattern), limit=limit, after=after)

    def in_(self, pattern: Mapping[str, Any] | TuplePattern, *, by: str, timeout: float = 0.0) -> TupleRecord | None:
        """Remove one waiting tuple that matches; wait up to `timeout` seconds for one. No two callers get the same."""
        parsed = _parse(pattern)

        def take() -> TupleRecord | None:
            if not self._may_match(parsed, 1):
                return None
            return self.commit_ending(lambda view: enqueue.take(view, parsed, by=by))

        return self._wait(take, parsed, "work", timeout)

    # For workers

    def claim(
        self,
        pattern: Mapping[str, Any] | TuplePattern,
        *,
        worker: str,
        limit: int = 1,
        timeout: float = 0.0,
        can_run: CanRun | None = None,
        before_claim: Callable[[], None] = lambda: None,
        on_ended: Callable[[Receipt], None] = lambda final: None,
    ) -> list[Claim]:
        """Claim up to `limit` tuples; wait up to `timeout` seconds for one. No tuple is claimed by two at once.

        With `can_run` only tuples are claimed of which it can run a next step. `before_claim` is called before every
        try. `on_ended` is called with the final receipt of each tuple that became a dead letter instead, because it was
        past its deadline or out of retries.
        """
        parsed = _parse(pattern)

        def take() -> list[Claim] | None:
            before_claim()
            while self.may_claim(parsed, limit, can_run):
                claimed, not_claimed = self._claim(parsed, worker, limit, can_run)
                for fact in not_claimed:
                    if isinstance(fact, TupleDone):
                        on_ended(fact.receipt)
                if claimed or not not_claimed:
                    return claimed or None
            return None

        return self._wait(take, parsed, "work", timeout, can_run) or []

    def may_claim(self, pattern: TuplePattern, limit: int, can_run: CanRun | None = None) -> bool:
        """True if a claim seems to find a tuple. Reads without the lock, so that idle workers do not block others."""
        return self._may_match(pattern, limit, can_run)

    def _claim(
        self, pattern: TuplePattern, worker: str, limit: int, can_run: CanRun | None
    ) -> tuple[list[Claim], list[TupleDone | TupleReleased]]:
        """Claim tuples; return also what became of those that were due and not claimed."""

        def decide(view: WorkView) -> tuple[Sequence[Any], tuple[list[Claim], list[TupleDone | TupleReleased]]]:
            facts, claimed = claims.claim(
                view, pattern, worker=worker, limit=limit, settings=self.settings, boot=self.boot, can_run=can_run
            )
            return facts, (claimed, [fact for fact in facts if isinstance(fact, TupleDone | TupleReleased)])

        # decision 22: claims are not synced. Only a power cut can lose one, and the claimant with it.
        return self.commit_ending(decide, synced=False)

    def out_claimed(
        self, draft: Mapping[str, Any], *, authority: Mapping[str, Any], run: str, worker: str, recorded: bool = False
    ) -> tuple[PutResult, Claim | None]:
        """Put a tuple and claim it in the same commit; return no claim if it was already in the space.

        `recorded` is for work that is done outside the space: its yool is in no catalog.
        """
        self.check_disk_space()
        admit = (lambda draft: None) if recorded else self.admit

        def put(view: WorkView) -> tuple[Sequence[Any], tuple[PutResult, Claim | None]]:
            checked = read_tuple(draft, authority, view.as_of)
            if (checked.limits.not_before_us or 0) > view.as_of:
                raise TermsInvalid(
                    "A task that is run at once cannot wait.",
                    field="agent_terms.not_before_iso",
                    hint="Leave it out, or put the task: a worker runs it then.",
                )
            facts, (answer,) = enqueue.put(view, [checked], run=run, settings=self.settings, admit=admit)
            new = next((fact for fact in facts if isinstance(fact, TuplePut)), None)
            if new is None:
                return facts, (answer, None)
            claim_facts, claim = claims.claim_new(view, new, worker=worker, settings=self.settings, boot=self.boot)
            return claim_facts, (answer, claim)

        return self.store.commit(put)

    def complete(
        self,
        completions: Sequence[Completion],
        *,
        claim_more: tuple[Mapping[str, Any] | TuplePattern, str, int] | None = None,
    ) -> tuple[list[str | None], list[Claim]]:
        """Record what was done for claimed tuples, and claim more in the same commit: (pattern, worker, limit).

        Return for each completion None, or the code of the error if it came too late; and the new claims.
        """
        next_claim = (_parse(claim_more[0]), claim_more[1], claim_more[2]) if claim_more is not None else None

        def decide(view: WorkView) -> tuple[Sequence[Any], tuple[list[str | None], list[Claim] | None]]:
            facts, answers = completion.complete(view, completions, settings=self.settings, boot=self.boot)
            if next_claim is None:
                return facts, (answers, [])
            # One commit for both: a busy worker then pays for one sync per round instead of two.
            pattern, worker, limit = next_claim
            if self._reaches_folded(view, pattern, limit, None):
                return facts, (answers, None)
            claim_facts, claimed = claims.claim(
                view, pattern, worker=worker, limit=limit, settings=self.settings, boot=self.boot
            )
            return [*facts, *claim_facts], (answers, claimed)

        answers, claimed = self.commit_ending(decide)
        if claimed is None and next_claim is not None:
            pattern, worker, limit = next_claim
            self._unfold_for(pattern, limit)
            claimed, _ = self._claim(pattern, worker, limit, None)
        return answers, claimed or []

    def renew(self, fences: Iterable[tuple[str, Fence]]) -> list[str]:
        """Renew claims; return the ids of the tuples whose claim is no longer valid."""
        pairs = list(fences)
        return self.store.commit(
            lambda view: claims.renew(view, pairs, settings=self.settings, boot=self.boot), synced=False
        )

    def release(
        self,
        fences: Iterable[tuple[str, Fence]],
        *,
        counts_attempt: bool = False,
        reason: str = "stopped",
        delay_us: int = 0,
    ) -> list[str]:
        """Release claimed tuples, to be claimed after a delay; return the ids of those whose claim was still valid."""
        pairs = list(fences)
        return self.store.commit(
            lambda view: claims.release(
                view, pairs, counts_attempt=counts_attempt, reason=reason, boot=self.boot, delay_us=delay_us
            )
        )

    def release_dead(self, fences: Iterable[tuple[str, Fence]], *, reason: str) -> list[str]:
        """Release tuples of workers that are known to be dead; return the ids of those not claimed by another since."""
        pairs = list(fences)
        return self.store.commit(lambda view: claims.release_dead(view, pairs, reason=reason))

    def start_step(self, claim: Claim, step: int, price: Price, yool: str = "") -> None:
        """Start a step and reserve what it may cost; refuse if the tuple or a parent cannot afford it.

        With the name of its yool, BudgetReserved is raised while the step has to wait for others that are running.
        """
        self.store.commit(
            lambda view: claims.start_step(view, claim.id, claim.fence, step, price, yool=yool, boot=self.boot),
            synced=False,
        )

    def check_result(self, claim: Claim, receipt: Receipt) -> Receipt:
        """Return the receipt of an execution as it is to be recorded."""
        return receipt

    def waits_for_budget(self, claim: Claim, step: int, price: Price, yool: str) -> bool:
        """True if a step has to wait for others that are running. Reads without the lock."""
        with self.store.read() as view:
            try:
                budgets.reserve_step(view, find_tuple(view, claim.id), step, price, yool)
            except BudgetReserved:
                return True
            except EngramBusError:  # the start of the step is told the reason
                return False
        return False

    def record_cost(self, tuple_id: str, fence: Fence, step: int, total: Price, *, synced: bool = False) -> bool:
        """Count the total a step reports to have spent; return whether the claim is still valid.

        The same total may be reported any number of times and by anyone, also after the tuple ended: it counts once.
        """
        return self.store.commit(
            lambda view: budgets.record_cost(
                view, tuple_id, fence, step, total, settings=self.settings, boot=self.boot
            ),
            synced=synced,
        )

    # Running workers

    def announce(self, worker: RunningWorker) -> None:
        """Announce a running worker until the lease from now."""
        with self.store.read() as view:
            until_us = view.as_of + self.settings.lease_us
        self.store.announce(msgspec.structs.replace(worker, until_us=until_us))

    def running_workers(self) -> list[RunningWorker]:
        """Return the workers that run now, of all processes; forget those that have ended without saying so."""
        with self.store.read() as view:
            now_us = view.as_of
        running = []
        for worker in self.store.announced():
            if is_dead(worker.process):
                self.store.withdraw(worker.id)
            elif worker.until_us > now_us:
                running.append(worker)
        return running

    def unclaimed_work(self, catalog: Catalog, *, run: str | None = None) -> list[UnclaimedWork]:
        """Return what waits for code that no running worker has, in a run or in all."""
        workers = self.running_workers()
        with self.store.read() as view:
            every_group = [*view.waiting_groups(), *batch_folding.folded_groups(view)]
            groups = [group for group in every_group if run in (None, group.run)]
            return unclaimed_work(groups, workers, catalog, now_us=view.as_of, settings=self.settings)

    def raise_unclaimed_alarm(self, work: UnclaimedWork) -> None:
        """Put an alarm tuple for work that no running worker can run, once until it changes."""
        with self.store.read() as view:  # without the lock: several workers ask again and again
            if view.idempotent_put(alarm_key(work)) is not None:
                return
        self.store.commit(lambda view: raise_unclaimed_alarm(view, work, self.settings))

    def around(
        self,
        primitive: Primitive,
        act: Callable[[], T],
        *,
        drafts: Sequence[Mapping[str, Any]] = (),
        authority: Mapping[str, Any] | None = None,
        run: str | None = None,
        tuple_id: str | None = None,
        batch: str | None = None,
        lane: str | None = None,
    ) -> T:
        """Carry out a primitive whose commit is elsewhere, between its hooks; a plain space has none.

        The other arguments say what hooks are shown.
        """
        return act()

    def is_hooked(self, primitive: Primitive) -> bool:
        """True if a hook wants to know of a primitive."""
        return False

    # What blocks tuples

    def block(self, tuple_id: str, *, on: Sequence[str] = (), reason: str | None = None, by: str) -> TupleRecord:
        """Block a tuple until others are done, or until someone lifts a reason; return it as it is then."""

        def decide(view: WorkView) -> tuple[Sequence[Any], None]:
            return blocks.block(view, find_tuple(view, tuple_id), on=on, reason=reason, by=by), None

        self.store.commit(decide)
        return self.get(tuple_id)

    def unblock(self, tuple_id: str, *, on: Sequence[str] = (), by: str) -> TupleRecord:
        """Take away what blocks a tuple: these tuples, or else the reason and what has ended; return it."""

        def decide(view: WorkView) -> tuple[Sequence[Any], None]:
            return blocks.unblock(view, find_tuple(view, tuple_id), on=on, by=by), None

        self.store.commit(decide)
        return self.get(tuple_id)

    # Maintenance

    def check_disk_space(self) -> None:
        """Refuse work while the disk is nearly full; request garbage collection if that can help."""
        if self._breaker is None:
            return
        try:
            self._breaker()
        except DiskPressure:
            with suppress(EngramBusError):  # the disk may be too full even for this request
                with self.store.read() as view:  # without the lock: refused callers try often and must not block others
                    helps = enqueue.gc_would_help(view)
                if helps:
                    self.store.commit(enqueue.request_gc)
            raise

    def record_finished(
        self,
        draft: Mapping[str, Any],
        make_receipt: Callable[[str, int], Receipt],
        *,
        authority: Mapping[str, Any],
        run: str,
    ) -> tuple[str, Receipt]:
        """Record work that was done outside the space; `make_receipt` is called with the tuple's id and the time."""
        self.check_disk_space()
        return self.store.commit(
            lambda view: enqueue.record_finished(
                view,
                read_tuple(draft, authority, view.as_of),
                lambda tuple_id: make_receipt(tuple_id, view.as_of),
                run=run,
            )
        )

    def cancel(self, tuple_id: str) -> Receipt:
        """End a tuple that waits or is claimed."""
        return self.commit_ending(lambda view: completion.cancel(view, tuple_id))

    def commit_ending(self, decide: WorkDecide[T], *, synced: bool = True) -> T:
        """Commit a decision that may end tuples; nodes of batches whose last child ends with it end as well."""

        def decide_and_end(view: WorkView) -> tuple[Sequence[Any], T]:
            facts, answer = decide(view)
            ends = batch_ends.end_nodes(view, facts)
            if not ends:
                return facts, answer
            done = [end.id for end in ends if isinstance(end, TupleDone) and end.state == "done"]
            freed = [fact for node in done for fact in blocks.unblock_dependents(view, node)]
            return [*facts, *ends, *freed], answer

        return self.store.commit(decide_and_end, synced=synced)

    def _unfold_for(self, pattern: TuplePattern, limit: int, can_run: CanRun | None = None) -> None:
        """Unfold leaves of batches that a claim of this size reaches."""
        # decision 112: a commit of its own, just before the claim, so that the order of claims has one place.
        self.store.commit(
            lambda view: batches.unfold_for(
                view, pattern, limit, settings=self.settings, can_run=can_run, epoch=self._next_epoch(view)
            ),
            synced=False,
        )

    def _reaches_folded(self, view: WorkView, pattern: TuplePattern, limit: int, can_run: CanRun | None) -> bool:
        epoch = self._next_epoch(view)
        return bool(batches.shortages(view, pattern, limit, settings=self.settings, can_run=can_run, epoch=epoch))

    def _next_epoch(self, view: WorkView) -> int:
        """Return the epoch of the next claim."""
        epoch = view.current_epoch()
        return epoch.number + (epoch.boot != self.boot)

    def put_again(self, tuple_id: str, *, authority: Mapping[str, Any]) -> PutResult:
        """Put a dead letter again, as a new tuple with the same content."""
        self.check_disk_space()
        return self.store.commit(
            lambda view: dead_letters.put_again(
                view, tuple_id, authority=authority, settings=self.settings, admit=self.admit
            )
        )[0]

    def report_damage(self, receipt: str, sha: str) -> None:
        """Record that a stored body is damaged, so that the receipt that names it is no longer a cache hit."""
        self.store.commit(lambda view: ([BodyDamaged(receipt=receipt, sha=sha)], None))

    def get(self, tuple_id: str) -> TupleRecord:
        """Return the tuple with that id, or refuse."""
        with self.store.read() as view:
            return find_tuple(view, tuple_id)

    def public_tuple(self, tuple_id: str) -> dict[str, Any]:
        """Return a tuple as callers see it: as it was created, with its id and its receipts so far."""
        with self.store.read() as view:
            return public_tuple(find_tuple(view, tuple_id), view.receipt_ids(tuple_id))

    def receipt(self, receipt_id: str) -> Receipt:
        """Return the receipt with that id, or refuse."""
        with self.store.read() as view:
            receipt = view.receipt(receipt_id)
        if receipt is None:
            raise ReceiptNotFound(field="id", used=receipt_id[:80])
        return receipt

    def write_receipts(self, folder: ReceiptFolder) -> int:
        """Write every receipt that is not a file in the folder yet; return how many were written."""
        with naming_the_disk():
            return folder.catch_up(self.receipt_lookup)

    def receipt_differences(self, folder: ReceiptFolder) -> Iterator[tuple[Path, str]]:
        """Yield each file in the folder that is not as the journal has it, with what is wrong."""
        return folder.differences(self.receipt_lookup)

    def rewrite_receipts(self, folder: ReceiptFolder) -> None:
        """Compare every file in the folder with the journal, and write again what differs."""
        folder.rewrite(self.receipt_lookup)

    @property
    def receipt_lookup(self) -> ReceiptLookup:
        """Reads receipts, each time as of then."""

        def receipts(ids: list[str]) -> list[Receipt]:
            with self.store.read() as view:
                read = (view.receipt(receipt_id) for receipt_id in ids)
                return [receipt for receipt in read if receipt is not None]

        def ids_starting(digits: str) -> list[str]:
            with self.store.read() as view:
                return view.receipt_ids_starting(digits, limit=ALL_IDS)

        return ReceiptLookup(ids_starting, receipts, self._numbered_receipts)

    def missing_bodies(self, bodies: BodyStore, *, batch: int = 500) -> Iterator[tuple[str, str]]:
        """Yield digest and receipt of each body that a receipt names and that is neither stored nor was deleted."""
        after = 0
        while page := self._numbered_receipts(after, batch):
            after = page[-1][0]
            for _, receipt in page:
                for sha in bodies_of(receipt):
                    if sha != EMPTY_DIGEST and not bodies.exists(sha) and not self._is_purged(sha):
                        yield sha, receipt.id

    def _is_purged(self, sha: str) -> bool:
        with self.store.read() as view:
            return view.purged_at_us(sha) is not None

    def _numbered_receipts(self, after: int, limit: int) -> list[tuple[int, Receipt]]:
        with self.store.read() as view:
            return view.list_receipts(None, limit=limit, after=after)

    def close(self) -> None:
        self.store.close()

    # Waiting

    def _may_match(self, pattern: TuplePattern, limit: int, can_run: CanRun | None = None) -> bool:
        """True if a tuple seems claimable. Reads without the lock, so that waiting callers do not block others.

        Leaves of batches are unfolded before, if too few wait for a claim of this size.
        """
        with self.store.read() as view:
            if not self._reaches_folded(view, pattern, limit, can_run):
                return view.may_claim(pattern, epoch=self._next_epoch(view), can_run=can_run)
        self._unfold_for(pattern, limit, can_run)
        return True

    def _wait(
        self,
        look: Callable[[], T | None],
        pattern: TuplePattern,
        kind: WaitKind,
        timeout: float,
        can_run: CanRun | None = None,
    ) -> T | None:
        result = look()
        if result is not None or timeout <= 0:
            return result
        end = time.monotonic() + timeout
        with self.store.wait_on(kind) as waiter:
            while True:
                result = look()
                remaining = end - time.monotonic()
                if result is not None or remaining <= 0:
                    return result
                waiter.wait(min(remaining, self._seconds_until_due(pattern, can_run), POLL_SECONDS))

    def _seconds_until_due(self, pattern: TuplePattern, can_run: CanRun | None) -> float:
        """Return the seconds until a tuple becomes claimable without any commit."""
        with self.store.read() as view:
            due_us = view.next_due_us(pattern, can_run=can_run)
            return POLL_SECONDS if due_us is None else max(0.0, (due_us - view.as_of) / SECOND_US)

    def admit(self, draft: CheckedTuple) -> int | None:
        """Refuse a tuple whose yools are unknown, forbidden to its authority or take other arguments.

        Return the retries they allow.

        They are of the whole tuple, so the smallest number of any of its yools counts (decision 24).
        """
        if draft.tuple.lane == TASK_LANE:
            raise FieldValue(
                f"The lane '{TASK_LANE}' is for tasks that agents do themselves.",
                field="lane",
                hint="Add one: engrambus task add TITLE.",
            )
        if self._lookup is None:
            return None
        retries: int | None = None
        authority = authority_kind(draft.tuple.authority)
        for position, step in enumerate(draft.tuple.payload):
            try:
                entry = self._lookup(step.yool)
            except YoolNotFound as refusal:
                refusal.field = f"payload[{position}].yool"
                raise
            if not entry.admits(authority):
                raise YoolForbidden(
                    f"'{entry.full_name}' does not run on the authority of '{authority}'.",
                    field=f"payload[{position}].yool",
                    limit=", ".join(entry.authority),
                    used=authority,
                )
            if entry.arguments is not None:
                check_arguments(entry.full_name, entry.arguments, step.args, position)
            allowed = entry.terms.max_retries
            if allowed is not None and (retries is None or allowed < retries):
                retries = allowed
        return retries


def _parse(pattern: Mapping[str, Any] | TuplePattern) -> TuplePattern:
    return pattern if isinstance(pattern, TuplePattern) else read_pattern(pattern)
