"""How what happens in the space changes the index of work."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import apsw
import msgspec

from engrambus.backends.sqlite.queries import queries, several
from engrambus.backends.sqlite.work.state import QUERIES, PendingFigures, WorkIndexState
from engrambus.evidence.receipts import Receipt
from engrambus.space.tuples import (
    MAX_GENERATIONS,
    STATES,
    AlarmRaised,
    BodyDamaged,
    BodyPurged,
    EpochBegun,
    Fact,
    IdempotencyKeyUsed,
    LeaseRenewed,
    StepCost,
    StepDone,
    StepHit,
    StepStarted,
    TupleClaimed,
    TupleDone,
    TuplePut,
    TupleRecord,
    TupleReleased,
    TupleTaken,
    after_claim,
    index_entries,
    new_record,
)

LAYOUT = 6
LIVE = frozenset({"waiting", "claimed"})
MAX_RUNS_KNOWN = 1024
MAX_HELD_KNOWN = 4096
SORTED_AT_ONCE = 2048
"""How many new ids gather before they are sorted in with the others."""
GATHERED_NAMES = 24
"""How many lanes, runs and yools are counted beside their tables before the counts go there."""

_encode = msgspec.json.Encoder().encode
COUNTED = (*STATES, "again", "executed", "hits", "micros", "tokens")


Brief = tuple[int, str, str, int, int]
"""A tuple's ordinal, state, lane, rank and the number of its run."""


def raw_id(text: str) -> bytes:
    """A digest as it is kept: 32 bytes."""
    return bytes.fromhex(text[7:])


def head_of(raw: bytes) -> int:
    """The number a digest begins with."""
    return int.from_bytes(raw[:8], "big", signed=True)


def sought(text: str) -> tuple[int, bytes]:
    """What a digest is looked for by: the number it begins with, and itself."""
    raw = raw_id(text)
    return head_of(raw), raw


def print_id(raw: bytes) -> str:
    """A digest as it is written."""
    return "sha256:" + raw.hex()


