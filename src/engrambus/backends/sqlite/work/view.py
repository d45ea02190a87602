"""The index of work, read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from operator import add
from typing import Any

import apsw
import msgspec

from engrambus.backends.sqlite.queries import queries
from engrambus.backends.sqlite.work.projection import COUNTED, head_of, print_id, raw_id, sought
from engrambus.backends.sqlite.work.state import QUERIES, WorkIndexState
from engrambus.core import is_digest
from engrambus.evidence.receipts import Receipt
from engrambus.space.tuples import (
    ABSENT,
    STATES,
    CostHistory,
    Epoch,
    Fence,
    IdempotentPut,
    LaneCounts,
    Pattern,
    Price,
    RunTotals,
    TupleRecord,
    index_value,
    pattern_fields,
)

MOST_AT_ONCE = 256
"""How many are asked for in one statement."""

FEW = 64
"""So many that may be claimed late are sorted at once."""

_NONE = (0, 0, 0)
_LAST = (1 << 63) - 1
_decode_receipt = msgspec.json.Decoder(Receipt).decode


class SqliteWorkView:
    """The index as of one moment."""

    def __init__(
        self, connection: apsw.Connection, state: WorkIndexState, as_of: int, read: dict[str, TupleRecord] | None = None
    ) -> None:
        """`read` is told of tuples that may be decided on."""
        self._connection = connection
        self._sql = queries(QUERIES)
        self._state = state
        self._as_of = as_of
        self._read: dict[str, TupleRecord] = {} if read is None else read

    @property
    def as_of(self) -> int:
        """The moment."""
        return self._as_of

    def current_epoch(self) -> Epoch:
        """The epoch claims are made in."""
        state = self._state
        return Epoch(number=state.epoch, boot=state.boot, counter=state.counter)

    def find(self, tuple_id: str) -> TupleRecord | None:
        """The tuple of that id."""
        if not is_digest(tuple_id):
            return None
        row = self._one("tuple", *sought(tuple_id))
        if row is None:
            return None
        one = kept_from(row)
        self._read[one.id] = one
        return one

    def tuple_ids_starting(self, prefix: str, *, limit: int) -> list[str]:
        """The ids of tuples whose hash begins with these digits."""
        return self._like("tuples_like", prefix, limit)

    def receipt_ids_starting(self, prefix: str, *, limit: int) -> list[str]:
        """The ids of receipts whose hash begins with these digits."""
        return self._like("receipts_like", prefix, limit)

    def _like(self, name: str, start: str, limit: int) -> list[str]:
        least, most = (bytes.fromhex(start.ljust(64, digit)) for digit in "0f")
        return [print_id(row[0]) for row in self._rows(name, head_of(least), head_of(most), least, most, limit)]

    def find_all(self, ids: Sequence[str]) -> dict[str, TupleRecord]:
        """Those of these tuples that are there."""
        held = self._state.fresh_claims
        found = {each: held[each] for each in ids if each in held}
        left = [each for each in ids if each not in found and is_digest(each)]
        for start in range(0, len(left), MOST_AT_ONCE):
            some = [head_of(raw_id(each)) for each in left[start : start + MOST_AT_ONCE]]
            rows = self._connection.execute(self._sql["tuples"].replace("(?)", _places(len(some))), some)
            found |= {one.id: one for one in map(kept_from, rows)}
        self._read |= found
        return {each: found[each] for each in ids if each in found} if left else found

    def recorded_receipts(self, receipts: Iterable[Receipt]) -> set[str]:
        """The ids of those of these that were told before."""
        held = self._state.fresh_claims
        ids = [receipt.id for receipt in receipts if receipt.tuple_id not in held]
        found: set[str] = set()
        for start in range(0, len(ids), MOST_AT_ONCE):
            some = [head_of(raw_id(each)) for each in ids[start : start + MOST_AT_ONCE]]
            rows: Any = self._connection.execute(self._sql["receipts_known"].replace("(?)", _places(len(some))), some)
            found |= {print_id(row[0]) for row in rows}
        return found

    def claimable(self, pattern: Pattern, *, epoch: int, limit: int) -> list[TupleRecord]:
        """Tuples that wait and are due, or whose claim has ended."""
        found = self._claimable(pattern, epoch, limit)
        self._read |= {one.id: one for one in found}
        return found

    def _claimable(self, pattern: Pattern, epoch: int, limit: int) -> list[TupleRecord]:
        lane, wanted = pattern.equal_to("lane"), pattern.equal_to("id")
        if isinstance(wanted, str):
            one = self.find(wanted)
            return _first(iter([one] if one is not None and self._is_due(one, epoch) else []), pattern, limit)
        for path in self._state.indexed:
            value = index_value(pattern.equal_to(path))
            if value is not None:
                rest = pattern.without(path)
                rows = self._rows("posted_live", path, value)
                return _first((one for one in map(kept_from, rows) if self._is_due(one, epoch)), rest, limit)
        if lane is not ABSENT and not isinstance(lane, str):
            return []
        lanes = [lane] if lane is not ABSENT else [each.lane for each in self.lane_counts()]
        streams = [self._due_in(each, epoch) for each in lanes]
        found = merge(*streams, key=_order) if len(streams) != 1 else streams[0]
        return _first(found, pattern.without("lane"), limit)

    def _due_in(self, lane: str, epoch: int) -> Iterator[TupleRecord]:
        """What can be claimed in one lane, in order."""
        now = self._as_of
        waiting = map(kept_from, self._rows("waiting", lane))
        delayed, lost = self._one("late", lane, now, FEW + 1, lane, epoch, now, lane, epoch)
        if not delayed and not lost:
            return waiting
        streams: list[Iterator[TupleRecord]] = [waiting]
        if delayed:
            # A few are sorted. Of many, those in front are claimed one after the other: they are passed through in
            # order, over those that are not due yet.
            name = "delayed" if delayed <= FEW else "delayed_in_order"
            streams.append(map(kept_from, self._rows(name, lane, now)))
        if lost:
            streams.append(self._lost_in(lane, epoch))
        return merge(*streams, key=_order)

    def _lost_in(self, lane: str, epoch: int) -> Iterator[TupleRecord]:
        """What was claimed in a lane and is not held any more, in order; read as far as it is asked for."""
        page = [0] * FEW
        at = 0
        while len(page) == FEW:
            page = [row[0] for row in self._rows("lost", lane, epoch, self._as_of, lane, epoch, FEW, at)]
            at += FEW
            for ordinal in page:
                yield kept_from(self._one("tuple_at", ordinal))

    def _is_due(self, one: TupleRecord, epoch: int) -> bool:
        if one.state == "waiting":
            return one.ready_us <= self._as_of
        return one.state == "claimed" and (
            one.lease_until_us <= self._as_of or (one.fence is not None and one.fence.epoch < epoch)
        )

    def matching(self, pattern: Pattern, *, limit: int, after: int = 0) -> list[TupleRecord]:
        """Tuples that are in the space."""
        found = map(kept_from, self._candidates(pattern, after))
        return [
            one
            for one, _ in zip(
                (one for one in found if pattern.matches(pattern_fields(one))), range(limit), strict=False
            )
        ]

    def _candidates(self, pattern: Pattern, after: int) -> Iterator[Any]:
        wanted = pattern.equal_to("id")
        if wanted is not ABSENT:
            row = self._one("tuple", *sought(wanted)) if isinstance(wanted, str) and is_digest(wanted) else None
            return iter([row] if row and row[0] > after and row[2] != "taken" else [])
        for path in self._state.indexed:
            value = index_value(pattern.equal_to(path))
            if value is not None:
                return self._rows("posted_all", path, value, after)
        if pattern.equal_to("state") == "dead":
            return self._rows("dead", after)
        lane = pattern.equal_to("lane")
        if isinstance(lane, str):
            return self._rows("in_lane", lane, after)
        return self._rows("everything", after)

    def newest_in(self, lane: str) -> TupleRecord | None:
        """The newest tuple of a lane."""
        row = self._one("last_in", lane)
        return kept_from(row) if row else None

    def idempotent_put(self, key: str) -> IdempotentPut | None:
        """The tuple that was put under an idempotency key."""
        row = self._one("asked", key)
        if row is None:
            return None
        return IdempotentPut(
            tuple_id=print_id(row[0]), request_digest=row[1], receipt_id=print_id(row[2]) if row[2] else None
        )

    def waiting_count(self, lane: str) -> int:
        """How many tuples wait in a lane."""
        row = self._one("depth", lane)
        return (row[0] if row else 0) + self._state.figures.lanes.get(lane, _NONE)[0]

    def next_due_us(self, pattern: Pattern) -> int | None:
        """The next moment at which a tuple that is meant comes due or its claim ends."""
        lane, rest = pattern.equal_to("lane"), pattern.without("lane")
        lanes = [each.lane for each in self.lane_counts()] if lane is ABSENT else [lane]
        moments = []
        for each in lanes:
            if not isinstance(each, str):
                continue
            if rest.conditions:
                delayed = _first(map(kept_from, self._rows("delayed_yet", each, self._as_of)), rest, 1)
                held = _first(map(kept_from, self._rows("held", each, self._as_of)), rest, 1)
                moments += [one.ready_us for one in delayed] + [one.lease_until_us for one in held]
            else:
                moments += [self._one(name, each, self._as_of)[0] for name in ("next_delayed", "next_lost")]
        return min((moment for moment in moments if moment is not None), default=None)

    def finished_steps(self, tuple_id: str) -> dict[int, str]:
        """The receipts of a tuple's finished steps."""
        return {step: print_id(receipt) for step, receipt in self._rows("finished", *sought(tuple_id))}

    def receipt_ids(self, tuple_id: str) -> list[str]:
        """Every receipt of a tuple."""
        return [print_id(row[0]) for row in self._rows("receipts_of", *sought(tuple_id))]

    def receipt(self, receipt_id: str) -> Receipt | None:
        """The receipt of that id."""
        row = self._one("receipt", *sought(receipt_id)) if is_digest(receipt_id) else None
        return _decode_receipt(row[0]) if row else None

    def list_receipts(self, run: str | None, *, limit: int, after: int = 0) -> list[tuple[int, Receipt]]:
        """The receipts of a run."""
        rows = self._rows("receipts", after, limit) if run is None else self._rows("receipts_in", run, after, limit)
        return [(number, _decode_receipt(body)) for number, body in rows]

    def cached_receipt(self, key: str) -> Receipt | None:
        """The newest receipt that may stand for another execution."""
        row = self._one("cached", key)
        return _decode_receipt(row[0]) if row else None

    def cost_history(self, yool: str) -> CostHistory:
        """What successful executions of a yool cost so far."""
        more = self._state.figures.yools.get(yool, _NONE)
        runs, micros, tokens = map(add, self._one("averages", yool) or _NONE, more)
        return CostHistory(executions=runs, micros=micros, tokens=tokens)

    def counted_cost(self, tuple_id: str, fence: Fence, step: int) -> Price:
        """What is counted of a step as it was executed under a claim."""
        known = tuple_id in self._state.fresh_claims  # of which nothing was told
        row = None if known else self._one("counted", *sought(tuple_id), fence.epoch, fence.counter, step)
        return Price(micros=row[0], tokens=row[1]) if row else Price()

    def run_totals(self) -> list[RunTotals]:
        """Every run that has tuples."""
        more = self._state.figures.runs
        return [_figures(row, more.get(row[0], {})) for row in self._rows("runs")]

    def list_claimed(self, run: str | None, *, limit: int) -> list[TupleRecord]:
        """Tuples that somebody holds."""
        return [kept_from(row) for row in self._rows("under_way", run, limit)]

    def list_ended(self, run: str | None, *, limit: int) -> list[TupleRecord]:
        """Tuples that have ended."""
        rows = self._rows("ended", limit) if run is None else self._rows("ended_in", run, limit)
        return [kept_from(row) for row in rows]

    def list_dead(
        self,
        run: str | None,
        *,
        lane: str | None = None,
        include_put_again: bool = False,
        limit: int,
        ended_before: int | None = None,
    ) -> list[TupleRecord]:
        """Dead letters."""
        rows = self._rows(
            "given_up", _LAST if ended_before is None else ended_before, include_put_again, run, lane, limit
        )
        return [kept_from(row) for row in rows]

    def purged_at_us(self, sha: str) -> int | None:
        """When a body was taken away."""
        row = self._one("purged", raw_id(sha)) if is_digest(sha) else None
        return row[0] if row else None

    def lane_counts(self) -> list[LaneCounts]:
        """Every lane in which something waits or is worked on."""
        lanes = {lane: (waiting, claimed) for lane, waiting, claimed in self._rows("lanes")}
        for lane, more in self._state.figures.lanes.items():
            waiting, claimed = map(add, lanes.get(lane, _NONE), more)
            lanes[lane] = waiting, claimed
        return [
            LaneCounts(lane=lane, waiting=waiting, claimed=claimed)
            for lane, (waiting, claimed) in sorted(lanes.items())
            if waiting or claimed
        ]

    def _rows(self, name: str, *values: object) -> Iterator[Any]:
        return self._connection.execute(self._sql[name], values)

    def _one(self, name: str, *values: object) -> Any:
        return self._connection.execute(self._sql[name], values).fetchone()


