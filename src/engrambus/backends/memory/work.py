"""The work of one project in plain dictionaries. Read this to learn what a back end must do."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import msgspec

from engrambus.backends.memory.store import MemoryJournal, MemoryLog
from engrambus.backends.work_facts import decode_work
from engrambus.core import Clock
from engrambus.evidence.receipts import Receipt
from engrambus.space.tuples import (
    AlarmRaised,
    Asked,
    Averages,
    Bell,
    BodyDamaged,
    BodyPurged,
    EpochBegun,
    Fact,
    Fence,
    Kept,
    Kind,
    LaneFigures,
    LeaseRenewed,
    Pattern,
    Price,
    Reign,
    RunFigures,
    StepCost,
    StepDone,
    StepHit,
    StepStarted,
    TupleAsked,
    TupleClaimed,
    TupleDone,
    TupleOut,
    TupleReleased,
    TupleTaken,
    WorkDecide,
    WorkView,
    after_claim,
    after_end,
    after_release,
    fields_of,
    kept_of,
    lineage,
)

T = TypeVar("T")


class WorkState:
    """Everything, as of the last commit."""

    def __init__(self) -> None:
        self.tuples: dict[str, Kept] = {}
        self.receipts: dict[str, Receipt] = {}
        self.receipt_runs: list[tuple[str, str]] = []
        self.of_tuple: dict[str, list[str]] = {}
        self.finished: dict[str, dict[int, str]] = {}
        self.running: dict[str, dict[int, Price]] = {}
        """What is set aside for each step under way and not yet spent."""
        self.counted: dict[tuple[str, Fence, int], Price] = {}
        self.cache: dict[str, list[str]] = {}
        self.averages: dict[str, Averages] = {}
        self.figures: dict[str, RunFigures] = {}
        self.asked: dict[str, Asked] = {}
        self.reign = Reign()
        self.purged: dict[str, int] = {}

    def find(self, tuple_id: str) -> Kept | None:
        """The tuple of that id."""
        return self.tuples.get(tuple_id)

    def apply(self, fact: Fact, at: int) -> None:
        """Let one fact have happened."""
        match fact:
            case TupleOut():
                self._came(fact)
            case TupleAsked():
                self.asked[fact.asked] = Asked(id=fact.id, request=fact.request, accepted=fact.accepted)
            case TupleTaken():
                self._stop(fact.id)
                self._set(after_end(self.tuples[fact.id], "taken", None))
            case TupleClaimed():
                self._stop(fact.id)
                self._set(after_claim(self.tuples[fact.id], fact))
                self.reign = msgspec.structs.replace(self.reign, counter=fact.counter)
            case LeaseRenewed():
                self._set(msgspec.structs.replace(self.tuples[fact.id], until=fact.until))
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
                self.reign = Reign(epoch=fact.epoch, boot=fact.boot)
            case BodyPurged():
                self.purged[fact.sha] = at
            case BodyDamaged():
                for kept in self.cache.values():
                    if fact.receipt in kept:
                        kept.remove(fact.receipt)

    def _came(self, fact: TupleOut) -> None:
        one = kept_of(fact, len(self.tuples) + 1)
        self.tuples[one.id] = one
        figures = self.figures.get(one.run) or RunFigures(
            run=one.run, states={}, again=0, executed=0, hits=0, micros=0, tokens=0
        )
        states = {**figures.states, "waiting": figures.states.get("waiting", 0) + 1}
        self.figures[one.run] = msgspec.structs.replace(figures, states=states)
        if fact.accepted is not None:
            self._keep_receipt(fact.accepted, fact.run)
        if fact.asked is not None:
            accepted = fact.accepted.id if fact.accepted is not None else None
            self.asked[fact.asked] = Asked(id=fact.id, request=fact.request or "", accepted=accepted)
        if fact.again is not None:
            before = self.tuples[fact.again]
            self._set(msgspec.structs.replace(before, again=fact.id))
            self._count(before.run, again=1)

    def _set(self, one: Kept) -> None:
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
        past = self.averages.get(receipt.yool, Averages())
        self.averages[receipt.yool] = Averages(
            runs=past.runs + 1,
            micros=past.micros + receipt.cost.micros,
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
            left = steps[fact.step] = aside.beyond(Price(micros=fact.micros, tokens=fact.tokens))
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
                each, held_micros=each.held_micros + micros, held_tokens=each.held_tokens + tokens
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
                each, micros=each.micros + micros, tokens=each.tokens + tokens
            )
        self.tuples[tuple_id] = msgspec.structs.replace(
            self.tuples[tuple_id], own_micros=one.own_micros + micros, own_tokens=one.own_tokens + tokens
        )
        self._count(self.tuples[tuple_id].run, micros=micros, tokens=tokens)

    def _count(
        self, run: str, *, again: int = 0, executed: int = 0, hits: int = 0, micros: int = 0, tokens: int = 0
    ) -> None:
        before = self.figures[run]
        self.figures[run] = msgspec.structs.replace(
            before,
            again=before.again + again,
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
        """The moment."""
        return self._as_of

    def reign(self) -> Reign:
        """The epoch claims are made in."""
        return self._state.reign

    def find(self, tuple_id: str) -> Kept | None:
        """The tuple of that id."""
        return self._state.tuples.get(tuple_id)

    def find_all(self, ids: Sequence[str]) -> dict[str, Kept]:
        """Those of these tuples that are there."""
        return {each: self._state.tuples[each] for each in ids if each in self._state.tuples}

    def tuples_like(self, start: str, *, limit: int) -> list[str]:
        """The ids of tuples whose hash begins with these digits."""
        return [each for each in self._state.tuples if each.startswith(f"sha256:{start}")][:limit]

    def claimable(self, pattern: Pattern, *, epoch: int, limit: int) -> list[Kept]:
        """Tuples that wait and are due, or whose claim has ended."""
        due = [
            one
            for one in self._state.tuples.values()
            if (one.state == "waiting" and one.ready_at <= self._as_of)
            or (one.state == "claimed" and (one.until <= self._as_of or (one.fence and one.fence.epoch < epoch)))
        ]
        due.sort(key=lambda one: (-one.rank, one.ordinal))
        return [one for one in due if pattern.matches(fields_of(one) | {"state": "waiting"})][:limit]

    def matching(self, pattern: Pattern, *, limit: int, after: int = 0) -> list[Kept]:
        """Tuples that are in the space."""
        found = (one for one in self._state.tuples.values() if one.state != "taken" and one.ordinal > after)
        return [one for one in found if pattern.matches(fields_of(one))][:limit]

    def last_in(self, lane: str) -> Kept | None:
        """The newest tuple of a lane."""
        return next((one for one in reversed(self._state.tuples.values()) if one.lane == lane), None)

    def asked(self, key: str) -> Asked | None:
        """The tuple that was put under an idempotency key."""
        return self._state.asked.get(key)

    def waiting(self, lane: str) -> int:
        """How many tuples wait in a lane."""
        return sum(one.state == "waiting" and one.lane == lane for one in self._state.tuples.values())

    def next_due(self, pattern: Pattern) -> int | None:
        """The next moment at which a tuple that is meant comes due or its claim ends."""
        moments = [
            one.ready_at if one.state == "waiting" else one.until
            for one in self._state.tuples.values()
            if one.state in ("waiting", "claimed") and pattern.matches(fields_of(one) | {"state": "waiting"})
        ]
        return min((moment for moment in moments if moment > self._as_of), default=None)

    def finished(self, tuple_id: str) -> dict[int, str]:
        """The receipts of a tuple's finished steps."""
        return dict(self._state.finished.get(tuple_id, {}))

    def receipts_of(self, tuple_id: str) -> list[str]:
        """Every receipt of a tuple."""
        return list(self._state.of_tuple.get(tuple_id, ()))

    def receipt(self, receipt_id: str) -> Receipt | None:
        """The receipt of that id."""
        return self._state.receipts.get(receipt_id)

    def receipts_like(self, start: str, *, limit: int) -> list[str]:
        """The ids of receipts whose hash begins with these digits."""
        return [each for each in self._state.receipts if each.startswith(f"sha256:{start}")][:limit]

    def known_receipts(self, receipts: Iterable[Receipt]) -> set[str]:
        """The ids of those of these that were told before."""
        return {each.id for each in receipts if each.id in self._state.receipts}

    def receipts_in(self, run: str | None, *, limit: int, after: int = 0) -> list[tuple[int, Receipt]]:
        """The receipts of a run."""
        numbered = enumerate(self._state.receipt_runs, 1)
        found = [(number, self._state.receipts[each]) for number, (of, each) in numbered if run in (None, of)]
        return [each for each in found if each[0] > after][:limit]

    def cached(self, key: str) -> Receipt | None:
        """The newest receipt that may stand for another execution."""
        found = self._state.cache.get(key)
        return self._state.receipts[found[-1]] if found else None

    def averages(self, yool: str) -> Averages:
        """What successful executions of a yool cost so far."""
        return self._state.averages.get(yool, Averages())

    def counted(self, tuple_id: str, fence: Fence, step: int) -> Price:
        """What is counted of a step as it was executed under a claim."""
        return self._state.counted.get((tuple_id, fence, step), Price())

    def runs(self) -> list[RunFigures]:
        """Every run that has tuples."""
        return [
            msgspec.structs.replace(each, states=dict(sorted(each.states.items())))
            for each in self._state.figures.values()
        ]

    def under_way(self, run: str | None, *, limit: int) -> list[Kept]:
        """Tuples that somebody holds."""
        held = (one for one in self._state.tuples.values() if one.state == "claimed")
        return [one for one in held if run in (None, one.run)][:limit]

    def ended(self, run: str | None, *, limit: int) -> list[Kept]:
        """Tuples that have ended."""
        ended = (one for one in self._last() if one.state != "dead" or one.again)
        return [one for one in ended if run in (None, one.run)][:limit]

    def given_up(
        self, run: str | None, *, lane: str | None = None, again: bool = False, limit: int, before: int | None = None
    ) -> list[Kept]:
        """Dead letters."""
        dead = (one for one in self._last() if one.state == "dead" and (again or one.again is None))
        meant = (one for one in dead if run in (None, one.run) and lane in (None, one.lane))
        return [one for one in meant if before is None or (one.ended or 0) < before][:limit]

    def _last(self) -> list[Kept]:
        """Everything that has ended, the last first."""
        return sorted(
            (one for one in self._state.tuples.values() if one.ended), key=lambda one: one.ended or 0, reverse=True
        )

    def purged(self, sha: str) -> int | None:
        """When a body was taken away."""
        return self._state.purged.get(sha)

    def lanes(self) -> list[LaneFigures]:
        """Every lane in which something waits or is worked on."""
        counts: dict[str, dict[str, int]] = {}
        for one in self._state.tuples.values():
            if one.state in ("waiting", "claimed"):
                states = counts.setdefault(one.lane, {"waiting": 0, "claimed": 0})
                states[one.state] += 1
        return [LaneFigures(lane=lane, **states) for lane, states in sorted(counts.items())]