class WorkProjection:
    """Applies facts through one connection inside one transaction. What can be gathered is written by `flush`."""

    def __init__(self, connection: apsw.Connection, state: WorkIndexState) -> None:
        self.connection = connection
        self._sql = queries(QUERIES)
        self.state = state
        self.read: dict[str, TupleRecord] = {}
        """Tuples as they were read to decide, as long as nothing has happened to them since."""
        self._seen: dict[str, Brief] = {}
        self._rows: defaultdict[str, list[Any]] = defaultdict(list)
        """The values of rows to be written, one after the other."""
        self._last: dict[int, int] = {}
        """What was gathered last of each tuple, by its place in the order of writing."""

    def apply(self, fact: Fact, at: int) -> None:
        """Let one fact have happened."""
        match fact:
            case TuplePut():
                self._came(fact)
            case TupleClaimed():
                self._claimed(fact)
            case StepDone():
                self._executed(fact)
            case TupleDone():
                ordinal = self._move(fact.id, fact.state)
                self._change("end", ordinal, fact.state, self._keep_receipt(fact.receipt, fact.run, ordinal))
            case LeaseRenewed():
                self._change("renew", self._find(fact.id)[0], fact.lease_until_us)
            case TupleReleased():
                ordinal = self._move(fact.id, "waiting")
                self._change("release", ordinal, 0 if fact.counts_attempt else 1, fact.ready_us)
            case IdempotencyKeyUsed():
                accepted = raw_id(fact.accepted) if fact.accepted is not None else None
                self._rows["keep_asked"] += (fact.idempotency_key, raw_id(fact.id), fact.request_digest, accepted)
            case TupleTaken():
                ordinal = self._move(fact.id, "taken")
                self._change("end", ordinal, "taken", None)
            case StepHit():
                ordinal, _, _, _, run = self._find(fact.id)
                self._link(ordinal, raw_id(fact.receipt), fact.step)
                self._count(run, "hits", 1)
            case StepStarted():
                ordinal = self._find(fact.id)[0]
                self._stop(ordinal, fact.step)
                self.state.steps_run = True
                self._run("start", ordinal, fact.step, fact.micros, fact.tokens)
                self._spend(ordinal, 0, 0, fact.micros, fact.tokens)
            case StepCost():
                self._cost(fact)
            case AlarmRaised():
                self._rows["alarm"] += (self._find(fact.id)[0],)
            case EpochBegun():
                self.state.epoch, self.state.boot, self.state.counter = fact.epoch, fact.boot, 0
            case BodyPurged():
                self._rows["purge"] += (raw_id(fact.sha), at, fact.reason)
            case BodyDamaged():
                self.flush()
                self._run("damaged", *sought(fact.receipt))

    def flush(self) -> None:
        """Write everything gathered so far."""
        if not self._rows:
            return
        for name in sorted(self._rows, key=_PLACES.__getitem__):
            for text, values in several(self._sql[name], self._rows[name]):
                self.connection.execute(text, values)
        self._rows.clear()
        self._last.clear()

    def finish(self) -> None:
        """Write everything there is to write before the transaction ends, figures among it."""
        figures, self.state.figures = self.state.figures, PendingFigures()
        for lane, (waiting, claimed) in figures.lanes.items():
            if waiting or claimed:
                self._run("count_lane", lane, waiting, claimed)
        for run, counts in figures.runs.items():
            self._run("count_run", *(counts.get(column, 0) for column in COUNTED), run)
        for yool, (runs, micros, tokens) in figures.yools.items():
            self._run("average", yool, runs, micros, tokens)
        self.end_batch()

    def end_batch(self) -> None:
        """Write what was gathered; figures and new ids only when they have become many."""
        state = self.state
        if len(state.figures) > GATHERED_NAMES:
            self.finish()
            return
        self.flush()
        if state.ordinal - state.sorted_tuples >= SORTED_AT_ONCE:
            self.connection.execute(self._sql["sort_tuples"])
            state.sorted_tuples = state.ordinal
        if state.receipts - state.sorted_receipts >= SORTED_AT_ONCE:
            self.connection.execute(self._sql["sort_receipts"])
            state.sorted_receipts = state.receipts

    def _came(self, fact: TuplePut) -> None:
        self.state.ordinal += 1
        one = new_record(fact, self.state.ordinal)
        run = self._run_number(fact.run)
        raw = raw_id(one.id)
        self._rows["keep_body"] += (one.ordinal, one.body)
        self._rows["come_in"] += (
            one.ordinal,
            raw,
            one.lane,
            one.rank,
            run,
            one.deadline_us,
            one.retries,
            one.budget_micros,
            one.budget_tokens,
            raw_id(one.parent_id) if one.parent_id else None,
        )
        self._rows["name_tuple"] += (head_of(raw), one.ordinal)
        self._seen[one.id] = (one.ordinal, "waiting", one.lane, one.rank, run)
        self._lane(one.lane)[0] += 1
        self._count(run, "waiting", 1)
        for path, value in index_entries(one.body, self.state.indexed):
            self._rows["post"] += (path, value, 1, -one.rank, one.ordinal)
        if fact.accepted is not None:
            self._keep_receipt(fact.accepted, fact.run, one.ordinal)
        if fact.idempotency_key is not None:
            accepted = raw_id(fact.accepted.id) if fact.accepted is not None else None
            self._rows["keep_asked"] += (fact.idempotency_key, raw, fact.request_digest or "", accepted)
        if fact.replaces is not None:
            before, _, _, _, of = self._find(fact.replaces)
            self._rows["put_again"] += (raw, before)
            self._count(of, "again", 1)

    def _claimed(self, fact: TupleClaimed) -> None:
        one = self.read.get(fact.id)
        ordinal = self._move(fact.id, "claimed")
        self._change("claim", ordinal, fact.epoch, fact.counter, fact.worker, fact.lease_until_us)
        self.state.counter = fact.counter
        if one is not None and not one.attempts and not one.ready_us:
            held = self.state.fresh_claims
            if len(held) >= MAX_HELD_KNOWN:
                held.clear()
            held[one.id] = after_claim(one, fact)

    def _move(self, tuple_id: str, state: str) -> int:
        """Let a tuple be in another state; nothing is set aside for its steps any more."""
        ordinal, before, lane, rank, run = self._find(tuple_id)
        self._stop(ordinal)
        if before != state:
            counts = self._lane(lane)
            if before in LIVE:
                counts[0 if before == "waiting" else 1] -= 1
            if state in LIVE:
                counts[0 if state == "waiting" else 1] += 1
            self._count(run, before, -1)
            self._count(run, state, 1)
            if self.state.indexed and state not in LIVE:
                self._unlive(ordinal, rank, state)
            self._seen[tuple_id] = (ordinal, state, lane, rank, run)
        return ordinal

    def _unlive(self, ordinal: int, rank: int, state: str) -> None:
        self.flush()
        row: Any = self.connection.execute("SELECT body FROM bodies WHERE ordinal = ?", (ordinal,)).fetchone()
        for path, value in index_entries(row[0], self.state.indexed):
            self._run("unpost", path, value, 1, -rank, ordinal)
            if state != "taken":
                self._run("post", path, value, 0, -rank, ordinal)

    def _find(self, tuple_id: str) -> Brief:
        """A tuple that something happens to; what was read of it before does not hold any more."""
        self.state.fresh_claims.pop(tuple_id, None)
        one = self.read.pop(tuple_id, None)
        found = self._seen.get(tuple_id)
        if found is None:
            if one is not None:
                found = one.ordinal, one.state, one.lane, one.rank, self._run_number(one.run)
            else:
                row: Any = self.connection.execute(self._sql["brief"], sought(tuple_id)).fetchone()
                found = row
            self._seen[tuple_id] = found
        return found

    def _executed(self, fact: StepDone) -> None:
        ordinal, _, _, _, run = self._find(fact.id)
        self._stop(ordinal, fact.step)
        self._spend(ordinal, fact.micros, fact.tokens, 0, 0)
        self._counted(fact, ordinal, run)
        receipt = fact.receipt
        ok = receipt.exit == 0
        number = self._keep_receipt(receipt, fact.run, ordinal, fact.step if ok else None)
        self._count(self._run_number(fact.run), "executed", 1)
        if not ok:
            return
        if receipt.key is not None:
            self._rows["result"] += (receipt.key, number)
        past = self.state.figures.yools.setdefault(receipt.yool, [0, 0, 0])
        past[0] += 1
        past[1] += receipt.cost.usd_micros
        past[2] += receipt.cost.tokens

    def _keep_receipt(self, receipt: Receipt, run: str, ordinal: int, step: int | None = None) -> int:
        raw = raw_id(receipt.id)
        self.state.receipts += 1
        self._rows["keep_receipt"] += (self.state.receipts, raw, self._run_number(run), _encode(receipt))
        self._rows["name_receipt"] += (head_of(raw), self.state.receipts)
        self._link(ordinal, raw, step)
        return self.state.receipts

    def _link(self, ordinal: int, receipt: bytes, step: int | None) -> None:
        self.state.links += 1
        self._rows["link"] += (ordinal, self.state.links, receipt, step)

    def _cost(self, fact: StepCost) -> None:
        ordinal, _, _, _, run = self._find(fact.id)
        row: Any = None
        if not fact.late:
            row = self.connection.execute(self._sql["running_step"], (ordinal, fact.step)).fetchone()
        micros, tokens = row or (0, 0)
        less_micros, less_tokens = min(micros, fact.micros), min(tokens, fact.tokens)
        if less_micros or less_tokens:
            self._run("cost", less_micros, less_tokens, ordinal, fact.step)
        self._spend(ordinal, fact.micros, fact.tokens, -less_micros, -less_tokens)
        self._counted(fact, ordinal, run)

    def _counted(self, fact: StepCost | StepDone, ordinal: int, run: int) -> None:
        """Count what a step spent for its run, and as told by this execution of it."""
        if fact.micros or fact.tokens:
            self._run("count_step", ordinal, fact.epoch, fact.counter, fact.step, fact.micros, fact.tokens)
            self._count(run, "micros", fact.micros)
            self._count(run, "tokens", fact.tokens)

    def _stop(self, ordinal: int, step: int | None = None) -> None:
        """Set nothing aside any more for a step, or for every step."""
        if self.state.steps_run is None:
            row: Any = self.connection.execute(self._sql["any_running"]).fetchone()
            self.state.steps_run = bool(row[0])
        if not self.state.steps_run:
            return
        rows: list[Any] = self.connection.execute(self._sql["running_steps"], (ordinal,)).fetchall()
        for each, micros, tokens in rows:
            if step is None or each == step:
                self._run("stop", ordinal, each)
                self.state.steps_run = None
                self._spend(ordinal, 0, 0, -micros, -tokens)

    def _spend(self, ordinal: int, micros: int, tokens: int, held_micros: int, held_tokens: int) -> None:
        """Count something for a tuple and for those it is a part of."""
        if not (micros or tokens or held_micros or held_tokens):
            return
        self.flush()
        if micros or tokens:
            self._run("spend_own", micros, tokens, ordinal)
        for _ in range(MAX_GENERATIONS):
            self._run("spend", micros, tokens, held_micros, held_tokens, ordinal)
            row: Any = self.connection.execute(self._sql["parent"], (ordinal,)).fetchone()
            if row[0] is None:
                return
            ordinal = self._find(print_id(row[0]))[0]

    def _lane(self, lane: str) -> list[int]:
        return self.state.figures.lanes.setdefault(lane, [0, 0])

    def _count(self, run: int, column: str, more: int) -> None:
        counts = self.state.figures.runs.setdefault(run, {})
        counts[column] = counts.get(column, 0) + more

    def _run_number(self, run: str) -> int:
        number = self.state.run_numbers.get(run)
        if number is None:
            row: Any = self.connection.execute(self._sql["run_number"], (run,)).fetchone()
            if row is None:
                self.state.runs += 1
                self._run("open_run", self.state.runs, run)
                row = (self.state.runs,)
            if len(self.state.run_numbers) >= MAX_RUNS_KNOWN:
                self.state.run_numbers.clear()
            number = self.state.run_numbers[run] = row[0]
        return number

    def _change(self, name: str, ordinal: int, *values: object) -> None:
        """Gather a change of one tuple; what would be written before or with something that came earlier waits."""
        place = _PLACES[name]
        if self._last.get(ordinal, -1) >= place:
            self.flush()
        self._last[ordinal] = place
        self._rows[name] += (*values, ordinal)

    def _run(self, name: str, *values: object) -> None:
        self.connection.execute(self._sql[name], values)


_ORDER = (
    "keep_body",
    "come_in",
    "name_tuple",
    "post",
    "put_again",
    "keep_asked",
    "claim",
    "renew",
    "keep_receipt",
    "name_receipt",
    "link",
    "result",
    "release",
    "end",
    "alarm",
    "purge",
)
_PLACES = {name: place for place, name in enumerate(_ORDER)}
"""In which order what was gathered is written: what happens to one tuple in one commit happens in this order."""
