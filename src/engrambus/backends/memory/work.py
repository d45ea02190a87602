"""The work of one project in plain dictionaries. Read this to learn what a back end must do."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import msgspec

from engrambus.backends.facts import decode_work_facts
from engrambus.backends.memory.store import JournalledStore, MemoryJournal
from engrambus.core import Clock
from engrambus.evidence.receipts import Receipt
from engrambus.space.tuples import (
    AlarmRaised,
    BodyDamaged,
    BodyPurged,
    CostHistory,
    Epoch,
    EpochBegun,
    Fact,
    Fence,
    IdempotencyKeyUsed,
    IdempotentPut,
    LaneCounts,
    LeaseRenewed,
    Price,
    RunTotals,
    StepCost,
    StepDone,
    StepHit,
    StepStarted,
    TupleClaimed,
    TupleDone,
    TuplePattern,
    TuplePut,
    TupleRecord,
    TupleReleased,
    TupleTaken,
    Waiter,
    WaitKind,
    WorkView,
    after_claim,
    after_end,
    after_release,
    lineage,
    new_record,
    pattern_fields,
)


class WorkState:
    """Everything, as of the last commit."""

    def __init__(self) -> None:
        self.tuples: dict[str, TupleRecord] = {}
        self.receipts: dict[str, Receipt] = {}
        self.receipt_runs: list[tuple[str, str]] = []
        self.of_tuple: dict[str, list[str]] = {}
        self.finished: dict[str, dict[int, str]] = {}
        self.running: dict[str, dict[int, Price]] = {}
        """What is set aside for each step under way and not yet spent."""
        self.counted: dict[tuple[str, Fence, int], Price] = {}
        self.cache: dict[str, list[str]] = {}
        self.averages: dict[str, CostHistory] = {}
        self.figures: dict[str, RunTotals] = {}
        self.asked: dict[str, IdempotentPut] = {}
        self.reign = Epoch()
        self.purged: dict[str, int] = {}

    def find(self, tuple_id: str) -> TupleRecord | None:
        """The tuple of that id."""
        return self.tuples.get(tuple_id)

    def apply(self, fact: Fact, at: int) -> None:
        """Let one fact have happened."""
        match fact:
            case TuplePut():
                self._came(fact)
            case IdempotencyKeyUsed():
                self.asked[fact.idempotency_key] = IdempotentPut(
                    tuple_id=fact.id, request_digest=fact.request_digest, receipt_id=fact.accepted
                )
            case TupleTaken():
                self._stop(fact.id)
                self._set(after_end(self.tuples[fact.id], "taken", None))
            case TupleClaimed():
                self._stop(fact.id)
                self._set(after_claim(self.tuples[fact.id], fact))
                self.reign = msgspec.structs.replace(self.reign, counter=fact.counter)
            case LeaseRenewed():
                self._set(msgspec.structs.replace(self.tuples[fact.id], lease_until_us=fact.lease_until_us))
            case TupleReleased():
                self._stop(fact.id)
                self._set(after_release(self.tuples[fact.id], fact))
            case StepStarted():
                self._stop(fact.id, fact.step)
                self.running.setdefault(fact.id, {})[fact.step] = Price(micros=fact.micros, tokens=fact.tokens)
                self._hold(fact.id, fact.micros, fact.tokens)
            case StepCost():
                self._cost(fact)
            case StepDone():
                self._stop(fact.id, fact.step)
                self._spend(fact)
                self._executed(fact)
            case StepHit():
                self.finished.setdefault(fact.id, {})[fact.step] = fact.receipt
                self.of_tuple.setdefault(fact.id, []).append(fact.receipt)
                self._count(self.tuples[fact.id].run, hits=1)
            case TupleDone():
                self._stop(fact.id)
                self._keep_receipt(fact.receipt, fact.run)
                self._set(after_end(self.tuples[fact.id], fact.state, len(self.receipt_runs)))
            case AlarmRaised():
                self._set(msgspec.structs.replace(self.tuples[fact.id], alarmed=True))
            case EpochBegun():
                self.reign = Epoch(number=fact.epoch, boot=fact.boot)
            case BodyPurged():
                self.purged[fact.sha] = at
            case BodyDamaged():
                for kept in self.cache.values():
                    if fact.receipt in kept:
                        kept.remove(fact.receipt)

    def view(self, as_of_us: int, *, commits: int, journal_bytes: int) -> WorkView:
        """Return a view of the state as of a moment."""
        return MemoryWorkView(self, as_of_us)

    def _came(self, fact: TuplePut) -> None:
        one = new_record(fact, len(self.tuples) + 1)
        self.tuples[one.id] = one
        figures = self.figures.get(one.run) or RunTotals(
            run=one.run, states={}, put_again=0, executed=0, hits=0, micros=0, tokens=0
        )
        states = {**figures.states, "waiting": figures.states.get("waiting", 0) + 1}
        self.figures[one.run] = msgspec.structs.replace(figures, states=states)
        if fact.accepted is not None:
            self._keep_receipt(fact.accepted, fact.run)
        if fact.idempotency_key is not None:
            accepted = fact.accepted.id if fact.accepted is not None else None
            self.asked[fact.idempotency_key] = IdempotentPut(
                tuple_id=fact.id, request_digest=fact.request_digest or "", receipt_id=accepted
            )
        if fact.replaces is not None:
            before = self.tuples[fact.replaces]
            self._set(msgspec.structs.replace(before, put_again_as=fact.id))
            self._count(before.run, put_again=1)

    def _set(self, one: TupleRecord) -> None:
        before = self.tuples[one.id]
        self.tuples[one.id] = one
        if before.state != one.state:
            states = dict(self.figures[one.run].states)
            states[before.state] -= 1
            states[one.state] = states.get(one.state, 0) + 1
            left = {state: count for state, count in states.items() if count}
            self.figures[one.run] = msgspec.structs.replace(self.figures[one.run], states=left)

    def _executed(self, fact: StepDone) -> None:
        receipt = fact.receipt
        self._keep_receipt(receipt, fact.run)
        self._count(fact.run, executed=1)
        if receipt.exit != 0:
            return
        self.finished.setdefault(fact.id, {})[fact.step] = receipt.id
        if receipt.key is not None:
            self.cache.setdefault(receipt.key, []).append(receipt.id)
        past = self.averages.get(receipt.yool, CostHistory())
        self.averages[receipt.yool] = CostHistory(
            executions=past.executions + 1,
            micros=past.micros + receipt.cost.usd_micros,
            tokens=past.tokens + receipt.cost.tokens,
        )

    def _keep_receipt(self, receipt: Receipt, run: str) -> None:
        self.receipts[receipt.id] = receipt
        self.receipt_runs.append((run, receipt.id))
        self.of_tuple.setdefault(receipt.tuple_id, []).append(receipt.id)

    def _cost(self, fact: StepCost) -> None:
        steps = self.running.get(fact.id, {})
        aside = None if fact.late else steps.get(fact.step)
        if aside is not None:
            left = steps[fact.step] = aside.minus(Price(micros=fact.micros, tokens=fact.tokens))
            self._hold(fact.id, left.micros - aside.micros, left.tokens - aside.tokens)
        self._spend(fact)

    def _stop(self, tuple_id: str, step: int | None = None) -> None:
        """Set nothing aside any more for a step, or for every step."""
        steps = self.running.get(tuple_id, {})
        for each in [at for at in steps if step is None or at == step]:
            gone = steps.pop(each)
            self._hold(tuple_id, -gone.micros, -gone.tokens)

    def _hold(self, tuple_id: str, micros: int, tokens: int) -> None:
        for each in list(lineage(self, self.tuples[tuple_id])) if micros or tokens else ():
            self.tuples[each.id] = msgspec.structs.replace(
                each, reserved_micros=each.reserved_micros + micros, reserved_tokens=each.reserved_tokens + tokens
            )

    def _spend(self, fact: StepCost | StepDone) -> None:
        tuple_id, micros, tokens = fact.id, fact.micros, fact.tokens
        if not micros and not tokens:
            return
        key = fact.id, Fence(fact.epoch, fact.counter), fact.step
        self.counted[key] = self.counted.get(key, Price()) + Price(micros=micros, tokens=tokens)
        one = self.tuples[tuple_id]
        for each in list(lineage(self, one)):
            self.tuples[each.id] = msgspec.structs.replace(
                each, spent_micros=each.spent_micros + micros, spent_tokens=each.spent_tokens + tokens
            )
        self.tuples[tuple_id] = msgspec.structs.replace(
            self.tuples[tuple_id], own_micros=one.own_micros + micros, own_tokens=one.own_tokens + tokens
        )
        self._count(self.tuples[tuple_id].run, micros=micros, tokens=tokens)

    def _count(
        self, run: str, *, put_again: int = 0, executed: int = 0, hits: int = 0, micros: int = 0, tokens: int = 0
    ) -> None:
        before = self.figures[run]
        self.figures[run] = msgspec.structs.replace(
            before,
            put_again=before.put_again + put_again,
            executed=before.executed + executed,
            hits=before.hits + hits,
            micros=before.micros + micros,
            tokens=before.tokens + tokens,
        )


class MemoryWorkView:
    """The state as of one moment."""

    def __init__(self, state: WorkState, as_of: int) -> None:
        self._state = state
        self._as_of = as_of

    @property
    def as_of(self) -> int:
        return self._as_of

    def current_epoch(self) -> Epoch:
        return self._state.reign

    def find(self, tuple_id: str) -> TupleRecord | None:
        return self._state.tuples.get(tuple_id)

    def find_all(self, ids: Sequence[str]) -> dict[str, TupleRecord]:
        return {each: self._state.tuples[each] for each in ids if each in self._state.tuples}

    def tuple_ids_starting(self, prefix: str, *, limit: int) -> list[str]:
        return [each for each in self._state.tuples if each.startswith(f"sha256:{prefix}")][:limit]

    def claimable(self, pattern: TuplePattern, *, epoch: int, limit: int) -> list[TupleRecord]:
        due = [
            one
            for one in self._state.tuples.values()
            if (one.state == "waiting" and one.ready_us <= self._as_of)
            or (
                one.state == "claimed"
                and (one.lease_until_us <= self._as_of or (one.fence and one.fence.epoch < epoch))
            )
        ]
        due.sort(key=lambda one: (-one.rank, one.ordinal))
        return [one for one in due if pattern.matches(pattern_fields(one) | {"state": "waiting"})][:limit]

    def matching(self, pattern: TuplePattern, *, limit: int, after: int = 0) -> list[TupleRecord]:
        found = (one for one in self._state.tuples.values() if one.state != "taken" and one.ordinal > after)
        return [one for one in found if pattern.matches(pattern_fields(one))][:limit]

    def newest_in(self, lane: str) -> TupleRecord | None:
        return next((one for one in reversed(self._state.tuples.values()) if one.lane == lane), None)

    def idempotent_put(self, key: str) -> IdempotentPut | None:
        return self._state.asked.get(key)

    def waiting_count(self, lane: str) -> int:
        return sum(one.state == "waiting" and one.lane == lane for one in self._state.tuples.values())

    def next_due_us(self, pattern: TuplePattern) -> int | None:
        moments = [
            one.ready_us if one.state == "waiting" else one.lease_until_us
            for one in self._state.tuples.values()
            if one.state in ("waiting", "claimed") and pattern.matches(pattern_fields(one) | {"state": "waiting"})
        ]
        return min((moment for moment in moments if moment > self._as_of), default=None)

    def finished_steps(self, tuple_id: str) -> dict[int, str]:
        return dict(self._state.finished.get(tuple_id, {}))

    def receipt_ids(self, tuple_id: str) -> list[str]:
        return list(self._state.of_tuple.get(tuple_id, ()))

    def receipt(self, receipt_id: str) -> Receipt | None:
        return self._state.receipts.get(receipt_id)

    def receipt_ids_starting(self, prefix: str, *, limit: int) -> list[str]:
        return [each for each in self._state.receipts if each.startswith(f"sha256:{prefix}")][:limit]

    def recorded_receipts(self, receipts: Iterable[Receipt]) -> set[str]:
        return {each.id for each in receipts if each.id in self._state.receipts}

    def list_receipts(self, run: str | None, *, limit: int, after: int = 0) -> list[tuple[int, Receipt]]:
        numbered = enumerate(self._state.receipt_runs, 1)
        found = [(number, self._state.receipts[each]) for number, (of, each) in numbered if run in (None, of)]
        return [each for each in found if each[0] > after][:limit]

    def cached_receipt(self, key: str) -> Receipt | None:
        found = self._state.cache.get(key)
        return self._state.receipts[found[-1]] if found else None

    def cost_history(self, yool: str) -> CostHistory:
        return self._state.averages.get(yool, CostHistory())

    def counted_cost(self, tuple_id: str, fence: Fence, step: int) -> Price:
        return self._state.counted.get((tuple_id, fence, step), Price())

    def run_totals(self) -> list[RunTotals]:
        return [
            msgspec.structs.replace(each, states=dict(sorted(each.states.items())))
            for each in self._state.figures.values()
        ]

    def list_claimed(self, run: str | None, *, limit: int) -> list[TupleRecord]:
        held = (one for one in self._state.tuples.values() if one.state == "claimed")
        return [one for one in held if run in (None, one.run)][:limit]

    def list_ended(self, run: str | None, *, limit: int) -> list[TupleRecord]:
        ended = (one for one in self._last() if one.state != "dead" or one.put_again_as)
        return [one for one in ended if run in (None, one.run)][:limit]

    def list_dead(
        self,
        run: str | None,
        *,
        lane: str | None = None,
        include_put_again: bool = False,
        limit: int,
        ended_before: int | None = None,
    ) -> list[TupleRecord]:
        dead = (one for one in self._last() if one.state == "dead" and (include_put_again or one.put_again_as is None))
        meant = (one for one in dead if run in (None, one.run) and lane in (None, one.lane))
        return [one for one in meant if ended_before is None or (one.final_receipt_number or 0) < ended_before][:limit]

    def _last(self) -> list[TupleRecord]:
        """Everything that has ended, the last first."""
        return sorted(
            (one for one in self._state.tuples.values() if one.final_receipt_number),
            key=lambda one: one.final_receipt_number or 0,
            reverse=True,
        )

    def purged_at_us(self, sha: str) -> int | None:
        return self._state.purged.get(sha)

    def lane_counts(self) -> list[LaneCounts]:
        counts: dict[str, dict[str, int]] = {}
        for one in self._state.tuples.values():
            if one.state in ("waiting", "claimed"):
                states = counts.setdefault(one.lane, {"waiting": 0, "claimed": 0})
                states[one.state] += 1
        return [LaneCounts(lane=lane, **states) for lane, states in sorted(counts.items())]


class _MemoryWaiter:
    """A waiter on a condition that every commit notifies."""

    def __init__(self, condition: threading.Condition) -> None:
        self._condition = condition
        self._notified = False

    def notify(self) -> None:
        with self._condition:
            self._notified = True
            self._condition.notify_all()

    def wait(self, seconds: float) -> None:
        """Sleep until something may have changed, or for that long."""
        with self._condition:
            if not self._notified:
                self._condition.wait(seconds)
            self._notified = False


def _ends_a_tuple(facts: Sequence[Fact]) -> bool:
    return TupleDone in map(type, facts)


class MemoryWork(JournalledStore[WorkView]):
    """The work store of one project in memory."""

    def __init__(self, journal: MemoryJournal, clock: Clock) -> None:
        self._waiters: list[_MemoryWaiter] = []
        self._condition = threading.Condition()
        # decision 22: the last receipt of a tuple is synced, whichever commit notices its end
        super().__init__(journal, clock, new_state=WorkState, decode=decode_work_facts, must_sync=_ends_a_tuple)
        self.watch(self._notify)

    @contextmanager
    def wait_on(self, kind: WaitKind) -> Iterator[Waiter]:
        """Open a waiter that every commit wakes."""
        waiter = _MemoryWaiter(self._condition)
        self._waiters.append(waiter)
        try:
            yield waiter
        finally:
            self._waiters.remove(waiter)

    def rotate(self, *, least_bytes: int, before_us: int, dry_run: bool = False) -> bool:
        """Do nothing: a journal in memory has no segments."""
        return False

    def _notify(self) -> None:
        for waiter in tuple(self._waiters):
            waiter.notify()