class _MemoryBell:
    """Rung under a condition that every commit notifies."""

    def __init__(self, condition: threading.Condition) -> None:
        self._condition = condition
        self._rung = False

    def ring(self) -> None:
        with self._condition:
            self._rung = True
            self._condition.notify_all()

    def wait(self, seconds: float) -> None:
        """Sleep until something may have changed."""
        with self._condition:
            if not self._rung:
                self._condition.wait(seconds)
            self._rung = False


class MemoryWork(MemoryLog[WorkView]):
    """The work of one project, as long as its process lives."""

    def __init__(self, journal: MemoryJournal, clock: Clock) -> None:
        self._bells: list[_MemoryBell] = []
        self._condition = threading.Condition()
        super().__init__(journal, clock)
        self.watch(self._ring)

    def commit(self, decide: WorkDecide[T], *, synced: bool = True) -> T:
        """Change the space."""
        return self._commit(decide, synced=synced)

    @contextmanager
    def bell(self, kind: Kind) -> Iterator[Bell]:
        """A bell that is rung after every commit."""
        bell = _MemoryBell(self._condition)
        self._bells.append(bell)
        try:
            yield bell
        finally:
            self._bells.remove(bell)

    def rotate(self, *, least: int, before: int, dry_run: bool = False) -> bool:
        """There are no files to go on in."""
        return False

    def _ring(self) -> None:
        for bell in tuple(self._bells):
            bell.ring()

    def _begin(self) -> None:
        self._state = WorkState()

    def _decode(self, facts: bytes) -> Sequence[Fact]:
        return decode_work(facts)

    def _happened(self, fact: Fact, at: int) -> None:
        self._state.apply(fact, at)

    def _lasts(self, facts: Sequence[Fact]) -> bool:
        return TupleDone in map(type, facts)  # the end of a tuple, whoever came across it

    def _view(self, as_of: int) -> WorkView:
        return MemoryWorkView(self._state, as_of)