def _places(count: int) -> str:
    """So many places for values."""
    return f"({', '.join('?' * count)})"


def _first(found: Iterator[TupleRecord], pattern: Pattern, limit: int) -> list[TupleRecord]:
    first: list[TupleRecord] = []
    for one in found:
        if not pattern.conditions or pattern.matches(pattern_fields(one) | {"state": "waiting"}):
            first.append(one)
            if len(first) >= limit:
                break
    return first


def _order(one: TupleRecord) -> tuple[int, int]:
    return -one.rank, one.ordinal


def _figures(row: Any, more: dict[str, int]) -> RunTotals:
    _, run, *counts = row
    said = {name: count + more.get(name, 0) for name, count in zip(COUNTED, counts, strict=True)}
    states: dict[str, int] = {name: said[name] for name in sorted(STATES) if said[name]}
    return RunTotals(
        run=run,
        states=states,
        put_again=said["again"],
        executed=said["executed"],
        hits=said["hits"],
        micros=said["micros"],
        tokens=said["tokens"],
    )


def kept_from(row: Any) -> TupleRecord:
    """A tuple as its row says."""
    return TupleRecord(
        ordinal=row[0],
        id=print_id(row[1]),
        state=row[2],
        lane=row[3],
        rank=row[4],
        run=row[5],
        attempts=row[6],
        ready_us=row[7],
        fence=None if row[8] is None else Fence(row[8], row[9]),
        worker=row[10],
        lease_until_us=row[11],
        deadline_us=row[12],
        retries=row[13],
        budget_micros=row[14],
        budget_tokens=row[15],
        spent_micros=row[16],
        spent_tokens=row[17],
        reserved_micros=row[18],
        reserved_tokens=row[19],
        alarmed=bool(row[20]),
        parent_id=None if row[21] is None else print_id(row[21]),
        put_again_as=None if row[22] is None else print_id(row[22]),
        own_micros=row[23],
        own_tokens=row[24],
        final_receipt_number=row[25],
        body=row[26],
    )
